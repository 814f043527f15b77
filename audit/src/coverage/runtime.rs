//! What is audited: a runtime library, or the list of a known build that ships inside the program.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::elf::{Elf, ElfError, RelocationKind, SymbolTable};
use crate::manifest::{Family, KnownBuild, Release, minors};

/// One exported function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeExport {
    /// Name without version.
    pub name: Arc<str>,
    /// Version node, which importers ask for.
    pub node: Option<Arc<str>>,
}

/// An import of the runtime that the family beneath defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeImport {
    /// Name without version.
    pub name: String,
    /// Version node it asks for.
    pub node: Option<String>,
    /// True if every use is a relocation that a preload wins.
    pub preload_wins: bool,
}

/// Facts of one runtime.
#[derive(Debug)]
pub struct Runtime<'a> {
    /// The file as the user named it, or which list.
    pub file: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// GNU build-id.
    pub build_id: Option<String>,
    /// The family it belongs to.
    pub family: &'a Family,
    /// The release, as exactly as it is known.
    pub release: Option<Release>,
    /// What the release was read from.
    pub release_evidence: String,
    /// Exported functions, sorted by name.
    pub exports: Vec<RuntimeExport>,
    /// Own exports reached through the own PLT or GOT, sorted.
    pub reentry: Vec<String>,
    /// Imports that the family beneath defines, sorted by name.
    pub imports: Vec<RuntimeImport>,
}

impl<'a> Runtime<'a> {
    /// A known build from its list.
    pub fn from_build(build: &KnownBuild, family: &'a Family) -> Self {
        let text = |name: &&'static str| (*name).to_string();
        Self {
            file: format!("{} {} (list inside the program: {})", family.name(), build.release, build.source),
            soname: Some(build.soname.into()),
            build_id: Some(build.build_id.into()),
            family,
            release: Some(build.release),
            release_evidence: "the list".into(),
            exports: build.exports().map(|export| RuntimeExport { name: export.name.into(), node: export.node.map(Into::into) }).collect(),
            reentry: build.reentry.iter().map(text).collect(),
            imports: build
                .imports
                .iter()
                .map(|import| RuntimeImport { name: import.name.into(), node: import.node.as_ref().map(text), preload_wins: import.preload_wins })
                .collect(),
        }
    }

    /// Reads a library. What belongs to no known family, or is cut down so far that it cannot be the runtime, is an error: a runtime without
    /// its names would have no open doors.
    pub fn read(path: &Path, families: &'a [Family]) -> Result<Self, ElfError> {
        Self::of(&Elf::open(path)?, path, families)
    }

    /// Takes a library that is open already; `path` is where it lies, or is called inside a package.
    pub fn of(image: &Elf, path: &Path, families: &'a [Family]) -> Result<Self, ElfError> {
        let names = image.names()?;
        let table = image.symbols()?;
        let nodes: Vec<Arc<str>> = table.versions.definitions.iter().map(|node| node.name.as_str().into()).collect();
        let mut exports: Vec<RuntimeExport> = table
            .exports()
            .filter(|symbol| symbol.is_function())
            .map(|symbol| RuntimeExport { name: (&*symbol.name).into(), node: table.definition(symbol).map(|node| nodes[node].clone()) })
            .collect();
        exports.sort_unstable_by(|a, b| a.name.cmp(&b.name).then_with(|| a.node.cmp(&b.node)));
        let family = recognise(image, names.soname.as_deref(), &exports, families)?;
        let build_id = image.build_id()?;
        let (release, release_evidence) = release(path, &table, build_id.as_deref(), family);
        let (reentry, imports) = relocated(image, &table, family, families)?;
        Ok(Self { file: image.file().to_string(), soname: names.soname, build_id, family, release, release_evidence, exports, reentry, imports })
    }
}

fn recognise<'a>(image: &Elf, soname: Option<&str>, exports: &[RuntimeExport], families: &'a [Family]) -> Result<&'a Family, ElfError> {
    let exported = |name: &str| exports.binary_search_by(|export| (*export.name).cmp(name)).is_ok();
    let missing = |family: &Family| -> Vec<String> { family.identity.anchors.iter().filter(|anchor| !exported(anchor)).cloned().collect() };
    if let Some(family) = families.iter().find(|family| missing(family).is_empty()) {
        return Ok(family);
    }
    let shape = format!("{} functions exported, soname {}", exports.len(), soname.unwrap_or("none"));
    let named = soname.and_then(|soname| families.iter().find(|family| soname.starts_with(&family.identity.soname_prefix)));
    let problem = if let Some(family) = named {
        format!(
            "has the soname of {} but does not export {} ({shape}): a stub or a damaged copy, and no statement about its doors is possible",
            family.identity.title,
            missing(family).join(", ")
        )
    } else {
        let known: Vec<String> =
            families.iter().map(|family| format!("{} ({})", family.identity.family, family.identity.anchors.join(", "))).collect();
        format!("is no runtime of a known family ({shape}); known are {}", known.join("; "))
    };
    Err(image.error("file", None, problem))
}

