//! What changed between two snapshots: a line each, for a log.

use crate::snapshot::{Card, Process, Snapshot, State};
use crate::text::mib;

/// The changes from `before` to `after`. Without a `before`: everything that there is.
pub fn changes(before: Option<&Snapshot>, after: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for card in &after.cards {
        let old = before.and_then(|before| before.cards.iter().find(|old| old.card == card.card));
        if old.is_none_or(|old| differs(old, card)) {
            lines.push(card_line(card));
        }
    }
    let same = |one: &Process, other: &Process| (one.slot, one.claims, one.pid) == (other.slot, other.claims, other.pid);
    for process in &after.processes {
        let old = before.and_then(|before| before.processes.iter().find(|old| same(old, process)));
        match old {
            None => lines.push(process_line("new", process)),
            Some(old) if old.state != process.state => lines.push(process_line(process.state.word(), process)),
            Some(old) if old.holds != process.holds || old.refused != process.refused => lines.push(process_line("changed", process)),
            Some(_) => {}
        }
    }
    for old in before.map(|before| before.processes.as_slice()).unwrap_or_default() {
        if !after.processes.iter().any(|process| same(old, process)) {
            lines.push(process_line("gone", old));
        }
    }
    lines
}

fn differs(old: &Card, new: &Card) -> bool {
    (old.quota, old.used, old.stale, old.refusals, old.reclaimed) != (new.quota, new.used, new.stale, new.refusals, new.reclaimed)
}

fn card_line(card: &Card) -> String {
    let quota = card.quota.map_or_else(|| "none".to_owned(), mib);
    let free = card.free.map_or_else(|| "unknown".to_owned(), mib);
    let stale = if card.stale == 0 { String::new() } else { format!(", stale {}", mib(card.stale)) };
    format!(
        "card {}: quota {quota}, used {}, free {free}{stale}, refused {}, reclaimed {}",
        card.card,
        mib(card.used),
        card.refusals,
        mib(card.reclaimed)
    )
}

fn process_line(what: &str, process: &Process) -> String {
    let holds: Vec<String> = process.holds.iter().map(|holding| format!("{} of {}", mib(holding.bytes), holding.card)).collect();
    let holds = if holds.is_empty() { "nothing".to_owned() } else { holds.join(", ") };
    let state = if process.state == State::Alive { "holds" } else { "left" };
    format!("process {} ({}) {what}: {state} {holds}, {} calls refused", process.pid, process.name, process.refused)
}
