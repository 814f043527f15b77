//! Linkage as text: per library what it asks for and where it loads, then what is wrong with it.

use std::io::{self, Write};

use super::{Style, Tone, plural, write_findings};
use crate::finding::{Finding, Severity};
use crate::linkage::{LoadsOn, Subject};

pub(super) fn write(subjects: &[Subject], findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    for subject in subjects {
        write_facts(subject, style, out)?;
        write_systems(&subject.loads_on, style, out)?;
        writeln!(out)?;
        let about = || findings.iter().filter(|finding| finding.file == subject.file);
        write_findings(about(), style, out)?;
        let mut fixes: Vec<&str> = about().filter(|finding| finding.severity == Severity::Deny).map(|finding| finding.check).collect();
        fixes.dedup();
        if !fixes.is_empty() {
            writeln!(out, "\n  what to do: vrocm-audit explain {}", fixes.join("; vrocm-audit explain "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_facts(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let or_none = |list: &[String]| if list.is_empty() { "nothing".into() } else { list.join(" ") };
    writeln!(out, "{}", style.paint(Tone::Strong, &subject.file))?;
    writeln!(out, "  judged as  {}", subject.policy)?;
    writeln!(out, "  is         {}, soname {}", subject.machine, subject.soname.as_deref().unwrap_or("none"))?;
    writeln!(out, "  needs      {}", or_none(&subject.needed))?;
    let floors: Vec<String> = subject.floors.iter().map(|(namespace, number)| format!("{namespace} {number}")).collect();
    writeln!(out, "  floor      {}", or_none(&floors))?;
    writeln!(out, "  symbols    {}, {}", plural(subject.exports.len(), "export"), plural(subject.imports.len(), "import"))
}

/// Systems in one line where it loads everywhere, else those where it does not, each with the reason; equal reasons together.
fn write_systems(systems: &[LoadsOn], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let good = systems.iter().filter(|system| system.outcome == "loads").count();
    let tone = if good == systems.len() { Tone::Good } else { Tone::Doubtful };
    writeln!(out, "  loads on   {}", style.paint(tone, format!("{good} of {} known systems", systems.len())))?;
    let mut reasons: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for system in systems.iter().filter(|system| system.outcome != "loads") {
        let because = system.because.as_deref().unwrap_or("");
        match reasons.iter_mut().find(|(outcome, reason, _)| (*outcome, *reason) == (system.outcome, because)) {
            Some((_, _, names)) => names.push(&system.system),
            None => reasons.push((system.outcome, because, vec![&system.system])),
        }
    }
    for (outcome, because, names) in reasons {
        let reason = if because.is_empty() { String::new() } else { format!(" ({because})") };
        writeln!(out, "    {}{reason}: {}", style.paint(Tone::Bad, outcome), names.join(", "))?;
    }
    Ok(())
}
