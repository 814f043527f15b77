//! The reading of a runtime held against its manifest.

use super::subject::{Export, Subject, Verdict};
use super::{checks, read};
use crate::elf::{Elf, Result};
use crate::finding::{Finding, Severity};
use crate::manifest::{Class, ClassTable, Family, Hints, Release};

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
    let mut reading = read::read(image, known.hints, &allocators)?;
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
    let class = export.class.filter(|&class| contradicts(class, export.verdict))?;
    let word = export.verdict.word();
    let explained = known.hints.and_then(|hints| hints.explanation(&export.name, known.release, word));
    let path: Vec<String> = export.path.iter().map(|step| format!("{} -> {}", step.at, step.to)).collect();
    let message = match explained {
        Some(because) => format!("{}: the manifest says {class}, the code {word}: {because}", export.name),
        None => format!("{}: the manifest says {class}, but the code {word}: {}", export.name, export.says),
    };
    let finding = checks::CLASS_CONTRADICTED.finding(file, message).symbol(export.name.as_str()).evidence("class", class.word());
    let finding = finding.evidence("verdict", word).evidence("body", export.body.map_or(String::new(), |body| body.to_string()));
    Some(finding.evidence("path", path).severity(if explained.is_some() { Severity::Note } else { Severity::Deny }))
}
