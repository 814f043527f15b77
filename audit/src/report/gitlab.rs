//! GitLab's code quality report: the subset of the Code Climate format that GitLab reads. Source: GitLab, "Code Quality report format".

use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Report, fingerprint, sarif};
use crate::finding::Severity;

pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut issues: Vec<Value> = report
        .findings
        .iter()
        .zip(fingerprint::of(&report.findings))
        .map(|(finding, print)| {
            let severity = match finding.severity {
                Severity::Deny => "blocker",
                Severity::Warn => "minor",
                Severity::Note => "info",
            };
            issue(&finding.message, finding.check, &print, severity, &finding.file)
        })
        .collect();
    // What was not read is no clean file.
    issues.extend(report.unread.iter().enumerate().map(|(number, what)| {
        let file = what.split(": ").next().unwrap_or_default();
        issue(what, "not-audited", &format!("{:032x}", number + 1), "blocker", file)
    }));
    serde_json::to_writer_pretty(&mut *out, &issues)?;
    out.write_all(b"\n")
}

fn issue(description: &str, check: &str, print: &str, severity: &str, file: &str) -> Value {
    let path = sarif::uri(file);
    json!({
        "description": description,
        "check_name": check,
        "fingerprint": print,
        "severity": severity,
        "location": {"path": path.strip_prefix("file://").unwrap_or(&path), "lines": {"begin": 1}},
    })
}
