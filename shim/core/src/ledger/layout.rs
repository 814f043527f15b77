//! The file: what is where. Version 2, host byte order, all of it zero when new except the first line.
//!
//! ```text
//! 0        Head        4 KiB    magic, version, geometry, check; how many slots and blocks are in use
//! 4096     CardRecord  8 KiB    64 x 128 B: identity, queue flag, quota last used, refusals
//! 12288    (unused)    4 KiB
//! 16384    Block       776 KiB each, 1 to 64 of them, for 64 processes each:
//!            SlotRecord   64 x 128 B          who
//!            Cell         64 cards x 64 x 64 B   bid, held, flight, with two lanes: one cache line per process and card
//!            Counter      64 x 256 x 32 B     calls, refusals and driver failures per entry point
//! ```
//!
//! Cells of one card lie next to each other, so that adding them up reads memory in order. The file only ever grows, by whole
//! blocks, and a block is allocated on disk before the count that makes it visible is raised: a store never meets a full disk.
//! Locks are on bytes far behind the end of the file ([`lock`]).

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// First eight bytes of a ledger.
pub const MAGIC: u64 = u64::from_le_bytes(*b"VROCMLDG");
/// Version of this layout.
pub const VERSION: u32 = 2;
/// Cards in one ledger.
pub const CARDS: usize = 64;
/// Slots in one block.
pub const SLOTS_PER_BLOCK: usize = 64;
/// Blocks in one ledger, at most: 4096 processes at a time.
pub const BLOCKS: usize = 64;
/// Entry points that have counters.
pub const ROWS: usize = 256;
/// Threads of a process that have words of their own.
pub const LANES: usize = 2;
/// Offset of the first block.
pub const BASE: usize = 16384;
/// Bytes of a ledger with `blocks` blocks.
pub const fn size(blocks: usize) -> usize {
    BASE + blocks * size_of::<Block>()
}

/// The first 64 bytes: written before the file has its name, and never again.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// [`BASE`].
    pub base: u32,
    /// [`CARDS`].
    pub cards: u32,
    /// [`SLOTS_PER_BLOCK`].
    pub slots_per_block: u32,
    /// [`BLOCKS`].
    pub blocks: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bytes of a cell.
    pub cell_bytes: u32,
    /// [`ROWS`].
    pub rows: u32,
    /// 0.
    pub reserved: [u32; 4],
    /// FNV-1a of the 56 bytes before.
    pub check: u64,
}

impl Constants {
    /// What a file of this version begins with.
    pub const fn of_this_version() -> Self {
        let mut made = Self {
            magic: MAGIC,
            version: VERSION,
            base: BASE as u32,
            cards: CARDS as u32,
            slots_per_block: SLOTS_PER_BLOCK as u32,
            blocks: BLOCKS as u32,
            block_bytes: size_of::<Block>() as u32,
            cell_bytes: size_of::<Cell>() as u32,
            rows: ROWS as u32,
            reserved: [0; 4],
            check: 0,
        };
        let words = [
            made.magic,
            made.version as u64 | (made.base as u64) << 32,
            made.cards as u64 | (made.slots_per_block as u64) << 32,
            made.blocks as u64 | (made.block_bytes as u64) << 32,
            made.cell_bytes as u64 | (made.rows as u64) << 32,
        ];
        let mut hash = FNV_START;
        let mut index = 0;
        while index < words.len() {
            hash = (hash ^ words[index]).wrapping_mul(FNV_PRIME);
            index += 1;
        }
        made.check = hash;
        made
    }

    /// The bytes of the file.
    pub fn to_bytes(self) -> [u8; 64] {
        // SAFETY: 64 bytes of integers without padding (asserted below); any bytes are valid.
        unsafe { core::mem::transmute(self) }
    }

    /// Reads the bytes of a file.
    pub fn from_bytes(bytes: [u8; 64]) -> Self {
        // SAFETY: as above.
        unsafe { core::mem::transmute(bytes) }
    }
}

