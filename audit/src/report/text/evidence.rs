//! What the machine code says, as text: how far it could be read, what allocates, then the exports by what was seen of them.

use std::io::{self, Write};

use super::{Style, Tone, plural, write_columns, write_findings};
use crate::evidence::subject::{Beneath, Step};
use crate::evidence::{Export, Subject, Verdict};
use crate::finding::Finding;

pub(super) fn write(subjects: &[Subject], findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    for subject in subjects {
        write_subject(subject, style, out)?;
        write_findings(findings.iter().filter(|finding| finding.file == subject.file), style, out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_subject(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", style.paint(Tone::Strong, &subject.file))?;
    let release = subject.release.map_or("of an unknown release".into(), |release| release.to_string());
    writeln!(out, "  is        {} {release}, {}, {} decoded", subject.family, subject.machine, plural(subject.functions, "function"))?;
    for check in &subject.self_checks {
        let tone = if check.holds { Tone::Good } else { Tone::Bad };
        writeln!(out, "  {:<9} {}: {}", style.paint(tone, if check.holds { "holds" } else { "fails" }), check.name, check.says)?;
    }
    for table in &subject.tables {
        let filled = format!("{} of {} slots filled, {} of {} exports recovered", table.filled, table.slots, table.recovered, table.stubs);
        writeln!(out, "  table     {}", table.refused.as_deref().unwrap_or(&filled))?;
    }
    match (&subject.core, &subject.core_refused) {
        (Some(core), _) => {
            writeln!(out, "  core      {} that allocate, found by the objects of class {}", plural(core.functions.len(), "function"), core.class)?;
            for function in &core.functions {
                let name = function.name.as_ref().map_or(String::new(), |name| format!(" {name},"));
                writeln!(out, "      {:<10}{name} at {}: {}", function.address.to_string(), function.at, function.why)?;
            }
        }
        (None, Some(why)) => writeln!(out, "  core      {}: {why}", style.paint(Tone::Doubtful, "unknown"))?,
        (None, None) => {}
    }
    for sink in &subject.sinks {
        let held = if sink.preload_wins { "bound by name, so that a preload wins it" } else { "not bound by name" };
        let from = plural(sink.reached_from.len(), "export");
        writeln!(out, "  beneath   {}: {}, {held}; ways from {from}", sink.name, plural(sink.at.len(), "call"))?;
    }
    write_followed(subject, out)?;
    for call in &subject.self_calls {
        let places: Vec<String> = call.at.iter().map(ToString::to_string).collect();
        let from = plural(call.reached_from.len(), "export");
        let class = call.class.map_or(String::new(), |class| format!(" ({class})"));
        writeln!(out, "  re-entry  {}{class} through its own PLT at {}, from {from}", call.name, places.join(" "))?;
    }
    if let Some(registry) = &subject.registry {
        let (targets, generics, others) = (registry.targets.len(), registry.generics.len(), registry.mentioned_only.len());
        writeln!(out, "  registry  {}, {}; {others} more names that are not registered", plural(targets, "target"), plural(generics, "generic"))?;
        write_columns(&registry.targets, out)?;
    }
    if let Some(file) = &subject.debug_file {
        writeln!(out, "  names     from {file}")?;
    }
    if subject.single {
        return subject.exports.iter().try_for_each(|export| write_export(export, out));
    }
    let alarmed = |export: &&Export| export.alarm.is_some() && matches!(export.verdict, Verdict::NothingSeen | Verdict::Unknown);
    let alarmed: Vec<String> = subject.exports.iter().filter(alarmed).map(|export| export.name.clone()).collect();
    if !alarmed.is_empty() {
        writeln!(out, "  look at   {} with a function close by that seeds have close by, too: no proof", plural(alarmed.len(), "other export"))?;
        write_columns(&alarmed, out)?;
    }
    for verdict in Verdict::ALL {
        let names: Vec<String> = subject.exports.iter().filter(|export| export.verdict == verdict).map(|export| export.name.clone()).collect();
        writeln!(out, "  {verdict:<18} {} / {} (exports)", names.len(), subject.exports.len(), verdict = verdict.word())?;
        if !matches!(verdict, Verdict::NothingSeen | Verdict::Unknown) && !names.is_empty() {
            write_columns(&names, out)?;
        }
    }
    Ok(())
}

/// How much of what the exports reach beneath is proven, and which rule holds for the rest.
fn write_followed(subject: &Subject, out: &mut dyn Write) -> io::Result<()> {
    let known: Vec<&Beneath> = subject.exports.iter().filter_map(|export| export.beneath.as_ref()).collect();
    if known.is_empty() || subject.single {
        return Ok(());
    }
    let followed = known.iter().filter(|beneath| beneath.followed).count();
    let rest = "the others may reach whatever the runtime imports, so covered-below asks for all of it";
    writeln!(out, "  followed  {followed} / {} (exports with a body) to the last call: what they reach is known; {rest}", known.len())
}

/// All that is known of one export, so that it can be followed with objdump.
fn write_export(export: &Export, out: &mut dyn Write) -> io::Result<()> {
    let class = export.class.map_or("in no manifest".into(), |class| class.to_string());
    writeln!(out, "  {} ({class})  {}: {}", export.name, export.verdict.word(), export.says)?;
    let prototype = export.prototype.as_deref().or(export.internal.as_deref());
    prototype.map_or(Ok(()), |prototype| writeln!(out, "      is        {prototype}"))?;
    let slot = export.slot.map_or(String::new(), |slot| format!(", through slot {slot} of the table"));
    let body = export.body.map_or("not known".into(), |body| body.to_string());
    writeln!(out, "      body      {body}{slot}")?;
    write_path("way", &export.path, out)?;
    let Some(beneath) = &export.beneath else { return Ok(()) };
    for way in &beneath.ways {
        let held = if way.preload_wins { "which a preload wins" } else { "which no relocation binds by name" };
        writeln!(out, "      beneath   {}, {held}:", way.import)?;
        write_path("", &way.path, out)?;
    }
    match beneath.not_followed {
        Some(at) => writeln!(
            out,
            "      beneath   the call at {at} cannot be followed: it may reach every allocating import, and covered-below asks for all of them"
        ),
        None => writeln!(out, "      beneath   every call was followed: it reaches {} and no more", plural(beneath.ways.len(), "allocating import")),
    }
}

fn write_path(head: &str, path: &[Step], out: &mut dyn Write) -> io::Result<()> {
    path.iter().enumerate().try_for_each(|(at, step)| writeln!(out, "      {:<8}  {step}", if at == 0 { head } else { "" }))
}
