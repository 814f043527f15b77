//! What each pointer and handle of this process was charged: key → card, bytes, kind.
//!
//! Lock-free, grows by `mmap`, has no fixed capacity; finding a key that is not there reads a few cache lines. Buckets hold
//! chains of cells. A cell is never unlinked, only emptied and filled again, so a reader cannot be led astray and there is no ABA
//! in the chains. When the cells outgrow the buckets, a level with 16 times as many buckets is added; look-ups try the newest
//! level first and at most four in all.
//!
//! Free protocol of the callers: *claim* the key ([`Table::take`]) before the driver frees, because the driver hands the address
//! out again at once; refund after the driver has freed, [`Table::insert`] it again if it has not.
//!
//! The table lies in memory that a forked child sees empty: a child owns nothing that it inherited.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};

use crate::sys::private::Zeroed;
use crate::sys::raw;

/// A pointer or handle, with the name space it comes from: an HSA handle and a HIP pointer may be the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// `space`: 1 to 255, the caller's own numbering. `value`: the pointer or handle.
    pub const fn new(space: u8, value: u64) -> Self {
        let space = if space == 0 { 1 } else { space };
        // User addresses have at most 56 bits; handles that are no addresses are folded.
        let folded = (value & ((1 << 56) - 1)) ^ (value >> 56 << 40);
        Self((space as u64) << 56 | folded)
    }
}

/// What a key was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Index of the card in the ledger ([`crate::ledger::Card::index`]).
    pub card: u8,
    /// What it is; the callers' own numbering.
    pub kind: u8,
    /// Bytes charged.
    pub bytes: u64,
    /// References that keep it (a handle's creation and retains); below 2^24.
    pub refs: u32,
    /// Uses that keep it (mappings of a handle); below 2^24.
    pub uses: u32,
}

impl Entry {
    /// An allocation: one reference, no uses.
    pub const fn new(card: u8, kind: u8, bytes: u64) -> Self {
        Self { card, kind, bytes, refs: 1, uses: 0 }
    }
}

/// What [`Table::count`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// There is no such key.
    Unknown,
    /// The entry stays, with these counts.
    Kept(Entry),
    /// Both counts came to 0: the entry was claimed, as by [`Table::take`].
    Gone(Entry),
}

/// Key of a cell that holds nothing.
const EMPTY: u64 = 0;
/// Key of a cell that its owner is filling or emptying.
const BUSY: u64 = 1;
/// Levels and the logarithms of their bucket counts: 8 KiB, 128 KiB, 2 MiB, 32 MiB of heads, touched as needed.
const LEVELS: [u32; 4] = [10, 14, 18, 22];
/// Cells per bucket, on average, before the next level is made.
const LOAD: u64 = 1;
/// Logarithm of the number of cells in the first chunk; each further chunk has twice as many.
const FIRST_CHUNK: u32 = 9;
/// Chunks: more than any address space has room for.
const CHUNKS: usize = 32;

#[repr(C)]
struct Cell {
    key: AtomicU64,
    bytes: AtomicU64,
    /// `kind << 8 | card`.
    info: AtomicU64,
    /// `generation << 48 | uses << 24 | refs`. The generation changes whenever the cell is filled.
    counts: AtomicU64,
    next: AtomicPtr<Cell>,
}

/// The table; all zeros is an empty one.
#[repr(C)]
pub struct Table {
    levels: [AtomicPtr<AtomicPtr<Cell>>; LEVELS.len()],
    /// Cells in all chains; they are handed out in order.
    cells: AtomicU64,
    chunks: [AtomicPtr<Cell>; CHUNKS],
}

// SAFETY: atomics only; null pointers are valid.
unsafe impl Zeroed for Table {}

const FIELD: u64 = (1 << 24) - 1;

fn counts(generation: u64, refs: u32, uses: u32) -> u64 {
    generation << 48 | (u64::from(uses) & FIELD) << 24 | u64::from(refs) & FIELD
}