/// Start of an FNV-1a hash.
pub const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
/// Its multiplier.
pub const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The first page.
#[repr(C)]
pub struct Head {
    /// See [`Constants`].
    pub constants: [AtomicU64; 8],
    /// One more than the highest slot in use. Raised before a slot's first bid; lowered only under the table lock, over free slots.
    pub high: AtomicU32,
    /// Blocks that exist. Never lowered.
    pub blocks: AtomicU32,
    rest: [AtomicU64; 503],
}

/// One card: 128 bytes.
#[repr(C, align(64))]
pub struct CardRecord {
    /// The identity; both words are written before `state`.
    pub first: AtomicU64,
    /// Its second word.
    pub second: AtomicU64,
    /// 0: free. 1: the identity is good for ever.
    pub state: AtomicU32,
    /// 1: somebody decides under the lock, others queue.
    pub queueing: AtomicU32,
    rest: [AtomicU64; 5],
    /// The quota that the last admission with another figure than the one before went by. For the monitor only.
    pub quota: AtomicU64,
    /// Refusals for want of room, of all processes.
    pub refusals: AtomicU64,
    /// Bytes that dead processes left and others reclaimed.
    pub reclaimed: AtomicU64,
    more: [AtomicU64; 5],
}

/// Who has a slot: 128 bytes, written by the owner while it holds the slot's lock. For the monitor, and for telling containers apart.
#[repr(C, align(64))]
pub struct SlotRecord {
    /// [`FREE`] or [`TAKEN`]; all cells of a free slot are 0.
    pub state: AtomicU32,
    /// [`BY_MAPPING`] or [`BY_DESCRIPTOR`]: what keeps the slot's lock.
    pub mode: AtomicU32,
    /// Process id in its own namespace.
    pub pid: AtomicU32,
    /// Real user id.
    pub uid: AtomicU32,
    /// Inode of its pid namespace; 0 where unknown, as for the others.
    pub pid_ns: AtomicU64,
    /// Start time in ticks since boot, `/proc/<pid>/stat`.
    pub start: AtomicU64,
    /// Inode of its mount namespace.
    pub mount_ns: AtomicU64,
    /// Inode of its cgroup namespace.
    pub cgroup_ns: AtomicU64,
    /// Hash of `/proc/self/cgroup`.
    pub cgroup: AtomicU64,
    /// How often the slot was claimed.
    pub claims: AtomicU64,
    /// The process's name, 16 bytes.
    pub name: [AtomicU64; 2],
    rest: [AtomicU64; 6],
}

/// Nobody's.
pub const FREE: u32 = 0;
/// Somebody's, alive if its lock is held.
pub const TAKEN: u32 = 1;
/// The mapping keeps the lock.
pub const BY_MAPPING: u32 = 0;
/// A descriptor keeps the lock (overlayfs drops that of a mapping): a lock that is gone does not prove death.
pub const BY_DESCRIPTOR: u32 = 1;

/// The words of one process on one card: a cache line of its own.
#[repr(C, align(64))]
pub struct Cell {
    /// See [`super::protocol::Word`].
    pub bid: AtomicU64,
    /// As above.
    pub held: AtomicU64,
    /// As above.
    pub flight: AtomicU64,
    /// Parts of `bid` and `flight` that one thread each writes.
    pub lanes: [Lane; LANES],
    rest: AtomicU64,
}

/// What one thread of a process has announced, and has in the driver. No other thread writes here, so all but the announcing
/// needs no locked instruction.
#[repr(C)]
pub struct Lane {
    /// A part of [`Cell::bid`].
    pub bid: AtomicU64,
    /// A part of [`Cell::flight`].
    pub flight: AtomicU64,
}

impl Cell {
    /// Bytes announced, in parts. Each call's are in one of them from beginning to end.
    #[inline]
    pub fn bids(&self) -> [u64; LANES + 1] {
        [self.bid.load(SeqCst), self.lanes[0].bid.load(SeqCst), self.lanes[1].bid.load(SeqCst)]
    }

