//! Generated lists of what a known build of a runtime exports: `manifests/<family>/exports/<release>.json`.
//!
//! `vrocm-audit manifest exports LIBRARY` makes them. They serve `coverage` without a runtime at hand, name a build by its build-id,
//! and tell what a newer build adds.

use serde::{Deserialize, Serialize};

use super::schema::{BadManifest, Release, Rules};

/// One exported function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedExport {
    /// Name without version.
    pub name: String,
    /// Version node, if it has one.
    pub node: Option<String>,
}

/// A function that the build imports and another family defines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedImport {
    /// Name without version.
    pub name: String,
    /// Version node it asks for.
    pub node: Option<String>,
    /// True if every use is a relocation that a preload wins.
    pub preload_wins: bool,
}

/// One build.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportList {
    /// Version of the file's schema.
    pub schema_version: u32,
    /// The runtime family.
    pub family: String,
    /// The release it is a build of.
    pub release: Release,
    /// Where the build comes from: distribution, package, version.
    pub source: String,
    /// `DT_SONAME`.
    pub soname: String,
    /// GNU build-id.
    pub build_id: String,
    /// Own exports that the build reaches through its own PLT.
    pub reentry: Vec<String>,
    /// Imports that the family beneath defines.
    pub imports: Vec<ListedImport>,
    /// Exported functions, sorted by name.
    pub exports: Vec<ListedExport>,
}

/// Reads and checks a list.
pub fn read(file: &str, text: &str) -> Result<ExportList, BadManifest> {
    let rules = Rules { file };
    let list: ExportList = rules.parse(text)?;
    rules.version(list.schema_version)?;
    rules.sorted(list.exports.iter().map(|export| export.name.as_str()))?;
    rules.sorted(list.imports.iter().map(|import| import.name.as_str()))?;
    rules.sorted(list.reentry.iter().map(String::as_str))?;
    if list.exports.is_empty() {
        return Err(rules.broken("exports", "a list without exports would audit nothing"));
    }
    Ok(list)
}

/// The file's text, one entry a line, as it is kept under `manifests/`.
pub fn write(list: &ExportList) -> String {
    fn lines<T: Serialize>(entries: &[T]) -> String {
        let lines: Vec<String> = entries.iter().map(|entry| serde_json::to_string(entry).unwrap_or_default()).collect();
        if lines.is_empty() { "[]".into() } else { format!("[\n{}\n]", lines.join(",\n")) }
    }
    let text = |value: &str| serde_json::Value::from(value).to_string();
    format!(
        "{{\n\"schema_version\": {},\n\"family\": {},\n\"release\": \"{}\",\n\"source\": {},\n\"soname\": {},\n\"build_id\": {},\n\"reentry\": {},\n\"imports\": {},\n\"exports\": {}\n}}\n",
        list.schema_version,
        text(&list.family),
        list.release,
        text(&list.source),
        text(&list.soname),
        text(&list.build_id),
        lines(&list.reentry),
        lines(&list.imports),
        lines(&list.exports)
    )
}
