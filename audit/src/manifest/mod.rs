//! Typed reading of `manifests/`: the judgements, as data. Bad data is refused with file, entry and rule.
//!
//! Nothing here knows what HIP is. A runtime family is a folder: `family.json` (how its runtimes are recognised), `classes.json` (the
//! judgements, checked and tabled by `build.rs`) and `exports/` (generated lists of what known builds export), with `readings/` (generated, too: what their machine code says). Families that ship
//! inside the program are in [`Family::embedded`]; others are read with [`Family::load`].
//!
//! [`schema`] has the judgements' types and rules, [`builds`] the lists of known builds, [`table`] which classes must be interposed,
//! [`acceptance`] the doors left open on purpose, [`beyond`] the ways that no preload closes, [`interposed`] what a shim says it does, [`glibc`] which system has which symbols.

pub mod acceptance;
pub mod beyond;
pub mod builds;
pub mod devices;
pub mod explain;
pub mod glibc;
pub mod hints;
pub mod interposed;
pub mod minors;
pub mod readings;
pub mod schema;
pub mod table;

use std::cmp::Ordering;
use std::path::Path;

use serde::Deserialize;

pub use acceptance::{Acceptance, Acceptances};
pub use builds::{ExportList, KnownBuild, KnownExport};
pub use hints::Hints;
pub use interposed::{Interposed, InterposedList};
pub use readings::CodeReading;
pub use schema::{Action, BadManifest, Class, Judgement, Release, Row, Size};
pub use table::{ClassRule, ClassTable};

use schema::Rules;

/// A family as `build.rs` embeds it.
struct Embedded {
    name: &'static str,
    family: &'static str,
    classes: &'static str,
    evidence: Option<&'static str>,
    rows: &'static [Row],
    builds: &'static [KnownBuild],
    /// File and text of each reading.
    readings: &'static [(&'static str, &'static str)],
}

#[expect(clippy::unreadable_literal, reason = "generated code")]
mod embedded {
    use super::Embedded;
    use super::beyond::{Finder, Way};
    use super::builds::{KnownBuild, KnownImport};
    #[allow(clippy::enum_glob_use, reason = "which variants are used depends on the judgements")]
    use super::schema::{Class::*, Release, Row, Size::*, Undoes::*};
    include!(concat!(env!("OUT_DIR"), "/families.rs"));
}

/// The ways of [`beyond`], ready for reports.
pub fn beyond_preload() -> &'static [beyond::Way] {
    embedded::WAYS
}

/// `manifests/<family>/family.json`: how a runtime of this family is recognised.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Version of the file's schema.
    pub schema_version: u32,
    /// The family's name.
    pub family: String,
    /// What people call it.
    pub title: String,
    /// How the sonames begin.
    pub soname_prefix: String,
    /// Names that every runtime of the family exports; a library is known by these, not by its file name.
    pub anchors: Vec<String>,
    /// Version nodes of the form prefix + release, where the family has such.
    #[serde(default)]
    pub node_prefix: Option<String>,
    /// The family beneath: where this one takes its device memory from.
    #[serde(default)]
    pub beneath: Option<String>,
    /// Device files of the kernel that lead to the card past every runtime.
    #[serde(default)]
    pub devices: Vec<String>,
    /// How the functions of the library between runtime and kernel begin, where there is one.
    #[serde(default)]
    pub thunk_prefix: Option<String>,
}

/// One runtime family: identity, judgements, known export lists.
#[derive(Debug)]
pub struct Family {
    /// How its runtimes are recognised.
    pub identity: Identity,
    rows: &'static [Row],
    classes: &'static str,
    classes_file: String,
    hints: Option<(String, &'static str)>,
    /// Releases that the judgements cover, oldest first.
    checked: Vec<Release>,
    /// Known builds, oldest release first.
    pub builds: &'static [KnownBuild],
    /// File and text of each reading of a known build.
    readings: Vec<(String, &'static str)>,
    /// True for a family inside the program: its judgements were held against its readings when it was made.
    pub ours: bool,
}

/// A judgement as it holds for one release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// The class.
    pub class: Class,
    /// For `indirect-alloc`.
    pub size: Option<Size>,
    /// True if the release lies between two checked ones that differ, or is unknown, and the stricter judgement was taken.
    pub strictest: bool,
}

impl Family {
    /// The families inside the program.
    pub fn embedded() -> Result<Vec<Self>, BadManifest> {
        embedded::FAMILIES
            .iter()
            .map(|family| {
                let file = format!("manifests/{}/family.json", family.name);
                Ok(Self {
                    identity: read_identity(&file, family.family)?,
                    rows: family.rows,
                    classes: family.classes,
                    classes_file: format!("manifests/{}/classes.json", family.name),
                    hints: family.evidence.map(|text| (format!("manifests/{}/evidence.json", family.name), text)),
                    checked: checked_releases(family.classes),
                    builds: family.builds,
                    readings: family.readings.iter().map(|&(file, text)| (file.to_string(), text)).collect(),
                    ours: true,
                })
            })
            .collect()
    }