    /// Bytes in flight.
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.lanes.iter().fold(self.flight.load(SeqCst), |sum, lane| sum.wrapping_add(lane.flight.load(SeqCst)))
    }

    /// Every word.
    pub fn words(&self) -> [&AtomicU64; 3 + 2 * LANES] {
        let [first, second] = &self.lanes;
        [&self.bid, &self.held, &self.flight, &first.bid, &first.flight, &second.bid, &second.flight]
    }
}

/// What happened at one entry point in one process.
#[repr(C)]
pub struct Counter {
    /// Calls of threads without a lane.
    pub calls: AtomicU64,
    /// Calls of the threads that have the lanes; nobody else writes them.
    pub lanes: [AtomicU64; LANES],
    /// Calls that the shim refused.
    pub refused: AtomicU32,
    /// Calls that the driver failed.
    pub failed: AtomicU32,
}

impl Counter {
    /// Counts a call by a thread that has a lane, or by one that has none.
    #[inline]
    pub fn call(&self, lane: Option<usize>) {
        match lane.and_then(|lane| self.lanes.get(lane)) {
            Some(own) => own.store(own.load(Relaxed).wrapping_add(1), Relaxed),
            None => _ = self.calls.fetch_add(1, Relaxed),
        }
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.lanes.iter().fold(self.calls.load(Relaxed), |sum, lane| sum.wrapping_add(lane.load(Relaxed)))
    }
}

/// 64 processes.
#[repr(C, align(4096))]
pub struct Block {
    /// Who.
    pub slots: [SlotRecord; SLOTS_PER_BLOCK],
    /// By card, then by slot.
    pub cells: [[Cell; SLOTS_PER_BLOCK]; CARDS],
    /// By slot, then by entry point.
    pub counters: [[Counter; ROWS]; SLOTS_PER_BLOCK],
}

/// Bytes that are locked, all behind the end of the largest ledger.
pub mod lock {
    /// Held by the process that has the slot, for life.
    pub const fn slot(slot: usize) -> u64 {
        (1 << 40) + slot as u64
    }

    /// Held to claim a slot or a card, and to add a block.
    pub const TABLE: u64 = 1 << 41;

    /// Held to decide admissions of one card in the queue.
    pub const fn card(card: usize) -> u64 {
        (1 << 41) + 1 + card as u64
    }
}

const _: () = {
    assert!(size_of::<Constants>() == 64 && size_of::<Head>() == 4096);
    assert!(size_of::<CardRecord>() == 128 && size_of::<SlotRecord>() == 128 && size_of::<Cell>() == 64 && size_of::<Counter>() == 32);
    assert!(4096 + CARDS * size_of::<CardRecord>() <= BASE && size_of::<Block>() == 776 * 1024);
    assert!((size(BLOCKS) as u64) < lock::slot(0) && lock::slot(BLOCKS * SLOTS_PER_BLOCK) < lock::TABLE);
};

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::SeqCst;

    use super::{Cell, Counter, Lane};

    fn cell() -> Cell {
        let word = |number| AtomicU64::new(number);
        let lane = |bid, flight| Lane { bid: word(bid), flight: word(flight) };
        Cell { bid: word(1), held: word(2), flight: word(4), lanes: [lane(8, 16), lane(32, 64)], rest: word(0) }
    }

    #[test]
    fn every_part_of_a_layout_cell_is_seen() {
        let cell = cell();
        assert_eq!((cell.bids(), cell.in_flight()), ([1, 8, 32], 4 + 16 + 64));
        let words = cell.words();
        assert_eq!(words.iter().map(|word| word.swap(0, SeqCst)).sum::<u64>(), 127);
        assert_eq!((cell.bids(), cell.held.load(SeqCst), cell.in_flight()), ([0; 3], 0, 0));
    }

    #[test]
    fn calls_of_every_thread_are_counted() {
        let counter = Counter { calls: AtomicU64::new(0), lanes: [const { AtomicU64::new(0) }; 2], refused: 0.into(), failed: 0.into() };
        for lane in [None, Some(0), Some(1), Some(1), Some(2)] {
            counter.call(lane);
        }
        assert_eq!((counter.calls(), counter.calls.load(SeqCst)), (5, 2));
    }
}
