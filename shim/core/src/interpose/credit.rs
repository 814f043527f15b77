//! Bytes that a HIP call has reserved and that the HSA calls beneath it take, so that a byte is charged once.
//!
//! A credit belongs to a thread for as long as its outermost HIP call lasts; only that thread touches it. There are no
//! thread-locals: the thread pointer is looked up in a small table. A HIP call that finds a credit was made by the runtime inside
//! another one, and goes straight through.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use crate::shim::Reserved;
use crate::sys::private::{Private, Zeroed};
use crate::sys::thread;

const SLOTS: usize = 1024;
/// Slots that are looked at for a thread, from where its number leads; all of them once one thread found no room there.
const NEAR: usize = 16;

#[repr(C, align(64))]
struct Slot {
    thread: AtomicUsize,
    bytes: AtomicU64,
    /// `card << 4 | expects managed << 3 | refused << 2 | fired << 1 | has a card`
    state: AtomicU64,
    /// Bytes of managed memory that showed beneath, and their card; the HIP call charges them.
    managed: AtomicU64,
    managed_card: AtomicU64,
}

const HAS_CARD: u64 = 1;
const FIRED: u64 = 2;
const REFUSED: u64 = 4;
const MANAGES: u64 = 8;
const CARD: u32 = 4;

#[repr(C)]
struct Credits {
    crowded: AtomicBool,
    slots: [Slot; SLOTS],
}

// SAFETY: atomics only.
unsafe impl Zeroed for Credits {}

/// A forked child has no calls under way but the one that forked, which is no HIP call.
static CREDITS: Private<Credits> = Private::new();

/// The outermost HIP call of a thread.
#[must_use = "without `end` the thread's later calls count as nested"]
pub struct Credit {
    slot: Option<&'static Slot>,
}

/// What is left when an outermost call ends.
pub struct Left {
    /// Bytes that nothing beneath has taken.
    pub reserved: Option<Reserved>,
    /// True if something beneath has asked for memory of a card.
    pub fired: bool,
    /// True if something beneath was refused.
    pub refused: bool,
    /// Managed memory that showed beneath: reserved, not charged.
    pub managed: Option<Reserved>,
}

fn mine() -> Option<&'static Slot> {
    let credits = CREDITS.get()?;
    let me = thread::id();
    near(me, credits.crowded.load(Relaxed)).find_map(|index| credits.slots.get(index).filter(|slot| slot.thread.load(Relaxed) == me))
}