impl Table {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            levels: [const { AtomicPtr::new(core::ptr::null_mut()) }; LEVELS.len()],
            cells: AtomicU64::new(0),
            chunks: [const { AtomicPtr::new(core::ptr::null_mut()) }; CHUNKS],
        }
    }

    /// Records a key. Answers the entry that was there before: the driver reused the address of something whose freeing nobody
    /// saw, so the caller refunds the old entry.
    ///
    /// `Err`: the kernel has no memory; the charge then stays until the process ends.
    pub fn insert(&self, key: Key, entry: Entry) -> Result<Option<Entry>, Entry> {
        let stale = self.take(key);
        let cell = self.claim_cell(key).ok_or(entry)?;
        cell.bytes.store(entry.bytes, Relaxed);
        cell.info.store(u64::from(entry.kind) << 8 | u64::from(entry.card), Relaxed);
        let generation = (cell.counts.load(Relaxed) >> 48).wrapping_add(1);
        cell.counts.store(counts(generation, entry.refs, entry.uses), Relaxed);
        cell.key.store(key.0, Release);
        Ok(stale)
    }

    /// Removes a key and answers its entry. Of several callers one gets it.
    pub fn take(&self, key: Key) -> Option<Entry> {
        let mut found = None;
        self.each_cell_of(key, |cell| {
            if cell.key.load(Acquire) == key.0 && cell.key.compare_exchange(key.0, BUSY, AcqRel, Acquire).is_ok() {
                found = Some(read(cell));
                cell.key.store(EMPTY, Release);
            }
            found.is_some()
        });
        found
    }

    /// The entry of a key.
    pub fn find(&self, key: Key) -> Option<Entry> {
        let mut found = None;
        self.each_cell_of(key, |cell| {
            while cell.key.load(Acquire) == key.0 {
                let before = cell.counts.load(Acquire);
                let entry = read(cell);
                if cell.key.load(Acquire) == key.0 && cell.counts.load(Acquire) == before {
                    found = Some(entry);
                    break;
                }
            }
            found.is_some()
        });
        found
    }

    /// Changes the counts of a key, each at least 0; when both are 0 the entry is claimed.
    pub fn count(&self, key: Key, refs: i32, uses: i32) -> Counted {
        let mut done = Counted::Unknown;
        self.each_cell_of(key, |cell| {
            loop {
                // The counts before the key: should the cell be emptied and filled in between, its generation has changed.
                let before = cell.counts.load(Acquire);
                if cell.key.load(Acquire) != key.0 {
                    return false;
                }
                let changed = |field: u64, by: i32| ((field & FIELD) as u32).saturating_add_signed(by);
                let after = counts(before >> 48, changed(before, refs), changed(before >> 24, uses));
                if cell.counts.compare_exchange(before, after, AcqRel, Acquire).is_err() {
                    continue;
                }
                if after << 16 != 0 {
                    done = Counted::Kept(Entry { refs: changed(after, 0), uses: changed(after >> 24, 0), ..read(cell) });
                } else if cell.key.compare_exchange(key.0, BUSY, AcqRel, Acquire).is_ok() {
                    done = Counted::Gone(read(cell));
                    cell.key.store(EMPTY, Release);
                }
                return true;
            }
        });
        done
    }

    /// Removes all entries that `wanted` picks, and hands each to `taken`: what a reset of a card frees.
    pub fn take_all(&self, wanted: impl Fn(&Entry) -> bool, mut taken: impl FnMut(Entry)) {
        for index in 0..self.cells.load(Acquire) {
            let Some(cell) = self.cell(index) else { continue };
            let key = cell.key.load(Acquire);
            if key > BUSY && wanted(&read(cell)) && cell.key.compare_exchange(key, BUSY, AcqRel, Acquire).is_ok() {
                // Claimed: what it holds now is what is taken, whatever was read before.
                let entry = read(cell);
                if wanted(&entry) {
                    cell.key.store(EMPTY, Release);
                    taken(entry);
                } else {
                    cell.key.store(key, Release);
                }
            }
        }
    }

    /// Visits the cells where `key` may be, until `visit` says that it is done.
    #[inline]
    fn each_cell_of(&self, key: Key, mut visit: impl FnMut(&'static Cell) -> bool) {
        for level in (0..LEVELS.len()).rev() {
            let Some(head) = self.head(level, key) else { continue };
            let mut next = head.load(Acquire);
            // SAFETY: cells are never freed; a chain ends with null.
            while let Some(cell) = unsafe { next.as_ref() } {
                if visit(cell) {
                    return;
                }
                next = cell.next.load(Acquire);
            }
        }
    }

    /// The head of a key's chain in a level that exists.
    #[inline]
    fn head(&self, level: usize, key: Key) -> Option<&'static AtomicPtr<Cell>> {
        let heads = self.levels.get(level)?.load(Acquire);
        if heads.is_null() {
            return None;
        }
        let bucket = key.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - LEVELS.get(level)?);
        // SAFETY: the level has 2^LEVELS[level] heads, and is never freed.
        Some(unsafe { &*heads.add(bucket as usize) })
    }

    /// A cell in the key's chain of the newest level, marked as busy: an empty one, or a new one.
    fn claim_cell(&self, key: Key) -> Option<&'static Cell> {
        let mut level = (0..LEVELS.len()).rev().find(|&level| self.levels.get(level).is_some_and(|heads| !heads.load(Acquire).is_null()));
        if let Some(newest) = level {
            let mut next = self.head(newest, key)?.load(Acquire);
            // SAFETY: cells are never freed; a chain ends with null.
            while let Some(cell) = unsafe { next.as_ref() } {
                if cell.key.load(Relaxed) == EMPTY && cell.key.compare_exchange(EMPTY, BUSY, AcqRel, Relaxed).is_ok() {
                    return Some(cell);
                }
                next = cell.next.load(Acquire);
            }
        }
        let full = level.is_none_or(|newest| self.cells.load(Relaxed) > LOAD << LEVELS.get(newest).copied().unwrap_or(0));
        if full {
            level = self.add_level(level.map_or(0, |newest| newest + 1)).or(level);
        }
        let head = self.head(level?, key)?;
        let cell = self.new_cell()?;
        cell.key.store(BUSY, Relaxed);
        let mut first = head.load(Acquire);
        loop {
            cell.next.store(first, Relaxed);
            match head.compare_exchange(first, core::ptr::from_ref(cell).cast_mut(), AcqRel, Acquire) {
                Ok(_) => return Some(cell),
                Err(other) => first = other,
            }
        }
    }

    /// Makes a level, unless it is there or there is no such level.
    fn add_level(&self, level: usize) -> Option<usize> {
        let bytes = size_of::<AtomicPtr<Cell>>() << LEVELS.get(level)?;
        install(self.levels.get(level)?, bytes).then_some(level)
    }

    /// The next cell that no chain has yet.
    fn new_cell(&self) -> Option<&'static Cell> {
        let index = self.cells.load(Relaxed);
        let (chunk, _) = place(index);
        // Before the number is taken: where memory is short, none is lost.
        install(self.chunks.get(chunk)?, chunk_bytes(chunk));
        let index = self.cells.fetch_add(1, AcqRel);
        let (chunk, _) = place(index);
        install(self.chunks.get(chunk)?, chunk_bytes(chunk));
        self.cell(index)
    }

    /// The cell of a number that was handed out; `None` if its chunk is not there yet.
    fn cell(&self, index: u64) -> Option<&'static Cell> {
        let (chunk, offset) = place(index);
        let cells = self.chunks.get(chunk)?.load(Acquire);
        // SAFETY: a chunk has `chunk_bytes` bytes of zeroed cells, and is never freed.
        (!cells.is_null()).then(|| unsafe { &*cells.add(offset) })
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

