//! GitHub workflow commands: annotations on a run. Source: GitHub, "Workflow commands for GitHub Actions".
//!
//! A step shows ten annotations of a kind and drops the rest, so all findings of a check about a file are one annotation. The step summary is the
//! report in Markdown; [`summary_file`] says where it goes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};

use super::{Report, Verdict};
use crate::finding::{Finding, Severity};

/// Names that one annotation lists.
const SHOWN: usize = 12;

/// The file a step of a workflow writes its summary to.
pub fn summary_file() -> Option<OsString> {
    std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty())
}

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for what in &report.unread {
        writeln!(out, "::error title=not audited::{}", data(what))?;
    }
    let mut groups: BTreeMap<(std::cmp::Reverse<Severity>, &str, &str), Vec<&Finding>> = BTreeMap::new();
    for finding in &report.findings {
        groups.entry((std::cmp::Reverse(finding.severity), finding.file.as_str(), finding.check)).or_default().push(finding);
    }
    for ((severity, file, check), findings) in groups {
        let command = match severity.0 {
            Severity::Deny => "error",
            Severity::Warn => "warning",
            Severity::Note => "notice",
        };
        writeln!(out, "::{command} file={},title={}::{}", property(file), property(check), data(&message(&findings)))?;
    }
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    let verdict = if report.unread.is_empty() { format!("{:?}", report.verdict()).to_lowercase() } else { "incomplete".into() };
    let worst = if matches!(report.verdict(), Verdict::Pass | Verdict::Supported) && report.unread.is_empty() { "notice" } else { "error" };
    let counts = format!("{} deny, {} warn, {} note", count(Severity::Deny), count(Severity::Warn), count(Severity::Note));
    writeln!(out, "::{worst} title={} {}::{verdict}: {counts}", report.program, report.subjects.audit())
}

fn message(findings: &[&Finding]) -> String {
    let [first, rest @ ..] = findings else { return String::new() };
    if rest.is_empty() {
        return first.message.clone();
    }
    let names: Vec<&str> = findings.iter().filter_map(|finding| finding.symbol.as_deref()).collect();
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    let listed = names[..names.len().min(SHOWN)].join(", ");
    format!("{} findings: {listed}{more}\nThe first: {}", findings.len(), first.message)
}

/// The text after `::`.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, where a comma or a colon would end it.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::{data, property};

    #[test]
    fn nothing_in_a_name_can_end_a_command() {
        assert_eq!(data("100%\r\n::error::x"), "100%25%0D%0A::error::x");
        assert_eq!(property("a,b:c\n"), "a%2Cb%3Ac%0A");
    }
}
