//! The mapped file, as references to its parts.

// The kernel maps at page boundaries, and `layout` asserts that every part is where its type may be.
#![allow(clippy::cast_ptr_alignment)]

use core::sync::atomic::Ordering::SeqCst;

use super::layout::{BASE, BLOCKS, Block, CARDS, CardRecord, Cell, Counter, Head, SLOTS_PER_BLOCK, SlotRecord, size};
use crate::sys::file::Fd;
use crate::sys::raw::{self, Errno};

/// A mapping of the largest ledger there can be; what the file does not have yet must not be touched.
///
/// The references it gives out live as long as the process: a mapping that has given one out is never unmapped.
#[derive(Clone, Copy)]
pub struct Map {
    base: *mut u8,
}

// SAFETY: all of the memory is atomics.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the file. A forked child will not have the mapping, a core dump neither.
    pub fn new(fd: &Fd, writable: bool) -> Result<Self, Errno> {
        let bytes = size(BLOCKS);
        let base = raw::map_shared(fd.number(), bytes, writable)?;
        let map = Self { base };
        // Without it a child would keep a dead parent's lock, and with it its charges.
        if let Err(error) = raw::madvise(base, bytes, raw::MADV_DONTFORK) {
            map.unmap();
            return Err(error);
        }
        let _ = raw::madvise(base, bytes, raw::MADV_DONTDUMP);
        Ok(map)
    }

    /// From an address that [`Map::address`] gave.
    pub fn from_address(base: *mut u8) -> Self {
        Self { base }
    }

    /// The address.
    pub fn address(self) -> *mut u8 {
        self.base
    }

    /// Unmaps. Only for a mapping whose references nobody kept.
    pub fn unmap(self) {
        // SAFETY: the caller's promise.
        unsafe { raw::unmap(self.base, size(BLOCKS)) };
    }

    /// The first page.
    pub fn head(self) -> &'static Head {
        // SAFETY: the file is at least one page long (checked before it was mapped), page-aligned, all atomics.
        unsafe { &*self.base.cast::<Head>() }
    }

    /// A card's record, `card` below [`CARDS`].
    #[inline]
    pub fn card(self, card: usize) -> &'static CardRecord {
        // SAFETY: within the first 16 KiB, which every checked file has; the index is cut to the table.
        unsafe { &*self.base.add(4096).cast::<CardRecord>().add(card % CARDS) }
    }

    /// A block that exists.
    #[inline]
    fn block(self, block: usize) -> *const Block {
        // SAFETY: within the mapping, whatever the file has.
        unsafe { self.base.add(BASE).cast::<Block>().add(block % BLOCKS) }
    }

    /// The record of a slot below [`Map::slots`].
    #[inline]
    pub fn slot(self, slot: usize) -> &'static SlotRecord {
        // SAFETY: the slot's block exists.
        unsafe { &*(&raw const (*self.block(slot / SLOTS_PER_BLOCK)).slots).cast::<SlotRecord>().add(slot % SLOTS_PER_BLOCK) }
    }

    /// The words of a slot below [`Map::slots`] on a card.
    #[inline]
    pub fn cell(self, card: usize, slot: usize) -> &'static Cell {
        let index = card % CARDS * SLOTS_PER_BLOCK + slot % SLOTS_PER_BLOCK;
        // SAFETY: the slot's block exists.
        unsafe { &*(&raw const (*self.block(slot / SLOTS_PER_BLOCK)).cells).cast::<Cell>().add(index) }
    }

    /// The words of all slots of a block that exists, on a card.
    #[inline]
    pub fn cells(self, card: usize, block: usize) -> &'static [Cell] {
        // SAFETY: the block exists; a card's cells lie next to each other.
        unsafe { &*(&raw const (*self.block(block)).cells).cast::<[Cell; SLOTS_PER_BLOCK]>().add(card % CARDS) }
    }

    /// The counters of a slot that is or was taken.
    pub fn counters(self, slot: usize) -> *const Counter {
        let index = slot % SLOTS_PER_BLOCK * super::layout::ROWS;
        // SAFETY: within the mapping.
        unsafe { (&raw const (*self.block(slot / SLOTS_PER_BLOCK)).counters).cast::<Counter>().add(index) }
    }

    /// Offset of a slot's counters in the file.
    pub fn counters_offset(self, slot: usize) -> usize {
        self.counters(slot) as usize - self.base as usize
    }

    /// Slots that exist and may be in use: one more than the highest.
    #[inline]
    pub fn slots(self) -> usize {
        let head = self.head();
        (head.high.load(SeqCst) as usize).min(BLOCKS * SLOTS_PER_BLOCK)
    }
}
