//! What a shim says it interposes: `interposed.json` (a name and an action per row), or a plain text with one name a line.

use serde::Deserialize;

use super::schema::{Action, BadManifest, Rules};

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interposed {
    /// The exported name.
    pub name: String,
    /// What the row does; unknown for a plain list.
    #[serde(default)]
    pub action: Option<Action>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema_version: u32,
    title: String,
    exports: Vec<Interposed>,
}

/// A list of interposed names.
#[derive(Debug, Clone)]
pub struct InterposedList {
    /// The file, for messages.
    pub file: String,
    /// What the list is of.
    pub title: String,
    /// Rows, sorted by name.
    pub rows: Vec<Interposed>,
}

impl InterposedList {
    /// The 26 names that the published reference shim interposes.
    pub fn reference() -> Result<Self, BadManifest> {
        Self::read("manifests/interposed-reference.json", include_str!("../../../manifests/interposed-reference.json"))
    }

    /// What our own libvrocm.so exports, generated from its table.
    pub fn own() -> Result<Self, BadManifest> {
        Self::read("manifests/interposed.json", include_str!("../../../manifests/interposed.json"))
    }

    /// Reads JSON (it begins with `{`) or plain text; `#` starts a comment there.
    pub fn read(file: &str, text: &str) -> Result<Self, BadManifest> {
        let rules = Rules { file };
        let (title, mut rows) = if text.trim_start().starts_with('{') {
            let parsed: File = rules.parse(text)?;
            rules.version(parsed.schema_version)?;
            rules.sorted(parsed.exports.iter().map(|row| row.name.as_str()))?;
            (parsed.title, parsed.exports)
        } else {
            (file.to_string(), read_plain(&rules, text)?)
        };
        if rows.is_empty() {
            return Err(rules.broken("file", "names no symbol at all: an empty list would call every door open"));
        }
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows.dedup();
        Ok(Self { file: file.into(), title, rows })
    }

    /// The row of a name.
    pub fn row(&self, name: &str) -> Option<&Interposed> {
        self.rows.binary_search_by(|row| row.name.as_str().cmp(name)).ok().map(|at| &self.rows[at])
    }
}

fn read_plain(rules: &Rules<'_>, text: &str) -> Result<Vec<Interposed>, BadManifest> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$')) {
            return Err(rules.broken(format!("line {}", number + 1), format!("{name:?} is not a symbol name; one name a line")));
        }
        rows.push(Interposed { name: name.into(), action: None });
    }
    Ok(rows)
}
