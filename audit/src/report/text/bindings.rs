//! Bindings as text: first what slips and what to do, then what cannot be told, what is held, what no relocation shows; the load order last.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{Style, Tone, plural, write_columns};
use crate::bindings::{Binding, Finds, Loaded, Named, Role, Subject, Verdict, checks};
use crate::loader::{How, Linking};

/// Names of one group that are spelled out.
const MOST: usize = 40;

pub(super) fn write(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}{}\n", style.paint(Tone::Strong, &subject.file), style.paint(Tone::Faint, started(subject)))?;
    let slips: Vec<&Binding> = of(subject, Verdict::Slips).collect();
    if !slips.is_empty() {
        writeln!(out, "{}", style.paint(Tone::Bad, format!("slips past the shim ({})", plural(slips.len(), "reference"))))?;
        write_groups(&slips, style, out)?;
        writeln!(out, "    {} {}\n", style.paint(Tone::Strong, "do"), checks::SLIPS.fix)?;
    }
    let unknown: Vec<&Binding> = of(subject, Verdict::Unknown).collect();
    if !unknown.is_empty() {
        writeln!(out, "{}", style.paint(Tone::Doubtful, format!("cannot be told ({})", plural(unknown.len(), "reference"))))?;
        write_groups(&unknown, style, out)?;
        writeln!(out)?;
    }
    let held: Vec<&Binding> = of(subject, Verdict::Held).collect();
    if !held.is_empty() {
        writeln!(out, "{}", style.paint(Tone::Good, format!("held ({})", plural(held.len(), "reference"))))?;
        write_groups(&held, style, out)?;
        writeln!(out)?;
    }
    write_rest(subject, out)?;
    write_unseen(subject, style, out)?;
    write_objects(&subject.objects, style, out)
}

fn of(subject: &Subject, verdict: Verdict) -> impl Iterator<Item = &Binding> {
    subject.bindings.iter().filter(move |binding| binding.verdict == verdict)
}

fn started(subject: &Subject) -> String {
    match (subject.linking, &subject.interpreter) {
        (Linking::Static, _) => "  static: no loader, no preload".into(),
        (_, Some(interpreter)) => format!("  started by {interpreter}"),
        (_, None) => String::new(),
    }
}

/// By object, then by reason: who asks, which names, what they get and why.
fn write_groups(bindings: &[&Binding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let mut groups: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for binding in bindings {
        let version = binding.version.as_ref().map_or(String::new(), |version| format!("@{version}"));
        groups.entry(&binding.from).or_default().entry(&binding.reason).or_default().push(format!("{}{version}", binding.symbol));
    }
    for (from, reasons) in groups {
        writeln!(out, "  {}", style.paint(Tone::Strong, from))?;
        for (reason, names) in reasons {
            writeln!(out, "    {reason}")?;
            write_columns(&names[..names.len().min(MOST)], out)?;
            if names.len() > MOST {
                writeln!(out, "      and {} more (--format json)", names.len() - MOST)?;
            }
        }
    }
    Ok(())
}

/// What need not be held, as a number.
fn write_rest(subject: &Subject, out: &mut dyn Write) -> io::Result<()> {
    let rest = of(subject, Verdict::NotNeeded).count();
    if subject.bindings.is_empty() {
        return writeln!(out, "no object of the process refers to a runtime\n");
    }
    if rest > 0 {
        writeln!(out, "{} that need not be held (--format json lists them)\n", plural(rest, "more reference"))?;
    }
    Ok(())
}

fn write_unseen(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    if subject.unseen.is_empty() && subject.named.is_empty() && subject.unknowns.is_empty() && subject.dropped.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", style.paint(Tone::Doubtful, "what no relocation shows"))?;
    for dropped in &subject.dropped {
        writeln!(out, "  {}: {}: the loader drops this preload and goes on", dropped.name, dropped.problem)?;
    }
    for open in &subject.unknowns {
        writeln!(out, "  {}: {}: {}", open.code, open.object, open.detail)?;
    }
    for unseen in &subject.unseen {
        let tone = if unseen.verdict == Verdict::Slips { Tone::Bad } else { Tone::Doubtful };
        writeln!(out, "  {}\n    {}  {}", style.paint(Tone::Strong, &unseen.object), style.paint(tone, unseen.code), unseen.message)?;
    }
    for named in &subject.named {
        writeln!(out, "  {} names {}: {}", named.object, named.name, found(named))?;
    }
    writeln!(out)
}

fn found(named: &Named) -> String {
    let one = |finds: &Finds| {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        match finds.result {
            "loaded" => format!("is loaded already, as {}", text(&finds.path)),
            "file" => format!("dlopen would find {} ({})", text(&finds.path), text(&finds.detail)),
            "nothing" => "dlopen would find nothing".into(),
            "fails" => format!("dlopen would fail at {}: {}", text(&finds.path), text(&finds.detail)),
            _ => format!("what dlopen would find is not known ({})", text(&finds.detail)),
        }
    };
    named.found.iter().map(one).collect::<Vec<_>>().join(", or ")
}

fn write_objects(objects: &[Loaded], style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", style.paint(Tone::Strong, "load order"))?;
    for (at, object) in objects.iter().enumerate() {
        let role = match &object.role {
            Role::Shim => style.paint(Tone::Good, "  shim"),
            Role::Runtime(family) => style.paint(Tone::Strong, format!("  runtime of {family}")),
            Role::Other => String::new(),
        };
        writeln!(out, "  {:>3}  {}  {}{role}", at + 1, object.path, style.paint(Tone::Faint, rule(object)))?;
    }
    writeln!(out)
}

/// The rule that found an object, without the list that it stands in.
fn rule(object: &Loaded) -> String {
    let word = match object.how {
        How::Program => return "the program".into(),
        How::Interpreter => return "its loader".into(),
        How::Preload => return object.rule.split(',').next().unwrap_or_default().into(),
        How::Path => "named with a path",
        How::Rpath => "RPATH",
        How::LibraryPath => "LD_LIBRARY_PATH",
        How::Runpath => "RUNPATH",
        How::Cache => "ld.so.cache",
        How::Default => "default directory",
    };
    let by = object.needed_by.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    format!("{word}, for {by}")
}
