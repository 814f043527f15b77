//! What the words of a ledger mean; also the shape of the JSON report (`schema_version` 1, keys are only ever added).

use core::ffi::CStr;

use serde::Serialize;
use vrocm_core::card::CardId;
use vrocm_core::ledger::container::Identity;
use vrocm_core::ledger::layout::{BY_DESCRIPTOR, lock};
use vrocm_core::sys::raw::stat;
use vrocm_core::sys::text::Text;

use crate::raw::{Failure, Raw, RawSlot, Source};

/// What is known of a process's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Its lock is held.
    Alive,
    /// Its lock is gone: dead, and what it left is counted until an admission needs the room.
    Stale,
    /// The file system dropped its lock (overlayfs), and its pid namespace is not this one: it may live or not. Admission counts it as alive.
    Unknown,
}

impl State {
    /// The word of reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
        }
    }
}

/// One card; all figures in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Card {
    /// PCI address (`0000:c3:00.0`), UUID (`GPU-…`), or `card N` where the runtime answers neither.
    pub card: String,
    /// The quota that the last admission went by; `null` before the first.
    pub quota: Option<u64>,
    /// Counted against the quota: charges and reservations of all processes, stale ones too.
    pub used: u64,
    /// `quota - used`; `null` without a quota.
    pub free: Option<u64>,
    /// The part of `used` whose driver call has not come back.
    pub in_flight: u64,
    /// The part of `used` that dead processes left: given to whoever needs it.
    pub stale: u64,
    /// Refusals for want of room since the ledger was made.
    pub refusals: u64,
    /// Bytes of dead processes that others reclaimed since then.
    pub reclaimed: u64,
}

/// What a process holds of one card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// The card.
    pub card: String,
    /// Bytes counted against its quota.
    pub bytes: u64,
    /// The part of them whose driver call has not come back.
    pub in_flight: u64,
}

/// One process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its slot in the ledger.
    pub slot: usize,
    /// Its id in its own pid namespace.
    pub pid: u32,
    /// Inode of that namespace; 0: unknown.
    pub pid_namespace: u64,
    /// `true`: `pid` means something here. `false`: it is a number of another namespace. `null`: unknown.
    pub pid_is_of_here: Option<bool>,
    /// Real user id.
    pub uid: u32,
    /// Name, as the kernel has it; control characters escaped.
    pub name: String,
    /// Whether it lives.
    pub state: State,
    /// Calls of interposed entry points.
    pub calls: u64,
    /// Calls that the shim refused.
    pub refused: u64,
    /// Calls that the driver failed.
    pub failed: u64,
    /// What it holds; cards of which it holds nothing are left out.
    pub holds: Vec<Holding>,
    /// Tells two processes in one slot apart.
    #[serde(skip)]
    pub claims: u64,
}

/// The whole ledger at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Version of this shape.
    pub schema_version: u32,
    /// The ledger's path.
    pub path: String,
    /// `false`: processes changed it faster than it could be read; figures may be of instants some microseconds apart.
    pub consistent: bool,
    /// Cards that some process has met.
    pub cards: Vec<Card>,
    /// Processes that have a slot.
    pub processes: Vec<Process>,
}

/// Reads the ledger at `path`.
pub fn take(path: &CStr) -> Result<Snapshot, Failure> {
    let source = Source::open(path)?;
    let reading = source.read()?;
    let here = stat(c"/proc/self/ns/pid").map_or(0, |stat| stat.inode);
    Ok(interpret(path, &reading.raw, reading.consistent, here, |slot| state(&source, slot, here)))
}

/// Turns words into facts. `here`: this process's pid namespace; `state_of` judges a slot.
pub fn interpret(path: &CStr, raw: &Raw, consistent: bool, here: u64, state_of: impl Fn(&RawSlot) -> State) -> Snapshot {
    let names: Vec<String> = raw.cards.iter().map(|card| shown(card.id)).collect();
    let mut cards: Vec<Card> = raw
        .cards
        .iter()
        .zip(&names)
        .map(|(card, name)| Card {
            card: name.clone(),
            quota: (card.quota != 0).then_some(card.quota),
            used: 0,
            free: None,
            in_flight: 0,
            stale: 0,
            refusals: card.refusals,
            reclaimed: card.reclaimed,
        })
        .collect();
    let mut processes = Vec::with_capacity(raw.slots.len());
    for slot in &raw.slots {
        let state = state_of(slot);
        let mut holds = Vec::new();
        for (card, &(bytes, in_flight)) in cards.iter_mut().zip(&slot.cells) {
            // A damaged file may hold any figure.
            card.used = card.used.saturating_add(bytes);
            card.in_flight = card.in_flight.saturating_add(in_flight);
            if state == State::Stale {
                card.stale = card.stale.saturating_add(bytes);
            }
            if bytes != 0 || in_flight != 0 {
                holds.push(Holding { card: card.card.clone(), bytes, in_flight });
            }
        }
        let (calls, refused, failed) = slot.counters;
        processes.push(Process {
            slot: slot.number,
            pid: slot.pid,
            pid_namespace: slot.pid_ns,
            pid_is_of_here: (slot.pid_ns != 0 && here != 0).then_some(slot.pid_ns == here),
            uid: slot.uid,
            name: printable(&slot.name),
            state,
            calls,
            refused,
            failed,
            holds,
            claims: slot.claims,
        });
    }
    for card in &mut cards {
        card.free = card.quota.map(|quota| quota.saturating_sub(card.used));
    }
    Snapshot { schema_version: 1, path: path.to_string_lossy().into_owned(), consistent, cards, processes }
}

fn state(source: &Source, slot: &RawSlot, here: u64) -> State {
    if source.is_locked(lock::slot(slot.number)) {
        return State::Alive;
    }
    if slot.mode != BY_DESCRIPTOR {
        return State::Stale;
    }
    if slot.pid_ns == 0 || here == 0 || slot.pid_ns != here || slot.start == 0 {
        return State::Unknown;
    }
    let identity = Identity { pid: slot.pid, pid_ns: slot.pid_ns, start: slot.start, ..Identity::default() };
    if identity.may_be_alive() { State::Alive } else { State::Stale }
}

fn shown((first, second): (u64, u64)) -> String {
    let mut text = Text::new();
    CardId::from_words(first, second).show(&mut text);
    String::from_utf8_lossy(text.as_bytes()).into_owned()
}

/// A name that any process may have chosen, made safe for a terminal and for one line.
fn printable(name: &[u8]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let text = String::from_utf8_lossy(name.get(..end).unwrap_or_default());
    text.chars().flat_map(|character| if character.is_control() { character.escape_default().collect() } else { vec![character] }).collect()
}