    /// Reads a family's folder. What it holds stays in memory to the end of the process.
    pub fn load(folder: &Path) -> Result<Self, BadManifest> {
        let read = |path: &Path| -> Result<(String, &'static str), BadManifest> {
            let file = path.display().to_string();
            match std::fs::read_to_string(path) {
                Ok(text) => Ok((file, text.leak())),
                Err(error) => Err(Rules { file: &file }.broken("file", error.to_string())),
            }
        };
        let (file, text) = read(&folder.join("family.json"))?;
        let identity = read_identity(&file, text)?;
        let (classes_file, classes) = read(&folder.join("classes.json"))?;
        let rows = schema::rows(&classes_file, classes)?.leak();
        let hints = folder.join("evidence.json");
        let hints = if hints.is_file() { Some(read(&hints)?) } else { None };
        let inside = |name: &str| {
            let mut paths: Vec<_> = std::fs::read_dir(folder.join(name)).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            paths.sort();
            paths
        };
        let mut builds = Vec::new();
        for path in &inside("exports") {
            let (file, text) = read(path)?;
            builds.push(builds::known_build(&file, text)?);
        }
        builds.sort_by_key(|build| build.release);
        let readings = inside("readings").iter().map(|path| read(path)).collect::<Result<_, _>>()?;
        let (checked, builds) = (checked_releases(classes), builds.leak());
        Ok(Self { identity, rows, classes, classes_file, hints, checked, builds, readings, ours: false })
    }

    /// The family's name.
    pub fn name(&self) -> &str {
        &self.identity.family
    }

    /// All judgements, sorted by name.
    pub fn rows(&self) -> &[Row] {
        self.rows
    }

    /// The judgement on an export, without its evidence.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.binary_search_by(|row| row.name.cmp(name)).ok().map(|at| &self.rows[at])
    }

    /// The whole judgement on an export, evidence included.
    pub fn judgement(&self, name: &str) -> Result<Option<Judgement>, BadManifest> {
        let Some(row) = self.row(name) else { return Ok(None) };
        let (from, to) = (row.span.0 as usize, row.span.1 as usize);
        Rules { file: &self.classes_file }.parse(&self.classes[from..to]).map(Some)
    }

    /// What reading the machine code starts from, where the family says so.
    pub fn hints(&self) -> Result<Option<Hints>, BadManifest> {
        self.hints.as_ref().map(|(file, text)| Hints::read(file, text)).transpose()
    }

    /// What the machine code of known builds says, oldest release first.
    pub fn readings(&self) -> Result<Vec<CodeReading>, BadManifest> {
        let mut all = self.readings.iter().map(|(file, text)| CodeReading::read(file, text)).collect::<Result<Vec<_>, _>>()?;
        all.sort_by_key(|reading| reading.release);
        Ok(all)
    }

    /// What the machine code of the build with this build-id says, if somebody has read it.
    pub fn reading(&self, build_id: &str) -> Result<Option<CodeReading>, BadManifest> {
        let named = self.readings.iter().filter(|(_, text)| text.contains(build_id));
        for (file, text) in named {
            let reading = CodeReading::read(file, text)?;
            if reading.build_id == build_id {
                return Ok(Some(reading));
            }
        }
        Ok(None)
    }

    /// True if an import is one of this family's: its version is asked of a runtime (`asked_of` is the file), or it is judged. A runtime exports
    /// helpers of the compiler too; who imports one of those has nothing to do with the runtime, unless the file needs it.
    pub fn concerns(&self, name: &str, asked_of: Option<&str>, needs_it: bool) -> bool {
        let from_it = asked_of.is_some_and(|file| self.is_runtime_name(file));
        from_it || self.row(name).is_some_and(|row| row.class != Class::Other || needs_it)
    }

