//! Everything the rules look at, read from the file once.

use crate::elf::{Binding, Class, Elf, Names, Relocation, RelocationKind, Requirement, Result, Segment, Symbol, SymbolTable, segment_type};
use crate::finding::{Check, Finding};
use crate::manifest::InterposedList;
use crate::manifest::glibc::{self, Provided, Providers};

use super::Outcome;

/// When the loader looks for the definition of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// No relocation names it: never.
    Never,
    /// At the first call (`JUMP_SLOT` without `DF_BIND_NOW`), unless `LD_BIND_NOW` is set.
    AtCall,
    /// Before the program starts.
    AtLoad,
}

impl Bound {
    /// The word that JSON uses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::AtCall => "at-call",
            Self::AtLoad => "at-load",
        }
    }
}

/// One undefined symbol.
#[derive(Debug, Clone, Copy)]
pub struct Import<'f> {
    /// Name without version.
    pub name: &'f str,
    /// The version it asks for.
    pub version: Option<&'f str>,
    /// The file its version is asked of.
    pub file: Option<&'f str>,
    /// True if its version is asked of a library that is no part of glibc.
    pub foreign: bool,
    /// What `DT_VERSYM` holds for it, [`Requirement::index`] of what it causes.
    pub version_index: u16,
    /// Weak binding: it may stay without a definition.
    pub weak: bool,
    /// When it is bound.
    pub bound: Bound,
    /// The first release of glibc, by [`glibc::sort_key`], in which libc.so.6 or a needed library defines it; all later ones do as well. 0 where that is
    /// nothing to ask: a foreign library may define it, or it need not be defined. `u64::MAX` where none does.
    pub since: u64,
    /// What glibc defines under this name; not looked up where the version is asked of a library that is no part of glibc.
    pub providers: Providers,
}

impl Import<'_> {
    /// `dlsym@GLIBC_2.2.5`, or the bare name.
    pub fn shown(&self) -> String {
        self.version.map_or_else(|| self.name.to_string(), |version| format!("{}@{version}", self.name))
    }

    /// What happens to a process in which nothing defines it: the loader asks for every strong symbol it binds.
    pub fn when_missing(&self) -> Outcome {
        match (self.weak, self.bound) {
            (true, _) | (_, Bound::Never) => Outcome::Nothing,
            (false, Bound::AtLoad) => Outcome::StopsEveryProgram,
            (false, Bound::AtCall) => Outcome::KillsTheCall,
        }
    }

    /// Weak references that compilers put into every library and that nothing need define.
    pub fn made_by_compiler(&self) -> bool {
        self.weak && matches!(self.name, "_ITM_deregisterTMCloneTable" | "_ITM_registerTMCloneTable" | "__gmon_start__" | "_Jv_RegisterClasses")
    }
}

/// The facts of one library.
#[derive(Debug)]
pub struct Facts<'f> {
    /// The file.
    pub image: &'f Elf,
    /// The strings of the dynamic section.
    pub names: &'f Names,
    /// The dynamic symbols.
    pub table: &'f SymbolTable<'f>,
    /// Every relocation that names a symbol.
    pub relocations: Vec<Relocation>,
    /// Every undefined symbol.
    pub imports: Vec<Import<'f>>,
    /// The first place that a relocation writes to in a segment that may not be written, and how many there are.
    pub text_relocations: Option<(u64, usize)>,
    /// Relocations whose value a function of the file computes at load.
    pub irelative: usize,
    /// The ISA bits that the file says it needs.
    pub isa_needed: Option<u32>,
    /// `x86_64`, `aarch64`, …; `x32` for x86-64 with 32-bit words.
    pub machine: String,
    /// The exports it must have, exactly.
    pub expected: Option<&'f InterposedList>,
}

impl<'f> Facts<'f> {
    /// Reads what is not read yet.
    pub(super) fn read(image: &'f Elf, names: &'f Names, table: &'f SymbolTable<'f>, expected: Option<&'f InterposedList>) -> Result<Self> {
        let mut facts = Self {
            image,
            names,
            table,
            relocations: Vec::new(),
            imports: Vec::new(),
            text_relocations: None,
            irelative: 0,
            isa_needed: image.isa_needed()?,
            machine: machine(image),
            expected,
        };
        facts.read_relocations()?;
        facts.read_imports();
        Ok(facts)
    }

