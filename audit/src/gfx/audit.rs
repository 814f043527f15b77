//! The audit: libraries, a target if one is asked for, the environment; findings and one verdict.

use serde::Serialize;

use super::identity::Identity;
use super::override_version::{self, Override};
use super::target::Name;
use super::verdict::{self, Answer, Verdict};
use super::{Library, ScanError, Tier, checks, scan};
use crate::elf::Elf;
use crate::finding::{Finding, Severity};

/// One library as the report shows it.
#[derive(Debug, Serialize)]
pub struct Subject {
    /// What was read.
    #[serde(flatten)]
    pub library: Library,
    /// The answer for the target that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Answer>,
}

/// Scans one library, and judges the target if one is asked for.
pub fn audit(image: &Elf, target: Option<Name>, findings: &mut Vec<Finding>) -> Result<Subject, ScanError> {
    let mut library = scan(image)?;
    let answer = target.map(|name| library.answer(image, name)).transpose()?;
    let file = library.file.as_str();
    match (library.identity, library.tier) {
        (Identity::Other, _) => {
            let what = library.what.as_deref().unwrap_or("another library");
            findings.push(checks::NOT_A_RUNTIME.finding(file, format!("is no ROCm runtime: {what}")));
        }
        (_, Tier::Registry) => {}
        (_, Tier::Mentions | Tier::None) => {
            let why = library.why_no_registry.as_deref().unwrap_or("no reason given");
            findings.push(checks::NO_REGISTRY.finding(file, format!("its registry of targets could not be read: {why}")));
        }
    }
    if let Some(answer) = &answer {
        let check = match answer.verdict {
            Verdict::Supported => None,
            Verdict::Unsupported => Some(&checks::UNSUPPORTED_TARGET),
            Verdict::Unknown => Some(&checks::UNKNOWN_TARGET),
        };
        findings.extend(check.map(|check| {
            check
                .finding(file, answer.message.as_str())
                .symbol(answer.id.as_str())
                .evidence("reason", answer.reason.word())
                .evidence("nearest", answer.nearest.clone())
        }));
    }
    Ok(Subject { library, target: answer })
}

/// One answer for all libraries.
pub fn combined(subjects: &[Subject]) -> Option<Answer> {
    verdict::combine(&subjects.iter().filter_map(|subject| subject.target.clone()).collect::<Vec<_>>())
}

/// Notes about override variables in an environment: what the library would be asked for with them, and whether that crosses a major version.
pub fn note_overrides(environment: impl Iterator<Item = (String, String)>, target: Option<Name>, subjects: &[Subject], findings: &mut Vec<Finding>) {
    let mut variables: Vec<(String, String)> = environment.filter(|(name, _)| override_version::node(name).is_some()).collect();
    variables.sort();
    for (variable, value) in variables {
        let (message, severity) = describe_override(&variable, &value, target, subjects);
        findings.push(checks::OVERRIDE_SET.finding("environment", message).symbol(variable).severity(severity).evidence("value", value));
    }
}

fn describe_override(variable: &str, value: &str, target: Option<Name>, subjects: &[Subject]) -> (String, Severity) {
    let scope = match override_version::node(variable).flatten() {
        Some(node) => format!("KFD node {node}"),
        None => "every device".into(),
    };
    let parsed = match Override::parse(value) {
        Ok(parsed) => parsed,
        Err(bad) => {
            let message =
                format!("{variable}={value} is set and not applied here: {bad}, so the runtime fails to start instead of skipping the device");
            return (message, Severity::Warn);
        }
    };
    let Some(triple) = parsed.triple() else {
        return (format!("{variable}={value} is set and not applied here: it is the version of no target"), Severity::Warn);
    };
    let known: Vec<String> = subjects
        .iter()
        .filter(|subject| subject.library.identity != Identity::Other)
        .map(|subject| {
            let registers = subject.library.targets.iter().any(|registered| registered.triple == triple);
            format!("{} {} {triple}", subject.library.short_name(), if registers { "registers" } else { "does not register" })
        })
        .collect();
    let mut message = format!("{variable}={value} is set and not applied here: with it a workload's {scope} would be taken for {triple}");
    if !known.is_empty() {
        message += &format!("; {}", known.join(", "));
    }
    let mut severity = Severity::Note;
    if let Some(Name::Target(target)) = target
        && let Some(warning) = parsed.warning(target.triple)
    {
        message += &format!("; {warning}");
        severity = Severity::Warn;
    }
    (message, severity)
}
