//! What two readers of one ELF file are compared by, filled here from our own reader.

use std::collections::BTreeSet;

use vrocm_audit::elf::{Binding, Elf, ElfError, Kind, Place, RelocationKind, Visibility};

/// Facts of one file in words that both readers share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_RPATH`.
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    pub runpath: Option<String>,
    /// `PT_INTERP`.
    pub interpreter: Option<String>,
    /// Build-id in hex.
    pub build_id: Option<String>,
    /// ISA level bits of the property note.
    pub isa_needed: Option<u32>,
    /// `DT_VERNEED`: file, version, weak flag, in order.
    pub requirements: Vec<(String, String, bool)>,
    /// `DT_VERDEF`: name, base flag, in order.
    pub definitions: Vec<(String, bool)>,
    /// All dynamic symbols but the null symbol, by index.
    pub symbols: Vec<Symbol>,
    /// Relocations that name a symbol, as a set: tables may overlap and come in any order.
    pub symbolic: BTreeSet<Relocation>,
    /// Relative relocations: place and, where the reader knows it, the address put there.
    pub relative: BTreeSet<(u64, Option<u64>)>,
}

/// One dynamic symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Name without version.
    pub name: String,
    /// `@@node`, `@node`, or nothing.
    pub version: String,
    /// LOCAL, GLOBAL, WEAK, UNIQUE, or `other`.
    pub binding: &'static str,
    /// NOTYPE, FUNC, …, or `other`.
    pub kind: &'static str,
    /// DEFAULT, HIDDEN, INTERNAL, PROTECTED.
    pub visibility: &'static str,
    /// UND, ABS, or `here`.
    pub place: &'static str,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
}

/// One relocation that names a symbol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relocation {
    /// Address.
    pub place: u64,
    /// Name of the symbol, without version.
    pub symbol: String,
    /// Kind in words; `other` where the two readers have no common word.
    pub kind: &'static str,
    /// Addend; 0 where it stands at the place.
    pub addend: i64,
}

impl Facts {
    /// What our reader says.
    pub fn ours(image: &Elf) -> Result<Self, ElfError> {
        let names = image.names()?;
        let table = image.symbols()?;
        let symbols = table.symbols.iter().map(|symbol| Symbol {
            name: symbol.name.clone().into_owned(),
            // readelf leaves the version of the symbol that marks a version node out: it would repeat the name.
            version: table.version(symbol).filter(|version| symbol.place != Place::Absolute || version.node != symbol.name).map_or_else(
                String::new,
                |version| {
                    let default = version.file.is_none() && symbol.place != Place::Undefined && !version.hidden;
                    format!("{}{}", if default { "@@" } else { "@" }, version.node)
                },
            ),
            binding: binding(symbol.binding),
            kind: kind(symbol.kind),
            visibility: visibility(symbol.visibility),
            place: match symbol.place {
                Place::Undefined => "UND",
                Place::Absolute => "ABS",
                Place::Here => "here",
            },
            value: symbol.value,
            size: symbol.size,
        });
        let symbolic = image.symbolic_relocations()?.iter().map(|relocation| Relocation {
            place: relocation.place,
            symbol: table.get(relocation.symbol).map_or_else(|| format!("symbol {}", relocation.symbol), |symbol| symbol.name.clone().into_owned()),
            kind: relocation_kind(relocation.kind),
            addend: relocation.addend,
        });
        Ok(Self {
            needed: names.needed,
            soname: names.soname,
            rpath: names.rpath,
            runpath: names.runpath,
            interpreter: image.interpreter()?,
            build_id: image.build_id()?,
            isa_needed: image.isa_needed()?,
            requirements: table.versions.requirements.iter().map(|need| (need.file.clone(), need.version.clone(), need.weak)).collect(),
            definitions: table.versions.definitions.iter().map(|node| (node.name.clone(), node.base)).collect(),
            symbols: symbols.collect(),
            symbolic: symbolic.collect(),
            relative: image.relative_relocations()?.into_iter().map(|(place, address)| (place, Some(address))).collect(),
        })
    }