fn near(thread: usize, all: bool) -> impl Iterator<Item = usize> {
    let first = ((thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
    (first..first + if all { SLOTS } else { NEAR }).map(|index| index % SLOTS)
}

/// True if this thread is inside a HIP call.
pub fn is_nested() -> bool {
    mine().is_some()
}

/// Begins the outermost HIP call of this thread; `None` inside another one.
pub fn begin() -> Option<Credit> {
    if mine().is_some() {
        return None;
    }
    let Some(credits) = CREDITS.get() else { return Some(Credit { slot: None }) };
    let me = thread::id();
    let free = |index: usize| {
        credits.slots.get(index).filter(|slot| slot.thread.load(Relaxed) == 0 && slot.thread.compare_exchange(0, me, Acquire, Relaxed).is_ok())
    };
    let mut slot = near(me, false).find_map(free);
    if slot.is_none() {
        credits.crowded.store(true, Relaxed);
        slot = near(me, true).find_map(free);
    }
    if let Some(slot) = slot {
        slot.bytes.store(0, Relaxed);
        slot.state.store(0, Relaxed);
        slot.managed.store(0, Relaxed);
    }
    Some(Credit { slot })
}

impl Credit {
    /// Says that the call charges managed memory that shows beneath it.
    pub fn expect_managed(&self) {
        if let Some(slot) = self.slot {
            slot.state.store(slot.state.load(Relaxed) | MANAGES, Relaxed);
        }
    }

    /// Hands a reservation down to what the call does beneath. Comes back if there is no room to note it.
    pub fn grant(&self, reserved: Reserved) -> Option<Reserved> {
        let Some(slot) = self.slot else { return Some(reserved) };
        let (card, bytes) = reserved.into_parts();
        slot.bytes.store(bytes, Relaxed);
        slot.state.store(u64::from(card) << CARD | HAS_CARD, Relaxed);
        None
    }

    /// Ends the call.
    pub fn end(self) -> Left {
        let Some(slot) = self.slot else { return Left { reserved: None, fired: false, refused: false, managed: None } };
        let (state, bytes) = (slot.state.load(Relaxed), slot.bytes.load(Relaxed));
        let managed = slot.managed.load(Relaxed);
        let managed = if managed == 0 { None } else { Reserved::from_parts(slot.managed_card.load(Relaxed) as u8, managed) };
        slot.thread.store(0, Release);
        let reserved = if state & HAS_CARD != 0 && bytes != 0 { Reserved::from_parts((state >> CARD) as u8, bytes) } else { None };
        Left { reserved, fired: state & FIRED != 0, refused: state & REFUSED != 0, managed }
    }
}

/// Says that something beneath asks for memory of a card, and takes up to `bytes` of what the HIP call above has reserved of it.
pub fn take(card: u8, bytes: u64) -> Option<Reserved> {
    let slot = mine()?;
    let state = slot.state.load(Relaxed);
    slot.state.store(state | FIRED, Relaxed);
    if state & HAS_CARD == 0 || (state >> CARD) as u8 != card {
        return None;
    }
    let left = slot.bytes.load(Relaxed);
    let taken = left.min(bytes);
    slot.bytes.store(left - taken, Relaxed);
    if taken == 0 { None } else { Reserved::from_parts(card, taken) }
}

/// Says that something beneath was refused: the HIP call above, if there is one, answers out of memory.
pub fn refuse() {
    if let Some(slot) = mine() {
        slot.state.store(slot.state.load(Relaxed) | REFUSED, Relaxed);
    }
}

/// Leaves managed memory that shows beneath to the HIP call above, which charges it and gives it back. Answers the bytes that the
/// call has not reserved; the caller reserves them and hands them over ([`manage_more`]).
///
/// `None`: there is no HIP call above that charges managed memory, or it has to do with another card.
pub fn manage(card: u8, bytes: u64) -> Option<u64> {
    let slot = mine()?;
    let (state, managed) = (slot.state.load(Relaxed), slot.managed.load(Relaxed));
    if state & MANAGES == 0 {
        return None;
    }
    let other = state & HAS_CARD != 0 && (state >> CARD) as u8 != card;
    if other || managed != 0 && slot.managed_card.load(Relaxed) != u64::from(card) {
        return None;
    }
    let left = if state & HAS_CARD == 0 { 0 } else { slot.bytes.load(Relaxed) };
    let taken = left.min(bytes);
    slot.bytes.store(left - taken, Relaxed);
    slot.managed_card.store(card.into(), Relaxed);
    slot.managed.store(managed.saturating_add(taken), Relaxed);
    Some(bytes - taken)
}

/// Hands over what [`manage`] said was missing, once it is reserved.
pub fn manage_more(reserved: Reserved) {
    let (card, bytes) = reserved.into_parts();
    match mine() {
        Some(slot) => slot.managed.store(slot.managed.load(Relaxed).saturating_add(bytes), Relaxed),
        None => Reserved::from_parts(card, bytes).into_iter().for_each(Reserved::cancel),
    }
}

/// Takes `bytes` back that were left to the HIP call above: the driver has failed.
pub fn unmanage(bytes: u64) {
    let Some(slot) = mine() else { return };
    let managed = slot.managed.load(Relaxed);
    let back = managed.min(bytes);
    slot.managed.store(managed - back, Relaxed);
    if let Some(reserved) = Reserved::from_parts(slot.managed_card.load(Relaxed) as u8, back) {
        reserved.cancel();
    }
}

/// Puts back what [`take`] gave.
pub fn give_back(reserved: Reserved) {
    let (card, bytes) = reserved.into_parts();
    match mine() {
        Some(slot) if slot.state.load(Relaxed) & HAS_CARD != 0 => {
            slot.bytes.store(slot.bytes.load(Relaxed).saturating_add(bytes), Relaxed);
        }
        _ => {
            if let Some(reserved) = Reserved::from_parts(card, bytes) {
                reserved.cancel();
            }
        }
    }
}

/// Bytes of a card that this thread's HIP call has reserved and nothing has taken yet.
pub fn in_flight(card: u8) -> u64 {
    mine().map_or(0, |slot| {
        let state = slot.state.load(Relaxed);
        if state & HAS_CARD != 0 && (state >> CARD) as u8 == card { slot.bytes.load(Relaxed) } else { 0 }
    })
}
