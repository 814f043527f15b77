//! The ledger: what every process of a container holds of every card, in a file that all of them map.
//!
//! Reading order:
//! 1. [`protocol`]: who is admitted, and why two are never admitted to the same room.
//! 2. [`layout`], [`map`]: where the words are.
//! 3. [`store`]: finding, checking, making and growing the file. [`trouble`]: why it cannot be used.
//! 4. [`container`]: which processes belong together.
//! 5. this file: a process takes a slot, and keeps it for life without a descriptor.
//! 6. [`view`]: reading all of it, for the monitor.
//!
//! A slot belongs to whoever holds the lock on its byte. The lock belongs to the open file, and the *mapping* is what keeps that
//! open: the descriptor is closed at once, so a program that closes or reuses descriptors does no harm, and the kernel drops the
//! lock when the process's memory goes, at death or `exec`, before anybody has waited for it. Measured in `docs/LEDGER.md`.

pub mod container;
pub mod layout;
pub mod map;
pub mod protocol;
pub mod store;
pub mod trouble;
pub mod view;

use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};

use container::Identity;
use layout::{BLOCKS, BY_DESCRIPTOR, BY_MAPPING, CARDS, Cell, Counter, FREE, ROWS, SLOTS_PER_BLOCK, TAKEN, lock};
use map::Map;
use protocol::{Adder, Full, Shared, Sum, Wait, Word};
use store::Store;
use trouble::Trouble;

use crate::card::CardId;
use crate::sys::file::{Fd, read_small};
use crate::sys::private::Zeroed;
use crate::sys::raw;
use crate::sys::thread::Patience;

/// How long a call waits at most for each [`Wait`], in milliseconds.
const BIDS_MS: u64 = 100;
/// As above.
const FLIGHT_MS: u64 = 100;
/// As above.
const DYING_MS: u64 = 3;
/// How long for the lock that decides.
const QUEUE_MS: u64 = 100;
/// How long for the lock on the tables, and for another thread that attaches.
const TABLE_MS: u64 = 2000;

/// What a process knows of its slot; lives in memory that a child sees empty ([`crate::sys::private`]).
#[repr(C)]
pub struct Process {
    state: AtomicU32,
    slot: AtomicU32,
    base: AtomicPtr<u8>,
    path: AtomicPtr<u8>,
    device: AtomicU64,
    inode: AtomicU64,
    /// One more than the descriptor that keeps the lock, where a mapping does not; 0: none.
    descriptor: AtomicI32,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Process {}

const DETACHED: u32 = 0;
const ATTACHING: u32 = 1;
const ATTACHED: u32 = 2;

/// The descriptor of a process whose lock a descriptor keeps, not wiped by `fork`: the child closes its copy.
static KEPT: AtomicI32 = AtomicI32::new(0);
/// From here up a kept descriptor is out of the way of programs that count on low numbers.
const KEPT_FROM: usize = 300;

/// The ledger, attached: this process has a slot.
#[derive(Clone, Copy)]
pub struct Ledger {
    map: Map,
    slot: usize,
    process: &'static Process,
}

/// A card's place in the ledger that it was asked of. Means nothing in a child after `fork`: ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card(u8);

impl Card {
    /// Its number, below 64, to be kept in a word.
    pub fn index(self) -> u8 {
        self.0
    }

    /// From a number that [`Card::index`] gave in this process.
    pub fn from_index(index: u8) -> Self {
        Self(index % CARDS as u8)
    }
}

impl Process {
    /// The ledger, if this process has a slot in it already.
    #[inline]
    pub fn attached(&'static self) -> Option<Ledger> {
        if self.state.load(Acquire) != ATTACHED {
            return None;
        }
        Some(Ledger { map: Map::from_address(self.base.load(Relaxed)), slot: self.slot.load(Relaxed) as usize, process: self })
    }

    /// The ledger at `path`; takes a slot in it on the first call. A failure is not remembered: the next call tries again.
    #[inline]
    pub fn attach(&'static self, path: &'static CStr) -> Result<Ledger, Trouble> {
        match self.attached() {
            Some(ledger) => Ok(ledger),
            None => self.attach_slow(path),
        }
    }

