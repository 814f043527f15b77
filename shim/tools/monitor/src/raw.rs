//! The words of a ledger at one instant.
//!
//! Nothing stops the writers, so one pass over the file may mix two instants: bytes that move from one process to another meanwhile are
//! seen twice or not at all. Two passes in a row that read the same have nothing between them that changed; where a word changed and changed back, the
//! entry points' counters, which only grow, tell for processes under the shim. Passes are repeated until two agree, or time is up: then the
//! last one is handed out and says that it is not one instant's.

use core::ffi::CStr;
use core::fmt;
use core::mem::offset_of;
use std::time::{Duration, Instant};

use vrocm_core::ledger::layout::{
    BASE, BLOCKS, Block, CARDS, CardRecord, Cell, Counter, Head, LANES, Lane, ROWS, SLOTS_PER_BLOCK, SlotRecord, TAKEN,
};
use vrocm_core::ledger::store;
use vrocm_core::ledger::trouble::Trouble;
use vrocm_core::sys::file::Fd;
use vrocm_core::sys::raw::{Errno, O_NONBLOCK, O_RDONLY, stat};
use vrocm_core::sys::text::Text;

/// Leaves the time of last access as it is; only the file's owner may ask for it.
const O_NOATIME: i32 = 0o1_000_000;
/// How long to try for two passes that agree.
const PATIENCE: Duration = Duration::from_millis(200);

/// Why there is nothing to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No such file: no process has made a ledger yet. Exit status 1.
    Absent,
    /// Something else, or not to be read. Exit status 2.
    Unreadable(Trouble),
    /// It was cut short while it was read, or a count in it leads behind its end. Exit status 2.
    Cut {
        /// Offset that could not be read.
        offset: u64,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => {
                f.write_str("there is no ledger: no process under libvrocm.so has asked for memory yet, or it goes by another VROCM_LEDGER_PATH")
            }
            Self::Cut { offset } => write!(f, "it ends before offset {offset}, where its own counts lead: damaged, or cut while it was read"),
            Self::Unreadable(Trouble::Open(error)) => write!(f, "it cannot be opened for reading ({} {})", error.name(), error.0),
            Self::Unreadable(trouble) => {
                let mut text = Text::new();
                trouble.show(&mut text);
                let bytes = text.as_bytes();
                f.write_str(&String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(bytes)))
            }
        }
    }
}

/// A card's record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawCard {
    /// Both words of its identity.
    pub id: (u64, u64),
    /// The quota that the last admission went by; 0 before the first.
    pub quota: u64,
    /// Refusals for want of room.
    pub refusals: u64,
    /// Bytes of dead processes that others reclaimed.
    pub reclaimed: u64,
}

/// A slot in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSlot {
    /// Its number.
    pub number: usize,
    /// What keeps its lock.
    pub mode: u32,
    /// Process id in the process's own namespace.
    pub pid: u32,
    /// Real user id.
    pub uid: u32,
    /// Inode of its pid namespace, 0 where unknown.
    pub pid_ns: u64,
    /// Start time in ticks since boot, 0 where unknown.
    pub start: u64,
    /// How often the slot was claimed.
    pub claims: u64,
    /// The process's name.
    pub name: [u8; 16],
    /// Held and in flight, for each card in the order of [`Raw::cards`].
    pub cells: Vec<(u64, u64)>,
    /// Calls, refusals and driver failures, all entry points together.
    pub counters: (u64, u64, u64),
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Raw {
    /// The cards that some process has met.
    pub cards: Vec<RawCard>,
    /// The slots in use.
    pub slots: Vec<RawSlot>,
}

/// A reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The words.
    pub raw: Raw,
    /// Two passes in a row read the same.
    pub consistent: bool,
    /// Passes made.
    pub passes: u32,
}

/// A ledger opened for reading.
pub struct Source {
    fd: Fd,
}

impl Source {
    /// Opens the ledger at `path`.
    pub fn open(path: &CStr) -> Result<Self, Failure> {
        let failure = |error| match error {
            Errno::NOENT | Errno(20) => Failure::Absent,
            error => Failure::Unreadable(Trouble::Open(error)),
        };
        // Looked at before it is opened: opening a pipe or a device may do something.
        if !stat(path).map_err(failure)?.is_regular() {
            return Err(Failure::Unreadable(Trouble::NotAFile));
        }
        let flags = O_RDONLY | O_NONBLOCK;
        let fd = Fd::open(path, flags | O_NOATIME).or_else(|_| Fd::open(path, flags)).map_err(failure)?;
        store::check(&fd).map_err(Failure::Unreadable)?;
        Ok(Self { fd })
    }

    /// True if another open file holds the lock on a byte. Only looked at.
    pub fn is_locked(&self, byte: u64) -> bool {
        // What cannot be asked counts as alive, as the shim has it.
        self.fd.is_locked(byte).unwrap_or(true)
    }

    /// Reads everything, until two passes agree or 200 ms have passed.
    pub fn read(&self) -> Result<Reading, Failure> {
        let started = Instant::now();
        let mut last = self.pass()?;
        let mut passes = 1;
        loop {
            let next = self.pass()?;
            passes += 1;
            let consistent = next == last;
            last = next;
            if consistent || started.elapsed() >= PATIENCE {
                return Ok(Reading { raw: last, consistent, passes });
            }
        }
    }

