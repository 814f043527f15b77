//! The one instance in a process: configuration, ledger and key table, and the calls that the wrapper bodies are made of.
//!
//! ```text
//! allocate:  reserve(card, bytes)  →  driver  →  Reserved::commit(key, …)  or  Reserved::cancel()
//! free:      claim(key)            →  driver  →  Claimed::release()        or  Claimed::restore()
//! report:    room(card, total, free)
//! ```
//!
//! Nothing is held between the two halves but a number of bytes: the driver may call back into the shim, other threads go on, a
//! death in between leaves bytes that others reclaim.

use core::ffi::{CStr, c_char};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::card::CardId;
use crate::interpose::credit;
use crate::ledger::layout::{Counter, ROWS};
use crate::ledger::protocol::Full;
use crate::ledger::trouble::Trouble;
use crate::ledger::{Card, Ledger, Process};
use crate::quota::{Config, Figure, Once, Source};
use crate::sys::log::{self, NOTICE, Said};
use crate::sys::private::{Private, Zeroed};
use crate::sys::text::Text;
use crate::table::{Counted, Entry, Key, Table};

unsafe extern "C" {
    /// The environment of the process; null before libc has set it.
    static environ: *const *const c_char;
}

/// What a process has of its own.
#[repr(C)]
pub struct State {
    process: Process,
    table: Table,
    /// What was counted before the process had a slot, or without one.
    counters: [Counter; ROWS],
}

// SAFETY: all parts are: atomics, and null pointers in them.
unsafe impl Zeroed for State {}

static STATE: Private<State> = Private::new();
static CONFIG: Once = Once::new();

/// A card, as a wrapper knows it.
#[derive(Debug, Clone, Copy)]
pub struct CardOf<'a> {
    /// Its identities, at least one; the first is the one it is charged under (the PCI address where there is one).
    pub ids: &'a [CardId],
    /// Its position in the container, not shifted by `HIP_VISIBLE_DEVICES`; `None` where unknown.
    pub position: Option<usize>,
    /// What was found out about it before.
    pub memo: &'a Memo,
}

/// What need not be found out twice about a card. All zeros is an empty one.
#[derive(Debug)]
#[repr(C)]
pub struct Memo {
    /// Its quota; 0: not asked yet, or refused. The configuration never changes.
    quota: AtomicU64,
    /// Its number in the ledger, perhaps: whoever uses it looks whether it is the card's.
    place: AtomicU64,
}

// SAFETY: atomics only.
unsafe impl Zeroed for Memo {}

impl Memo {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { quota: AtomicU64::new(0), place: AtomicU64::new(0) }
    }
}

impl Default for Memo {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no room.
    Full {
        /// Bytes that live processes hold.
        used: u64,
        /// The quota.
        quota: u64,
    },
    /// No variable gives the card a quota.
    NoFigure,
    /// The variable that decides cannot be used.
    BadFigure(Option<Source>),
    /// There is no ledger.
    Ledger(Trouble),
    /// More than 64 bits can say.
    NoSuchSize,
}

/// Reserved bytes, between admission and the driver's answer.
#[must_use = "a reservation that is neither committed nor cancelled is held until the process ends"]
pub struct Reserved {
    /// In a child that was forked meanwhile it has no ledger, and nothing is done.
    process: &'static Process,
    card: Card,
    bytes: u64,
}

/// A key that was taken out of the table before the driver frees it.
#[must_use = "a claimed charge that is neither released nor restored is held until the process ends"]
pub struct Claimed {
    /// What it was charged.
    pub entry: Entry,
    key: Key,
}

/// The configuration; read by the first caller, normally the library's constructor.
pub fn config() -> Option<&'static Config> {
    // SAFETY: libc's own array. Normally read before `main`, while there is one thread.
    unsafe { CONFIG.get(environ) }
}

