//! The files under `manifests/` as types, and the rules that a file must keep. Shared with `build.rs`, so that a bad judgement does not even compile.
//!
//! What each file is for, and which of them are generated, is told in `manifests/README.md`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Version of all manifest files.
pub const SCHEMA_VERSION: u32 = 1;

/// What an export does to GPU memory. The order is that of `docs/GLOSSARY.md`: the first class that fits is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Caller-sized device memory.
    DeviceAlloc,
    /// Managed memory.
    ManagedAlloc,
    /// Device memory as a side effect.
    IndirectAlloc,
    /// Memory somebody else allocated.
    ImportOrMap,
    /// Pinned host memory, registering included.
    HostAlloc,
    /// Address space only.
    VirtualReserve,
    /// Undoes an allocation, import, mapping, registration or module load.
    Free,
    /// Reports the card.
    CapacityQuery,
    /// Hands out pointers to other entry points.
    ProcAddress,
    /// Creates, sets or queries pools.
    PoolControl,
    /// Starts work.
    Launch,
    /// None of these.
    Other,
}

impl Class {
    /// All classes, in order.
    pub const ALL: [Self; 12] = [
        Self::DeviceAlloc,
        Self::ManagedAlloc,
        Self::IndirectAlloc,
        Self::ImportOrMap,
        Self::HostAlloc,
        Self::VirtualReserve,
        Self::Free,
        Self::CapacityQuery,
        Self::ProcAddress,
        Self::PoolControl,
        Self::Launch,
        Self::Other,
    ];

    /// The word that manifests, JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::DeviceAlloc => "device-alloc",
            Self::ManagedAlloc => "managed-alloc",
            Self::IndirectAlloc => "indirect-alloc",
            Self::ImportOrMap => "import-or-map",
            Self::HostAlloc => "host-alloc",
            Self::VirtualReserve => "virtual-reserve",
            Self::Free => "free",
            Self::CapacityQuery => "capacity-query",
            Self::ProcAddress => "proc-address",
            Self::PoolControl => "pool-control",
            Self::Launch => "launch",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Who decides how much an indirect allocation takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// A number that the caller chooses.
    Caller,
    /// Something the caller does not choose; the entry says how big.
    Bounded,
}

impl Size {
    /// The word that manifests, JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Bounded => "bounded",
        }
    }
}

/// What a shim's row does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Holds the bytes against the quota.
    Charge,
    /// Gives bytes back.
    Refund,
    /// Answers with the quota.
    Report,
    /// Answers with the shim's own entry points.
    HandOut,
    /// Counts or logs, and passes the call on.
    Pass,
}

impl Action {
    /// The word that manifests, JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::Report => "report",
            Self::HandOut => "hand-out",
            Self::Pass => "pass",
        }
    }
}

/// A ROCm release, `7.2` or `7.2.4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Release {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number, where known.
    pub patch: Option<u16>,
}

impl Release {
    /// The release line, without the third number.
    pub fn line(self) -> (u16, u16) {
        (self.major, self.minor)
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u16>> =
            text.split('.').map(|part| part.parse().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()))).collect();
        match numbers.as_deref() {
            Some(&[major, minor]) => Ok(Self { major, minor, patch: None }),
            Some(&[major, minor, patch]) => Ok(Self { major, minor, patch: Some(patch) }),
            _ => Err(format!("{text:?} is not a release like 7.2 or 7.2.4")),
        }
    }
}

impl TryFrom<String> for Release {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Release> for String {
    fn from(release: Release) -> Self {
        release.to_string()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        self.patch.map_or(Ok(()), |patch| write!(f, ".{patch}"))
    }
}

/// Why a judgement is what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// How it was established.
    pub kind: EvidenceKind,
    /// Project, version, file and function, or the measurement.
    pub at: String,
    /// What stands there, in our words.
    pub says: String,
}

/// How a judgement was established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceKind {
    /// The implementing function was read.
    Source,
    /// The public header declares it so.
    Header,
    /// The machine code was read.
    Disassembly,
    /// It was run and observed.
    Measured,
}

impl EvidenceKind {
    /// The word that manifests, JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Header => "header",
            Self::Disassembly => "disassembly",
            Self::Measured => "measured",
        }
    }
}

/// A class that holds for some versions only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionClass {
    /// Checked releases for which this class holds instead of the entry's.
    pub versions: Vec<Release>,
    /// The class there.
    pub class: Class,
    /// For `indirect-alloc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Why.
    pub evidence: Vec<Evidence>,
}

