//! Consumers as text: what slips and why, what cannot be told and why, then what is held, one line a file; the counts last.

use std::io::{self, Write};

use super::{Style, Tone, plural, write_columns};
use crate::consumers::{Reached, Subject, Verdict};
use crate::report::Scanned;
use crate::report::printable::one_line;

pub(super) fn write(subjects: &[Subject], scanned: &Scanned, shim: &str, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "shim  {shim}\n")?;
    let groups = [
        (Verdict::Slips, Tone::Bad, "slips past the shim"),
        (Verdict::Unknown, Tone::Doubtful, "cannot be told"),
        (Verdict::Held, Tone::Good, "held"),
        (Verdict::Untouched, Tone::Faint, "no runtime in sight"),
    ];
    for (verdict, tone, head) in groups {
        let those: Vec<&Subject> = subjects.iter().filter(|subject| subject.verdict == verdict).collect();
        if those.is_empty() {
            continue;
        }
        writeln!(out, "{}", style.paint(tone, format!("{head} ({})", those.len())))?;
        for subject in those {
            write_file(subject, style, out)?;
        }
        writeln!(out)?;
    }
    let count = |verdict| subjects.iter().filter(|subject| subject.verdict == verdict).count();
    let containers = if scanned.containers > 0 { format!(" ({} opened)", plural(scanned.containers, "container")) } else { String::new() };
    let python = if scanned.python > 0 { format!(", {}", plural(scanned.python, "Python source")) } else { String::new() };
    let touching = subjects.len() - count(Verdict::Untouched);
    writeln!(
        out,
        "{}{containers}, {}{python}: {touching} reach a runtime, {} held, {} slip, {} unknown",
        plural(scanned.files, "file"),
        plural(scanned.elf, "ELF file"),
        count(Verdict::Held),
        count(Verdict::Slips),
        count(Verdict::Unknown)
    )
}

fn write_file(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let runtime = if subject.runtime_of.is_empty() { String::new() } else { format!("  the runtime of {}", subject.runtime_of.join(", ")) };
    writeln!(out, "  {}{}", style.paint(Tone::Strong, one_line(&subject.file)), style.paint(Tone::Faint, format!("{}{runtime}", ways(subject))))?;
    for reason in &subject.reasons {
        writeln!(out, "    {:<18} {}", reason.code, one_line(&reason.message))?;
    }
    if subject.verdict == Verdict::Slips {
        let names: Vec<String> = open(&subject.imports).chain(open(&subject.lookups)).collect();
        if names.len() > 6 {
            write_columns(&names, out)?;
        }
    }
    Ok(())
}

fn open(reached: &[Reached]) -> impl Iterator<Item = String> + '_ {
    reached.iter().filter(|reached| reached.must_interpose && !reached.held).map(|reached| reached.name.clone())
}

/// How a file gets at a runtime, in a few words.
fn ways(subject: &Subject) -> String {
    let mut ways = Vec::new();
    let must = |reached: &[Reached]| reached.iter().filter(|reached| reached.must_interpose).count();
    if !subject.imports.is_empty() {
        ways.push(format!(
            "{} of {}, {} must be held",
            plural(subject.imports.len(), "import"),
            subject.families.join(" and "),
            must(&subject.imports)
        ));
    }
    if !subject.lookups.is_empty() {
        ways.push(format!("{} to look up, {} must be held", plural(subject.lookups.len(), "name"), must(&subject.lookups)));
    }
    if subject.is_static {
        ways.push("static".into());
    }
    if ways.is_empty() { String::new() } else { format!("  {}", ways.join("; ")) }
}
