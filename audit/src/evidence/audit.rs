//! The reading of a runtime held against its manifest.

use super::checks;
use super::read::{self, Beneath};
use super::subject::{Export, Step, Subject, Verdict};
use crate::elf::{Elf, Result};
use crate::finding::{Finding, Severity};
use crate::manifest::{Class, ClassTable, CodeReading, Family, Hints, Release};

/// What a runtime is, as far as another audit has found out.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Its family.
    pub family: &'a Family,
    /// The family beneath, where there is one.
    pub beneath: Option<&'a Family>,
    /// Its release.
    pub release: Option<Release>,
    /// What reading its code starts from.
    pub hints: Option<&'a Hints>,
}

/// Reads a runtime's machine code and compares.
pub fn audit(image: &Elf, known: Known<'_>, table: &ClassTable, findings: &mut Vec<Finding>) -> Result<Subject> {
    let allocators = known.beneath.map_or(Vec::new(), allocators);
    let takes = |name: &str| known.beneath.is_some_and(|beneath| beneath.takes(name, table));
    let mut reading = read::read(image, known.hints, Beneath { allocators: &allocators, takes: &takes })?;
    for export in &mut reading.exports {
        export.class = known.family.judge(&export.name, known.release, table).map(|judged| judged.class);
        findings.extend(compare(image.file(), export, known));
        if export.slot.is_some() && export.body.is_none() && export.verdict == Verdict::Unknown && export.says.contains("nothing fills") {
            let message = format!("{} calls address 0: {}", export.name, export.says);
            findings.push(checks::EMPTY_SLOT.finding(image.file(), message).symbol(export.name.as_str()));
        }
    }
    for (calls, family) in [(&mut reading.sinks, known.beneath), (&mut reading.self_calls, Some(known.family))] {
        let Some(family) = family else { continue };
        // Which release of the family beneath will be there is not known from this file.
        let release = known.release.filter(|_| family.name() == known.family.name());
        for call in calls {
            call.class = family.judge(&call.name, release, table).map(|judged| judged.class);
        }
    }
    if let Err(why) = &reading.core {
        findings.push(checks::NO_EVIDENCE.finding(image.file(), format!("what allocates could not be named: {why}")));
    }
    let names = image.names()?;
    let (core, core_refused) = match reading.core {
        Ok(core) => (Some(core), None),
        Err(why) => (None, Some(why)),
    };
    Ok(Subject {
        file: image.file().into(),
        soname: names.soname,
        build_id: image.build_id()?,
        family: known.family.name().into(),
        release: known.release,
        machine: image.header.machine_name(),
        functions: reading.functions,
        self_checks: reading.self_checks,
        tables: reading.tables,
        core,
        core_refused,
        sinks: reading.sinks,
        self_calls: reading.self_calls,
        registry: None,
        debug_file: None,
        exports: reading.exports,
        single: false,
    })
}

/// Names of a family that take device memory of the caller's size.
fn allocators(family: &Family) -> Vec<&'static str> {
    family.rows().iter().filter(|row| row.class == Class::DeviceAlloc).map(|row| row.name).collect()
}

/// True where class and verdict cannot both be right.
pub fn contradicts(class: Class, verdict: Verdict) -> bool {
    match verdict {
        Verdict::Allocates => {
            matches!(class, Class::Other | Class::Launch | Class::CapacityQuery | Class::VirtualReserve | Class::PoolControl | Class::Free)
        }
        Verdict::HandsOutPointers => class != Class::ProcAddress,
        Verdict::NothingSeen => matches!(class, Class::DeviceAlloc | Class::ManagedAlloc | Class::ProcAddress),
        Verdict::Imports | Verdict::Unknown => false,
    }
}

fn compare(file: &str, export: &Export, known: Known<'_>) -> Option<Finding> {
    let finding = contradiction(file, &export.name, export.class?, export.verdict, &export.says, known)?;
    let path: Vec<String> = export.path.iter().map(Step::to_string).collect();
    Some(finding.evidence("body", export.body.map_or(String::new(), |body| body.to_string())).evidence("path", path))
}

/// What stands stored of a known build, held against a manifest.
pub fn hold(file: &str, reading: &CodeReading, known: Known<'_>, table: &ClassTable, findings: &mut Vec<Finding>) {
    for export in &reading.exports {
        let class = known.family.judge(&export.name, known.release, table).map(|judged| judged.class);
        let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.word() == export.says);
        let (Some(class), Some(verdict)) = (class, verdict) else { continue };
        findings.extend(contradiction(file, &export.name, class, verdict, "vrocm-audit evidence shows the way", known));
    }
}

/// A class and a verdict that cannot both be right; a note where somebody has explained it.
fn contradiction(file: &str, name: &str, class: Class, verdict: Verdict, says: &str, known: Known<'_>) -> Option<Finding> {
    if !contradicts(class, verdict) {
        return None;
    }
    let word = verdict.word();
    let explained = known.hints.and_then(|hints| hints.explanation(name, known.release, word));
    let message = match explained {
        Some(because) => format!("{name}: the manifest says {class}, the code {word}: {because}"),
        None => format!("{name}: the manifest says {class}, but the code {word}: {says}"),
    };
    let finding = checks::CLASS_CONTRADICTED.finding(file, message).symbol(name).evidence("class", class.word()).evidence("verdict", word);
    Some(finding.severity(if explained.is_some() { Severity::Note } else { Severity::Deny }))
}