/// The judgement on one export, one line of a `classes.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judgement {
    /// The export's name without version.
    pub name: String,
    /// Its class in the newest checked release that has it, and in all others that `by_version` does not name.
    pub class: Class,
    /// For `indirect-alloc`: who decides the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// For `indirect-alloc`: how big, and what decides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decides: Option<String>,
    /// For `free`: what it undoes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<Undoes>,
    /// Memory that it leads to without any import of the runtime showing it: where that is taken instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
    /// Versions in which the class differs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_version: Vec<VersionClass>,
    /// Releases whose source or machine code was read for this entry.
    pub checked: Vec<Release>,
    /// Why; at least one.
    pub evidence: Vec<Evidence>,
    /// Anything a reader should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Judgement {
    /// Class and size in a release that the entry may name apart.
    pub fn in_release(&self, release: Release) -> (Class, Option<Size>) {
        let other = self.by_version.iter().find(|other| other.versions.contains(&release));
        other.map_or((self.class, self.size), |other| (other.class, other.size))
    }
}

impl Undoes {
    /// True for what takes no memory of the card that is charged to this process: host memory, an import, addresses.
    pub fn leaves_the_card_alone(self) -> bool {
        matches!(self, Self::Host | Self::Import | Self::Reserve)
    }
}

/// What a `free` undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Undoes {
    /// Device memory.
    Device,
    /// Managed memory.
    Managed,
    /// Host memory or its registration.
    Host,
    /// An import.
    Import,
    /// A mapping.
    Map,
    /// A reservation of addresses.
    Reserve,
    /// A loaded module, library or executable.
    Module,
    /// A graph or what its launches took.
    Graph,
    /// A pool.
    Pool,
    /// Whatever the handle or pointer stands for, or everything at once.
    Any,
}

/// `manifests/<family>/classes.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassesFile {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The family's name, that of its folder.
    pub family: String,
    /// Releases whose export lists the entries cover.
    pub releases: Vec<Release>,
    /// One entry per export, sorted by name.
    pub exports: Vec<Judgement>,
}

/// A file under `manifests/` that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {entry}: {rule}")]
pub struct BadManifest {
    /// The file.
    pub file: String,
    /// The entry, by name or number.
    pub entry: String,
    /// The rule it breaks.
    pub rule: String,
}

/// Builds errors about one file.
pub struct Rules<'a> {
    /// The file's name, for messages.
    pub file: &'a str,
}

impl Rules<'_> {
    /// An error about an entry.
    pub fn broken(&self, entry: impl Into<String>, rule: impl Into<String>) -> BadManifest {
        BadManifest { file: self.file.into(), entry: entry.into(), rule: rule.into() }
    }

    /// Parses JSON; the error names line and column.
    pub fn parse<'de, T: Deserialize<'de>>(&self, text: &'de str) -> Result<T, BadManifest> {
        serde_json::from_str(text).map_err(|error| self.broken(format!("line {} column {}", error.line(), error.column()), error.to_string()))
    }

    /// The version of the schema must be ours.
    pub fn version(&self, found: u32) -> Result<(), BadManifest> {
        match found {
            SCHEMA_VERSION => Ok(()),
            other => Err(self.broken("schema_version", format!("{other}, but this program reads version {SCHEMA_VERSION}"))),
        }
    }

    /// Names must be sorted and unique, so that a diff is the review.
    pub fn sorted<'n>(&self, names: impl Iterator<Item = &'n str>) -> Result<(), BadManifest> {
        let mut previous: Option<&str> = None;
        for name in names {
            match previous {
                Some(before) if before == name => return Err(self.broken(name, "stands twice")),
                Some(before) if before > name => return Err(self.broken(name, format!("not sorted: stands after {before}"))),
                _ => previous = Some(name),
            }
        }
        Ok(())
    }
}

/// Reads and checks a `classes.json`.
pub fn read_classes(file: &str, text: &str) -> Result<ClassesFile, BadManifest> {
    let rules = Rules { file };
    let parsed: ClassesFile = rules.parse(text)?;
    rules.version(parsed.schema_version)?;
    if parsed.releases.is_empty() || !parsed.releases.is_sorted() {
        return Err(rules.broken("releases", "names at least one release, oldest first"));
    }
    rules.sorted(parsed.exports.iter().map(|entry| entry.name.as_str()))?;
    for entry in &parsed.exports {
        check_judgement(&rules, &parsed.releases, entry)?;
    }
    Ok(parsed)
}

