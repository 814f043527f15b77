//! Targets as text: per library what it is and what it registers, then the answer for the target that was asked for.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{Style, Tone, plural, write_columns, write_findings};
use crate::finding::Finding;
use crate::gfx::Tier;
use crate::gfx::audit::Subject;
use crate::gfx::identity::Identity;
use crate::gfx::verdict::{Answer, SYMPTOM, SYMPTOM_HIP, Verdict};

pub(super) fn write(subjects: &[Subject], combined: Option<&Answer>, findings: &[Finding], style: Style, out: &mut dyn Write) -> io::Result<()> {
    for subject in subjects {
        write_library(subject, style, out)?;
        let about_this = |finding: &&Finding| finding.file == subject.library.file && finding.symbol.is_none();
        write_findings(findings.iter().filter(about_this), style, out)?;
        if let Some(answer) = &subject.target {
            write_answer(answer, subject.library.identity, style, out)?;
        }
        writeln!(out)?;
    }
    write_findings(findings.iter().filter(|finding| !subjects.iter().any(|subject| subject.library.file == finding.file)), style, out)?;
    if let Some(answer) = combined.filter(|_| subjects.len() > 1) {
        writeln!(out, "together: {} {}: {}", answer.id, paint(answer.verdict, style), answer.message)?;
    }
    Ok(())
}

fn write_library(subject: &Subject, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let library = &subject.library;
    writeln!(out, "{}", style.paint(Tone::Strong, &library.file))?;
    let release = match &library.release {
        Some(release) => format!("ROCm {} ({})", release.version, release.evidence),
        None => "of an unknown release".into(),
    };
    match library.identity {
        Identity::Other => return writeln!(out, "  is       no ROCm runtime: {}", library.what.as_deref().unwrap_or("another library")),
        Identity::Rocr => writeln!(out, "  is       ROCr, the HSA runtime, {release}")?,
        Identity::Hip => writeln!(out, "  is       HIP, on top of ROCr, {release}; a GPU must be known to both")?,
    }
    if library.tier == Tier::Registry {
        writeln!(out, "  knows    {}, read from the registry itself", plural(library.targets.len(), "target"))?;
        let mut by_major: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for target in &library.targets {
            let features = if target.features.is_empty() { String::new() } else { format!(" [{}]", target.features.join(" ")) };
            by_major.entry(target.triple.major).or_default().push(format!("{}{features}", target.id));
        }
        for names in by_major.values() {
            write_columns(names, out)?;
        }
    }
    if !library.generics.is_empty() {
        let names = library.generics.join(" ");
        writeln!(out, "  generics {names}  {}", style.paint(Tone::Faint, "(families of code objects: none makes a GPU appear)"))?;
    }
    if !library.mentioned_only.is_empty() {
        let names = library.mentioned_only.join(" ");
        writeln!(out, "  mentions {names}  {}", style.paint(Tone::Faint, "(names that stand in the file and are not registered)"))?;
    }
    Ok(())
}

fn write_answer(answer: &Answer, identity: Identity, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {} {} ({}): {}", answer.id, paint(answer.verdict, style), answer.reason.word(), answer.message)?;
    if answer.verdict == Verdict::Unsupported {
        let symptom = if identity == Identity::Hip { SYMPTOM_HIP } else { SYMPTOM };
        writeln!(out, "  symptom  {symptom}")?;
        let near = if answer.nearest.is_empty() { String::new() } else { format!("; nearest here: {}", answer.nearest.join(" ")) };
        writeln!(out, "  way out  a ROCm release that knows {}{near}", answer.id)?;
    }
    Ok(())
}

fn paint(verdict: Verdict, style: Style) -> String {
    match verdict {
        Verdict::Supported => style.paint(Tone::Good, "supported"),
        Verdict::Unsupported => style.paint(Tone::Bad, "unsupported"),
        Verdict::Unknown => style.paint(Tone::Doubtful, "unknown"),
    }
}