    #[cold]
    fn attach_slow(&'static self, path: &'static CStr) -> Result<Ledger, Trouble> {
        let mut patience = Patience::milliseconds(TABLE_MS);
        while self.state.compare_exchange(DETACHED, ATTACHING, Acquire, Acquire).is_err() {
            if let Some(ledger) = self.attached() {
                return Ok(ledger);
            }
            if !patience.pause() {
                return Err(Trouble::Busy);
            }
        }
        let done = self.take_slot(path);
        self.state.store(if done.is_ok() { ATTACHED } else { DETACHED }, Release);
        done?;
        self.attached().ok_or(Trouble::Busy)
    }

    fn take_slot(&self, path: &'static CStr) -> Result<(), Trouble> {
        if elevated() {
            return Err(Trouble::Elevated);
        }
        let identity = Identity::here();
        if self.take_slot_in(path, &identity, BY_MAPPING)? || self.take_slot_in(path, &identity, BY_DESCRIPTOR)? {
            return Ok(());
        }
        Err(Trouble::LocksUnseen)
    }

    /// `false`: others do not see the lock when it is kept this way.
    fn take_slot_in(&self, path: &'static CStr, identity: &Identity, mode: u32) -> Result<bool, Trouble> {
        let Store { fd, stat } = store::open_or_create(path)?;
        close_inherited(stat.device, stat.inode);
        let map = Map::new(&fd, true).map_err(Trouble::Map)?;
        let claimed = with_table_lock(&fd, || {
            admit_container(map, &fd, identity)?;
            claim(map, &fd, identity, mode)
        });
        let slot = match claimed {
            Ok(slot) => slot,
            Err(trouble) => {
                map.unmap();
                return Err(trouble);
            }
        };
        let kept = if mode == BY_DESCRIPTOR { keep(fd) } else { drop_descriptor(fd) };
        let seen = store::open_again(path, stat.device, stat.inode).and_then(|fd| fd.map_or(Ok(false), |fd| fd.is_locked(lock::slot(slot))));
        if !matches!(seen, Ok(true)) {
            if kept != 0 {
                raw::close(kept - 1);
            }
            map.unmap();
            return seen.map_err(Trouble::Lock);
        }
        KEPT.store(kept, Relaxed);
        self.descriptor.store(kept, Relaxed);
        self.device.store(stat.device, Relaxed);
        self.inode.store(stat.inode, Relaxed);
        self.path.store(path.as_ptr().cast_mut().cast(), Relaxed);
        self.slot.store(slot as u32, Relaxed);
        self.base.store(map.address(), Relaxed);
        Ok(true)
    }

