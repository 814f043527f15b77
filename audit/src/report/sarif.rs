//! SARIF 2.1.0, what code-scanning viewers read. Source: OASIS, Static Analysis Results Interchange Format 2.1.0; GitHub's rules on top of it
//! (a line for every location, fingerprints, rules beside the results).

use std::io::{self, Write};
use std::path::{Component, Path};

use serde_json::{Value, json};

use super::{Checks, Report, fingerprint};
use crate::finding::{Check, Finding, Severity};

/// Where the pages of the checks are, for viewers that show a link.
const PAGES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/checks");

pub(super) fn write(report: &Report, checks: Checks, out: &mut dyn Write) -> io::Result<()> {
    let all = checks();
    let mut rules: Vec<&Check> = all.into_iter().filter(|check| report.findings.iter().any(|finding| finding.check == check.id)).collect();
    rules.sort_by_key(|check| check.id);
    let prints = fingerprint::of(&report.findings);
    let results: Vec<Value> = report.findings.iter().zip(prints).map(|(finding, print)| result(finding, &rules, &print)).collect();
    let notices: Vec<Value> = report.unread.iter().map(|what| json!({"level": "error", "message": {"text": what}})).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": report.program,
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules.iter().map(|check| rule(check, report.subjects.audit())).collect::<Vec<_>>(),
            }},
            "automationDetails": {"id": format!("{}/{}/", report.program, report.subjects.audit())},
            "columnKind": "utf16CodeUnits",
            // A file that was not read is no clean file: the viewer must not show the run as complete.
            "invocations": [{"executionSuccessful": report.unread.is_empty(), "toolExecutionNotifications": notices}],
            "results": results,
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    out.write_all(b"\n")
}

fn rule(check: &Check, audit: &str) -> Value {
    let Check { id, severity, what, why, fix, source } = check;
    let mut rule = json!({
        "id": id,
        "shortDescription": {"text": what},
        "fullDescription": {"text": why},
        "help": {
            "text": format!("{why}\n\nWhat to do: {fix}\n\nSource: {source}"),
            "markdown": format!("{why}\n\n**What to do.** {fix}\n\n**Source.** {source}"),
        },
        "helpUri": format!("{PAGES}/{id}.md"),
        "defaultConfiguration": {"level": level(*severity)},
        "properties": {"tags": [audit], "problem.severity": match severity { Severity::Deny => "error", Severity::Warn => "warning", Severity::Note => "recommendation" }},
    });
    // Of one word it would be the id again, which Microsoft's validator warns of (SARIF1001).
    if id.contains('-') {
        rule["name"] = id.split('-').map(capital).collect::<String>().into();
    }
    rule
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn result(finding: &Finding, rules: &[&Check], print: &str) -> Value {
    let mut location = json!({"physicalLocation": {"artifactLocation": {"uri": uri(&finding.file)}, "region": {"startLine": 1}}});
    if let Some(symbol) = &finding.symbol {
        location["logicalLocations"] = json!([{"name": symbol, "fullyQualifiedName": symbol, "kind": "function"}]);
    }
    let mut result = json!({
        "ruleId": finding.check,
        "level": level(finding.severity),
        "message": {"text": finding.message},
        "locations": [location],
        "partialFingerprints": {"vrocm/v1": print},
        "properties": {"evidence": finding.evidence},
    });
    if let Some(index) = rules.iter().position(|rule| rule.id == finding.check) {
        result["ruleIndex"] = json!(index);
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Deny => "error",
        Severity::Warn => "warning",
        Severity::Note => "note",
    }
}

/// A path as a URI: relative to the working folder where the file lies below it, which is what a viewer resolves against a checkout.
pub(super) fn uri(file: &str) -> String {
    let path = Path::new(file);
    let below = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).map(Path::to_path_buf).ok());
    let path = below.as_deref().unwrap_or(path);
    let mut text = String::from(if path.is_absolute() { "file://" } else { "" });
    let mut first = !path.is_absolute();
    for part in path.components() {
        let part = match part {
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
            Component::ParentDir => "..".into(),
            Component::Normal(name) => name.to_string_lossy(),
        };
        text.push_str(if std::mem::take(&mut first) { "" } else { "/" });
        part.bytes().for_each(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("/opt/rocm lib/a#b.so"), "file:///opt/rocm%20lib/a%23b.so");
        assert_eq!(uri("./target/libx.so"), "target/libx.so");
        assert_eq!(uri("../libx.so.1"), "../libx.so.1");
        assert_eq!(uri("hip 7.2.4 (list: Debian)"), "hip%207.2.4%20%28list%3A%20Debian%29");
        let here = std::env::current_dir().expect("a working folder").join("libx.so");
        assert_eq!(uri(&here.display().to_string()), "libx.so");
    }
}
