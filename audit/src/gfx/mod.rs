//! Which GPU targets a ROCm runtime knows, and so why a program sees no GPU.
//!
//! ROCr takes the version of each device from the kernel, looks it up in its compiled-in registry, and skips the device without a word if it
//! is not there. HIP does the same again with a table of its own. Asking the runtime needs a working one; here the file is read instead.
//!
//! Reading order: [`target`] (the grammar), [`identity`] (which library it is), [`names`] (where names stand), [`table`], [`builder`] and
//! [`registry`] (what is registered), [`doubts`] (the closer look at what is not), [`verdict`] (the answer), [`audit`] (what a report shows of it). Beside them [`release`] and
//! [`override_version`]. What a program would load is decided elsewhere; here is one file.

pub mod audit;
pub mod builder;
pub mod checks;
pub mod doubts;
pub mod identity;
pub mod names;
pub mod override_version;
pub mod preflight;
pub mod registry;
pub mod regular;
pub mod release;
pub mod table;
pub mod target;
pub mod verdict;

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use self::doubts::Doubts;
use self::identity::Identity;
use self::names::{Names, Part};
use self::registry::Registry;
use self::release::{Facts, Release};
use self::target::{Features, Name, Triple};
use self::verdict::{Answer, Verdict};
use crate::elf::{Elf, ElfError};
use crate::manifest::BadManifest;

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
    /// Names by the form they stand in; only the parts of the file that had to be read.
    #[serde(skip)]
    pub names: Names,
    /// The registry, where it could be read.
    #[serde(skip)]
    pub registry: Option<Registry>,
    /// The last closer look, where one was taken.
    #[serde(skip)]
    pub doubts: Option<Doubts>,
    /// Parts of the file whose names are not known.
    #[serde(skip)]
    unread: Vec<Part>,
}

/// Why a library could not be scanned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The file cannot be read or trusted.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The built-in table of releases is bad.
    #[error(transparent)]
    Table(#[from] BadManifest),
}

/// Reads one library.
///
/// Where the registry can be read, nothing else is: an answer "unsupported" about the library then needs a closer look, which
/// [`scan_for`] takes.
pub fn scan(image: &Elf) -> Result<Library, ScanError> {
    bounded(image)?;
    let soname = image.names()?.soname;
    let symbols = image.symbols()?;
    let (identity, what) = identity::read(image, soname.as_deref(), &symbols);
    let mut library = Library {
        file: image.file().to_owned(),
        soname,
        build_id: image.build_id()?,
        identity,
        what,
        tier: Tier::None,
        why_no_registry: None,
        release: None,
        targets: Vec::new(),
        generics: Vec::new(),
        mentioned_only: Vec::new(),
        names: Names::default(),
        registry: None,
        doubts: None,
        unread: vec![Part::Data, Part::Code, Part::Constants],
    };
    if identity != Identity::Other {
        library.read(image)?;
        let nodes: Vec<_> = symbols.versions.definitions.iter().map(|definition| definition.name.clone()).collect();
        let facts = Facts { identity, path: Path::new(image.file()), build_id: library.names.build_id.as_deref(), nodes: &nodes };
        library.release = release::find(facts)?;
    }
    Ok(library)
}

/// Refuses a file that is larger than any runtime, before anything of it is read.
fn bounded(image: &Elf) -> Result<(), ElfError> {
    if image.len() > MOST_BYTES {
        return Err(image.error("file", None, format!("{} bytes, more than any runtime: {MOST_BYTES} at most are read", image.len())));
    }
    Ok(())
}

/// Reads one library and judges a name, with a closer look where the answer depends on it.
pub fn scan_for(image: &Elf, name: Name) -> Result<(Library, Answer), ScanError> {
    let mut library = scan(image)?;
    let answer = library.answer(image, name)?;
    Ok((library, answer))
}

impl Library {
    /// Judges a name, with a closer look at `image`, the file that was scanned, where the answer depends on it.
    pub fn answer(&mut self, image: &Elf, name: Name) -> Result<Answer, ScanError> {
        bounded(image)?;
        let answer = verdict::judge(self, name);
        if let (Verdict::Unsupported, Some(registry), Name::Target(target)) = (answer.verdict, &self.registry, name) {
            self.doubts = Some(doubts::about(image, registry, target.triple, &self.names, &self.unread)?);
            return Ok(verdict::judge(self, name));
        }
        Ok(answer)
    }

    /// Targets that the code objects inside `image`, the file that was scanned, are built for: a list of the same build, kept apart from the registry.
    pub fn code_objects(&mut self, image: &Elf) -> Result<&BTreeSet<Triple>, ScanError> {
        bounded(image)?;
        if let Some(at) = self.unread.iter().position(|&part| part == Part::Data) {
            self.names.read(image, self.unread.remove(at))?;
        }
        Ok(&self.names.code_objects)
    }

    /// The soname, or the file's name: what a sentence calls the library.
    pub fn short_name(&self) -> &str {
        self.soname.as_deref().unwrap_or(&self.file)
    }

    /// Reads parts of the file, constants first, until the registry is found or all is read.
    fn read(&mut self, image: &Elf) -> Result<(), ScanError> {
        while let Some(part) = self.unread.pop() {
            self.names.read(image, part)?;
            // Without an id that has features there is no registry, so the next part may hold what is missing.
            if !self.names.have_features() && !self.unread.is_empty() {
                continue;
            }
            match registry::read(image, self.identity, &self.names)? {
                Ok(registry) => {
                    self.registry = Some(registry);
                    break;
                }
                Err(why) => self.why_no_registry = Some(why),
            }
        }
        if self.registry.is_some() {
            (self.tier, self.why_no_registry) = (Tier::Registry, None);
        } else {
            self.tier = Tier::Mentions;
            self.doubts = Some(doubts::in_code(image)?);
        }
        self.list();
        Ok(())
    }

    /// Fills the lists of the report.
    fn list(&mut self) {
        let registered = self.registry.as_ref();
        if let Some(registry) = registered {
            self.targets = registry.targets.iter().map(|(&triple, features)| Registered::new(triple, features)).collect();
            self.generics = registry.generics.iter().map(ToString::to_string).collect();
        }
        let is_registered = |triple: &Triple| registered.is_some_and(|registry| registry.targets.contains_key(triple));
        self.mentioned_only = self.names.words.iter().filter(|triple| !is_registered(triple)).map(ToString::to_string).collect();
    }
}

impl Registered {
    fn new(triple: Triple, variants: &BTreeSet<Features>) -> Self {
        let features = [
            ("sramecc", variants.iter().any(|features| features.sramecc.is_some())),
            ("xnack", variants.iter().any(|features| features.xnack.is_some())),
        ];
        Self { id: triple.to_string(), triple, features: features.into_iter().filter(|&(_, has)| has).map(|(name, _)| name).collect() }
    }
}