    /// The first few differences to another reader's facts, one a line; empty if there are none.
    pub fn differences(&self, theirs: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                found.push(format!("{what}: ours {ours}, theirs {theirs}"));
            }
        };
        compare("DT_NEEDED", format!("{:?}", self.needed), format!("{:?}", theirs.needed));
        compare("DT_SONAME", format!("{:?}", self.soname), format!("{:?}", theirs.soname));
        compare("DT_RPATH", format!("{:?}", self.rpath), format!("{:?}", theirs.rpath));
        compare("DT_RUNPATH", format!("{:?}", self.runpath), format!("{:?}", theirs.runpath));
        compare("PT_INTERP", format!("{:?}", self.interpreter), format!("{:?}", theirs.interpreter));
        compare("build-id", format!("{:?}", self.build_id), format!("{:?}", theirs.build_id));
        compare("ISA needed", format!("{:?}", self.isa_needed), format!("{:?}", theirs.isa_needed));
        compare("DT_VERNEED", format!("{:?}", self.requirements), format!("{:?}", theirs.requirements));
        compare("DT_VERDEF", format!("{:?}", self.definitions), format!("{:?}", theirs.definitions));
        compare("symbols", self.symbols.len().to_string(), theirs.symbols.len().to_string());
        compare("symbolic relocations", self.symbolic.len().to_string(), theirs.symbolic.len().to_string());
        compare("relative relocations", self.relative.len().to_string(), theirs.relative.len().to_string());
        let symbols = self.symbols.iter().zip(&theirs.symbols).enumerate().filter(|(_, (ours, theirs))| ours != theirs);
        found.extend(symbols.take(3).map(|(index, (ours, theirs))| format!("symbol {}: ours {ours:?}, theirs {theirs:?}", index + 1)));
        found.extend(self.symbolic.difference(&theirs.symbolic).take(3).map(|ours| format!("only ours: {ours:?}")));
        found.extend(theirs.symbolic.difference(&self.symbolic).take(3).map(|theirs| format!("only theirs: {theirs:?}")));
        found.extend(self.relative.difference(&theirs.relative).take(3).map(|ours| format!("only ours: relative {ours:x?}")));
        found.extend(theirs.relative.difference(&self.relative).take(3).map(|theirs| format!("only theirs: relative {theirs:x?}")));
        found
    }
}

/// The word for a binding.
pub fn binding(binding: Binding) -> &'static str {
    match binding {
        Binding::Local => "LOCAL",
        Binding::Global => "GLOBAL",
        Binding::Weak => "WEAK",
        Binding::GnuUnique => "UNIQUE",
        Binding::Other => "other",
    }
}

/// The word for a type.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::NoType => "NOTYPE",
        Kind::Object => "OBJECT",
        Kind::Func => "FUNC",
        Kind::Section => "SECTION",
        Kind::File => "FILE",
        Kind::Common => "COMMON",
        Kind::Tls => "TLS",
        Kind::IFunc => "IFUNC",
        Kind::Other => "other",
    }
}

/// The word for a visibility.
pub fn visibility(visibility: Visibility) -> &'static str {
    match visibility {
        Visibility::Default => "DEFAULT",
        Visibility::Internal => "INTERNAL",
        Visibility::Hidden => "HIDDEN",
        Visibility::Protected => "PROTECTED",
    }
}

fn relocation_kind(kind: RelocationKind) -> &'static str {
    match kind {
        RelocationKind::JumpSlot => "JUMP_SLOT",
        RelocationKind::GlobDat => "GLOB_DAT",
        RelocationKind::Copy => "COPY",
        RelocationKind::Absolute => "absolute",
        RelocationKind::Relative => "RELATIVE",
        RelocationKind::IRelative => "IRELATIVE",
        RelocationKind::Tls => "tls",
        RelocationKind::Other(_) => "other",
    }
}
