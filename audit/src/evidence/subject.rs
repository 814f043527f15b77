//! What a report shows of one runtime's machine code. Addresses are those of the file, as objdump prints them.

use serde::{Serialize, Serializer};

use crate::manifest::readings::ReadExport;
use crate::manifest::schema::SCHEMA_VERSION;
use crate::manifest::{Class, CodeReading, Release};

/// An address; in JSON `"0x…"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// What the code says of one export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A way leads to the functions that allocate.
    Allocates,
    /// A look-up of functions by name is one or two calls away.
    HandsOutPointers,
    /// A way leads to functions that make objects of the same classes, but not to those that seeds share: imports, mappings, views.
    Imports,
    /// None of these was seen. It may allocate all the same.
    NothingSeen,
    /// The code could not be followed.
    Unknown,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 5] = [Self::Allocates, Self::HandsOutPointers, Self::Imports, Self::NothingSeen, Self::Unknown];

    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allocates => "allocates",
            Self::HandsOutPointers => "hands-out-pointers",
            Self::Imports => "imports",
            Self::NothingSeen => "nothing-seen",
            Self::Unknown => "unknown",
        }
    }
}

/// One step of a way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The instruction.
    pub at: Address,
    /// The function it leads to; none where it leads out of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Address>,
    /// Its name, where debug information has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For a call through a virtual table: how many functions it may lead to, of which this is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_of: Option<usize>,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.at)?;
        self.to.map_or(Ok(()), |to| write!(f, " -> {to}"))?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, " {name}"))?;
        match self.one_of {
            None => Ok(()),
            Some(1) => write!(f, " (through a table)"),
            Some(count) => write!(f, " (through a table, one of {count})"),
        }
    }
}

/// An allocator of the family beneath that an export reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Way {
    /// The import.
    pub import: String,
    /// True if every use of it is a relocation by name, which a preload wins.
    pub preload_wins: bool,
    /// A shortest way: the last step is the call of the import.
    pub path: Vec<Step>,
}

/// What an export reaches of the family beneath.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Beneath {
    /// True if every call on every way from the export was followed: the ways are then all there are. Otherwise it may reach whatever the runtime imports.
    pub followed: bool,
    /// The nearest call that could not be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_followed: Option<Address>,
    /// Allocating imports that were reached, by name.
    pub ways: Vec<Way>,
}

/// One export.
#[derive(Debug, Clone, Serialize)]
pub struct Export {
    /// Name without version.
    pub name: String,
    /// Where the symbol points.
    pub address: Address,
    /// The function that does the work.
    pub body: Option<Address>,
    /// For a stub: offset of its slot in the dispatch table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Address>,
    /// The class in this release, where the manifest knows the export.
    pub class: Option<Class>,
    /// What the code says.
    pub verdict: Verdict,
    /// Imports and functions of the core that the way leads to.
    pub reaches: Vec<String>,
    /// The way there.
    pub path: Vec<Step>,
    /// For what reaches the core: true if something that the caller passes was seen to flow into the allocation. False is no proof of the contrary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller_sized: Option<bool>,
    /// A function close by that seeds have close by, too, no certain non-allocator has, and few exports share: a reason to look, no proof.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alarm: Option<Address>,
    /// What it reaches of the family beneath, where there is one and the body is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beneath: Option<Beneath>,
    /// The body's name, where debug information has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal: Option<String>,
    /// What it takes and returns in C's notation, where debug information has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prototype: Option<String>,
    /// The same in words.
    pub says: String,
}

/// A check of the reading against itself.
#[derive(Debug, Clone, Serialize)]
pub struct SelfCheck {
    /// What is checked.
    pub name: &'static str,
    /// True if it holds.
    pub holds: bool,
    /// What was counted.
    pub says: String,
}

/// A dispatch table.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// The function that fills it and returns it.
    pub getter: Address,
    /// Where it begins.
    pub base: Option<Address>,
    /// Slots by its own size.
    pub slots: usize,
    /// Slots that the getter fills.
    pub filled: usize,
    /// Exports that jump through it.
    pub stubs: usize,
    /// Of these, how many have an implementation.
    pub recovered: usize,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A function of the core.
