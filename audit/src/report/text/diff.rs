//! A difference as text: doors first, then what else is new, gone or moved.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{Style, Tone, gate, plural, write_columns, write_findings};
use crate::coverage::Label;
use crate::diff::manifests::{self, Status};
use crate::diff::runtimes::{self, Counted, Named};
use crate::diff::{Difference, Set, shims};
use crate::finding::{Finding, Severity};
use crate::manifest::Class;

pub(super) fn write(difference: &Difference, findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    match difference {
        Difference::Runtimes(changes) => changes.iter().try_for_each(|change| write_runtimes(change, style, out)),
        Difference::Shims(change) => write_shims(change, style, out),
        Difference::Manifests(change) => write_manifests(change, findings, style, out),
    }
}

fn write_runtimes(change: &runtimes::Change, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let release = |counted: &Counted| counted.release.map_or_else(|| "of unknown release".into(), |release| release.to_string());
    writeln!(out, "{}", style.paint(Tone::Strong, format!("{} {} -> {}", change.family, release(&change.old), release(&change.new))))?;
    for (word, counted) in [("old", &change.old), ("new", &change.new)] {
        let soname = counted.side.soname.as_deref().unwrap_or("no soname");
        writeln!(
            out,
            "  {word}       {} ({soname}): {}, {} must be interposed",
            counted.side.file,
            plural(counted.exports, "export"),
            counted.must_interpose
        )?;
    }
    writeln!(out)?;
    write_doors(change, style, out)?;
    write_named("added", &change.added, style, out)?;
    write_named("removed", &change.removed, style, out)?;
    if !change.reclassified.is_empty() {
        writeln!(out, "  does something else ({})", change.reclassified.len())?;
        for export in &change.reclassified {
            let must = if export.must_interpose { ", must be interposed" } else { "" };
            writeln!(out, "      {}: {} -> {}{must}", export.name, export.old, export.new)?;
        }
    }
    write_set("nodes", &change.nodes, out)?;
    if !change.renoded.is_empty() {
        let of = |export: &runtimes::Renoded| format!("{} ({})", export.name, signed(&export.nodes).join(" "));
        let names: Vec<String> = change.renoded.iter().map(of).collect();
        writeln!(out, "  under other nodes ({})", names.len())?;
        write_columns(&names, out)?;
    }
    write_set("imports", &change.imports, out)?;
    let slots = &change.slots;
    match &slots.because {
        Some(because) => writeln!(out, "  slots     not compared: {because}")?,
        None if slots.old + slots.new == 0 => writeln!(out, "  slots     none: neither has a dispatch table")?,
        None => writeln!(out, "  slots     {} -> {} exports through the dispatch table, {} moved", slots.old, slots.new, slots.moved.len())?,
    }
    for slot in &slots.moved {
        writeln!(out, "      {}: {} -> {}", slot.name, slot.old, slot.new)?;
    }
    if !change.doors.is_empty() {
        writeln!(out, "\n  what to do: vrocm-audit explain {}", change.doors[0].name)?;
    }
    writeln!(out)
}

fn write_doors(change: &runtimes::Change, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let doors = &change.doors;
    if doors.is_empty() {
        writeln!(out, "  new doors {}", style.paint(Tone::Good, "none"))?;
    } else {
        writeln!(out, "  {}", style.paint(Tone::Bad, format!("new doors ({})", doors.len())))?;
    }
    let mut class = None;
    for door in doors {
        if class != Some(door.class) {
            class = Some(door.class);
            writeln!(out, "    {}", style.paint(Tone::Strong, door.class.word()))?;
        }
        let was = door.was.map_or_else(String::new, |was| format!("  was {was}"));
        let label = door.label.map_or_else(String::new, |label| {
            let open = matches!(label, Label::Open | Label::NotBound);
            format!("  {}", style.paint(if open { Tone::Bad } else { Tone::Good }, label.word()))
        });
        writeln!(out, "      {}{was}{label}", door.name)?;
    }
    if !change.doors_gone.is_empty() {
        writeln!(out, "  doors gone ({})", change.doors_gone.len())?;
        write_columns(&change.doors_gone, out)?;
    }
    Ok(())
}

/// Names by class, with the node where there is one.
fn write_named(word: &str, exports: &[Named], style: Style, out: &mut dyn Write) -> io::Result<()> {
    if exports.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {word} ({})", exports.len())?;
    let mut classes: BTreeMap<Option<Class>, Vec<String>> = BTreeMap::new();
    for export in exports {
        let name = if export.nodes.is_empty() { export.name.clone() } else { format!("{}@{}", export.name, export.nodes.join(",")) };
        classes.entry(export.class).or_default().push(name);
    }
    for (class, names) in classes {
        let word = class.map_or_else(|| style.paint(Tone::Bad, "unclassified"), |class| class.word().into());
        writeln!(out, "    {word}")?;
        write_columns(&names, out)?;
    }
    Ok(())
}

fn write_set(word: &str, set: &Set, out: &mut dyn Write) -> io::Result<()> {
    match signed(set).as_slice() {
        [] => Ok(()),
        few if few.len() <= 4 => writeln!(out, "  {word:<9} {}", few.join(" ")),
        many => {
            writeln!(out, "  {word:<9} {} more, {} fewer", set.gained.len(), set.lost.len())?;
            write_columns(many, out)
        }
    }
}

/// `+a`, `+b`, `-c`.
fn signed(set: &Set) -> Vec<String> {
    let signed = |sign: char, names: &[String]| names.iter().map(|name| format!("{sign}{name}")).collect::<Vec<_>>();
    [signed('+', &set.gained), signed('-', &set.lost)].concat()
}

fn write_shims(change: &shims::Change, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", style.paint(Tone::Strong, format!("{} -> {}", change.old.file, change.new.file)))?;
    for (word, names) in [("interposes now", &change.names.gained), ("interposes no longer", &change.names.lost)] {
        if !names.is_empty() {
            writeln!(out, "  {word} ({})", names.len())?;
            write_columns(names, out)?;
        }
    }
    write_set("needs", &change.needed, out)?;
    write_set("requires", &change.requirements, out)?;
    if change.names.is_empty() && change.needed.is_empty() && change.requirements.is_empty() {
        writeln!(out, "  the same names, the same needs")?;
    }
    writeln!(out)?;
    change.doors.iter().try_for_each(|doors| gate::write_change(doors, style, out))?;
    writeln!(out)
}

fn write_manifests(change: &manifests::Change, findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", style.paint(Tone::Strong, format!("{} -> {}", change.old, change.new)))?;
    let (files, same) = (plural(change.files.len(), "file"), change.same);
    writeln!(out, "  {files} {}, {same} the same\n", if change.files.len() == 1 { "differs" } else { "differ" })?;
    for file in &change.files {
        let status = match file.status {
            Status::Changed => "",
            Status::Added => "new: ",
            Status::Removed => "gone: ",
        };
        let name = if file.name.is_empty() { String::new() } else { format!("{}: ", file.name) };
        writeln!(out, "  {status}{name}{}, +{} -{} lines", file.sort.words(), file.lines_added, file.lines_removed)?;
        for judged in &file.judgements {
            let or_none = |words: &Option<String>| words.clone().unwrap_or_else(|| "no judgement".into());
            writeln!(out, "      {}: {} -> {}", judged.name, or_none(&judged.old), or_none(&judged.new))?;
        }
        for line in file.text.lines() {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                _ => Tone::Faint,
            };
            writeln!(out, "{}", style.paint(tone, line))?;
        }
        writeln!(out)?;
    }
    write_findings(findings.iter().filter(|finding| finding.severity > Severity::Note), style, out)
}
