//! The gate as text: the doors and findings of each audit in short, then one table: shim × runtime, doors per class.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{Style, Tone, plural, write_columns, write_findings};
use crate::diff::shims::Doors;
use crate::finding::{Finding, Severity};
use crate::gate::{Gate, Row};
use crate::manifest::Class;

/// Findings of one check and file that are shown; `coverage` and `linkage` show all.
const SHOWN: usize = 8;

pub(super) fn write(gate: &Gate, findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    write_short(findings, style, out)?;
    for change in &gate.since {
        write_change(change, style, out)?;
    }
    let checked = gate.checked;
    writeln!(
        out,
        "manifests  {} judgements of {} families, {}, {}",
        checked.judgements,
        checked.families,
        plural(checked.lists, "list"),
        plural(checked.acceptances, "acceptance")
    )?;
    for subject in &gate.gfx {
        let library = &subject.library;
        let target = subject.target.as_ref().map_or_else(String::new, |answer| format!(", {} {:?}", answer.id, answer.verdict).to_lowercase());
        writeln!(out, "gfx        {}: {}{target}", library.file, plural(library.targets.len(), "target"))?;
    }
    for subject in &gate.linkage {
        let good = subject.loads_on.iter().filter(|system| system.outcome == "loads").count();
        writeln!(out, "linkage    {}: loads on {good} of {} known systems", subject.file, subject.loads_on.len())?;
    }
    writeln!(out)?;
    write_table(&gate.table, style, out)
}

/// What denies and warns; of many alike the first few, and how to see the rest.
fn write_short(findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut rest = findings;
    while let [first, ..] = rest {
        let alike =
            rest.iter().take_while(|finding| (finding.check, &finding.file, finding.severity) == (first.check, &first.file, first.severity)).count();
        let (group, others) = rest.split_at(alike);
        rest = others;
        if first.severity == Severity::Note {
            continue;
        }
        write_findings(group.iter().take(SHOWN), style, out)?;
        if alike > SHOWN {
            let names: Vec<String> = group[SHOWN..].iter().filter_map(|finding| finding.symbol.clone()).collect();
            writeln!(out, "        and {} more of {}:", alike - SHOWN, first.check)?;
            write_columns(&names, out)?;
        }
    }
    if findings.iter().any(|finding| finding.severity > Severity::Note) {
        writeln!(out)?;
    }
    Ok(())
}

pub(super) fn write_change(change: &Doors, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let opened = plural(change.opened.len(), "door") + " opened";
    let closed = plural(change.closed.len(), "door") + " closed";
    writeln!(out, "since {}: {}: {opened}, {closed}", change.old, change.runtime)?;
    for (tone, sign, names) in [(Tone::Bad, '+', &change.opened), (Tone::Good, '-', &change.closed)] {
        if !names.is_empty() {
            writeln!(out, "  {}", style.paint(tone, format!("{sign} open ({})", names.len())))?;
            write_columns(names, out)?;
        }
    }
    Ok(())
}

fn write_table(rows: &[Row], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let classes: BTreeSet<Class> = rows.iter().flat_map(|row| row.doors.keys().copied()).collect();
    let runtime = |row: &Row| format!("{} {}", row.family, row.release.map_or_else(|| "?".into(), |release| release.to_string()));
    let wide = rows.iter().map(|row| runtime(row).len()).max().unwrap_or(0).max(7);
    let mut shim = "";
    for row in rows {
        if row.shim != shim {
            shim = &row.shim;
            writeln!(out, "{}  open doors per class", style.paint(Tone::Strong, shim))?;
            let heads: String = classes.iter().map(|class| format!("  {:>14}", class.word())).collect();
            writeln!(out, "  {}", style.paint(Tone::Faint, format!("{:<wide$}  exports   must   held  accepted{heads}  unclassified", "runtime")))?;
        }
        write!(out, "  {:<wide$}  {:>7}  {:>5}  {:>5}  {:>8}", runtime(row), row.exports, row.must_interpose, row.held, row.accepted)?;
        for class in &classes {
            match row.doors.get(class) {
                None => write!(out, "  {:>14}", "-")?,
                Some(0) => write!(out, "  {:>14}", 0)?,
                Some(open) => write!(out, "  {}", style.paint(Tone::Bad, format!("{open:>14}")))?,
            }
        }
        writeln!(out, "  {:>12}", row.unclassified)?;
    }
    writeln!(out)
}
