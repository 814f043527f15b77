//! The ledger: what every process of a container holds of every card, in a file that all of them map.
//!
//! Reading order:
//! 1. [`protocol`]: who is admitted, and why two are never admitted to the same room.
//! 2. [`layout`], [`map`]: where the words are.
//! 3. [`store`]: finding, checking, making and growing the file. [`trouble`]: why it cannot be used.
//! 4. [`container`]: which processes belong together.
//! 5. `slot`: taking a slot, and taking it back from the dead.
//! 6. this file: a process takes a slot, and keeps it for life without a descriptor; `counter` joins its words to the protocol.
//! 7. [`view`]: reading all of it, for the monitor.
//!
//! A slot belongs to whoever holds the lock on its byte. The lock belongs to the open file, and the *mapping* is what keeps that
//! open: the descriptor is closed at once, so a program that closes or reuses descriptors does no harm, and the kernel drops the
//! lock when the process's memory goes, at death or `exec`, before anybody has waited for it. Measured in `docs/LEDGER.md`.

pub mod container;
mod counter;
pub mod layout;
pub mod map;
pub mod protocol;
mod slot;
pub mod store;
pub mod trouble;
pub mod view;

use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use container::Identity;
use counter::CardCounter;
use layout::{BY_DESCRIPTOR, BY_MAPPING, CARDS, CardRecord, Counter, LANES, ROWS, lock};
use map::Map;
use protocol::{Full, Shared, Word};
use store::Store;
use trouble::Trouble;

use crate::card::CardId;
use crate::sys::file::{Fd, read_small};
use crate::sys::private::Zeroed;
use crate::sys::raw;
use crate::sys::thread::{self, Patience};

/// How long to wait for another thread that attaches, in milliseconds.
const ATTACH_MS: u64 = 2000;

/// What a process knows of its slot; lives in memory that a child sees empty ([`crate::sys::private`]).
#[repr(C)]
pub struct Process {
    state: AtomicU32,
    slot: AtomicU32,
    base: AtomicPtr<u8>,
    /// The threads that have lanes; 0: not taken. A lane is never given up: a thread that ends leaves it to one that begins in its
    /// place.
    lanes: [AtomicUsize; LANES],
    /// The counters of the slot; null until it has one.
    counters: AtomicPtr<Counter>,
    path: AtomicPtr<u8>,
    device: AtomicU64,
    inode: AtomicU64,
    /// One more than the descriptor that keeps the lock, where a mapping does not; 0: none.
    descriptor: AtomicI32,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Process {}

const DETACHED: u32 = 0;
const ATTACHING: u32 = 1;
const ATTACHED: u32 = 2;

/// The descriptor of a process whose lock a descriptor keeps, not wiped by `fork`: the child closes its copy.
static KEPT: AtomicI32 = AtomicI32::new(0);
/// From here up a kept descriptor is out of the way of programs that count on low numbers.
const KEPT_FROM: usize = 300;

/// The ledger, attached: this process has a slot.
#[derive(Clone, Copy)]
pub struct Ledger {
    process: &'static Process,
}

/// A card's place in the ledger that it was asked of. Means nothing in a child after `fork`: ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card(u8);

impl Card {
    /// Its number, below 64, to be kept in a word.
    pub fn index(self) -> u8 {
        self.0
    }

    /// From a number that [`Card::index`] gave in this process.
    pub fn from_index(index: u8) -> Self {
        Self(index % CARDS as u8)
    }
}

impl Process {
    /// The ledger, if this process has a slot in it already.
    #[inline]
    pub fn attached(&'static self) -> Option<Ledger> {
        if self.state.load(Acquire) != ATTACHED {
            return None;
        }
        Some(Ledger { process: self })
    }

    /// The lane of the calling thread, if it has one: the first threads of a process that ask get them.
    #[inline]
    pub fn lane(&self) -> Option<usize> {
        let me = thread::id();
        self.lanes.iter().position(|owner| match owner.load(Relaxed) {
            0 => owner.compare_exchange(0, me, Relaxed, Relaxed).is_ok(),
            other => other == me,
        })
    }