/// What the library's constructor does: read the configuration. No system call unless level 2 is on.
pub fn start() {
    let Some(config) = config() else { return };
    log::set_level(config.log_level());
    log::line(log::TRACE, |text| {
        text.str("loaded");
    });
    config.each_figure(|source, figure| {
        log::line(log::TRACE, |text| {
            source.show(text);
            match figure {
                Figure::Bytes(bytes) => text.str("=").size(bytes),
                Figure::Unusable | Figure::Unset => text.str(" is not a number of MiB above 0"),
            };
        });
    });
}

/// A variable of the environment as it is now, for what a runtime reads when it starts.
pub fn environment(name: &[u8]) -> Option<&'static [u8]> {
    // SAFETY: libc's own array and strings, which end as C says; null before libc has set them.
    unsafe {
        let mut next = environ;
        while let Some(&entry) = next.as_ref()
            && !entry.is_null()
        {
            if let Some([b'=', value @ ..]) = CStr::from_ptr(entry).to_bytes().strip_prefix(name) {
                return Some(value);
            }
            next = next.add(1);
        }
    }
    None
}

#[inline]
fn quota(card: &CardOf) -> Result<u64, Refusal> {
    match card.memo.quota.load(Relaxed) {
        0 => find_quota(card),
        known => Ok(known),
    }
}

#[cold]
fn find_quota(card: &CardOf) -> Result<u64, Refusal> {
    let Some(config) = config() else { return Err(Refusal::Ledger(Trouble::Busy)) };
    match config.figure(card.ids, card.position) {
        (Figure::Bytes(bytes), _) => {
            card.memo.quota.store(bytes, Relaxed);
            Ok(bytes)
        }
        (Figure::Unset, _) => Err(Refusal::NoFigure),
        (Figure::Unusable, source) => Err(Refusal::BadFigure(source)),
    }
}

#[inline]
fn ledger(card: &CardOf) -> Result<(Ledger, Card), Refusal> {
    known_ledger(card).map_or_else(|| find_ledger(card), Ok)
}

#[inline]
fn known_ledger(card: &CardOf) -> Option<(Ledger, Card)> {
    let ledger = STATE.get()?.process.attached()?;
    let place = ledger.card_at(card.memo.place.load(Relaxed), *card.ids.first()?)?;
    Some((ledger, place))
}

#[cold]
fn find_ledger(card: &CardOf) -> Result<(Ledger, Card), Refusal> {
    let path = config().and_then(Config::ledger_path).ok_or(Refusal::Ledger(Trouble::NoPath))?;
    let state = STATE.get().ok_or(Refusal::Ledger(Trouble::NoMemory))?;
    let ledger = state.process.attach(path).map_err(Refusal::Ledger)?;
    let id = card.ids.first().copied().ok_or(Refusal::NoFigure)?;
    let place = ledger.card(id).map_err(Refusal::Ledger)?;
    card.memo.place.store(place.index().into(), Relaxed);
    Ok((ledger, place))
}

/// The number of a card in the ledger, as reservations carry it. `None`: there is no ledger.
pub fn index(card: &CardOf) -> Option<u8> {
    ledger(card).ok().map(|(_, place)| place.index())
}

/// Reserves `bytes` of a card. A refusal has been said on standard error, where it is the first of its kind.
///
/// `mine`: bytes that this thread has reserved in an outer call whose driver call made this one.
pub fn reserve(card: &CardOf, bytes: u64, mine: u64) -> Result<Reserved, Refusal> {
    let admitted = try_reserve(card, bytes, mine);
    if let Err(refusal) = &admitted {
        say_refusal(card, bytes, refusal);
    }
    admitted
}

/// The same, and nothing is said: the caller has another way, or says it itself ([`say_refusal`]).
#[inline]
pub fn try_reserve(card: &CardOf, bytes: u64, mine: u64) -> Result<Reserved, Refusal> {
    match at_once(card, bytes) {
        Some(reserved) => Ok(reserved),
        None => try_longer(card, bytes, mine),
    }
}