    /// Opens the ledger once more, for a moment's lock: a description of its own, so that threads and children exclude each other.
    fn desk(&self) -> Result<Fd, Trouble> {
        let path = self.path.load(Relaxed);
        // SAFETY: stored from a `&'static CStr` before the process counted as attached.
        let path = unsafe { CStr::from_ptr(path.cast()) };
        store::open_again(path, self.device.load(Relaxed), self.inode.load(Relaxed)).map_err(Trouble::Open)?.ok_or(Trouble::Moved)
    }
}

/// Closes the descriptor: the mapping keeps the file open. Answers "no descriptor".
fn drop_descriptor(fd: Fd) -> i32 {
    drop(fd);
    0
}

/// Moves the descriptor out of the way and keeps it; answers one more than its number.
fn keep(fd: Fd) -> i32 {
    match raw::fcntl(fd.number(), raw::F_DUPFD_CLOEXEC, KEPT_FROM) {
        Ok(number) => number as i32 + 1,
        Err(_) => fd.keep() + 1,
    }
}

/// In a child: closes the copy of the parent's descriptor, which would keep the parent's lock after its death.
fn close_inherited(device: u64, inode: u64) {
    let kept = KEPT.swap(0, Relaxed);
    if kept != 0
        && let Ok(stat) = raw::fstat(kept - 1)
        && (stat.device, stat.inode) == (device, inode)
    {
        raw::close(kept - 1);
    }
}

/// True in a program that runs with more rights than its caller (`AT_SECURE`): its environment is somebody else's.
fn elevated() -> bool {
    const AT_SECURE: u64 = 23;
    let mut buffer = [0_u8; 1024];
    let Ok(bytes) = read_small(c"/proc/self/auxv", &mut buffer) else { return false };
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    while let (Some(kind), Some(value)) = (words.next(), words.next()) {
        if kind == AT_SECURE {
            return value != 0;
        }
    }
    false
}

/// Runs `work` while this open file holds the lock on the tables.
fn with_table_lock<T>(fd: &Fd, work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
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
fn admit_container(map: Map, fd: &Fd, identity: &Identity) -> Result<(), Trouble> {
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
fn claim(map: Map, fd: &Fd, identity: &Identity, mode: u32) -> Result<usize, Trouble> {
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
    if !fd.try_lock(lock::slot(high)).map_err(Trouble::Lock)? {
        // Somebody holds a lock on a byte that no ledger process would lock.
        return Err(Trouble::Busy);
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
        for word in [&cell.bid, &cell.held, &cell.flight] {
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
fn sweep(map: Map, desk: &Fd, slot: usize) {
    if matches!(win(map, desk, slot), Ok(true)) {
        clear(map, slot);
        map.slot(slot).state.store(FREE, SeqCst);
        // Not left to the closing of the descriptor: a child forked meanwhile would have a copy of it.
        desk.unlock(lock::slot(slot));
    }
}

impl Ledger {
    /// The place of a card in this ledger; the first process that meets the card makes one.
    #[inline]
    pub fn card(&self, id: CardId) -> Result<Card, Trouble> {
        match self.find_card(id) {
            Some(card) => Ok(card),
            None => self.add_card(id),
        }
    }

    #[inline]
    fn find_card(&self, id: CardId) -> Option<Card> {
        for index in 0..CARDS {
            let record = self.map.card(index);
            if record.state.load(Acquire) == 0 {
                return None;
            }
            if record.first.load(Relaxed) == id.first && record.second.load(Relaxed) == id.second {
                return Some(Card(index as u8));
            }
        }
        None
    }

    #[cold]
    fn add_card(&self, id: CardId) -> Result<Card, Trouble> {
        let desk = self.process.desk()?;
        with_table_lock(&desk, || {
            if let Some(card) = self.find_card(id) {
                return Ok(card);
            }
            for index in 0..CARDS {
                let record = self.map.card(index);
                if record.state.load(Acquire) == 0 {
                    // Who dies before the last line leaves an entry that is still free.
                    record.first.store(id.first, Relaxed);
                    record.second.store(id.second, Relaxed);
                    record.state.store(1, Release);
                    return Ok(Card(index as u8));
                }
            }
            Err(Trouble::CardsFull)
        })
    }

    /// Visits the cards that some process has met: identity, the quota of the last admission, bytes held.
    pub fn each_card(&self, mut visit: impl FnMut(CardId, u64, u64)) {
        for index in 0..CARDS {
            let record = self.map.card(index);
            if record.state.load(Acquire) == 0 {
                return;
            }
            let id = CardId { first: record.first.load(Relaxed), second: record.second.load(Relaxed) };
            visit(id, record.quota.load(Relaxed), self.used(Card(index as u8)));
        }
    }

    /// Reserves `bytes` of `card`, so that all that live processes hold of it stays within `quota`. Then call the driver, and then
    /// [`Ledger::commit`] or [`Ledger::cancel`] the same number of bytes.
    ///
    /// `mine`: bytes that this thread has in flight already, in an outer call. No lock is held when this returns.
    #[inline]
    pub fn reserve(&self, card: Card, bytes: u64, quota: u64, mine: u64) -> Result<(), Full> {
        let record = self.map.card(card.0.into());
        if record.quota.load(Relaxed) != quota {
            record.quota.store(quota, Relaxed);
        }
        let mut counter = self.counter(card);
        let done = protocol::reserve(&mut counter, self.slot, bytes, quota, mine);
        if done.is_err() {
            record.refusals.fetch_add(1, Relaxed);
        }
        done
    }

    /// The driver gave what was reserved: from now on it is a charge.
    #[inline]
    pub fn commit(&self, card: Card, bytes: u64) {
        protocol::commit(&self.counter(card), self.slot, bytes);
    }

    /// The driver refused, or took less: these bytes of the reservation are not held.
    #[inline]
    pub fn cancel(&self, card: Card, bytes: u64) {
        protocol::cancel(&self.counter(card), self.slot, bytes);
    }

    /// The driver gave more than was reserved: it is charged, whatever the quota says.
    pub fn charge(&self, card: Card, bytes: u64) {
        self.counter(card).add(self.slot, Word::Held, bytes);
    }

    /// The driver took back what was charged.
    #[inline]
    pub fn release(&self, card: Card, bytes: u64) {
        protocol::release(&self.counter(card), self.slot, bytes);
    }

    /// Bytes of the card that live processes hold, reservations included. Sweeps the dead first, where others hold something.
    pub fn used(&self, card: Card) -> u64 {
        let mut counter = self.counter(card);
        let seen = counter.sum().held;
        if seen == self.map.cell(card.0.into(), self.slot).held.load(SeqCst) || !counter.open_desk() {
            return seen;
        }
        for slot in 0..counter.slots() {
            if slot != self.slot && counter.load(slot, Word::Held) != 0 {
                counter.sweep(slot);
            }
        }
        counter.sum().held
    }

    /// Bytes of the card that this process holds.
    pub fn own(&self, card: Card) -> u64 {
        self.map.cell(card.0.into(), self.slot).held.load(SeqCst)
    }

    /// The counters of an entry point in this process; `row` below [`ROWS`].
    #[inline]
    pub fn counters(&self, row: usize) -> &'static Counter {
        // SAFETY: allocated when the slot was taken; the row is cut to the table.
        unsafe { &*self.map.counters(self.slot).add(row % ROWS) }
    }

    /// This process's slot.
    pub fn slot(&self) -> usize {
        self.slot
    }

    #[inline]
    fn counter(&self, card: Card) -> CardCounter {
        CardCounter { map: self.map, card: card.0.into(), process: self.process, desk: None, patience: [None, None, None] }
    }
}

/// One card of the mapped ledger, as the protocol sees it, with what a call in the queue needs.
struct CardCounter {
    map: Map,
    card: usize,
    process: &'static Process,
    desk: Option<Fd>,
    patience: [Option<Patience>; 3],
}

impl CardCounter {
    #[inline]
    fn word(&self, slot: usize, word: Word) -> &'static AtomicU64 {
        let cell: &'static Cell = self.map.cell(self.card, slot);
        match word {
            Word::Bid => &cell.bid,
            Word::Held => &cell.held,
            Word::Flight => &cell.flight,
        }
    }

    /// `false`: no descriptor is left, or the path leads elsewhere by now. Then nobody is swept, and nothing else is lost.
    fn open_desk(&mut self) -> bool {
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
                adder.add(|| cell.bid.load(SeqCst), || cell.held.load(SeqCst));
            }
        }
        adder.sum()
    }

    #[inline]
    fn load(&self, slot: usize, word: Word) -> u64 {
        self.word(slot, word).load(SeqCst)
    }

    #[inline]
    fn add(&self, slot: usize, word: Word, bytes: u64) {
        self.word(slot, word).fetch_add(bytes, SeqCst);
    }

    #[inline]
    fn sub(&self, slot: usize, word: Word, bytes: u64) {
        self.word(slot, word).fetch_sub(bytes, SeqCst);
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

    fn sweep(&mut self, slot: usize) {
        if self.open_desk()
            && let Some(desk) = &self.desk
        {
            sweep(self.map, desk, slot);
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