/// The release: a known build by its build-id, else the file name behind the soname link, else the newest version node.
fn release(path: &Path, table: &SymbolTable<'_>, build_id: Option<&str>, family: &Family) -> (Option<Release>, String) {
    if let Some(build) = build_id.and_then(|id| family.builds.iter().find(|build| build.build_id == id)) {
        return (Some(build.release), format!("build-id of {}", build.source));
    }
    let newest = family.identity.node_prefix.as_deref().and_then(|prefix| {
        let nodes = table.versions.definitions.iter();
        nodes.filter_map(|node| node.name.strip_prefix(prefix)?.parse::<Release>().ok()).max()
    });
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let from_name = real
        .file_name()
        .and_then(|name| name.to_str()?.strip_prefix(&format!("{}.", family.identity.soname_prefix)))
        .filter(|_| family.identity.node_prefix.is_some())
        .and_then(|numbers| numbers.split('.').take(2).collect::<Vec<_>>().join(".").parse::<Release>().ok());
    match (from_name, newest) {
        // A file name can be anything; the nodes say what it is at least.
        (Some(named), Some(newest)) if named.line() >= newest.line() => {
            (Some(named), format!("file name {}", real.file_name().unwrap_or_default().display()))
        }
        (_, Some(newest)) => (Some(newest), format!("newest version node {}{newest}", family.identity.node_prefix.as_deref().unwrap_or_default())),
        (_, None) => by_minor(&real, family).unwrap_or_else(|| (None, "nothing in the file tells".into())),
    }
}

/// The number in the name of a file that stands for one or several releases; the newest of them counts.
fn by_minor(real: &Path, family: &Family) -> Option<(Option<Release>, String)> {
    let name = real.file_name()?.to_str()?;
    let mut numbers = name.strip_prefix(&family.identity.soname_prefix)?.strip_prefix('.')?.split('.');
    let minor = format!("{}.{}", numbers.next()?, numbers.next()?);
    let library = family.identity.soname_prefix.trim_end_matches(".so");
    let row = minors::embedded().ok()?.into_iter().find(|row| row.library == library && row.minor == minor)?;
    Some((row.newest(), format!("file name {name}, which ROCm {} has", row.release)))
}

/// Own names that relocations bind by symbol, and imports of the family beneath with how they are bound.
fn relocated(image: &Elf, table: &SymbolTable<'_>, family: &Family, families: &[Family]) -> Result<(Vec<String>, Vec<RuntimeImport>), ElfError> {
    let beneath = family.identity.beneath.as_deref().and_then(|name| families.iter().find(|other| other.name() == name));
    let prefix = beneath.map(|beneath| format!("{}_", beneath.name()));
    let relocations = image.symbolic_relocations()?;
    let mut reentry = BTreeSet::new();
    let mut bound = BTreeSet::new();
    for relocation in relocations {
        let Some(symbol) = table.get(relocation.symbol) else {
            let problem = format!("names symbol {} of a table of {}", relocation.symbol, table.symbols.len() + 1);
            return Err(image.error("r_info", None, problem));
        };
        let by_symbol = matches!(relocation.kind, RelocationKind::JumpSlot | RelocationKind::GlobDat | RelocationKind::Absolute);
        if by_symbol && symbol.is_export() && symbol.is_function() {
            reentry.insert(symbol.name.to_string());
        }
        if by_symbol {
            bound.insert(symbol.index);
        }
    }
    let mut imports: Vec<RuntimeImport> = table
        .imports()
        .filter(|symbol| {
            prefix.as_ref().is_some_and(|prefix| symbol.name.starts_with(prefix))
                || beneath.is_some_and(|beneath| beneath.row(&symbol.name).is_some())
        })
        .map(|symbol| RuntimeImport {
            name: symbol.name.to_string(),
            node: table.version(symbol).map(|version| version.node.to_string()),
            preload_wins: bound.contains(&symbol.index),
        })
        .collect();
    imports.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((reentry.into_iter().collect(), imports))
}