    fn pass(&self) -> Result<Raw, Failure> {
        let head = Part::read(&self.fd, offset_of!(Head, high), 8)?;
        let high = (head.u32(0) as usize).min(BLOCKS * SLOTS_PER_BLOCK);
        let table = Part::read(&self.fd, size_of::<Head>(), CARDS * size_of::<CardRecord>())?;
        let cards: Vec<RawCard> = (0..CARDS)
            .map(|card| card * size_of::<CardRecord>())
            .take_while(|at| table.u32(at + offset_of!(CardRecord, state)) != 0)
            .map(|at| RawCard {
                id: (table.u64(at + offset_of!(CardRecord, first)), table.u64(at + offset_of!(CardRecord, second))),
                quota: table.u64(at + offset_of!(CardRecord, quota)),
                refusals: table.u64(at + offset_of!(CardRecord, refusals)),
                reclaimed: table.u64(at + offset_of!(CardRecord, reclaimed)),
            })
            .collect();
        let mut slots = Vec::new();
        for block in 0..high.div_ceil(SLOTS_PER_BLOCK) {
            self.read_block(block, high, cards.len(), &mut slots)?;
        }
        Ok(Raw { cards, slots })
    }

    fn read_block(&self, block: usize, high: usize, cards: usize, slots: &mut Vec<RawSlot>) -> Result<(), Failure> {
        let base = BASE + block * size_of::<Block>();
        let records = Part::read(&self.fd, base + offset_of!(Block, slots), SLOTS_PER_BLOCK * size_of::<SlotRecord>())?;
        let first = slots.len();
        for index in (0..SLOTS_PER_BLOCK).take_while(|index| block * SLOTS_PER_BLOCK + index < high) {
            let at = index * size_of::<SlotRecord>();
            if records.u32(at + offset_of!(SlotRecord, state)) == TAKEN {
                slots.push(slot(&records, at, block * SLOTS_PER_BLOCK + index));
            }
        }
        if slots.len() == first {
            return Ok(());
        }
        for card in 0..cards {
            let bytes = SLOTS_PER_BLOCK * size_of::<Cell>();
            let cells = Part::read(&self.fd, base + offset_of!(Block, cells) + card * bytes, bytes)?;
            for slot in slots.iter_mut().skip(first) {
                let at = slot.number % SLOTS_PER_BLOCK * size_of::<Cell>();
                let lanes = (0..LANES).map(|lane| cells.u64(at + offset_of!(Cell, lanes) + lane * size_of::<Lane>() + offset_of!(Lane, flight)));
                let flight = lanes.fold(cells.u64(at + offset_of!(Cell, flight)), u64::wrapping_add);
                slot.cells.push((cells.u64(at + offset_of!(Cell, held)), flight));
            }
        }
        for slot in slots.iter_mut().skip(first) {
            let bytes = ROWS * size_of::<Counter>();
            let counters = Part::read(&self.fd, base + offset_of!(Block, counters) + slot.number % SLOTS_PER_BLOCK * bytes, bytes)?;
            for at in (0..ROWS).map(|row| row * size_of::<Counter>()) {
                let lanes = (0..LANES).map(|lane| counters.u64(at + offset_of!(Counter, lanes) + lane * size_of::<u64>()));
                let calls = lanes.fold(counters.u64(at + offset_of!(Counter, calls)), u64::wrapping_add);
                slot.counters.0 = slot.counters.0.saturating_add(calls);
                slot.counters.1 += u64::from(counters.u32(at + offset_of!(Counter, refused)));
                slot.counters.2 += u64::from(counters.u32(at + offset_of!(Counter, failed)));
            }
        }
        Ok(())
    }
}

fn slot(records: &Part, at: usize, number: usize) -> RawSlot {
    let mut name = [0; 16];
    for (word, part) in name.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&records.u64(at + offset_of!(SlotRecord, name) + 8 * word).to_le_bytes());
    }
    RawSlot {
        number,
        mode: records.u32(at + offset_of!(SlotRecord, mode)),
        pid: records.u32(at + offset_of!(SlotRecord, pid)),
        uid: records.u32(at + offset_of!(SlotRecord, uid)),
        pid_ns: records.u64(at + offset_of!(SlotRecord, pid_ns)),
        start: records.u64(at + offset_of!(SlotRecord, start)),
        claims: records.u64(at + offset_of!(SlotRecord, claims)),
        name,
        cells: Vec::new(),
        counters: (0, 0, 0),
    }
}

/// Some bytes of the file, of a length that does not come from the file.
struct Part(Vec<u8>);

impl Part {
    fn read(fd: &Fd, offset: usize, bytes: usize) -> Result<Self, Failure> {
        let mut buffer = vec![0; bytes];
        let count = fd.read_at(&mut buffer, offset as u64).map_err(|error| Failure::Unreadable(Trouble::Open(error)))?;
        if count < bytes {
            return Err(Failure::Cut { offset: (offset + count) as u64 });
        }
        Ok(Self(buffer))
    }

    fn u64(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }
}