/// The common case: card and ledger are known, and there is room.
#[inline]
fn at_once(card: &CardOf, bytes: u64) -> Option<Reserved> {
    let quota = card.memo.quota.load(Relaxed);
    let (ledger, place) = known_ledger(card)?;
    let admitted = bytes <= quota && ledger.reserve_at_once(place, bytes, quota);
    admitted.then(|| Reserved { process: ledger.process(), card: place, bytes })
}

#[cold]
fn try_longer(card: &CardOf, bytes: u64, mine: u64) -> Result<Reserved, Refusal> {
    let quota = quota(card)?;
    let (ledger, place) = ledger(card)?;
    if bytes > quota {
        // Never bid: so large a number could wrap somebody's sum.
        return Err(Refusal::Full { used: ledger.used(place), quota });
    }
    match ledger.reserve(place, bytes, quota, mine) {
        Ok(()) => Ok(Reserved { process: ledger.process(), card: place, bytes }),
        Err(Full { used }) => Err(Refusal::Full { used, quota }),
    }
}

impl Reserved {
    /// The card's number in the ledger.
    pub fn card(&self) -> u8 {
        self.card.index()
    }

    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes `bytes` of this reservation as charged under `key`, and gives the rest back. More than was reserved is charged as
    /// well: the driver has given it, and the card may then be above its quota, which refuses the next call.
    pub fn commit(self, key: Key, kind: u8, bytes: u64) {
        let Some(ledger) = self.process.attached() else { return };
        if bytes < self.bytes {
            ledger.cancel(self.card, self.bytes - bytes);
        } else if bytes > self.bytes {
            ledger.charge(self.card, bytes - self.bytes);
        }
        ledger.commit(self.card, bytes.min(self.bytes));
        charge_key(ledger, key, Entry::new(self.card.index(), kind, bytes));
    }

    /// Takes all of this reservation as charged, on top of what is charged under `key` already.
    pub fn add(self, key: Key, kind: u8) {
        let (Some(state), Some(ledger)) = (STATE.get(), self.process.attached()) else { return };
        ledger.commit(self.card, self.bytes);
        let mut bytes = self.bytes;
        loop {
            bytes = bytes.saturating_add(state.table.take(key).map_or(0, |entry| entry.bytes));
            match state.table.insert(key, Entry::new(self.card.index(), kind, bytes)) {
                // Somebody put a part in between, and ours took its place: it is added in the next round.
                Ok(Some(between)) => bytes = between.bytes,
                _ => return,
            }
        }
    }

    /// Splits bytes off, for a part that is committed or cancelled on its own. At most what is reserved.
    pub fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { process: self.process, card: self.card, bytes }
    }

    /// Joins two reservations of one card.
    pub fn join(&mut self, Self { bytes, .. }: Self) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// As numbers, to be handed down to the layer beneath in memory that this thread alone uses: the card's index and the bytes.
    pub fn into_parts(self) -> (u8, u64) {
        (self.card.index(), self.bytes)
    }

    /// From numbers that [`Reserved::into_parts`] gave in this process. `None` in a child after `fork`: it has reserved nothing.
    pub fn from_parts(card: u8, bytes: u64) -> Option<Self> {
        let process = &STATE.get()?.process;
        process.attached()?;
        Some(Self { process, card: Card::from_index(card), bytes })
    }

    /// The driver gave nothing.
    pub fn cancel(self) {
        if self.bytes != 0
            && let Some(ledger) = self.process.attached()
        {
            ledger.cancel(self.card, self.bytes);
        }
    }
}

/// Records a charge; what the key was charged before was freed without anybody seeing it, and is refunded.
fn charge_key(ledger: Ledger, key: Key, entry: Entry) {
    if entry.bytes == 0 {
        return;
    }
    if let Some(state) = STATE.get()
        && let Ok(Some(stale)) = state.table.insert(key, entry)
    {
        ledger.release(Card::from_index(stale.card), stale.bytes);
    }
}

/// Takes a key out of the table, before the driver frees it. `None`: nothing was charged for it.
pub fn claim(key: Key) -> Option<Claimed> {
    let entry = STATE.get()?.table.take(key)?;
    Some(Claimed { entry, key })
}

