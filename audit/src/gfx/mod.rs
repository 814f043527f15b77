//! Which GPU targets a ROCm runtime knows, and so why a program sees no GPU.
//!
//! ROCr takes the version of each device from the kernel, looks it up in its compiled-in registry, and skips the device without a word if it
//! is not there. HIP does the same again with a table of its own. Asking the runtime needs a working one; here the file is read instead.
//!
//! Reading order: [`target`] (the grammar), [`identity`] (which library it is), [`names`] (where names stand), [`table`] and [`registry`]
//! (what is registered), [`verdict`] (the answer). Beside them [`release`] and [`override_version`]. What a program would load is decided
//! elsewhere; here is one file.

pub mod identity;
pub mod names;
pub mod override_version;
pub mod registry;
pub mod release;
pub mod table;
pub mod target;
pub mod verdict;

use std::path::Path;

use serde::Serialize;

use self::identity::Identity;
use self::names::Names;
use self::registry::Structure;
use self::release::{BadTable, Facts, Release};
use self::target::{Features, Name, Triple};
use self::verdict::Answer;
use crate::elf::{Elf, ElfError};

/// Files larger than this are not read: the largest runtime known takes 30 MB.
const MOST_BYTES: u64 = 512 << 20;

/// How the targets of a library are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Read from the code that builds the registry, or from the array that is one.
    Registry,
    /// Names that stand in the file.
    Mentions,
    /// Not looked for: the file is no runtime.
    None,
}

/// A registered target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// Its name without features.
    pub id: String,
    /// Its version.
    pub triple: Triple,
    /// Features that it is registered with in either state.
    pub features: Vec<&'static str>,
}

/// One library: the `gfx` subject of the reports, and behind it what a verdict needs.
#[derive(Debug, Serialize)]
pub struct Library {
    /// The file as it was named.
    pub file: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// GNU build-id.
    pub build_id: Option<String>,
    /// Which library it is.
    pub identity: Identity,
    /// For [`Identity::Other`]: what it is instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// How its targets are known.
    pub tier: Tier,
    /// Why not by its registry, where they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_no_registry: Option<String>,
    /// Which ROCm it comes from.
    pub release: Option<Release>,
    /// What it registers, by version.
    pub targets: Vec<Registered>,
    /// Families of code objects it registers, features left out.
    pub generics: Vec<String>,
    /// Targets that it names and does not register (all it names, where the registry could not be read).
    pub mentioned_only: Vec<String>,
    /// Names by the form they stand in.
    #[serde(skip)]
    pub names: Names,
    /// What the structure says.
    #[serde(skip)]
    pub structure: Structure,
}

/// Why a library could not be scanned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The file cannot be read or trusted.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The built-in table of releases is bad.
    #[error(transparent)]
    Table(#[from] BadTable),
}

/// Reads one library.
pub fn scan(image: &Elf) -> Result<Library, ScanError> {
    if image.len() > MOST_BYTES {
        return Err(image.error("file", None, format!("{} bytes, more than any runtime: {MOST_BYTES} at most are read", image.len())).into());
    }
    let soname = image.names()?.soname;
    let symbols = image.symbols()?;
    let (identity, what) = identity::read(image, soname.as_deref(), &symbols)?;
    let names = if identity == Identity::Other { Names::default() } else { names::read(image)? };
    let mut structure = registry::read(image, identity, &names)?;
    let nodes: Vec<_> = symbols.versions.definitions.iter().map(|definition| definition.name.clone()).collect();
    let facts = Facts { identity, path: Path::new(image.file()), build_id: names.build_id.as_deref(), nodes: &nodes };
    let mut library = Library {
        file: image.file().to_owned(),
        soname,
        build_id: image.build_id()?,
        identity,
        what,
        tier: match (identity, &structure.registry) {
            (Identity::Other, _) => Tier::None,
            (_, Some(_)) => Tier::Registry,
            (_, None) => Tier::Mentions,
        },
        why_no_registry: structure.why_not.take(),
        release: release::find(facts)?,
        targets: Vec::new(),
        generics: Vec::new(),
        mentioned_only: Vec::new(),
        names,
        structure,
    };
    library.structure.why_not.clone_from(&library.why_no_registry);
    library.list();
    Ok(library)
}

impl Library {
    /// Judges a target that people or scripts asked for.
    pub fn judge(&self, name: Name) -> Answer {
        verdict::judge(self, name)
    }

    /// The soname, or the file's name: what a sentence calls the library.
    pub fn short_name(&self) -> &str {
        self.soname.as_deref().unwrap_or(&self.file)
    }

    /// Fills the lists of the report.
    fn list(&mut self) {
        let registered = self.structure.registry.as_ref();
        if let Some(registry) = registered {
            self.targets = registry.targets.iter().map(|(&triple, features)| Registered::new(triple, features.iter().copied())).collect();
            self.generics = registry.generics.iter().map(ToString::to_string).collect();
        }
        let is_registered = |triple: &Triple| registered.is_some_and(|registry| registry.targets.contains_key(triple));
        self.mentioned_only = self.names.words.iter().filter(|triple| !is_registered(triple)).map(ToString::to_string).collect();
    }
}

impl Registered {
    fn new(triple: Triple, variants: impl Iterator<Item = Features> + Clone) -> Self {
        let features = [
            ("sramecc", variants.clone().any(|features| features.sramecc.is_some())),
            ("xnack", variants.clone().any(|features| features.xnack.is_some())),
        ];
        Self { id: triple.to_string(), triple, features: features.into_iter().filter(|&(_, has)| has).map(|(name, _)| name).collect() }
    }
}
