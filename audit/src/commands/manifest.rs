//! `vrocm-audit manifest`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::anyhow;

use super::Result;
use crate::cli::{Manifest, ManifestExports};
use crate::coverage::Runtime;
use crate::coverage::runtime::RuntimeExport;
use crate::manifest::builds::{ListedExport, ListedImport};
use crate::manifest::schema;
use crate::manifest::{ExportList, Family};

pub(super) fn run(arguments: &Manifest) -> Result<ExitCode> {
    match arguments {
        Manifest::Exports(arguments) => exports(arguments),
    }
}

fn exports(arguments: &ManifestExports) -> Result<ExitCode> {
    let families = Family::embedded()?;
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
