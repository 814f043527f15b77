//! Markdown: what a pull request's comment or a step summary shows. The verdict first, then a table of what was audited, then findings by check.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{Checks, Report, Subjects, Verdict};
use crate::coverage::{self, Label};
use crate::diff::shims::Doors;
use crate::finding::{Finding, Severity};

/// Findings of one check that are shown; a step summary may not grow past 1 MiB.
const SHOWN: usize = 200;

pub(super) fn write(report: &Report, checks: Checks, out: &mut dyn Write) -> io::Result<()> {
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let sign = match report.verdict() {
        _ if !report.unread.is_empty() => "❌ incomplete",
        Verdict::Pass => "✅ pass",
        Verdict::Supported => "✅ supported",
        Verdict::Fail => "❌ fail",
        Verdict::Unsupported => "❌ unsupported",
        Verdict::Unknown => "❔ unknown",
    };
    writeln!(out, "## {} {}: {sign}\n", report.program, report.subjects.audit())?;
    writeln!(out, "{} deny, {} warn, {} note\n", count(Severity::Deny), count(Severity::Warn), count(Severity::Note))?;
    for what in &report.unread {
        writeln!(out, "- **not audited**: {}", escape(what))?;
    }
    write_subjects(&report.subjects, out)?;
    let ways: Vec<String> = report.beyond_preload().iter().map(|way| escape(way.id)).collect();
    if !ways.is_empty() {
        writeln!(out, "No preload closes: {} (`vrocm-audit explain beyond-preload`).\n", ways.join(", "))?;
    }
    let all = checks();
    let mut groups: BTreeMap<(std::cmp::Reverse<Severity>, &str), Vec<&Finding>> = BTreeMap::new();
    for finding in &report.findings {
        groups.entry((std::cmp::Reverse(finding.severity), finding.check)).or_default().push(finding);
    }
    for ((severity, check), findings) in groups {
        let open = if severity.0 == Severity::Deny { " open" } else { "" };
        writeln!(out, "<details{open}><summary><b>{}</b> {check} ({})</summary>\n", severity.0.word(), findings.len())?;
        if let Some(check) = all.iter().find(|known| known.id == check) {
            writeln!(out, "{} **What to do:** {}\n", escape(check.why), escape(check.fix))?;
        }
        writeln!(out, "| file | what |\n|---|---|")?;
        for finding in findings.iter().take(SHOWN) {
            let file = finding.file.rsplit('/').next().unwrap_or_default();
            writeln!(out, "| {} | {} |", escape(file), escape(&finding.message))?;
        }
        if findings.len() > SHOWN {
            writeln!(out, "| … | {} more |", findings.len() - SHOWN)?;
        }
        writeln!(out, "\n</details>\n")?;
    }
    Ok(())
}

fn write_subjects(subjects: &Subjects, out: &mut dyn Write) -> io::Result<()> {
    if let Subjects::Gate(gate) = subjects {
        for change in &gate.since {
            write_change(change, out)?;
        }
    }
    if !subjects.coverage().is_empty() {
        return write_coverage(subjects.coverage(), out);
    }
    for file in subjects.files() {
        writeln!(out, "- {}", escape(file))?;
    }
    writeln!(out)
}

/// Which doors a change of the shim opened and closed.
fn write_change(change: &Doors, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Since {}, against {}:\n", escape(&change.old), escape(&change.runtime))?;
    for (what, names) in [("opened", &change.opened), ("closed", &change.closed)] {
        let shown: Vec<String> = names.iter().take(SHOWN).map(|name| escape(name)).collect();
        let more = if names.len() > SHOWN { ", …" } else { "" };
        let list = if shown.is_empty() { String::new() } else { format!(": {}{more}", shown.join(", ")) };
        writeln!(out, "- {what} {}{list}", names.len())?;
    }
    writeln!(out)
}

/// One line per runtime: what must be interposed, and what became of it.
pub(super) fn write_coverage(subjects: &[coverage::Subject], out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "| runtime | exports | must be interposed | held | accepted | open | not bound | unclassified |\n|---|--:|--:|--:|--:|--:|--:|--:|"
    )?;
    for subject in subjects {
        let among = |label: Label| subject.by_class.values().filter_map(|labels| labels.get(&label)).sum::<usize>();
        let release = subject.release.map_or_else(String::new, |release| format!(" {release}"));
        writeln!(
            out,
            "| {}{release} | {} | {} | {} | {} | {} | {} | {} |",
            escape(&subject.family),
            subject.denominators.exports,
            subject.denominators.must_interpose,
            among(Label::Interposed) + among(Label::CoveredBelow),
            among(Label::Accepted),
            subject.labels[&Label::Open],
            subject.labels[&Label::NotBound],
            subject.labels[&Label::Unclassified],
        )?;
    }
    writeln!(out)
}

/// Text that no character of a file name or a symbol turns into markup.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '\n' | '\r' => safe.push(' '),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '~' | '@' => safe.extend(['\\', letter]),
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn no_name_becomes_markup() {
        assert_eq!(escape("a|b<c>\n__d"), "a\\|b&lt;c&gt; \\_\\_d");
        assert_eq!(escape("hipMalloc@hip_4.2"), "hipMalloc\\@hip\\_4.2");
    }
}