/// What [`count`] did.
#[must_use]
pub enum Count {
    /// Nothing was charged for the key.
    Unknown,
    /// It stays charged.
    Kept,
    /// Both counts came to 0, and it was claimed.
    Gone(Claimed),
}

/// Changes the counts of a key before the driver does; when both come to 0 the key is claimed. If the driver then fails:
/// [`uncount`].
pub fn count(key: Key, refs: i32, uses: i32) -> Count {
    match STATE.get().map(|state| state.table.count(key, refs, uses)) {
        Some(Counted::Gone(entry)) => Count::Gone(Claimed { entry, key }),
        Some(Counted::Kept(_)) => Count::Kept,
        Some(Counted::Unknown) | None => Count::Unknown,
    }
}

/// Takes back what [`count`] has done with the same numbers.
pub fn uncount(counted: Count, key: Key, refs: i32, uses: i32) {
    match counted {
        Count::Unknown => {}
        // Nobody else can bring it to 0 meanwhile but the driver's own order of calls.
        Count::Kept => drop_claim(count(key, -refs, -uses)),
        Count::Gone(mut claimed) => {
            claimed.entry.refs = refs.unsigned_abs();
            claimed.entry.uses = uses.unsigned_abs();
            claimed.restore();
        }
    }
}

/// What came to 0 is given back: somebody else has freed it for good.
pub fn drop_claim(counted: Count) {
    if let Count::Gone(claimed) = counted {
        claimed.release();
    }
}

/// Kind of an entry that is no charge but a note: its bytes are a number that the caller wants back.
const NOTE: u8 = 0xff;

/// Notes a number under a key that nothing is ever charged under.
pub fn note(key: Key, number: u64) {
    if let Some(state) = STATE.get() {
        let _ = state.table.insert(key, Entry::new(0, NOTE, number));
    }
}

/// Takes a note back.
pub fn take_note(key: Key) -> Option<u64> {
    STATE.get()?.table.take(key).map(|entry| entry.bytes)
}

/// Reads a note.
pub fn read_note(key: Key) -> Option<u64> {
    find(key).map(|entry| entry.bytes)
}

/// The entry of a key.
pub fn find(key: Key) -> Option<Entry> {
    STATE.get()?.table.find(key)
}

/// Refunds everything that `wanted` picks: what a reset frees. Call it after the driver has.
pub fn release_all(wanted: impl Fn(&Entry) -> bool) {
    let Some(state) = STATE.get() else { return };
    let Some(ledger) = state.process.attached() else { return };
    state.table.take_all(|entry| entry.kind != NOTE && wanted(entry), |entry| ledger.release(Card::from_index(entry.card), entry.bytes));
}

impl Claimed {
    /// The driver has freed it.
    pub fn release(self) {
        if let Some(ledger) = STATE.get().and_then(|state| state.process.attached()) {
            ledger.release(Card::from_index(self.entry.card), self.entry.bytes);
        }
    }

    /// The driver has not: the charge stays.
    pub fn restore(self) {
        if let Some(state) = STATE.get() {
            let _ = state.table.insert(self.key, self.entry);
        }
    }
}

/// What to report of a card whose driver says `total` and `free` bytes: never more than the card has, nor than can be had.
///
/// A card without a quota, or without a ledger, is refused everything: it reports its size, and nothing free.
pub fn room(card: &CardOf, total: u64, free: u64) -> (u64, u64) {
    let Ok(quota) = quota(card) else { return (total, 0) };
    let Ok((ledger, place)) = ledger(card) else { return (total.min(quota), 0) };
    // What this thread's own call has reserved is there for it: a runtime asks in the middle of an allocation.
    let used = ledger.used(place).saturating_sub(credit::in_flight(place.index()));
    (total.min(quota), free.min(quota.saturating_sub(used)))
}

/// Visits the cards that this process's ledger knows: identity, the quota last used, and what live processes hold. Nothing is
/// made: a process that has no ledger has no cards.
pub fn each_card(visit: impl FnMut(CardId, u64, u64)) {
    if let Some(ledger) = STATE.get().and_then(|state| state.process.attached()) {
        ledger.each_card(visit);
    }
}