#[derive(Debug, Clone, Serialize)]
pub struct Member {
    /// Where it starts.
    pub address: Address,
    /// The instruction that puts it there.
    pub at: Address,
    /// Why.
    pub why: String,
    /// Its name, where debug information has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The functions that allocate.
#[derive(Debug, Clone, Serialize)]
pub struct Core {
    /// Mangled name of the class whose objects stand for allocations.
    pub class: String,
    /// Mangled name of the class through whose table they are made.
    pub device: Option<String>,
    /// Its functions.
    pub functions: Vec<Member>,
}

/// An import, or an own export reached through the PLT, and who calls it.
#[derive(Debug, Clone, Serialize)]
pub struct Called {
    /// The name.
    pub name: String,
    /// Its class in its own family, where the manifest knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The instructions that call it.
    pub at: Vec<Address>,
    /// Exports from which a way of direct calls leads to one of them.
    pub reached_from: Vec<String>,
    /// True if every use is a relocation by name, which a preload wins.
    pub preload_wins: bool,
}

/// The targets of a runtime that keeps a registry of GPUs.
#[derive(Debug, Clone, Serialize)]
pub struct Registry {
    /// What it registers, with the version that stands beside the name.
    pub targets: Vec<String>,
    /// Families of code objects that it registers.
    pub generics: Vec<String>,
    /// Names that stand in the file and are not registered: those of a table that converts old names, as a rule.
    pub mentioned_only: Vec<String>,
    /// Targets that the code objects inside the file are built for.
    pub code_objects: Vec<String>,
}

/// One runtime.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// The file.
    pub file: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// GNU build-id.
    pub build_id: Option<String>,
    /// Runtime family.
    pub family: String,
    /// Release, as exactly as it is known.
    pub release: Option<Release>,
    /// Architecture.
    pub machine: String,
    /// Functions decoded.
    pub functions: usize,
    /// Checks of the reading against itself.
    pub self_checks: Vec<SelfCheck>,
    /// Dispatch tables.
    pub tables: Vec<Table>,
    /// What allocates.
    pub core: Option<Core>,
    /// Why nothing could be named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_refused: Option<String>,
    /// Allocators of the family beneath that it imports.
    pub sinks: Vec<Called>,
    /// Own exports that it calls through its PLT, where an interposer stands in between.
    pub self_calls: Vec<Called>,
    /// The registry of GPUs, where the runtime has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<Registry>,
    /// The file that names came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_file: Option<String>,
    /// Every exported function, or those that were asked for.
    pub exports: Vec<Export>,
    /// True if single exports were asked for: a text then shows all that is known of them.
    #[serde(skip)]
    pub single: bool,
}

impl Subject {
    /// What is stored of a known build.
    pub fn stored(&self, release: Release, build_id: &str) -> CodeReading {
        let export = |export: &Export| ReadExport {
            name: export.name.clone(),
            says: export.verdict.word().into(),
            caller_sized: export.caller_sized == Some(true),
            followed: export.beneath.as_ref().is_some_and(|beneath| beneath.followed),
            reaches: export.beneath.iter().flat_map(|beneath| &beneath.ways).map(|way| way.import.clone()).collect(),
        };
        CodeReading {
            schema_version: SCHEMA_VERSION,
            family: self.family.clone(),
            release,
            build_id: build_id.into(),
            refused: self.core_refused.clone(),
            takes: self.sinks.iter().map(|sink| sink.name.clone()).collect(),
            exports: self.exports.iter().map(export).collect(),
        }
    }
}

impl Registry {
    /// The cross-check: runtimes are built with code objects for every GPU that they register, from another list of the same build.
    pub fn check(&self) -> SelfCheck {
        SelfCheck {
            name: "code-objects",
            holds: self.code_objects.is_empty() || self.code_objects == self.targets,
            says: match self.code_objects.len() {
                0 => format!("no code objects inside the file to hold against the {} targets of the registry", self.targets.len()),
                count => format!("the code objects inside the file are built for {count} targets, the registry holds {}", self.targets.len()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn a_registry_is_held_against_the_code_objects_of_its_build() {
        let registry = |code_objects: &[&str]| Registry {
            targets: vec!["gfx900".into(), "gfx906".into()],
            generics: Vec::new(),
            mentioned_only: Vec::new(),
            code_objects: code_objects.iter().map(ToString::to_string).collect(),
        };
        assert!(registry(&["gfx900", "gfx906"]).check().holds);
        assert!(registry(&[]).check().holds && registry(&[]).check().says.starts_with("no code objects"));
        assert!(!registry(&["gfx900"]).check().holds);
        assert!(!registry(&["gfx900", "gfx90a"]).check().holds);
    }
}
