//! The report for people: a line a card with a bar, a line a process.

use crate::snapshot::{Card, Process, Snapshot, State};

const MIB: f64 = 1_048_576.0;
/// Cells of a bar.
const BAR: u64 = 24;

/// How to print.
#[derive(Debug, Clone, Copy, Default)]
pub struct Style {
    /// With the terminal's colours.
    pub colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The whole report, ending in a line break.
pub fn report(snapshot: &Snapshot, style: Style) -> String {
    let mut out = format!("ledger {}  cards {}  processes {}\n", snapshot.path, snapshot.cards.len(), snapshot.processes.len());
    if !snapshot.consistent {
        out += "  changing faster than it can be read: the figures may be some microseconds apart\n";
    }
    if snapshot.cards.is_empty() {
        out += "  no process has asked for memory of a card yet\n";
    }
    for card in &snapshot.cards {
        out += &card_lines(card, style);
        for process in &snapshot.processes {
            if let Some(holding) = process.holds.iter().find(|holding| holding.card == card.card) {
                let flight = if holding.in_flight == 0 { String::new() } else { format!("  ({} in the driver)", mib(holding.in_flight)) };
                out += &format!("  {:>12}  {}{flight}\n", mib(holding.bytes), who(process, style));
            }
        }
    }
    let idle: Vec<&Process> = snapshot.processes.iter().filter(|process| process.holds.is_empty()).collect();
    if !idle.is_empty() {
        out += "holding nothing\n";
        for process in idle {
            out += &format!("  {:>12}  {}\n", "-", who(process, style));
        }
    }
    out + &cannot_know(snapshot)
}

fn card_lines(card: &Card, style: Style) -> String {
    let mut out = match card.quota {
        Some(quota) => {
            let over = card.used > quota;
            let code = if over {
                "31"
            } else if card.used.saturating_mul(10) >= quota.saturating_mul(9) {
                "33"
            } else {
                "32"
            };
            format!(
                "card {}  quota {}  used {}  free {}  {}{}\n",
                style.paint("1", &card.card),
                mib(quota),
                mib(card.used),
                mib(card.free.unwrap_or(0)),
                style.paint(code, &bar(card.used, quota)),
                if over { "  OVER THE QUOTA: it was lowered, or the driver gave more than was asked for" } else { "" },
            )
        }
        None => format!("card {}  no quota yet  used {}\n", style.paint("1", &card.card), mib(card.used)),
    };
    let mut more = Vec::new();
    if card.stale != 0 {
        more.push(style.paint("33", &format!("{} left by dead processes, reclaimed when somebody needs it", mib(card.stale))));
    }
    if card.refusals != 0 {
        more.push(format!("{} refused so far", card.refusals));
    }
    if card.reclaimed != 0 {
        more.push(format!("{} reclaimed so far", mib(card.reclaimed)));
    }
    if !more.is_empty() {
        out += &format!("  {}\n", more.join(", "));
    }
    out
}

/// `[######..........]`, full only when nothing is left.
fn bar(used: u64, quota: u64) -> String {
    let full = (u128::from(used.min(quota)) * u128::from(BAR) / u128::from(quota.max(1))) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR as usize - full))
}

fn who(process: &Process, style: Style) -> String {
    let of = match process.pid_is_of_here {
        Some(true) => String::new(),
        Some(false) => format!(" of pid namespace {}", process.pid_namespace),
        None => " of an unknown pid namespace".to_owned(),
    };
    let state = match process.state {
        State::Alive => String::new(),
        State::Stale => format!("  {}", style.paint("33", "STALE")),
        State::Unknown => format!("  {}", style.paint("33", "alive or dead: unknown")),
    };
    let refused = if process.refused == 0 { String::new() } else { format!("  {} calls refused", process.refused) };
    format!("pid {}{of}  {}  uid {}{state}{refused}", process.pid, process.name, process.uid)
}

fn cannot_know(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    if snapshot.processes.iter().any(|process| process.pid_is_of_here != Some(true)) {
        out += "note: process ids of another pid namespace mean nothing here; nsenter, or the host's /proc/*/status (NSpid), translates them\n";
    }
    if snapshot.processes.iter().any(|process| process.state == State::Unknown) {
        out += "note: this file system drops a process's lock, so of another pid namespace nobody can tell who is dead; put the ledger on tmpfs\n";
    }
    out
}

/// MiB with one digit, or whole ones where it is whole.
pub fn mib(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "printed with one digit")]
    let value = bytes as f64 / MIB;
    if bytes.is_multiple_of(1 << 20) { format!("{value:.0} MiB") } else { format!("{value:.1} MiB") }
}
