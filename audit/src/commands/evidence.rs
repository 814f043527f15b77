//! `vrocm-audit evidence`.

use std::path::Path;
use std::process::ExitCode;

use super::{Result, coverage, deliver, inputs};
use crate::cli::Evidence;
use crate::coverage::{Runtime, checks as coverage_checks};
use crate::elf::Elf;
use crate::evidence::audit::Known;
use crate::evidence::{self, Subject, checks};
use crate::finding::Finding;
use crate::manifest::{ClassTable, Family};
use crate::report::{Report, Subjects};

pub(super) fn run(arguments: &Evidence) -> Result<ExitCode> {
    let families = coverage::families(&arguments.manifests)?;
    let table = ClassTable::embedded()?;
    let prefixes: Vec<&str> = families.iter().map(|family| family.identity.soname_prefix.as_str()).collect();
    let (mut findings, mut subjects, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for path in inputs::expand(&arguments.runtimes, &prefixes)? {
        match read(&path, &families, &table, &mut findings) {
            Ok(subject) => subjects.push(subject),
            Err(error) => unread.push(format!("{error:#}")),
        }
    }
    deliver(Report::new("vrocm-audit", Subjects::Evidence(subjects), findings, unread), arguments.format)
}

/// What the code says of exports that no manifest knows, and where it contradicts the manifest: for builds that nobody has seen. The code of known
/// builds was held against the manifest when their judgements were made, and tests do so again.
pub(super) fn weigh(runtimes: &[Runtime<'_>], families: &[Family], table: &ClassTable, findings: &mut Vec<Finding>) {
    for runtime in runtimes {
        let known = |id: &str| runtime.family.builds.iter().any(|build| build.build_id == id);
        if runtime.build_id.as_deref().is_some_and(known) {
            continue;
        }
        let mut own = Vec::new();
        match read(Path::new(&runtime.file), families, table, &mut own) {
            Ok(subject) => {
                findings.extend(own.into_iter().filter(|finding| finding.check == checks::CLASS_CONTRADICTED.id));
                findings.iter_mut().filter(|finding| finding.file == subject.file).for_each(|finding| add(finding, &subject));
            }
            Err(error) => findings.push(checks::NO_EVIDENCE.finding(&runtime.file, format!("the machine code could not be read: {error:#}"))),
        }
    }
}

/// Adds what the code says to the finding about an export that no manifest knows.
fn add(finding: &mut Finding, subject: &Subject) {
    let about = finding.symbol.as_deref().filter(|_| finding.check == coverage_checks::UNCLASSIFIED.id);
    let Some(export) = about.and_then(|name| subject.exports.iter().find(|export| export.name == name)) else { return };
    let body = export.body.map_or(String::new(), |body| format!(" (body {body})"));
    finding.message += &format!("; its machine code{body}: {}: {}", export.verdict.word(), export.says);
    finding.evidence.insert("code".into(), export.verdict.word().into());
    let path: Vec<String> = export.path.iter().map(|step| format!("{} -> {}", step.at, step.to)).collect();
    finding.evidence.insert("path".into(), path.into());
}

/// What family and release a file is of is the business of `coverage`, whose reading serves here as well.
pub(super) fn read(path: &Path, families: &[Family], table: &ClassTable, findings: &mut Vec<Finding>) -> Result<Subject> {
    of(&Elf::open(path)?, &Runtime::read(path, families)?, families, table, findings)
}

/// The same of a runtime that is open already.
pub(super) fn of(image: &Elf, runtime: &Runtime<'_>, families: &[Family], table: &ClassTable, findings: &mut Vec<Finding>) -> Result<Subject> {
    let beneath = runtime.family.identity.beneath.as_deref().and_then(|name| families.iter().find(|family| family.name() == name));
    let hints = runtime.family.hints()?;
    let known = Known { family: runtime.family, beneath, release: runtime.release, hints: hints.as_ref() };
    Ok(evidence::audit(image, known, table, findings)?)
}
