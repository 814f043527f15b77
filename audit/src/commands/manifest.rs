//! `vrocm-audit manifest`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;

use super::{Result, coverage, evidence};
use crate::cli::{Manifest, ManifestAdd, ManifestExports};
use crate::coverage::Runtime;
use crate::coverage::runtime::RuntimeExport;
use crate::evidence::Verdict;
use crate::manifest::builds::{ListedExport, ListedImport};
use crate::manifest::schema;
use crate::manifest::{Class, ClassTable, ExportList};

pub(super) fn run(arguments: &Manifest) -> Result<ExitCode> {
    match arguments {
        Manifest::Exports(arguments) => exports(arguments),
        Manifest::Add(arguments) => add(arguments),
        Manifest::Reading(arguments) => reading(arguments),
    }
}

/// What the code of a known build says, without addresses and ways.
fn reading(arguments: &ManifestAdd) -> Result<ExitCode> {
    let families = coverage::families(&arguments.families.manifests)?;
    let subject = evidence::read(&arguments.runtime, &families, &ClassTable::embedded()?, &mut Vec::new())?;
    let family = families.iter().find(|family| family.name() == subject.family);
    let builds = family.map_or(&[][..], |family| family.builds);
    let known = builds.iter().find(|build| Some(build.build_id) == subject.build_id.as_deref());
    let known = known.ok_or_else(|| {
        anyhow!("{}: its build-id is in no list under manifests/{}/exports/: write that first (manifest exports)", subject.file, subject.family)
    })?;
    std::io::stdout().write_all(subject.stored(known.release, known.build_id).text().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// One line per unknown export, in the form of `classes.json`. What the code says nothing certain of gets no class: `?` is refused when it is read.
fn add(arguments: &ManifestAdd) -> Result<ExitCode> {
    let families = coverage::families(&arguments.families.manifests)?;
    let subject = evidence::read(&arguments.runtime, &families, &ClassTable::embedded()?, &mut Vec::new())?;
    let release = subject.release.map_or("?".to_string(), |release| release.to_string());
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let mut out = String::new();
    for export in subject.exports.iter().filter(|export| export.class.is_none()) {
        let class = match export.verdict {
            Verdict::Allocates => Class::DeviceAlloc.word(),
            Verdict::HandsOutPointers => Class::ProcAddress.word(),
            Verdict::Imports => Class::ImportOrMap.word(),
            Verdict::NothingSeen | Verdict::Unknown => "?",
        };
        let body = export.body.map_or("no body".into(), |body| format!("body {body}"));
        let path: String = export.path.iter().map(|step| format!("; {step}")).collect();
        let at = format!("{} {release}: {} {body}", subject.soname.as_deref().unwrap_or(&subject.file), export.name);
        let says = format!("{}: {}{path}", export.verdict.word(), export.says);
        out += &format!(
            "{{\"name\": {}, \"class\": {}, \"checked\": [{}], \"evidence\": [{{\"kind\": \"disassembly\", \"at\": {}, \"says\": {}}}]}},\n",
            text(&export.name),
            text(class),
            text(&release),
            text(&at),
            text(&says)
        );
    }
    std::io::stdout().write_all(out.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn exports(arguments: &ManifestExports) -> Result<ExitCode> {
    let families = coverage::families(&arguments.families.manifests)?;
    let runtime = Runtime::read(&arguments.runtime, &families)?;
    let missing = |what: &str| anyhow!("{}: {what}: a build is known by it", runtime.file);
    let listed = |export: &RuntimeExport| ListedExport { name: export.name.to_string(), node: export.node.as_deref().map(Into::into) };
    let exports = runtime.exports.iter().map(listed).collect();
    let list = ExportList {
        schema_version: schema::SCHEMA_VERSION,
        family: runtime.family.name().into(),
        release: arguments.release,
        source: arguments.source.clone(),
        soname: runtime.soname.clone().ok_or_else(|| missing("no soname"))?,
        build_id: runtime.build_id.clone().ok_or_else(|| missing("no build-id"))?,
        reentry: runtime.reentry.clone(),
        imports: runtime
            .imports
            .iter()
            .map(|import| ListedImport { name: import.name.clone(), node: import.node.clone(), preload_wins: import.preload_wins })
            .collect(),
        exports,
    };
    std::io::stdout().write_all(list.text().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
