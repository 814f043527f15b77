//! The text format of Prometheus (version 0.0.4), for the textfile collector of `node_exporter` or any scraper.

use crate::snapshot::{Card, Process, Snapshot};

/// A metric with one sample a card: name, kind, help, value.
type CardMetric = (&'static str, &'static str, &'static str, fn(&Card) -> Option<u64>);
/// A metric with one sample a process.
type ProcessMetric = (&'static str, &'static str, &'static str, fn(&Process) -> u64);

const CARDS: &[CardMetric] = &[
    ("vrocm_card_quota_bytes", "gauge", "Memory that the container may hold of the card.", |card| card.quota),
    ("vrocm_card_used_bytes", "gauge", "Memory counted against the quota, reservations and stale charges included.", |card| Some(card.used)),
    ("vrocm_card_free_bytes", "gauge", "Quota less used.", |card| card.free),
    ("vrocm_card_in_flight_bytes", "gauge", "Part of used whose driver call has not come back.", |card| Some(card.in_flight)),
    ("vrocm_card_stale_bytes", "gauge", "Part of used that dead processes left and nobody needed yet.", |card| Some(card.stale)),
    ("vrocm_card_refusals_total", "counter", "Requests refused for want of room.", |card| Some(card.refusals)),
    ("vrocm_card_reclaimed_bytes_total", "counter", "Bytes of dead processes that were reclaimed.", |card| Some(card.reclaimed)),
];

const PROCESSES: &[ProcessMetric] = &[
    ("vrocm_process_calls_total", "counter", "Calls of interposed entry points.", |process| process.calls),
    ("vrocm_process_refused_total", "counter", "Calls that the shim refused.", |process| process.refused),
    ("vrocm_process_failed_total", "counter", "Calls that the driver failed.", |process| process.failed),
];

/// All metrics. A figure that is not known has no sample.
pub fn report(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    head(&mut out, "vrocm_ledger_consistent", "gauge", "1 if all figures are of one instant.");
    out += &format!("vrocm_ledger_consistent {}\n", u8::from(snapshot.consistent));
    for (name, kind, help, value) in CARDS {
        head(&mut out, name, kind, help);
        for (card, value) in snapshot.cards.iter().filter_map(|card| value(card).map(|value| (card, value))) {
            out += &format!("{name}{{card=\"{}\"}} {value}\n", escape(&card.card));
        }
    }
    head(&mut out, "vrocm_process_held_bytes", "gauge", "Memory that a process holds of a card.");
    for process in &snapshot.processes {
        for holding in &process.holds {
            out += &format!("vrocm_process_held_bytes{{card=\"{}\",{}}} {}\n", escape(&holding.card), labels(process), holding.bytes);
        }
    }
    for (name, kind, help, value) in PROCESSES {
        head(&mut out, name, kind, help);
        for process in &snapshot.processes {
            out += &format!("{name}{{{}}} {}\n", labels(process), value(process));
        }
    }
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    *out += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn labels(process: &Process) -> String {
    format!(
        "slot=\"{}\",pid=\"{}\",pid_namespace=\"{}\",name=\"{}\",state=\"{}\"",
        process.slot,
        process.pid,
        process.pid_namespace,
        escape(&process.name),
        process.state.word()
    )
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
