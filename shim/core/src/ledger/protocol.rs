//! Admission: who may take how many bytes of one card, decided by many processes without a lock.
//!
//! This file is the protocol and nothing else. It knows no file, no mapping and no system call: what it needs of them is the
//! trait [`Shared`]. The same code runs over the mapped ledger, under loom, and under an explorer in which a process may die
//! between any two accesses (`tests/explore.rs`). Why it is right is told in `docs/LEDGER.md`; the short form:
//!
//! - Every process has its own words; only it writes them. A death leaves them as they are, and the bytes of a dead process
//!   count against the others until somebody has seen that it is dead. An error is always on that side.
//! - To be admitted, first announce (`Bid`), then read everybody's words. Of any two bidders the later one sees the earlier
//!   one's bytes, so they cannot both be admitted to room that is there once.
//! - Bytes move from `Bid` to `Held` by being added to the one before they leave the other, and a reader reads `Bid` first:
//!   it may see them twice, never not at all.
//! - Two bidders may see each other and both withdraw though there is room for one. They then queue behind a lock that only
//!   serves to decide: the one who has it lets the others' bids settle, and what it then refuses there really is no room for.
//!
//! Safety never depends on the lock: it may be missing, time out or be lost, and no quota is exceeded.

/// The words of one process on one card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// Bytes announced by calls that are being decided this moment.
    Bid,
    /// Bytes admitted: charges, and reservations whose driver call has not come back.
    Held,
    /// The part of `Held` whose driver call has not come back. It may be given back soon; nothing else depends on it.
    Flight,
}

/// What a call waits for. Each kind has its own bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// For bids of others to be decided or withdrawn: a few hundred nanoseconds of another process.
    Bids,
    /// For driver calls of others to come back.
    Flight,
    /// For a process that was killed to be gone: its lock falls when its memory is torn down.
    Dying,
}

/// One card's words in all slots, and the few things around them that are not words.
pub trait Shared {
    /// One more than the highest slot in use. Raised before a new slot's first bid.
    fn slots(&self) -> usize;
    /// Reads a word. Sequentially consistent, as all accesses here.
    fn load(&self, slot: usize, word: Word) -> u64;
    /// Adds to a word of the own slot.
    fn add(&self, slot: usize, word: Word, bytes: u64);
    /// Takes from a word of the own slot.
    fn sub(&self, slot: usize, word: Word, bytes: u64);
    /// Adds up all words. An implementation may walk them faster, with the same [`Adder`].
    #[inline]
    fn sum(&self) -> Sum {
        let mut adder = Adder::default();
        for slot in 0..self.slots() {
            adder.add(|| [self.load(slot, Word::Bid)], || self.load(slot, Word::Held));
        }
        adder.sum()
    }
    /// True while somebody decides under the lock: others shall queue.
    fn queueing(&self) -> bool;
    /// Says so.
    fn set_queueing(&self, on: bool);
    /// Takes the deciding lock, waiting with a bound. `false`: not to be had.
    fn lock(&mut self) -> bool;
    /// Gives it back.
    fn unlock(&mut self);
    /// Clears the words of a slot if its process is dead.
    fn sweep(&mut self, slot: usize);
    /// Waits a moment. `false`: the bound is reached.
    fn pause(&mut self, wait: Wait) -> bool;
}

/// What a reader of all words saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Bytes in all `Bid` words.
    pub bids: u64,
    /// Bytes in all `Held` words.
    pub held: u64,
}

/// Adds up slots.
#[derive(Debug, Default)]
pub struct Adder {
    sum: Sum,
    carry: bool,
}

impl Adder {
    /// Reads and adds one slot's words: `Bid`, in however many parts, before `Held`, see the head of this file.
    #[inline]
    pub fn add<const PARTS: usize>(&mut self, bids: impl FnOnce() -> [u64; PARTS], held: impl FnOnce() -> u64) {
        for bid in bids() {
            self.sum.bids = self.carrying(self.sum.bids, bid);
        }
        let held = held();
        self.sum.held = self.carrying(self.sum.held, held);
    }

    #[inline]
    fn carrying(&mut self, sum: u64, more: u64) -> u64 {
        let (sum, carry) = sum.overflowing_add(more);
        self.carry |= carry;
        sum
    }

    /// The sum; more than any quota if it does not fit.
    #[inline]
    pub fn sum(self) -> Sum {
        if self.carry { Sum { bids: u64::MAX, held: self.sum.held } } else { self.sum }
    }
}

/// Times that one call queues, at most: each time it found that there was no room, and then some that others had taken again.
const ROUNDS: u32 = 64;

/// A refusal: there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// Bytes that live processes hold, as far as could be seen.
    pub used: u64,
}

/// Reserves `bytes` for slot `me`, so that all bytes held stay within `quota`. Call the driver, then [`commit`] or [`cancel`].
///
/// `mine`: bytes in flight of the calling thread itself (an outer call that made this one); it is not waited for.
#[inline]
pub fn reserve<S: Shared>(shared: &mut S, me: usize, bytes: u64, quota: u64, mine: u64) -> Result<(), Full> {
    if reserve_at_once(shared, me, bytes, quota) {
        return Ok(());
    }
    queue(shared, me, bytes, quota, mine)
}

/// The first half of [`reserve`], without waiting. `false`: nothing was reserved.
#[inline]
pub fn reserve_at_once<S: Shared>(shared: &S, me: usize, bytes: u64, quota: u64) -> bool {
    bytes == 0 || !shared.queueing() && bid(shared, me, bytes, quota, false).is_ok()
}

/// The driver gave what was reserved: the reservation is now a charge.
#[inline]
pub fn commit<S: Shared>(shared: &S, me: usize, bytes: u64) {
    shared.sub(me, Word::Flight, bytes);
}

