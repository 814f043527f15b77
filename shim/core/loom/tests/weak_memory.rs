//! Under every execution that the C11 memory model allows, two bidders are never both admitted to room that is there once.
//!
//! The explorer (`tests/explore.rs`) steps through sequentially consistent memory; this is the other half. The ledger uses SeqCst
//! everywhere. Loom treats SeqCst accesses as AcqRel, and knows SeqCst fences: so the one order that matters (announce, then
//! look) is a fence here. That loom sees what the fence is for, the last test shows by leaving it out.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use vrocm_loom::protocol::{self, Shared, Wait, Word};

struct Words {
    words: [[AtomicU64; 3]; 2],
    queueing: AtomicBool,
    given: AtomicU64,
    fenced: bool,
}

impl Words {
    fn new(fenced: bool) -> Self {
        let slot = || [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
        Self { words: [slot(), slot()], queueing: AtomicBool::new(false), given: AtomicU64::new(0), fenced }
    }
}

/// One thread's view; without the deciding lock, which safety does not depend on.
struct Caller {
    words: Arc<Words>,
    /// It has a lane: nobody else writes its bids and flights, and only the announcing is a locked instruction (`counter.rs`).
    lane: bool,
}

fn index(word: Word) -> usize {
    match word {
        Word::Bid => 0,
        Word::Held => 1,
        Word::Flight => 2,
    }
}

impl Shared for Caller {
    fn slots(&self) -> usize {
        2
    }
    fn load(&self, slot: usize, word: Word) -> u64 {
        self.words.words[slot][index(word)].load(Ordering::SeqCst)
    }
    fn add(&self, slot: usize, word: Word, bytes: u64) {
        let place = &self.words.words[slot][index(word)];
        if self.lane && word == Word::Flight {
            place.store(place.load(Ordering::Relaxed) + bytes, Ordering::Release);
        } else {
            place.fetch_add(bytes, Ordering::SeqCst);
        }
        if self.words.fenced && word == Word::Bid {
            fence(Ordering::SeqCst);
        }
    }
    fn sub(&self, slot: usize, word: Word, bytes: u64) {
        let place = &self.words.words[slot][index(word)];
        if self.lane && word != Word::Held {
            place.store(place.load(Ordering::Relaxed) - bytes, Ordering::Release);
        } else {
            place.fetch_sub(bytes, Ordering::SeqCst);
        }
    }
    fn queueing(&self) -> bool {
        self.words.queueing.load(Ordering::SeqCst)
    }
    fn set_queueing(&self, on: bool) {
        self.words.queueing.store(on, Ordering::SeqCst);
    }
    fn lock(&mut self) -> bool {
        false
    }
    fn unlock(&mut self) {}
    fn sweep(&mut self, _slot: usize) {}
    fn pause(&mut self, _wait: Wait) -> bool {
        false
    }
}

const QUOTA: u64 = 4;

/// Admitted, given by the driver, freed, refunded; what the driver has given is never above the quota.
fn take_and_free(words: &Arc<Words>, lane: bool, slot: usize, bytes: u64) {
    let mut caller = Caller { words: words.clone(), lane };
    if protocol::reserve(&mut caller, slot, bytes, QUOTA, 0).is_ok() {
        let given = words.given.fetch_add(bytes, Ordering::Relaxed) + bytes;
        assert!(given <= QUOTA, "{given} given of {QUOTA}");
        protocol::commit(&caller, slot, bytes);
        words.given.fetch_sub(bytes, Ordering::Relaxed);
        protocol::release(&caller, slot, bytes);
    }
}

fn two(first: (usize, u64), second: (usize, u64), fenced: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let words = Arc::new(Words::new(fenced));
        let other = words.clone();
        let thread = loom::thread::spawn(move || take_and_free(&other, first.0 != second.0, first.0, first.1));
        take_and_free(&words, first.0 != second.0, second.0, second.1);
        thread.join().unwrap();
    });
}

#[test]
fn two_processes() {
    two((0, 3), (1, 3), true);
}

#[test]
fn two_threads_of_one_process() {
    two((0, 3), (0, 2), true);
}

#[test]
#[should_panic(expected = "given of 4")]
fn without_the_order_between_announcing_and_looking_it_fails() {
    two((0, 3), (1, 3), false);
}
