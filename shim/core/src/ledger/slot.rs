//! Taking a slot and taking it back: everything that needs a slot's lock.
//!
//! Under a slot's lock the slot is nobody else's; under the table lock slots and cards are handed out. Neither is ever held for
//! longer than some system calls.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::container::Identity;
use super::layout::{BLOCKS, BY_DESCRIPTOR, CARDS, Counter, FREE, ROWS, SLOTS_PER_BLOCK, TAKEN, lock};
use super::map::Map;
use super::store;
use super::trouble::Trouble;
use crate::sys::file::Fd;
use crate::sys::thread::Patience;

/// How long to wait for the lock on the tables, in milliseconds.
const TABLE_MS: u64 = 2000;

/// Runs `work` while this open file holds the lock on the tables.
pub(super) fn with_table_lock<T>(fd: &Fd, work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let mut patience = Patience::milliseconds(TABLE_MS);
    while !fd.try_lock(lock::TABLE).map_err(Trouble::Lock)? {
        if !patience.pause() {
            return Err(Trouble::Busy);
        }
    }
    let done = work();
    fd.unlock(lock::TABLE);
    done
}

/// Refuses a process that is alone among live ones of another container.
pub(super) fn admit_container(map: Map, fd: &Fd, identity: &Identity) -> Result<(), Trouble> {
    let mut stranger = false;
    for slot in 0..map.slots() {
        let record = map.slot(slot);
        if record.state.load(Acquire) != TAKEN {
            continue;
        }
        if !fd.is_locked(lock::slot(slot)).map_err(Trouble::Lock)? {
            continue;
        }
        if Identity::of(record).same_container(identity) {
            return Ok(());
        }
        stranger = true;
    }
    if stranger { Err(Trouble::OtherContainer) } else { Ok(()) }
}

/// Takes a slot, under the table lock: a free one, else a dead one, else a new one.
pub(super) fn claim(map: Map, fd: &Fd, identity: &Identity, mode: u32) -> Result<usize, Trouble> {
    let head = map.head();
    // Free slots at the end need not be added up any more. A new slot is claimed under this lock and raises the count again first.
    while let high @ 1.. = map.slots()
        && map.slot(high - 1).state.load(SeqCst) == FREE
    {
        head.high.store(high as u32 - 1, SeqCst);
    }
    let high = map.slots();
    for wanted in [FREE, TAKEN] {
        for slot in 0..high {
            if map.slot(slot).state.load(Acquire) == wanted && win(map, fd, slot)? {
                return take(map, fd, slot, identity, mode);
            }
        }
    }
    if high == BLOCKS * SLOTS_PER_BLOCK {
        return Err(Trouble::Full);
    }
    let blocks = head.blocks.load(Acquire) as usize;
    if high == blocks * SLOTS_PER_BLOCK {
        store::grow(fd, blocks).map_err(Trouble::Create)?;
        head.blocks.store(blocks as u32 + 1, Release);
    }
    // Whoever swept a slot that is new again has its lock for a moment longer.
    let mut patience = Patience::milliseconds(TABLE_MS);
    while !fd.try_lock(lock::slot(high)).map_err(Trouble::Lock)? {
        if !patience.pause() {
            return Err(Trouble::Busy);
        }
    }
    head.high.store(high as u32 + 1, SeqCst);
    take(map, fd, high, identity, mode)
}

/// Takes a slot's lock, if nobody alive has it.
fn win(map: Map, fd: &Fd, slot: usize) -> Result<bool, Trouble> {
    if !fd.try_lock(lock::slot(slot)).map_err(Trouble::Lock)? {
        return Ok(false);
    }
    let record = map.slot(slot);
    if record.state.load(Acquire) == TAKEN && record.mode.load(Relaxed) == BY_DESCRIPTOR && Identity::of(record).may_be_alive() {
        fd.unlock(lock::slot(slot));
        return Ok(false);
    }
    Ok(true)
}

/// Makes a slot whose lock we hold our own.
fn take(map: Map, fd: &Fd, slot: usize, identity: &Identity, mode: u32) -> Result<usize, Trouble> {
    clear(map, slot);
    store::write_zeros(fd, map.counters_offset(slot), ROWS * size_of::<Counter>()).map_err(Trouble::Create)?;
    let record = map.slot(slot);
    record.mode.store(mode, Relaxed);
    identity.record(record);
    record.claims.fetch_add(1, Relaxed);
    record.state.store(TAKEN, Release);
    Ok(slot)
}

/// Clears all words of a slot whose lock we hold. Doing it twice, or half, harms nobody. Cards that nobody has met have none.
fn clear(map: Map, slot: usize) {
    for card in (0..CARDS).take_while(|&card| map.card(card).state.load(Acquire) != 0) {
        let cell = map.cell(card, slot);
        let left = cell.held.load(SeqCst);
        for word in cell.words() {
            if word.load(SeqCst) != 0 {
                word.store(0, SeqCst);
            }
        }
        if left != 0 {
            map.card(card).reclaimed.fetch_add(left, Relaxed);
        }
    }
}

/// The lock on a slot's byte from a descriptor of a moment: if it is to be had, the process is dead, and what it left is cleared.
pub(super) fn sweep(map: Map, desk: &Fd, slot: usize) {
    if matches!(win(map, desk, slot), Ok(true)) {
        clear(map, slot);
        map.slot(slot).state.store(FREE, SeqCst);
        // Not left to the closing of the descriptor: a child forked meanwhile would have a copy of it.
        desk.unlock(lock::slot(slot));
    }
}
