//! Text for people: counts first, then what is wrong, sorted and aligned, then what to do. It may change; programs read the JSON.

mod bindings;
mod consumers;
mod coverage;
mod diff;
mod evidence;
mod gate;
mod gfx;
mod linkage;
mod preflight;

use std::fmt::Display;
use std::io::{self, Write};

use super::printable::one_line;
use super::{Report, Subjects, Verdict};
use crate::finding::{Finding, Severity};

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// True on a terminal without `NO_COLOR`.
    pub colour: bool,
}

/// What a piece of text stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Bad,
    Doubtful,
    Faint,
    Strong,
}

impl Style {
    fn paint(self, tone: Tone, text: impl Display) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31;1",
            Tone::Doubtful => "33",
            Tone::Faint => "2",
            Tone::Strong => "1",
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn severity(self, severity: Severity) -> String {
        let tone = match severity {
            Severity::Deny => Tone::Bad,
            Severity::Warn => Tone::Doubtful,
            Severity::Note => Tone::Faint,
        };
        self.paint(tone, format!("{:<4}", severity.word()))
    }
}

/// Writes the report.
pub(super) fn write(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    match &report.subjects {
        Subjects::Coverage(subjects) => coverage::write(subjects, &report.findings, style, out)?,
        Subjects::Evidence(subjects) => evidence::write(subjects, &report.findings, style, out)?,
        Subjects::Bindings(subject) => bindings::write(subject, style, out)?,
        Subjects::Consumers { subjects, scanned, shim } => consumers::write(subjects, scanned, shim, style, out)?,
        Subjects::Linkage(subjects) => linkage::write(subjects, &report.findings, style, out)?,
        Subjects::Preflight(answer) => preflight::write(answer, style, out)?,
        Subjects::Gfx { subjects, target } => gfx::write(subjects, target.as_ref(), &report.findings, style, out)?,
        Subjects::Diff(difference) => diff::write(difference, &report.findings, style, out)?,
        Subjects::Gate(parts) => gate::write(parts, &report.findings, style, out)?,
    }
    for file in &report.unread {
        writeln!(out, "{}  {}", style.paint(Tone::Bad, "not audited"), one_line(file))?;
    }
    write_beyond(report, style, out)?;
    write_verdict(report, style, out)
}

/// What nothing above speaks of, however much is held.
fn write_beyond(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let ways: Vec<&str> = report.beyond_preload().iter().map(|way| way.id).collect();
    if ways.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", style.paint(Tone::Faint, format!("no preload closes: {} (vrocm-audit explain beyond-preload)", ways.join(" "))))
}

fn write_verdict(report: &Report, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let counts = format!("{} deny, {} warn, {} note", count(Severity::Deny), count(Severity::Warn), count(Severity::Note));
    let verdict = match report.verdict() {
        _ if !report.unread.is_empty() => style.paint(Tone::Bad, "INCOMPLETE"),
        Verdict::Pass => style.paint(Tone::Good, "PASS"),
        Verdict::Fail => style.paint(Tone::Bad, "FAIL"),
        Verdict::Supported => style.paint(Tone::Good, "SUPPORTED"),
        Verdict::Unsupported => style.paint(Tone::Bad, "UNSUPPORTED"),
        Verdict::Unknown => style.paint(Tone::Doubtful, "UNKNOWN"),
    };
    writeln!(out, "{verdict}  {counts}")
}

/// Findings one a line, the severity first.
fn write_findings<'a>(findings: impl Iterator<Item = &'a Finding>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        writeln!(out, "  {}  {:<18} {}", style.severity(finding.severity), finding.check, one_line(&finding.message))?;
    }
    Ok(())
}

/// `1 export`, `2 exports`.
fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Names in aligned columns, as many as fit into a line.
fn write_columns(names: &[String], out: &mut dyn Write) -> io::Result<()> {
    const WIDTH: usize = 110;
    const INDENT: usize = 6;
    // Padding by the formatter goes through it once for each blank.
    const BLANKS: [u8; WIDTH] = [b' '; WIDTH];
    let column = names.iter().map(String::len).max().unwrap_or(0) + 2;
    for row in names.chunks((WIDTH / column).max(1)) {
        let mut gap = INDENT;
        for name in row {
            out.write_all(&BLANKS[..gap])?;
            out.write_all(name.as_bytes())?;
            gap = column - name.len();
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}
