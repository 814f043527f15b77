//! All of a ledger, read by somebody who holds nothing in it: the monitor.
//!
//! The file is opened for reading only and mapped without write access. A lock is looked at (`F_OFD_GETLK`), never taken, so
//! watching does not disturb: a sweeper that finds the watcher's lock would take a dead process for alive.

use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, SeqCst};

use super::container::Identity;
use super::layout::{BY_DESCRIPTOR, CARDS, Counter, ROWS, TAKEN, lock};
use super::map::Map;
use super::store;
use super::trouble::Trouble;
use crate::card::CardId;
use crate::sys::file::Fd;
use crate::sys::raw::{O_NONBLOCK, O_RDONLY, stat};

/// A ledger opened for watching.
pub struct View {
    map: Map,
    fd: Fd,
}

/// One card.
#[derive(Debug, Clone, Copy)]
pub struct CardView {
    /// Its place in the ledger.
    pub index: usize,
    /// Its identity.
    pub id: CardId,
    /// The quota that the last admission went by, in bytes; 0 before the first.
    pub quota: u64,
    /// Refusals for want of room so far.
    pub refusals: u64,
    /// Bytes of dead processes that others reclaimed so far.
    pub reclaimed: u64,
}

/// One process.
#[derive(Debug, Clone, Copy)]
pub struct SlotView {
    /// Its slot.
    pub slot: usize,
    /// Who.
    pub identity: Identity,
    /// `false`: dead, and not reclaimed yet.
    pub alive: bool,
    /// A descriptor keeps its lock: its file system drops the lock of a mapping.
    pub by_descriptor: bool,
}

/// What one process holds of one card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellView {
    /// Admitted bytes.
    pub held: u64,
    /// The part of them whose driver call has not come back.
    pub flight: u64,
}

impl View {
    /// Opens the ledger at `path`; it is not made if it is missing.
    pub fn open(path: &CStr) -> Result<Self, Trouble> {
        if !stat(path).map_err(Trouble::Open)?.is_regular() {
            return Err(Trouble::NotAFile);
        }
        let fd = Fd::open(path, O_RDONLY | O_NONBLOCK).map_err(Trouble::Open)?;
        store::check(&fd)?;
        let map = Map::new(&fd, false).map_err(Trouble::Map)?;
        Ok(Self { map, fd })
    }

    /// The cards that some process has met.
    pub fn cards(&self) -> impl Iterator<Item = CardView> + '_ {
        (0..CARDS).map(|index| (index, self.map.card(index))).take_while(|(_, record)| record.state.load(Acquire) != 0).map(|(index, record)| {
            CardView {
                index,
                id: CardId { first: record.first.load(SeqCst), second: record.second.load(SeqCst) },
                quota: record.quota.load(SeqCst),
                refusals: record.refusals.load(SeqCst),
                reclaimed: record.reclaimed.load(SeqCst),
            }
        })
    }

    /// How many slots are added up at each admission: one more than the highest in use.
    pub fn added_up(&self) -> usize {
        self.map.slots()
    }

    /// The slots in use.
    pub fn slots(&self) -> impl Iterator<Item = SlotView> + '_ {
        (0..self.map.slots()).filter(|&slot| self.map.slot(slot).state.load(Acquire) == TAKEN).map(|slot| {
            let record = self.map.slot(slot);
            let identity = Identity::of(record);
            let by_descriptor = record.mode.load(SeqCst) == BY_DESCRIPTOR;
            let locked = self.fd.is_locked(lock::slot(slot)).unwrap_or(true);
            SlotView { slot, identity, alive: locked || by_descriptor && identity.may_be_alive(), by_descriptor }
        })
    }

    /// What the process in `slot` holds of the card at `index`.
    pub fn cell(&self, index: usize, slot: usize) -> CellView {
        if slot >= self.map.slots() {
            return CellView::default();
        }
        let cell = self.map.cell(index, slot);
        CellView { held: cell.held.load(SeqCst), flight: cell.in_flight() }
    }

    /// Calls, refusals and driver failures of an entry point in the process of a slot in use.
    pub fn counter(&self, slot: usize, row: usize) -> (u64, u32, u32) {
        if slot >= self.map.slots() || row >= ROWS {
            return (0, 0, 0);
        }
        // SAFETY: the counters of a slot that was taken exist in the file.
        let counter: &Counter = unsafe { &*self.map.counters(slot).add(row) };
        (counter.calls(), counter.refused.load(SeqCst), counter.failed.load(SeqCst))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.map.unmap();
    }
}