    /// The counters of an entry point in this process, once it has a slot; `row` below [`ROWS`].
    #[inline]
    pub fn counter(&'static self, row: usize) -> Option<&'static Counter> {
        let first = self.counters.load(Acquire);
        // SAFETY: allocated when the slot was taken; the row is cut to the table.
        (!first.is_null()).then(|| unsafe { &*first.add(row % ROWS) })
    }

    /// The ledger at `path`; takes a slot in it on the first call. A failure is not remembered: the next call tries again.
    #[inline]
    pub fn attach(&'static self, path: &'static CStr) -> Result<Ledger, Trouble> {
        match self.attached() {
            Some(ledger) => Ok(ledger),
            None => self.attach_slow(path),
        }
    }

    #[cold]
    fn attach_slow(&'static self, path: &'static CStr) -> Result<Ledger, Trouble> {
        let mut patience = Patience::milliseconds(ATTACH_MS);
        while self.state.compare_exchange(DETACHED, ATTACHING, Acquire, Acquire).is_err() {
            if let Some(ledger) = self.attached() {
                return Ok(ledger);
            }
            if !patience.pause() {
                return Err(Trouble::Busy);
            }
        }
        let done = self.take_slot(path);
        self.state.store(if done.is_ok() { ATTACHED } else { DETACHED }, Release);
        done?;
        self.attached().ok_or(Trouble::Busy)
    }

    fn take_slot(&self, path: &'static CStr) -> Result<(), Trouble> {
        if elevated() {
            return Err(Trouble::Elevated);
        }
        let identity = Identity::here();
        if self.take_slot_in(path, &identity, BY_MAPPING)? || self.take_slot_in(path, &identity, BY_DESCRIPTOR)? {
            return Ok(());
        }
        Err(Trouble::LocksUnseen)
    }

    /// `false`: others do not see the lock when it is kept this way.
    fn take_slot_in(&self, path: &'static CStr, identity: &Identity, mode: u32) -> Result<bool, Trouble> {
        let Store { fd, stat } = store::open_or_create(path)?;
        close_inherited(stat.device, stat.inode);
        let map = Map::new(&fd, true).map_err(Trouble::Map)?;
        let claimed = slot::with_table_lock(&fd, || {
            slot::admit_container(map, &fd, identity)?;
            slot::claim(map, &fd, identity, mode)
        });
        let slot = match claimed {
            Ok(slot) => slot,
            Err(trouble) => {
                map.unmap();
                return Err(trouble);
            }
        };
        let kept = if mode == BY_DESCRIPTOR { keep(fd) } else { drop_descriptor(fd) };
        let seen = store::open_again(path, stat.device, stat.inode).and_then(|fd| fd.map_or(Ok(false), |fd| fd.is_locked(lock::slot(slot))));
        if !matches!(seen, Ok(true)) {
            if kept != 0 {
                raw::close(kept - 1);
            }
            map.unmap();
            return seen.map_err(Trouble::Lock);
        }
        KEPT.store(kept, Relaxed);
        self.descriptor.store(kept, Relaxed);
        self.device.store(stat.device, Relaxed);
        self.inode.store(stat.inode, Relaxed);
        self.path.store(path.as_ptr().cast_mut().cast(), Relaxed);
        self.slot.store(slot as u32, Relaxed);
        self.base.store(map.address(), Relaxed);
        self.counters.store(map.counters(slot).cast_mut(), Release);
        Ok(true)
    }

    /// Opens the ledger once more, for a moment's lock: a description of its own, so that threads and children exclude each other.
    fn desk(&self) -> Result<Fd, Trouble> {
        let path = self.path.load(Relaxed);
        // SAFETY: stored from a `&'static CStr` before the process counted as attached.
        let path = unsafe { CStr::from_ptr(path.cast()) };
        store::open_again(path, self.device.load(Relaxed), self.inode.load(Relaxed)).map_err(Trouble::Open)?.ok_or(Trouble::Moved)
    }
}

/// Closes the descriptor: the mapping keeps the file open. Answers "no descriptor".
fn drop_descriptor(fd: Fd) -> i32 {
    drop(fd);
    0
}

/// Moves the descriptor out of the way and keeps it; answers one more than its number.
fn keep(fd: Fd) -> i32 {
    match raw::fcntl(fd.number(), raw::F_DUPFD_CLOEXEC, KEPT_FROM) {
        Ok(number) => number as i32 + 1,
        Err(_) => fd.keep() + 1,
    }
}

/// In a child: closes the copy of the parent's descriptor, which would keep the parent's lock after its death.
fn close_inherited(device: u64, inode: u64) {
    let kept = KEPT.swap(0, Relaxed);
    if kept != 0
        && let Ok(stat) = raw::fstat(kept - 1)
        && (stat.device, stat.inode) == (device, inode)
    {
        raw::close(kept - 1);
    }
}

/// True in a program that runs with more rights than its caller (`AT_SECURE`): its environment is somebody else's.
fn elevated() -> bool {
    const AT_SECURE: u64 = 23;
    let mut buffer = [0_u8; 1024];
    let Ok(bytes) = read_small(c"/proc/self/auxv", &mut buffer) else {
        // No procfs, or one that such a process may not read.
        return raw::ids_differ();
    };
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    while let (Some(kind), Some(value)) = (words.next(), words.next()) {
        if kind == AT_SECURE {
            return value != 0;
        }
    }
    false
}

impl Ledger {
    /// The place of a card in this ledger; the first process that meets the card makes one.
    #[inline]
    pub fn card(self, id: CardId) -> Result<Card, Trouble> {
        match self.find_card(id) {
            Some(card) => Ok(card),
            None => self.add_card(id),
        }
    }

