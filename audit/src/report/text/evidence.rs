//! What the machine code says, as text: how far it could be read, what allocates, then the exports by what was seen of them.

use std::io::{self, Write};

use super::{Style, Tone, plural, write_columns, write_findings};
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
        writeln!(out, "  beneath   {}: {}, {held}", sink.name, plural(sink.at.len(), "call"))?;
    }
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
