//! What an audit has to say: checks (id, severity, why, fix, source) and their findings.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How much a finding matters. Only `Deny` makes an audit fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Should be looked at; the audit passes.
    Warn,
    /// The audit fails, exit status 1.
    Deny,
}

impl Severity {
    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// A thing that is checked. `explain` and `docs/checks/` read these very texts.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Stable id in lower case with hyphens; names the file of a linkage rule and its page in `docs/checks/`.
    pub id: &'static str,
    /// Severity unless the case at hand or a policy says otherwise.
    pub severity: Severity,
    /// One sentence: what is checked.
    pub what: &'static str,
    /// Why it matters: what happens to the processes of a container.
    pub why: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// Where the rule comes from: specification, source, measurement.
    pub source: &'static str,
}

impl Check {
    /// A finding of this check about a file, with the check's own severity and no evidence yet.
    pub fn finding(&self, file: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding { check: self.id, severity: self.severity, file: file.into(), symbol: None, message: message.into(), evidence: Map::new() }
    }
}

/// The page of a check, `docs/checks/<id>.md`: the same text as `explain`, so that the two cannot drift apart. `paste` are lines to copy, if there are any.
pub fn page(check: &Check, paste: &[String]) -> String {
    let Check { id, severity, what, why, fix, source } = check;
    let severity = severity.word();
    let paste = if paste.is_empty() { String::new() } else { format!("```\n{}\n```\n\n", paste.join("\n")) };
    format!(
        "# {id}\n\n{what}\n\nSeverity: `{severity}`, unless the case at hand or a policy says otherwise.\n\n## Why\n\n{why}\n\n## What to do\n\n{fix}\n\n{paste}## Source\n\n{source}\n"
    )
}

/// One thing found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Id of the check.
    pub check: &'static str,
    /// Severity in this case.
    pub severity: Severity,
    /// The file it is about, as the user named it.
    pub file: String,
    /// The symbol it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// What, where, why it matters, in one or two sentences.
    pub message: String,
    /// Facts behind it, by name.
    pub evidence: Map<String, Value>,
}

impl Finding {
    /// Names the symbol.
    #[must_use]
    pub fn symbol(mut self, symbol: impl Into<String>) -> Self {
        self.symbol = Some(symbol.into());
        self
    }

    /// Sets a severity other than the check's own.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn evidence(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.evidence.insert(name.into(), value.into());
        self
    }
}

/// The order of findings in every report: worst first, then by file, check, symbol and message.
pub fn sort(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        b.severity
            .cmp(&a.severity)
            .then_with(|| a.file.cmp(&b.file))
            .then_with(|| a.check.cmp(b.check))
            .then_with(|| a.symbol.cmp(&b.symbol))
            .then_with(|| a.message.cmp(&b.message))
    });
}

/// True if a finding makes the audit fail.
pub fn any_deny(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.severity == Severity::Deny)
}