    fn read_relocations(&mut self) -> Result<()> {
        let (mut symbolic, mut text, mut irelative) = (Vec::new(), None, 0);
        let loads = self.image.segments.iter().filter(|segment| segment.kind == segment_type::LOAD);
        let read_only: Vec<&Segment> = loads.filter(|segment| !segment.writable()).collect();
        let may_be_written = |place: u64| !read_only.iter().any(|load| place >= load.address && place - load.address < load.memory_size);
        self.image.each_relocation(&mut |relocation| {
            if relocation.symbol != 0 || matches!(relocation.kind, RelocationKind::Other(_)) {
                symbolic.push(relocation);
            }
            irelative += usize::from(relocation.kind == RelocationKind::IRelative);
            if !may_be_written(relocation.place) {
                text = Some(text.map_or((relocation.place, 1), |(first, count)| (first, count + 1)));
            }
        })?;
        (self.relocations, self.text_relocations, self.irelative) = (symbolic, text, irelative);
        Ok(())
    }

    fn read_imports(&mut self) {
        let now = self.image.dynamic.binds_now();
        let mut bound = vec![Bound::Never; self.table.symbols.len() + 1];
        for relocation in &self.relocations {
            let when = if relocation.kind == RelocationKind::JumpSlot && !now { Bound::AtCall } else { Bound::AtLoad };
            // An index past the table was refused when the file was read, or names nothing.
            if let Some(entry) = bound.get_mut(relocation.symbol as usize) {
                *entry = (*entry).max(when);
            }
        }
        let table = self.table;
        let stranger_needed = self.names.needed.iter().any(|name| !glibc::is_glibc(name));
        self.imports = table
            .imports()
            .map(|symbol| {
                let version = table.version(symbol);
                let file = version.and_then(|version| version.file);
                let foreign = file.is_some_and(|file| !glibc::is_glibc(file));
                let mut import = Import {
                    name: &symbol.name,
                    version: version.map(|version| version.node),
                    file,
                    foreign,
                    version_index: symbol.version_index.unwrap_or(0) & 0x7fff,
                    weak: symbol.binding == Binding::Weak,
                    bound: bound.get(symbol.index as usize).copied().unwrap_or(Bound::Never),
                    providers: if foreign { Providers::default() } else { Providers::of(&symbol.name) },
                    since: 0,
                };
                // Without a version a foreign library may be meant; what GLIBC_PRIVATE holds nobody promises.
                let open = foreign || (import.version.is_none() && stranger_needed) || import.version == Some("GLIBC_PRIVATE");
                if !open && !import.made_by_compiler() {
                    import.since = self.provided_since(&import);
                }
                import
            })
            .collect();
    }

    fn provided_since(&self, import: &Import<'_>) -> u64 {
        let loaded = |library: &str| library == "libc.so.6" || glibc::is_loader(library) || self.names.needed.iter().any(|name| name == library);
        // Other machines have the same symbols under other versions.
        let exact = import.version.filter(|_| self.machine == "x86_64");
        let fits = |row: &Provided<'_>| exact.is_none_or(|version| version == row.version) && loaded(row.library);
        import.providers.iter().filter(fits).map(|row| row.first_release()).min().unwrap_or(u64::MAX)
    }

    /// The imports that cause a requirement.
    pub fn causes<'a>(&'a self, requirement: &'a Requirement) -> impl Iterator<Item = &'a Import<'f>> + 'a {
        self.imports.iter().filter(|import| import.file.is_some() && import.version_index == requirement.index)
    }

    /// The exports: defined symbols with GLOBAL or WEAK binding.
    pub fn exports(&self) -> impl Iterator<Item = &Symbol<'_>> {
        self.table.exports()
    }

    /// The requirements on glibc's own libraries.
    pub fn glibc_requirements(&self) -> impl Iterator<Item = &Requirement> {
        self.table.versions.requirements.iter().filter(|requirement| glibc::is_glibc(&requirement.file))
    }

    /// A finding about this file that says what it does to the processes of a container.
    pub fn found(&self, check: &Check, outcome: Outcome, message: impl Into<String>) -> Finding {
        check.finding(self.image.file(), message).evidence("outcome", outcome.word())
    }
}

fn machine(image: &Elf) -> String {
    let name = image.header.machine_name();
    if name == "x86_64" && image.header.class == Class::Elf32 { "x32".into() } else { name }
}