    /// The place of a card, if it is the one of that number.
    #[inline]
    pub fn card_at(self, index: u64, id: CardId) -> Option<Card> {
        let record = self.map().card(index as usize);
        let same = record.state.load(Acquire) != 0 && record.first.load(Relaxed) == id.first && record.second.load(Relaxed) == id.second;
        same.then_some(Card::from_index(index as u8))
    }

    fn find_card(self, id: CardId) -> Option<Card> {
        for index in 0..CARDS {
            if let Some(card) = self.card_at(index as u64, id) {
                return Some(card);
            }
            if self.map().card(index).state.load(Acquire) == 0 {
                return None;
            }
        }
        None
    }

    #[cold]
    fn add_card(self, id: CardId) -> Result<Card, Trouble> {
        let desk = self.process.desk()?;
        slot::with_table_lock(&desk, || {
            if let Some(card) = self.find_card(id) {
                return Ok(card);
            }
            for index in 0..CARDS {
                let record = self.map().card(index);
                if record.state.load(Acquire) == 0 {
                    // Who dies before the last line leaves an entry that is still free.
                    record.first.store(id.first, Relaxed);
                    record.second.store(id.second, Relaxed);
                    record.state.store(1, Release);
                    return Ok(Card(index as u8));
                }
            }
            Err(Trouble::CardsFull)
        })
    }

    /// Visits the cards that some process has met: identity, the quota of the last admission, bytes held.
    pub fn each_card(self, mut visit: impl FnMut(CardId, u64, u64)) {
        for index in 0..CARDS {
            let record = self.map().card(index);
            if record.state.load(Acquire) == 0 {
                return;
            }
            let id = CardId { first: record.first.load(Relaxed), second: record.second.load(Relaxed) };
            visit(id, record.quota.load(Relaxed), self.used(Card(index as u8)));
        }
    }

    /// Reserves `bytes` of `card`, so that all that live processes hold of it stays within `quota`. Then call the driver, and then
    /// [`Ledger::commit`] or [`Ledger::cancel`] the same number of bytes.
    ///
    /// `mine`: bytes that this thread has in flight already, in an outer call. No lock is held when this returns.
    #[inline]
    pub fn reserve(self, card: Card, bytes: u64, quota: u64, mine: u64) -> Result<(), Full> {
        let record = self.record(card, quota);
        let mut counter = self.counter(card);
        let done = protocol::reserve(&mut counter, self.slot(), bytes, quota, mine);
        if done.is_err() {
            record.refusals.fetch_add(1, Relaxed);
        }
        done
    }