/// Chunk and place in it of a cell's number: chunk `k` begins at `(2^k - 1) << FIRST_CHUNK`.
fn place(index: u64) -> (usize, usize) {
    let chunk = ((index >> FIRST_CHUNK) + 1).ilog2();
    let start = ((1_u64 << chunk) - 1) << FIRST_CHUNK;
    (chunk as usize, (index - start) as usize)
}

fn chunk_bytes(chunk: usize) -> usize {
    size_of::<Cell>() << (chunk as u32 + FIRST_CHUNK)
}

/// Fills a pointer that is null with fresh zeroed memory, wiped in a child. `false`: there is none.
fn install<T>(place: &AtomicPtr<T>, bytes: usize) -> bool {
    if !place.load(Acquire).is_null() {
        return true;
    }
    let Ok(fresh) = raw::map_private(bytes) else { return false };
    // In a child the table itself is empty, so nothing leads to this memory; wiping it saves the child the copies.
    let _ = raw::madvise(fresh, bytes, raw::MADV_WIPEONFORK);
    if place.compare_exchange(core::ptr::null_mut(), fresh.cast(), AcqRel, Acquire).is_err() {
        // SAFETY: somebody else's was installed; this one was never seen.
        unsafe { raw::unmap(fresh, bytes) };
    }
    true
}