/// Counts a call of an entry point. `row`: its number in the table of entry points.
#[inline]
pub fn count_call(row: usize) {
    let Some(state) = STATE.get() else { return };
    if let Some(counter) = counter(state, row) {
        counter.call(state.process.lane());
    }
}

/// Counts a refusal by the shim.
pub fn count_refusal(row: usize) {
    if let Some(counter) = STATE.get().and_then(|state| counter(state, row)) {
        counter.refused.fetch_add(1, Relaxed);
    }
}

/// Counts a failure of the driver, apart from refusals: a driver's out of memory must not look like ours.
pub fn count_failure(row: usize) {
    if let Some(counter) = STATE.get().and_then(|state| counter(state, row)) {
        counter.failed.fetch_add(1, Relaxed);
    }
}

/// Calls, refusals and driver failures of an entry point in this process so far.
pub fn counts(row: usize) -> (u64, u32, u32) {
    let Some(state) = STATE.get() else { return (0, 0, 0) };
    let slot = state.process.attached().map(|ledger| ledger.counters(row));
    let (mut calls, mut refused, mut failed) = (0, 0, 0);
    for counter in [state.counters.get(row), slot].into_iter().flatten() {
        calls += counter.calls();
        refused += counter.refused.load(Relaxed);
        failed += counter.failed.load(Relaxed);
    }
    (calls, refused, failed)
}

/// In the slot, where the monitor sees it; in the process's own memory as long as it has none.
#[inline]
fn counter(state: &'static State, row: usize) -> Option<&'static Counter> {
    state.process.counter(row).or_else(|| state.counters.get(row))
}

/// Says a refusal: one for want of room a few times per process, every other reason once.
pub fn say_refusal(card: &CardOf, bytes: u64, refusal: &Refusal) {
    static ROOM: Said = Said::new();
    static NO_FIGURE: Said = Said::new();
    static BAD_FIGURE: Said = Said::new();
    static LEDGER: Said = Said::new();
    static STRAY: Said = Said::new();
    let (said, times) = match refusal {
        Refusal::Full { .. } | Refusal::NoSuchSize => (&ROOM, 8),
        Refusal::NoFigure => (&NO_FIGURE, 1),
        Refusal::BadFigure(_) => (&BAD_FIGURE, 2),
        Refusal::Ledger(_) => (&LEDGER, 2),
    };
    if !log::enabled(NOTICE) || !said.first(times) {
        return;
    }
    log::line(NOTICE, |text| {
        text.str("refused ").size(bytes).str(" of card ");
        if let Some(id) = card.ids.first() {
            id.show(text);
        }
        text.str(": ");
        show(text, refusal);
    });
    if config().is_some_and(Config::has_stray_name) && STRAY.first(1) {
        log::line(NOTICE, |text| {
            text.str("a variable VROCM_DEVICE_MEMORY_LIMIT_… names neither a position (0 to 63), a PCI address nor a UUID");
        });
    }
}

fn show(text: &mut Text, refusal: &Refusal) {
    match refusal {
        Refusal::Full { used, quota } => {
            text.size(*used).str(" of its quota of ").size(*quota).str(" in use");
        }
        Refusal::NoSuchSize => {
            text.str("no card has as much");
        }
        Refusal::NoFigure => {
            text.str("no VROCM_DEVICE_MEMORY_LIMIT gives it a quota");
        }
        Refusal::BadFigure(Some(source)) => {
            source.show(text);
            text.str(" is not a number of MiB above 0");
        }
        Refusal::BadFigure(None) => {
            text.str("more than 64 variables name cards by address");
        }
        Refusal::Ledger(trouble) => {
            text.str("ledger ");
            if let Some(path) = config().and_then(Config::ledger_path) {
                text.foreign(path.to_bytes());
            }
            trouble.show(text.str(": "));
        }
    }
}
