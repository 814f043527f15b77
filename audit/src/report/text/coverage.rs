//! Coverage as text: per runtime a table of what must be interposed by class, then the open doors, then the rest.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use super::{Style, Tone, plural, write_columns, write_findings};
use crate::coverage::{Export, Label, Subject};
use crate::finding::Finding;
use crate::manifest::Class;

/// Columns of the table: labels that an export which must be interposed can carry.
const COLUMNS: [Label; 5] = [Label::Interposed, Label::CoveredBelow, Label::Accepted, Label::NotBound, Label::Open];

pub(super) fn write(subjects: &[Subject], findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    for subject in subjects {
        write_head(subject, style, out)?;
        write_table(subject, style, out)?;
        write_doors(subject, style, out)?;
        write_rest(subject, findings, style, out)?;
        writeln!(out)?;
    }
    let about_no_runtime = |finding: &&Finding| !subjects.iter().any(|subject| subject.file == finding.file);
    write_findings(findings.iter().filter(about_no_runtime), style, out)?;
    if subjects.iter().any(|subject| subject.labels[&Label::Open] > 0) {
        writeln!(
            out,
            "To close a door, interpose the export; to leave it open on purpose, give --accept a file that says why.\n\
             `vrocm-audit explain EXPORT` shows what an export does and how that is known."
        )?;
    }
    Ok(())
}

fn write_head(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let release = subject.release.map_or_else(|| "of unknown release".into(), |release| release.to_string());
    writeln!(out, "{}", style.paint(Tone::Strong, &subject.file))?;
    writeln!(out, "  runtime  {} {release} ({})", subject.family, subject.release_evidence)?;
    writeln!(out, "  shim     {}", subject.shim)?;
    let counts = subject.denominators;
    let held: usize = subject.by_class.values().map(held).sum();
    writeln!(
        out,
        "  doors    {} exported functions, {} must be interposed: {held} / {} (must_interpose) held\n",
        counts.exports, counts.must_interpose, counts.must_interpose
    )
}

fn held(labels: &BTreeMap<Label, usize>) -> usize {
    [Label::Interposed, Label::CoveredBelow].iter().filter_map(|label| labels.get(label)).sum()
}

fn write_table(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let heads: String = COLUMNS.iter().map(|label| format!("  {:>13}", label.word())).collect();
    writeln!(out, "  {}", style.paint(Tone::Faint, format!("{:<16}{:>6}{heads}", "class", "must")))?;
    for class in Class::ALL {
        let Some(labels) = subject.by_class.get(&class) else { continue };
        let total: usize = labels.values().sum();
        write!(out, "  {:<16}{total:>6}", class.word())?;
        for label in COLUMNS {
            let count = labels.get(&label).copied().unwrap_or(0);
            let tone = match label {
                _ if count == 0 => Tone::Faint,
                Label::Interposed | Label::CoveredBelow => Tone::Good,
                Label::Open | Label::NotBound => Tone::Bad,
                _ => Tone::Doubtful,
            };
            write!(out, "  {}", style.paint(tone, format!("{count:>13}")))?;
        }
        writeln!(out)?;
    }
    let others = [Label::OutOfScope, Label::Unclassified, Label::Accepted].map(|label| {
        let all = subject.labels[&label];
        let shown: usize = subject.by_class.values().filter_map(|labels| labels.get(&label)).sum();
        (label, all - shown)
    });
    let rest: Vec<String> = others.iter().filter(|(_, count)| *count > 0).map(|(label, count)| format!("{count} {}", label.word())).collect();
    let interposed =
        subject.labels[&Label::Interposed] - subject.by_class.values().filter_map(|labels| labels.get(&Label::Interposed)).sum::<usize>();
    let also = if interposed > 0 { format!(", {interposed} interposed without need") } else { String::new() };
    writeln!(out, "  the other exports: {}{also}\n", if rest.is_empty() { "none".into() } else { rest.join(", ") })
}

/// Everything that needs somebody's hand, by label and class, with version node.
fn write_doors(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    for (label, tone) in [(Label::Unclassified, Tone::Bad), (Label::NotBound, Tone::Bad), (Label::Open, Tone::Bad), (Label::Accepted, Tone::Doubtful)]
    {
        let mut exports: Vec<&Export> = subject.exports.iter().filter(|export| export.label == label).collect();
        if exports.is_empty() {
            continue;
        }
        exports.sort_by_key(|export| export.class);
        writeln!(out, "  {}", style.paint(tone, format!("{} ({})", label.word(), exports.len())))?;
        let mut class = None;
        let mut reason = "";
        let mut names: Vec<String> = Vec::new();
        for export in exports {
            if export.class != class || *export.reason != *reason {
                write_columns(&std::mem::take(&mut names), out)?;
                class = export.class;
                reason = &export.reason;
                let name = class.map_or("no class", Class::word);
                writeln!(out, "    {}  {}", style.paint(Tone::Strong, name), style.paint(Tone::Faint, reason_without(reason, name)))?;
            }
            names.push(match &export.node {
                Some(node) if label != Label::Accepted => [&*export.name, "@", node].concat(),
                _ => export.name.to_string(),
            });
        }
        write_columns(&names, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// The reason without the class it repeats.
fn reason_without<'a>(reason: &'a str, class: &str) -> &'a str {
    reason.strip_prefix(class).map_or(reason, |rest| rest.trim_start_matches(": "))
}

fn write_rest(subject: &Subject, findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    if let Some(because) = subject.beneath.because.as_deref().filter(|_| subject.beneath.family.is_some()) {
        writeln!(out, "  beneath   nothing is covered below: {because}")?;
    } else if subject.beneath.holds() {
        writeln!(out, "  beneath   held at {}", plural(subject.beneath.held.len(), "import"))?;
    }
    if !subject.reentry.is_empty() {
        writeln!(out, "  re-entry  the runtime calls {} of its own through the PLT: {}", subject.reentry.len(), subject.reentry.join(" "))?;
    }
    if let Some(new) = &subject.new_since {
        // The exports are sorted by name.
        let export = |name: &str| subject.exports.binary_search_by(|export| (*export.name).cmp(name)).ok().map(|at| &subject.exports[at]);
        let must = |name: &&Arc<str>| export(name).is_some_and(|export| export.must_interpose);
        let doors: Vec<&str> = new.exports.iter().filter(must).map(|name| &**name).collect();
        let tail = if doors.is_empty() { String::new() } else { format!(": {}", doors.join(" ")) };
        writeln!(out, "  new       {} since {}, {} of them must be interposed{tail}", plural(new.exports.len(), "export"), new.release, doors.len())?;
    }
    if !subject.absent.is_empty() {
        writeln!(
            out,
            "  absent    {} of the shim's that this runtime does not export: {}",
            plural(subject.absent.len(), "name"),
            subject.absent.join(" ")
        )?;
    }
    let shown = ["open-door", "unclassified", "not-bound", "reentry", "absent-name"];
    let mut others = findings.iter().filter(|finding| finding.file == subject.file && !shown.contains(&finding.check)).peekable();
    if others.peek().is_some() {
        writeln!(out)?;
    }
    write_findings(others, style, out)
}
