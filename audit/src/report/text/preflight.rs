//! A preflight as text: the program, what each runtime says of each device, the answer, and why there is none.

use std::io::{self, Write};

use super::{Style, Tone};
use crate::gfx::preflight::ask::Answer;
use crate::gfx::verdict::Verdict;

pub(super) fn write(answer: &Answer, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", style.paint(Tone::Strong, answer.command.join(" ")))?;
    writeln!(out, "  program  {}", answer.program)?;
    let several = answer.devices.len() > 1;
    for candidate in &answer.candidates {
        let release = candidate.release.as_ref().map_or(String::new(), |release| format!(", ROCm {release}"));
        writeln!(out, "  runtime  {}{release} ({})", candidate.runtime, candidate.how)?;
        if let Some(who) = &candidate.changeable {
            writeln!(out, "           as of now: others may change {who}")?;
        }
        let whose = if several { format!(" of {}", candidate.device_from) } else { String::new() };
        writeln!(out, "           {}{whose} {} ({}): {}", candidate.device, paint(candidate.verdict, style), candidate.reason, candidate.message)?;
    }
    for device in &answer.devices {
        let hip = device.hip.map_or(String::new(), |hip| format!(", HIP {}", hip.word()));
        writeln!(out, "  {} {} (ROCr {}{hip}), from {}", device.device, paint(device.verdict, style), device.rocr.word(), device.from)?;
    }
    for unknown in &answer.unknowns {
        writeln!(out, "  {}: {}: {}", unknown.code, unknown.object, unknown.detail)?;
    }
    Ok(())
}

fn paint(verdict: Verdict, style: Style) -> String {
    let tone = match verdict {
        Verdict::Supported => Tone::Good,
        Verdict::Unsupported => Tone::Bad,
        Verdict::Unknown => Tone::Doubtful,
    };
    style.paint(tone, verdict.word())
}