    /// True for a soname or file name as the family's runtimes have.
    pub fn is_runtime_name(&self, name: &str) -> bool {
        name.starts_with(&self.identity.soname_prefix)
    }

    /// True if a call of the export takes or gives back memory of the card that is charged to the caller: what a shim beneath has to see.
    pub fn moves_memory(&self, name: &str, class: Class) -> bool {
        match class {
            Class::DeviceAlloc | Class::ManagedAlloc | Class::IndirectAlloc => true,
            Class::Free => !self.row(name).and_then(|row| row.undoes).is_some_and(schema::Undoes::leaves_the_card_alone),
            _ => false,
        }
    }

    /// True if a call of the name takes memory of the card that is charged to the caller, in any release: what holds a runtime from beneath has to
    /// interpose it. A name that begins like the family's and is not judged counts as one.
    pub fn takes(&self, name: &str, table: &ClassTable) -> bool {
        match self.judge(name, None, table) {
            Some(judged) => {
                judged.class != Class::Free && self.moves_memory(name, judged.class) && table.rule(judged.class, judged.size).must_interpose
            }
            None => name.strip_prefix(self.name()).is_some_and(|rest| rest.starts_with('_')),
        }
    }

    /// The class of an export in a release.
    pub fn judge(&self, name: &str, release: Option<Release>, table: &ClassTable) -> Option<Judged> {
        self.judge_row(self.row(name)?, release, table)
    }

    /// The rows of names that come sorted: one pass over both lists, where a search for each would cost most of an audit.
    pub fn rows_of<'a>(&'a self, names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Option<&'a Row>> {
        let mut rows = self.rows.iter().peekable();
        names.map(move |name| {
            while let Some(row) = rows.peek() {
                match row.name.cmp(name) {
                    Ordering::Less => rows.next(),
                    // The row stays for a second version of the same name.
                    Ordering::Equal => return Some(*row),
                    Ordering::Greater => break,
                };
            }
            None
        })
    }

    /// [`Family::judge`] where the row is known.
    pub fn judge_row(&self, row: &Row, release: Option<Release>, table: &ClassTable) -> Option<Judged> {
        let usual = Judged { class: row.class, size: row.size, strictest: false };
        if row.by_version.is_empty() {
            return Some(usual);
        }
        let in_checked = |checked: Release| {
            let other = row.by_version.iter().find(|(version, ..)| *version == checked);
            other.map_or(usual, |&(_, class, size)| Judged { class, size, strictest: false })
        };
        let checked = &self.checked;
        let candidates: Vec<Judged> = match release {
            Some(release) => {
                if let Some(same) = checked.iter().rev().find(|checked| checked.line() == release.line()) {
                    return Some(in_checked(*same));
                }
                let below = checked.iter().rev().find(|checked| checked.line() < release.line());
                let above = checked.iter().find(|checked| checked.line() > release.line());
                below.into_iter().chain(above).map(|&checked| in_checked(checked)).collect()
            }
            None => checked.iter().map(|&checked| in_checked(checked)).collect(),
        };
        let strictest = candidates.iter().copied().max_by_key(|judged| {
            let rule = table.rule(judged.class, judged.size);
            (rule.must_interpose, std::cmp::Reverse(judged.class))
        })?;
        let differ = candidates.iter().any(|judged| (judged.class, judged.size) != (strictest.class, strictest.size));
        Some(Judged { strictest: differ, ..strictest })
    }
}

/// The releases that a `classes.json` names in its head, oldest first.
fn checked_releases(classes: &str) -> Vec<Release> {
    // The head of the file is a few lines; reading the whole of it for this would cost more than the audit.
    let start = classes.find("\"releases\"").and_then(|at| classes[at..].find('[').map(|open| at + open));
    let list = start.and_then(|from| classes[from..].find(']').map(|to| &classes[from..=from + to]));
    list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}

/// Reads and checks a `family.json`.
pub fn read_identity(file: &str, text: &str) -> Result<Identity, BadManifest> {
    let rules = Rules { file };
    let identity: Identity = rules.parse(text)?;
    rules.version(identity.schema_version)?;
    if identity.anchors.is_empty() {
        return Err(rules.broken("anchors", "a family is known by at least one export"));
    }
    rules.sorted(identity.anchors.iter().map(String::as_str))?;
    Ok(identity)
}