fn check_judgement(rules: &Rules<'_>, releases: &[Release], entry: &Judgement) -> Result<(), BadManifest> {
    let name = entry.name.as_str();
    let known = |list: &[Release], what: &str| match list.iter().find(|release| !releases.contains(release)) {
        Some(stranger) => Err(rules.broken(name, format!("{what} names {stranger}, which is not among the file's releases"))),
        None => Ok(()),
    };
    check_size(rules, name, entry.class, entry.size)?;
    if entry.class == Class::IndirectAlloc && entry.decides.is_none() {
        return Err(rules.broken(name, "indirect-alloc says in `decides` how big it is and who decides"));
    }
    if (entry.class == Class::Free) != entry.undoes.is_some() && entry.by_version.is_empty() {
        return Err(rules.broken(name, "`undoes` belongs to class free, and every free has it"));
    }
    check_evidence(rules, name, &entry.evidence)?;
    if entry.checked.is_empty() {
        return Err(rules.broken(name, "`checked` names at least one release that was looked at"));
    }
    known(&entry.checked, "checked")?;
    let mut seen = BTreeSet::new();
    for other in &entry.by_version {
        known(&other.versions, "by_version")?;
        check_size(rules, name, other.class, other.size)?;
        check_evidence(rules, name, &other.evidence)?;
        if other.versions.is_empty() || (other.class, other.size) == (entry.class, entry.size) {
            return Err(rules.broken(name, "by_version names at least one release and a judgement that differs"));
        }
        if let Some(twice) = other.versions.iter().find(|release| !seen.insert(**release)) {
            return Err(rules.broken(name, format!("by_version names {twice} twice")));
        }
    }
    Ok(())
}

fn check_size(rules: &Rules<'_>, name: &str, class: Class, size: Option<Size>) -> Result<(), BadManifest> {
    match (class == Class::IndirectAlloc, size.is_some()) {
        (true, true) | (false, false) => Ok(()),
        _ => Err(rules.broken(name, "`size` (caller or bounded) belongs to class indirect-alloc, and every indirect-alloc has it")),
    }
}

fn check_evidence(rules: &Rules<'_>, name: &str, evidence: &[Evidence]) -> Result<(), BadManifest> {
    if evidence.is_empty() || evidence.iter().any(|item| item.at.trim().is_empty() || item.says.trim().is_empty()) {
        return Err(rules.broken(name, "a judgement has at least one piece of evidence, each with `at` and `says`"));
    }
    Ok(())
}

/// What an audit needs of a judgement at once; the rest stays in the text until somebody asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The export's name.
    pub name: &'static str,
    /// The class where `by_version` says nothing else.
    pub class: Class,
    /// For `indirect-alloc`.
    pub size: Option<Size>,
    /// For `free`.
    pub undoes: Option<Undoes>,
    /// True if memory is taken where no import of the runtime shows it.
    pub elsewhere: bool,
    /// Releases with another class.
    pub by_version: &'static [(Release, Class, Option<Size>)],
    /// Start and end of the entry in the text of its file, in bytes.
    pub span: (u32, u32),
}

/// Reads a `classes.json` into rows. They refer to leaked memory: a process reads few families, and keeps them to its end.
pub fn rows(file: &str, text: &str) -> Result<Vec<Row>, BadManifest> {
    let parsed = read_classes(file, text)?;
    let mut position = 0;
    let mut rows = Vec::with_capacity(parsed.exports.len());
    for entry in parsed.exports {
        let rules = Rules { file };
        // One entry a line is a rule of its own: it makes the diff the review, and the span findable.
        let start = format!("\n{{\"name\": \"{}\",", entry.name);
        let found = text[position..].find(&start).map(|at| position + at + 1);
        let Some(from) = found else { return Err(rules.broken(entry.name, "stands on a line of its own that begins with {\"name\": \"…\",")) };
        let line = text[from..].lines().next().unwrap_or_default().trim_end_matches(',');
        position = from;
        let by_version: Vec<_> =
            entry.by_version.iter().flat_map(|other| other.versions.iter().map(|&release| (release, other.class, other.size))).collect();
        rows.push(Row {
            name: entry.name.leak(),
            class: entry.class,
            size: entry.size,
            undoes: entry.undoes,
            elsewhere: entry.elsewhere.is_some(),
            by_version: by_version.leak(),
            span: (from as u32, (from + line.len()) as u32),
        });
    }
    Ok(rows)
}