/// The entry in a cell that the caller has claimed, or whose key and generation it compares afterwards.
fn read(cell: &Cell) -> Entry {
    let (info, counts) = (cell.info.load(Acquire), cell.counts.load(Acquire));
    let field = |shift: u32| (counts >> shift & FIELD) as u32;
    Entry { card: info as u8, kind: (info >> 8) as u8, bytes: cell.bytes.load(Acquire), refs: field(0), uses: field(24) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Counted, Entry, Key, LEVELS, LOAD, Table, place};

    #[test]
    fn cells_are_numbered_without_gaps() {
        let mut wanted = (0, 0);
        for index in 0..5000 {
            let at = place(index);
            assert!(at == wanted || at == (wanted.0 + 1, 0), "{index}: {at:?} after {wanted:?}");
            wanted = (at.0, at.1 + 1);
        }
        assert_eq!(place(0), (0, 0));
    }

    #[test]
    fn behaves_as_a_map() {
        let table = Table::new();
        let mut model = HashMap::new();
        let mut seed = 7_u64;
        for step in 0..200_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = Key::new((seed >> 60) as u8 & 1, 0x7f00_0000_0000 + (seed >> 33) % 3000 * 4096);
            match seed >> 20 & 3 {
                0 | 1 => {
                    let entry = Entry::new(step as u8, (step >> 8) as u8, step);
                    assert_eq!(table.insert(key, entry), Ok(model.insert(key, entry)));
                }
                2 => assert_eq!(table.take(key), model.remove(&key)),
                _ => assert_eq!(table.find(key), model.get(&key).copied()),
            }
        }
        let mut left = 0;
        table.take_all(|_| true, |entry| left += entry.bytes);
        assert_eq!(left, model.values().map(|entry| entry.bytes).sum());
        assert_eq!(table.find(*model.keys().next().unwrap()), None);
    }

    #[test]
    fn grows_without_a_limit_and_reuses_what_was_freed() {
        let table = Table::new();
        let many = (LOAD << LEVELS[1]) + 5000;
        for value in 0..many {
            assert_eq!(table.insert(Key::new(1, value << 12), Entry::new(0, 0, value)), Ok(None));
        }
        for value in 0..many {
            assert_eq!(table.take(Key::new(1, value << 12)).map(|entry| entry.bytes), Some(value));
        }
        let cells = table.cells.load(Ordering::Relaxed);
        for round in 0..4 {
            for value in 0..1000 {
                table.insert(Key::new(1, value << 12), Entry::new(0, 0, round)).unwrap();
                table.take(Key::new(1, value << 12)).unwrap();
            }
        }
        assert!(table.cells.load(Ordering::Relaxed) <= cells + 1000, "freed cells are used again");
    }

    #[test]
    fn a_key_in_use_twice_is_a_stale_one() {
        let table = Table::new();
        let key = Key::new(1, 0x7f00_0000_1000);
        table.insert(key, Entry::new(0, 1, 10)).unwrap();
        assert_eq!(table.insert(key, Entry::new(1, 2, 20)), Ok(Some(Entry::new(0, 1, 10))));
        assert_eq!(table.take(key), Some(Entry::new(1, 2, 20)));
        assert_eq!((table.take(key), table.find(key)), (None, None));
    }

    #[test]
    fn spaces_and_high_bits_tell_keys_apart() {
        let keys = [Key::new(1, 5), Key::new(2, 5), Key::new(1, 5 | 1 << 60), Key::new(1, 5 | 2 << 60), Key::new(0xff, u64::MAX)];
        for (index, key) in keys.iter().enumerate() {
            assert!(key.0 > super::BUSY && !keys[..index].contains(key));
        }
    }

    #[test]
    fn a_counted_entry_goes_with_its_last_reference_or_use() {
        let table = Table::new();
        let key = Key::new(1, 0x5000);
        assert_eq!(table.count(key, 1, 0), Counted::Unknown);
        table.insert(key, Entry::new(0, 1, 10)).unwrap();
        assert_eq!(table.count(key, 1, 0), Counted::Kept(Entry { refs: 2, ..Entry::new(0, 1, 10) }));
        assert_eq!(table.count(key, 0, 1), Counted::Kept(Entry { refs: 2, uses: 1, ..Entry::new(0, 1, 10) }));
        assert!(matches!(table.count(key, -2, 0), Counted::Kept(Entry { refs: 0, uses: 1, .. })));
        assert!(matches!(table.count(key, 0, -1), Counted::Gone(Entry { bytes: 10, .. })));
        assert_eq!(table.count(key, 0, -1), Counted::Unknown);
    }

    #[test]
    fn a_cell_that_is_filled_again_looks_different() {
        let table = Table::new();
        let key = Key::new(1, 0x5000);
        let mut seen = Vec::new();
        for _ in 0..3 {
            table.insert(key, Entry::new(0, 1, 10)).unwrap();
            table.each_cell_of(key, |cell| {
                seen.push(cell.counts.load(Ordering::Relaxed));
                false
            });
            table.take(key).unwrap();
        }
        assert_eq!(table.cells.load(Ordering::Relaxed), 1, "it is one cell");
        assert!(seen[0] != seen[1] && seen[1] != seen[2], "who read the counts before cannot change them after");
    }

    #[test]
    fn of_several_that_take_a_key_one_gets_it() {
        let table = Table::new();
        let (barrier, ready, taken) = (std::sync::Barrier::new(3), AtomicU64::new(0), AtomicU64::new(0));
        let (phases, keys) = (3000, 256);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for phase in 1..=phases {
                        barrier.wait();
                        ready.fetch_add(1, Ordering::AcqRel);
                        (0..20_000).find(|_| {
                            std::hint::spin_loop();
                            ready.load(Ordering::Acquire) == 2 * phase
                        });
                        // Both run through the same keys side by side.
                        let got = (0..keys).filter(|value| table.take(Key::new(1, value << 12)).is_some()).count();
                        taken.fetch_add(got as u64, Ordering::Relaxed);
                        barrier.wait();
                    }
                });
            }
            for _ in 0..phases {
                for value in 0..keys {
                    assert_eq!(table.insert(Key::new(1, value << 12), Entry::new(0, 0, value)), Ok(None));
                }
                barrier.wait();
                barrier.wait();
            }
        });
        assert_eq!(taken.load(Ordering::Relaxed), phases * keys);
    }

    #[test]
    fn threads_lose_and_duplicate_nothing() {
        let table = Table::new();
        let (inserted, taken) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (table, inserted, taken) = (&table, &inserted, &taken);
                scope.spawn(move || {
                    // Each key is inserted by one thread and may be taken by any: what is charged is what is refunded, once.
                    for round in 0..40_000_u64 {
                        let key = Key::new(1, (round * 4 + thread) << 12);
                        inserted.fetch_add(round + 1, Ordering::Relaxed);
                        table.insert(key, Entry::new(0, 0, round + 1)).unwrap();
                        let other = Key::new(1, ((round.saturating_sub(3)) * 4 + (thread + round) % 4) << 12);
                        for key in [other, key] {
                            if let Some(entry) = table.take(key) {
                                taken.fetch_add(entry.bytes, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
        });
        table.take_all(|_| true, |entry| _ = taken.fetch_add(entry.bytes, Ordering::Relaxed));
        assert_eq!(inserted.load(Ordering::Relaxed), taken.load(Ordering::Relaxed));
    }
}
