//! Bytes that a HIP call has reserved and that the HSA calls beneath it take, so that a byte is charged once.
//!
//! A credit belongs to a thread for as long as its outermost HIP call lasts; only that thread touches it. There are no
//! thread-locals: the thread pointer is looked up in a small table. A thread keeps the place that its first call took, so later
//! calls find it at once and write it without a locked instruction; a thread that begins where another has ended has its place as
//! well. Where the places near its number are gone, a thread is lent one for each call. A HIP call that finds a credit was made by
//! the runtime inside another one, and goes straight through.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use crate::shim::Reserved;
use crate::sys::private::{Private, Zeroed};
use crate::sys::thread;

/// Places that threads keep.
const KEPT: usize = 1024;
/// Places that are lent for a call.
const LENT: usize = 1024;
/// Places that are looked at for a thread, from where its number leads.
const NEAR: usize = 16;

#[repr(C, align(64))]
struct Slot {
    thread: AtomicUsize,
    bytes: AtomicU64,
    /// `card << 5 | in a call << 4 | expects managed << 3 | refused << 2 | fired << 1 | has a card`
    state: AtomicU64,
    /// Bytes of managed memory that showed beneath, and their card; the HIP call charges them.
    managed: AtomicU64,
    managed_card: AtomicU64,
}

const HAS_CARD: u64 = 1;
const FIRED: u64 = 2;
const REFUSED: u64 = 4;
const MANAGES: u64 = 8;
const OPEN: u64 = 16;
const CARD: u32 = 5;

#[repr(C)]
struct Credits {
    /// Some thread found no place to keep: the lent ones are looked at as well.
    crowded: AtomicBool,
    /// Some thread found none near where its number leads that was to be lent: all are looked at.
    packed: AtomicBool,
    kept: [Slot; KEPT],
    lent: [Slot; LENT],
}

// SAFETY: atomics only.
unsafe impl Zeroed for Credits {}

/// A forked child has no calls under way but the one that forked, which is no HIP call.
static CREDITS: Private<Credits> = Private::new();

/// The outermost HIP call of a thread.
#[must_use = "without `end` the thread's later calls count as nested"]
pub struct Credit {
    slot: Option<&'static Slot>,
    lent: bool,
}

/// What is left when an outermost call ends.
#[derive(Default)]
pub struct Left {
    card: u8,
    bytes: u64,
    managed_card: u8,
    managed: u64,
    /// True if something beneath has asked for memory of a card.
    pub fired: bool,
    /// True if something beneath was refused.
    pub refused: bool,
}

impl Left {
    /// True if all was taken beneath, and nothing was refused there.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.bytes | self.managed == 0 && !self.refused
    }

    /// Bytes that nothing beneath has taken.
    pub fn reserved(&self) -> Option<Reserved> {
        if self.bytes == 0 { None } else { Reserved::from_parts(self.card, self.bytes) }
    }

    /// Managed memory that showed beneath: reserved, not charged.
    pub fn managed(&self) -> Option<Reserved> {
        if self.managed == 0 { None } else { Reserved::from_parts(self.managed_card, self.managed) }
    }
}

/// The places of `table` where a thread's may be.
#[inline]
fn near(table: &'static [Slot], thread: usize, count: usize) -> impl Iterator<Item = &'static Slot> {
    let first = ((thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
    (first..first + count).filter_map(|index| table.get(index % table.len()))
}

impl Credits {
    /// The place that a thread keeps. None is ever given up, so an empty one ends the search.
    #[inline]
    fn kept_by(&'static self, thread: usize) -> Option<&'static Slot> {
        near(&self.kept, thread, NEAR)
            .map(|slot| (slot, slot.thread.load(Relaxed)))
            .take_while(|(_, owner)| *owner != 0)
            .find_map(|(slot, owner)| (owner == thread).then_some(slot))
    }

    #[cold]
    fn lent_to(&'static self, thread: usize) -> Option<&'static Slot> {
        near(&self.lent, thread, self.lent_near()).find(|slot| slot.thread.load(Relaxed) == thread)
    }

    fn lent_near(&self) -> usize {
        if self.packed.load(Relaxed) { LENT } else { NEAR }
    }

    /// A place for a thread that keeps none: to keep, else to be given back.
    #[cold]
    fn new_place(&'static self, thread: usize) -> Option<(&'static Slot, bool)> {
        let free = |slot: &&Slot| slot.thread.load(Relaxed) == 0 && slot.thread.compare_exchange(0, thread, Acquire, Relaxed).is_ok();
        if let Some(slot) = near(&self.kept, thread, NEAR).find(free) {
            return Some((slot, false));
        }
        self.crowded.store(true, Relaxed);
        let mut slot = near(&self.lent, thread, NEAR).find(free);
        if slot.is_none() {
            self.packed.store(true, Relaxed);
            slot = near(&self.lent, thread, LENT).find(free);
        }
        slot.map(|slot| (slot, true))
    }
}

/// The place of this thread, if it is inside a HIP call.
#[inline]
fn mine() -> Option<&'static Slot> {
    let credits = CREDITS.get()?;
    let me = thread::id();
    let slot = match credits.kept_by(me) {
        None if credits.crowded.load(Relaxed) => credits.lent_to(me),
        kept => kept,
    };
    slot.filter(|slot| slot.state.load(Relaxed) & OPEN != 0)
}

/// True if this thread is inside a HIP call.
#[inline]
pub fn is_nested() -> bool {
    mine().is_some()
}

/// Begins the outermost HIP call of this thread; `None` inside another one.
#[inline]
pub fn begin() -> Option<Credit> {
    let Some(credits) = CREDITS.get() else { return Some(Credit { slot: None, lent: false }) };
    let me = thread::id();
    let (slot, lent) = match credits.kept_by(me) {
        Some(slot) => (slot, false),
        None if mine().is_some() => return None,
        None => match credits.new_place(me) {
            Some(place) => place,
            None => return Some(Credit { slot: None, lent: false }),
        },
    };
    if slot.state.load(Relaxed) & OPEN != 0 {
        return None;
    }
    slot.bytes.store(0, Relaxed);
    slot.managed.store(0, Relaxed);
    slot.state.store(OPEN, Relaxed);
    Some(Credit { slot: Some(slot), lent })
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
        slot.state.store(u64::from(card) << CARD | OPEN | HAS_CARD, Relaxed);
        None
    }

    /// Ends the call.
    #[inline]
    pub fn end(self) -> Left {
        let Some(slot) = self.slot else { return Left::default() };
        let state = slot.state.load(Relaxed);
        let left = Left {
            card: (state >> CARD) as u8,
            bytes: if state & HAS_CARD != 0 { slot.bytes.load(Relaxed) } else { 0 },
            managed_card: slot.managed_card.load(Relaxed) as u8,
            managed: slot.managed.load(Relaxed),
            fired: state & FIRED != 0,
            refused: state & REFUSED != 0,
        };
        slot.state.store(0, Relaxed);
        if self.lent {
            slot.thread.store(0, Release);
        }
        left
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
