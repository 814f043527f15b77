//! One card of the mapped ledger, as the protocol sees it.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::layout::{Cell, SLOTS_PER_BLOCK, lock};
use super::map::Map;
use super::protocol::{Adder, Shared, Sum, Wait, Word};
use super::{Process, slot};
use crate::sys::file::Fd;
use crate::sys::thread::Patience;

/// How long a call waits at most for each [`Wait`], in milliseconds.
const BIDS_MS: u64 = 100;
/// As above.
const FLIGHT_MS: u64 = 100;
/// As above.
const DYING_MS: u64 = 3;
/// How long for the lock that decides.
const QUEUE_MS: u64 = 100;

/// One card of the mapped ledger, as the protocol sees it, with what a call in the queue needs.
pub(super) struct CardCounter {
    map: Map,
    card: usize,
    process: &'static Process,
    desk: Option<Fd>,
    patience: [Option<Patience>; 3],
}

impl CardCounter {
    #[inline]
    pub(super) fn new(map: Map, card: usize, process: &'static Process) -> Self {
        Self { map, card, process, desk: None, patience: [None, None, None] }
    }

    /// A word of the own slot that this thread writes; `true`: this thread alone.
    #[inline]
    fn own(&self, slot: usize, word: Word) -> (&'static AtomicU64, bool) {
        let cell: &'static Cell = self.map.cell(self.card, slot);
        let lane = || self.process.lane().and_then(|lane| cell.lanes.get(lane));
        match word {
            Word::Bid => lane().map_or((&cell.bid, false), |lane| (&lane.bid, true)),
            Word::Flight => lane().map_or((&cell.flight, false), |lane| (&lane.flight, true)),
            Word::Held => (&cell.held, false),
        }
    }

    /// `false`: no descriptor is left, or the path leads elsewhere by now. Then nobody is swept, and nothing else is lost.
    pub(super) fn open_desk(&mut self) -> bool {
        if self.desk.is_none() {
            self.desk = self.process.desk().ok();
        }
        self.desk.is_some()
    }
}

impl Shared for CardCounter {
    #[inline]
    fn slots(&self) -> usize {
        self.map.slots()
    }

    #[inline]
    fn sum(&self) -> Sum {
        let mut adder = Adder::default();
        let slots = self.map.slots();
        for block in 0..slots.div_ceil(SLOTS_PER_BLOCK) {
            let cells = self.map.cells(self.card, block);
            for cell in cells.get(..slots - block * SLOTS_PER_BLOCK).unwrap_or(cells) {
                adder.add(|| cell.bids(), || cell.held.load(SeqCst));
            }
        }
        adder.sum()
    }

    #[inline]
    fn load(&self, slot: usize, word: Word) -> u64 {
        let cell = self.map.cell(self.card, slot);
        match word {
            Word::Bid => cell.bids().into_iter().fold(0, u64::wrapping_add),
            Word::Held => cell.held.load(SeqCst),
            Word::Flight => cell.in_flight(),
        }
    }

    #[inline]
    fn add(&self, slot: usize, word: Word, bytes: u64) {
        match self.own(slot, word) {
            // Nobody looks before it is known that these bytes are on their way; only announcing is ordered before what is read next.
            (own, true) if word == Word::Flight => own.store(own.load(Relaxed).wrapping_add(bytes), Release),
            (own, _) => _ = own.fetch_add(bytes, SeqCst),
        }
    }

    #[inline]
    fn sub(&self, slot: usize, word: Word, bytes: u64) {
        match self.own(slot, word) {
            (own, true) => own.store(own.load(Relaxed).wrapping_sub(bytes), Release),
            (own, false) => _ = own.fetch_sub(bytes, SeqCst),
        }
    }

    #[inline]
    fn queueing(&self) -> bool {
        self.map.card(self.card).queueing.load(SeqCst) != 0
    }

    fn set_queueing(&self, on: bool) {
        self.map.card(self.card).queueing.store(on.into(), SeqCst);
    }

    fn lock(&mut self) -> bool {
        if !self.open_desk() {
            return false;
        }
        let Some(desk) = &self.desk else { return false };
        let mut patience = Patience::milliseconds(QUEUE_MS);
        loop {
            match desk.try_lock(lock::card(self.card)) {
                Ok(true) => return true,
                Ok(false) if patience.pause() => {}
                _ => return false,
            }
        }
    }

    fn unlock(&mut self) {
        if let Some(desk) = &self.desk {
            desk.unlock(lock::card(self.card));
        }
    }

    fn sweep(&mut self, number: usize) {
        if self.open_desk()
            && let Some(desk) = &self.desk
        {
            slot::sweep(self.map, desk, number);
        }
    }

    fn pause(&mut self, wait: Wait) -> bool {
        let (index, milliseconds) = match wait {
            Wait::Bids => (0, BIDS_MS),
            Wait::Flight => (1, FLIGHT_MS),
            Wait::Dying => (2, DYING_MS),
        };
        match self.patience.get_mut(index) {
            Some(patience) => patience.get_or_insert_with(|| Patience::milliseconds(milliseconds)).pause(),
            None => false,
        }
    }
}