/// The driver refused: nothing is charged. `Held` first: a reader of `Held - Flight` must not take for a charge what is being given back.
#[inline]
pub fn cancel<S: Shared>(shared: &S, me: usize, bytes: u64) {
    shared.sub(me, Word::Held, bytes);
    shared.sub(me, Word::Flight, bytes);
}

/// The driver took the memory back: the charge is gone.
#[inline]
pub fn release<S: Shared>(shared: &S, me: usize, bytes: u64) {
    shared.sub(me, Word::Held, bytes);
}

/// Announce, look, and be admitted or withdraw. `decider`: this call has been through the queue and does not heed it.
#[inline]
fn bid<S: Shared>(shared: &S, me: usize, bytes: u64, quota: u64, decider: bool) -> Result<(), Sum> {
    shared.add(me, Word::Bid, bytes);
    // After the announcement: whoever set the flag before has either seen this bid, or is seen here.
    if !decider && shared.queueing() {
        shared.sub(me, Word::Bid, bytes);
        return Err(Sum::default());
    }
    let seen = shared.sum();
    if seen.bids.saturating_add(seen.held) > quota {
        shared.sub(me, Word::Bid, bytes);
        return Err(seen);
    }
    shared.add(me, Word::Flight, bytes);
    shared.add(me, Word::Held, bytes);
    shared.sub(me, Word::Bid, bytes);
    Ok(())
}

/// The slow path: queue, let the others settle, decide; then see whether waiting could help.
#[cold]
fn queue<S: Shared>(shared: &mut S, me: usize, bytes: u64, quota: u64, mine: u64) -> Result<(), Full> {
    let (own, flight) = held_and_flight(shared, me);
    if own.saturating_sub(flight.saturating_sub(mine)).saturating_add(bytes) > quota {
        // Nothing that others give back can make room for this.
        return Err(Full { used: shared.sum().held });
    }
    let mut used = 0;
    for _ in 0..ROUNDS {
        let locked = shared.lock();
        if locked {
            shared.set_queueing(true);
            settle(shared);
        }
        let mut answer = decide(shared, me, bytes, quota, locked);
        if answer.is_err() && sweep_all(shared, me) {
            answer = decide(shared, me, bytes, quota, locked);
        }
        if locked {
            shared.set_queueing(false);
            shared.unlock();
        }
        let Err(seen) = answer else { return Ok(()) };
        used = seen.held;
        // Where only bids were in the way, they have been waited for already.
        if used.saturating_add(bytes) <= quota || !wait_for_room(shared, me, bytes, quota, mine) {
            break;
        }
    }
    Err(Full { used })
}

/// Waits until every bid that did not see the queue is decided. Later ones see it and withdraw.
fn settle<S: Shared>(shared: &mut S) {
    for slot in 0..shared.slots() {
        while shared.load(slot, Word::Bid) != 0 {
            if !shared.pause(Wait::Bids) {
                // A process stopped between its bid and its decision, or dead there. Its bid counts like a charge.
                return;
            }
        }
    }
}

/// Bids until it is clear whether there is room.
fn decide<S: Shared>(shared: &mut S, me: usize, bytes: u64, quota: u64, locked: bool) -> Result<(), Sum> {
    // Without the lock others are admitted while we add up, and bytes that move meanwhile may be seen twice: look again.
    let mut doubts = if locked { 0 } else { 3 };
    loop {
        let Err(seen) = bid(shared, me, bytes, quota, true) else { return Ok(()) };
        if seen.held.saturating_add(bytes) > quota {
            if doubts == 0 {
                return Err(seen);
            }
            doubts -= 1;
        }
        // Only bids were in the way; their owners see the queue and withdraw.
        if !shared.pause(Wait::Bids) {
            return Err(seen);
        }
    }
}

/// Clears what the dead left. `true`: there were others to look at.
fn sweep_all<S: Shared>(shared: &mut S, me: usize) -> bool {
    let mut others = false;
    for slot in 0..shared.slots() {
        if slot != me && shared.load(slot, Word::Held) | shared.load(slot, Word::Bid) != 0 {
            others = true;
            shared.sweep(slot);
        }
    }
    others
}

/// Waits, outside the lock, as long as others' calls in flight may give back what is missing, or a dying process may be gone.
/// `true`: try again.
fn wait_for_room<S: Shared>(shared: &mut S, me: usize, bytes: u64, quota: u64, mine: u64) -> bool {
    loop {
        let mut flight = 0_u64;
        let mut held = 0_u64;
        for slot in 0..shared.slots() {
            let (slot_held, slot_flight) = held_and_flight(shared, slot);
            held = held.saturating_add(slot_held);
            flight = flight.saturating_add(slot_flight);
        }
        if held.saturating_add(bytes) <= quota {
            return true;
        }
        let settled = held.saturating_sub(flight.saturating_sub(mine));
        if settled.saturating_add(bytes) > quota {
            let own = shared.load(me, Word::Held);
            return held > own && own.saturating_add(bytes) <= quota && shared.pause(Wait::Dying);
        }
        if !shared.pause(Wait::Flight) {
            return false;
        }
    }
}

/// Both words of a slot, such that a reservation is not taken for a charge: it enters `Flight` first and leaves it last, so what
/// was read of `Flight` belongs to `Held` if `Held` did not change meanwhile.
fn held_and_flight<S: Shared>(shared: &S, slot: usize) -> (u64, u64) {
    let mut held = shared.load(slot, Word::Held);
    for _ in 0..3 {
        let flight = shared.load(slot, Word::Flight);
        let again = shared.load(slot, Word::Held);
        if again == held {
            return (held, flight);
        }
        held = again;
    }
    // It changes all the time: whoever does that gives something back.
    (held, held)
}