    /// The same, if there is room and nobody in the way. `false`: nothing was reserved, ask [`Ledger::reserve`].
    #[inline]
    pub fn reserve_at_once(self, card: Card, bytes: u64, quota: u64) -> bool {
        self.record(card, quota);
        protocol::reserve_at_once(&self.counter(card), self.slot(), bytes, quota)
    }

    /// The card's record, with the quota that this process goes by.
    #[inline]
    fn record(self, card: Card, quota: u64) -> &'static CardRecord {
        let record = self.map().card(card.0.into());
        if record.quota.load(Relaxed) != quota {
            record.quota.store(quota, Relaxed);
        }
        record
    }

    /// The driver gave what was reserved: from now on it is a charge.
    #[inline]
    pub fn commit(self, card: Card, bytes: u64) {
        protocol::commit(&self.counter(card), self.slot(), bytes);
    }

    /// The driver refused, or took less: these bytes of the reservation are not held.
    #[inline]
    pub fn cancel(self, card: Card, bytes: u64) {
        protocol::cancel(&self.counter(card), self.slot(), bytes);
    }

    /// The driver gave more than was reserved: it is charged, whatever the quota says.
    pub fn charge(self, card: Card, bytes: u64) {
        self.counter(card).add(self.slot(), Word::Held, bytes);
    }

    /// The driver took back what was charged.
    #[inline]
    pub fn release(self, card: Card, bytes: u64) {
        protocol::release(&self.counter(card), self.slot(), bytes);
    }

    /// Bytes of the card that live processes hold, reservations included. Sweeps the dead first, where others hold something.
    pub fn used(self, card: Card) -> u64 {
        let mut counter = self.counter(card);
        let seen = counter.sum().held;
        if seen == self.map().cell(card.0.into(), self.slot()).held.load(SeqCst) || !counter.open_desk() {
            return seen;
        }
        for slot in 0..counter.slots() {
            if slot != self.slot() && counter.load(slot, Word::Held) != 0 {
                counter.sweep(slot);
            }
        }
        counter.sum().held
    }

    /// Bytes of the card that this process holds.
    pub fn own(self, card: Card) -> u64 {
        self.map().cell(card.0.into(), self.slot()).held.load(SeqCst)
    }

    /// The counters of an entry point in this process; `row` below [`ROWS`].
    #[inline]
    pub fn counters(self, row: usize) -> &'static Counter {
        // SAFETY: as for `Process::counter`.
        unsafe { &*self.map().counters(self.slot()).add(row % ROWS) }
    }

    /// Whose it is.
    #[inline]
    pub fn process(self) -> &'static Process {
        self.process
    }

    /// This process's slot.
    #[inline]
    pub fn slot(self) -> usize {
        self.process.slot.load(Relaxed) as usize
    }

    #[inline]
    fn map(self) -> Map {
        Map::from_address(self.process.base.load(Relaxed))
    }

    #[inline]
    fn counter(self, card: Card) -> CardCounter {
        CardCounter::new(self.map(), card.0.into(), self.process)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::{LANES, Process};
    use crate::sys::private::Private;

    #[test]
    fn lanes_are_for_one_thread_each() {
        static PROCESS: Private<Process> = Private::new();
        let process = PROCESS.get().unwrap();
        let taken = Mutex::new(vec![process.lane()]);
        // All at once, so that no thread begins where another has ended.
        let barrier = std::sync::Barrier::new(LANES + 1);
        std::thread::scope(|scope| {
            for _ in 0..=LANES {
                scope.spawn(|| {
                    let lane = process.lane();
                    barrier.wait();
                    assert_eq!(process.lane(), lane, "a thread keeps its lane");
                    taken.lock().unwrap().push(lane);
                });
            }
        });
        let mut taken = taken.into_inner().unwrap();
        assert_eq!(taken[0], process.lane());
        taken.sort_unstable();
        assert_eq!(taken, [None, None, Some(0), Some(1)]);
    }
}
