//! `DT_SYMTAB` and `DT_VERSYM`: the dynamic symbols, each with its version node.

use std::borrow::Cow;
use std::collections::HashSet;

use object::elf;
use object::endian::U16;
use object::pod;
use object::read::elf::{FileHeader, Sym as _};
use serde::Serialize;

use super::error::Result;
use super::hash::{self, Tables};
use super::header::by_class;
use super::version::{self, Versions};
use super::{Elf, Endianness, string};

/// `STB_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// Not seen by other files.
    Local,
    /// Seen, strong.
    Global,
    /// Seen, weak.
    Weak,
    /// `STB_GNU_UNIQUE`: global, one per process.
    GnuUnique,
    /// Any other value.
    Other,
}

/// `STT_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// No type.
    NoType,
    /// Data.
    Object,
    /// Function.
    Func,
    /// A section.
    Section,
    /// A source file's name.
    File,
    /// Uninitialised common data.
    Common,
    /// Thread-local data.
    Tls,
    /// `STT_GNU_IFUNC`: a function chosen by a resolver at load time.
    IFunc,
    /// Any other value.
    Other,
}

/// `STV_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// As the binding says.
    Default,
    /// Not for other files; the loader passes over it.
    Internal,
    /// Not for other files; the loader passes over it.
    Hidden,
    /// For other files; references from inside stay inside.
    Protected,
}

/// Where a symbol is defined, `st_shndx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// `SHN_UNDEF`: an import.
    Undefined,
    /// `SHN_ABS`: a value, not an address.
    Absolute,
    /// In this file.
    Here,
}

/// A symbol's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version<'a> {
    /// The node's name.
    pub node: &'a str,
    /// For an import: the file the requirement names.
    pub file: Option<&'a str>,
    /// For an export: `name@node`, reachable only by asking for this node.
    pub hidden: bool,
}

/// One dynamic symbol.
#[derive(Debug, Clone)]
pub struct Symbol<'a> {
    /// Index in `DT_SYMTAB`.
    pub index: u32,
    /// Name without version.
    pub name: Cow<'a, str>,
    /// Binding.
    pub binding: Binding,
    /// Type.
    pub kind: Kind,
    /// Visibility.
    pub visibility: Visibility,
    /// Where it is defined.
    pub place: Place,
    /// `st_value`, an address for what is defined here.
    pub value: u64,
    /// `st_size` in bytes.
    pub size: u64,
    /// The raw `DT_VERSYM` entry; `None` where the file has no such table.
    pub version_index: Option<u16>,
    /// The name as the file has it, for hashing.
    raw_name: &'a [u8],
    /// Offset in the file of the entry, for messages.
    offset: u64,
    /// The absolute symbol that the linker leaves for a version node, named like it.
    node_marker: bool,
}

impl Symbol<'_> {
    /// Defined here with GLOBAL or WEAK (or UNIQUE) binding: an export in the words of the glossary, whatever its visibility.
    pub fn is_export(&self) -> bool {
        self.place != Place::Undefined && matches!(self.binding, Binding::Global | Binding::Weak | Binding::GnuUnique)
    }

    /// Undefined with GLOBAL or WEAK binding, or any other that is not LOCAL: the loader looks all of them up, unless the visibility is hidden.
    ///
    /// One with a value is a program's PLT entry: the function's address for the whole process, though another file defines it.
    pub fn is_import(&self) -> bool {
        self.place == Place::Undefined && self.binding != Binding::Local
    }

    /// A function, chosen by a resolver or not.
    pub fn is_function(&self) -> bool {
        matches!(self.kind, Kind::Func | Kind::IFunc)
    }
}

/// All dynamic symbols of a file, with the names of the versions they refer to.
#[derive(Debug)]
pub struct SymbolTable<'a> {
    /// Symbols by index, the null symbol left out.
    pub symbols: Vec<Symbol<'a>>,
    /// The version definitions and requirements of the file.
    pub versions: Versions,
    /// What each version index stands for, by index.
    by_index: Vec<Option<VersionName>>,
}

#[derive(Debug, Clone, Copy)]
enum VersionName {
    Base,
    Definition(usize),
    Requirement(usize),
}

impl SymbolTable<'_> {
    /// Exports: defined symbols with GLOBAL or WEAK binding, the ABS markers of version nodes left out.
    pub fn exports(&self) -> impl Iterator<Item = &Symbol<'_>> {
        self.symbols.iter().filter(|symbol| symbol.is_export() && !symbol.node_marker)
    }

    /// Imports: undefined symbols with GLOBAL or WEAK binding.
    pub fn imports(&self) -> impl Iterator<Item = &Symbol<'_>> {
        self.symbols.iter().filter(|symbol| symbol.is_import())
    }

    /// The version of a symbol; `None` for unversioned ones and for the base version.
    ///
    /// Index 0 (`VER_NDX_LOCAL`) counts as unversioned too: glibc and musl bind such an export like one of index 1. Any other index has an
    /// entry in `DT_VERDEF` or `DT_VERNEED`; a table where one has none is not read at all.
    pub fn version(&self, symbol: &Symbol<'_>) -> Option<Version<'_>> {
        let raw = symbol.version_index?;
        let hidden = raw & elf::VERSYM_HIDDEN.0 != 0;
        match (*self.by_index.get(usize::from(raw & elf::VERSYM_VERSION))?)? {
            VersionName::Base => None,
            VersionName::Definition(position) => Some(Version { node: &self.versions.definitions[position].name, file: None, hidden }),
            VersionName::Requirement(position) => {
                let requirement = &self.versions.requirements[position];
                Some(Version { node: &requirement.version, file: Some(&requirement.file), hidden: false })
            }
        }
    }

    /// Which of [`Versions::definitions`] an export has, by position; `None` for unversioned ones and for the base version.
    pub fn definition(&self, symbol: &Symbol<'_>) -> Option<usize> {
        match (*self.by_index.get(usize::from(symbol.version_index? & elf::VERSYM_VERSION))?)? {
            VersionName::Definition(position) => Some(position),
            VersionName::Base | VersionName::Requirement(_) => None,
        }
    }

    /// Finds a symbol by its index in `DT_SYMTAB`.
    pub fn get(&self, index: u32) -> Option<&Symbol<'_>> {
        self.symbols.get((index as usize).checked_sub(1)?)
    }
}

/// Reads the whole table.
pub(super) fn read(image: &Elf) -> Result<SymbolTable<'_>> {
    let versions = version::read(image)?;
    let by_index = index_versions(image, &versions)?;
    let Some(address) = image.dynamic.value(elf::DT_SYMTAB) else {
        return Ok(SymbolTable { symbols: Vec::new(), versions, by_index });
    };
    let tables = hash::read(image)?;
    let named = highest_named(image)?;
    let count = count(image, address, &tables, named)?;
    if count <= named {
        let problem = format!("a relocation names symbol {named}, but the hash table ends before symbol {count}");
        return Err(image.error("r_info", image.dynamic.offset(elf::DT_SYMTAB), problem));
    }
    let mut symbols = by_class!(image.header.class, read_entries(image, address, count))?;
    check_versions(image, &symbols, &by_index)?;
    let nodes: HashSet<&str> = versions.definitions.iter().map(|definition| definition.name.as_str()).collect();
    for symbol in symbols.iter_mut().filter(|symbol| symbol.place == Place::Absolute) {
        symbol.node_marker = nodes.contains(symbol.name.as_ref());
    }
    check_reachable(image, &tables, &symbols)?;
    Ok(SymbolTable { symbols, versions, by_index })
}

fn index_versions(image: &Elf, versions: &Versions) -> Result<Vec<Option<VersionName>>> {
    let mut by_index: Vec<Option<VersionName>> = Vec::new();
    let named = versions
        .definitions
        .iter()
        .enumerate()
        .map(|(position, definition)| (definition.index, if definition.base { VersionName::Base } else { VersionName::Definition(position) }));
    let asked = versions.requirements.iter().enumerate().map(|(position, need)| (need.index, VersionName::Requirement(position)));
    for (index, name) in named.chain(asked) {
        let index = usize::from(index);
        if by_index.len() <= index {
            by_index.resize(index + 1, None);
        }
        if by_index[index].replace(name).is_some() {
            return Err(image.error(
                "vd_ndx / vna_other",
                image.dynamic.offset(elf::DT_VERSYM),
                format!("version index {index} stands for two versions"),
            ));
        }
    }
    Ok(by_index)
}

/// Every index of `DT_VERSYM` from 2 on must stand for a version: for one without, the loader reads past its own table.
fn check_versions(image: &Elf, symbols: &[Symbol<'_>], by_index: &[Option<VersionName>]) -> Result<()> {
    for symbol in symbols {
        let Some(index) = symbol.version_index.map(|raw| raw & elf::VERSYM_VERSION) else { continue };
        if index > elf::VER_NDX_GLOBAL.0 && by_index.get(usize::from(index)).is_none_or(Option::is_none) {
            let problem =
                format!("symbol {} ({}) has version index {index}, which no entry of DT_VERDEF or DT_VERNEED has", symbol.index, symbol.name);
            let table = image.dynamic.value(elf::DT_VERSYM).and_then(|address| image.locate(address));
            return Err(image.error("DT_VERSYM", table.map(|(offset, _)| offset + u64::from(symbol.index) * 2), problem));
        }
    }
    Ok(())
}

/// The highest index that a relocation names; 0 if none names a symbol.
fn highest_named(image: &Elf) -> Result<u64> {
    Ok(image.symbolic_relocations()?.iter().map(|relocation| u64::from(relocation.symbol)).max().unwrap_or(0))
}

/// How many symbols there are.
///
/// The hash tables know: the loader's own first. A GNU table without a chain (a file that only imports) does not count the
/// imports; then `DT_HASH`, or the distance to the next table, checked against the highest symbol that relocations name.
fn count(image: &Elf, address: u64, tables: &Tables, named: u64) -> Result<u64> {
    match tables {
        Tables::Gnu(gnu) => {
            if let Some(count) = gnu.symbol_count() {
                return Ok(count.into());
            }
            // A DT_HASH that cannot be read is no loss here: the loader does not look at it either.
            if let Ok(Some(sysv)) = hash::read_sysv(image)
                && sysv.symbol_count() > 0
            {
                return Ok(sysv.symbol_count().into());
            }
        }
        Tables::Sysv(sysv) => return Ok(sysv.symbol_count().into()),
        Tables::None => {}
    }
    count_by_layout(image, address, named)
}

fn count_by_layout(image: &Elf, address: u64, named: u64) -> Result<u64> {
    let next_table = image.dynamic.table_addresses().filter(|&table| table > address).min();
    let segment_end = image.locate(address).map(|(_, left)| address + left);
    let Some(end) = next_table.into_iter().chain(segment_end).min() else {
        return Err(image.error(
            "DT_SYMTAB",
            image.dynamic.offset(elf::DT_SYMTAB),
            format!("address {address:#x} is in no PT_LOAD's part of the file"),
        ));
    };
    let fits = (end - address) / symbol_size(image);
    if fits <= named {
        let problem = format!("relocations name symbol {named}, but the next table leaves room for {fits} symbols only");
        return Err(image.error("DT_SYMTAB", image.dynamic.offset(elf::DT_SYMTAB), problem));
    }
    Ok(fits)
}

/// Size of `Elf32_Sym` or `Elf64_Sym` in bytes.
fn symbol_size(image: &Elf) -> u64 {
    match image.header.class {
        super::Class::Elf32 => 16,
        super::Class::Elf64 => 24,
    }
}

fn read_entries<H: FileHeader<Endian = Endianness>>(image: &Elf, address: u64, count: u64) -> Result<Vec<Symbol<'_>>> {
    let entry = size_of::<H::Sym>() as u64;
    let dynamic = &image.dynamic;
    if let Some(size) = dynamic.value(elf::DT_SYMENT)
        && size != entry
    {
        return Err(image.error("DT_SYMENT", dynamic.offset(elf::DT_SYMENT), format!("{size} where this class has symbols of {entry} bytes")));
    }
    let strings = image.strings()?;
    let window = image.window("DT_SYMTAB (size by the hash table)", address, count.saturating_mul(entry))?;
    let raw = pod::slice_from_all_bytes::<H::Sym>(&window.bytes).unwrap_or_default();
    let versym = match dynamic.value(elf::DT_VERSYM) {
        Some(address) => Some(image.window("DT_VERSYM", address, count * 2)?),
        None => None,
    };
    let versym = versym.as_ref().map(|window| pod::slice_from_all_bytes::<U16<Endianness>>(&window.bytes).unwrap_or_default());
    let endian = image.header.endian;
    let mut meter = strings.meter();
    let mut symbols = Vec::with_capacity(raw.len().saturating_sub(1));
    for (index, raw) in raw.iter().enumerate().skip(1) {
        let at = window.offset + index as u64 * entry;
        let raw_name = strings.raw(image, "st_name", Some(at), raw.st_name(endian).into())?;
        meter.count(image, "st_name", at, raw_name.len())?;
        symbols.push(Symbol {
            index: index as u32,
            name: string::printable(raw_name),
            raw_name,
            binding: match raw.st_bind() {
                elf::STB_LOCAL => Binding::Local,
                elf::STB_GLOBAL => Binding::Global,
                elf::STB_WEAK => Binding::Weak,
                elf::STB_GNU_UNIQUE => Binding::GnuUnique,
                _ => Binding::Other,
            },
            kind: match raw.st_type() {
                elf::STT_NOTYPE => Kind::NoType,
                elf::STT_OBJECT => Kind::Object,
                elf::STT_FUNC => Kind::Func,
                elf::STT_SECTION => Kind::Section,
                elf::STT_FILE => Kind::File,
                elf::STT_COMMON => Kind::Common,
                elf::STT_TLS => Kind::Tls,
                elf::STT_GNU_IFUNC => Kind::IFunc,
                _ => Kind::Other,
            },
            visibility: match raw.st_visibility() {
                elf::STV_INTERNAL => Visibility::Internal,
                elf::STV_HIDDEN => Visibility::Hidden,
                elf::STV_PROTECTED => Visibility::Protected,
                _ => Visibility::Default,
            },
            place: match raw.st_shndx(endian) {
                elf::SHN_UNDEF => Place::Undefined,
                elf::SHN_ABS => Place::Absolute,
                _ => Place::Here,
            },
            value: raw.st_value(endian).into(),
            size: raw.st_size(endian).into(),
            version_index: versym.and_then(|table| table.get(index)).map(|entry| entry.get(endian)),
            offset: at,
            node_marker: false,
        });
    }
    Ok(symbols)
}

/// Every export must be where the loader's look-up finds it, or the file says one thing and the loader does another.
/// Hidden and internal symbols need not be: the loader passes over them.
fn check_reachable(image: &Elf, tables: &Tables, symbols: &[Symbol<'_>]) -> Result<()> {
    let seen_by_others = |symbol: &&Symbol<'_>| symbol.is_export() && matches!(symbol.visibility, Visibility::Default | Visibility::Protected);
    for symbol in symbols.iter().filter(seen_by_others) {
        let (reached, field, offset) = match tables {
            Tables::Gnu(gnu) => (gnu.reaches(symbol.index, symbol.raw_name), "DT_GNU_HASH", gnu.offset()),
            Tables::Sysv(sysv) => (sysv.reaches(symbol.index, symbol.raw_name), "DT_HASH", sysv.offset()),
            Tables::None => (false, "DT_GNU_HASH or DT_HASH (there is none)", symbol.offset),
        };
        if !reached {
            let problem = format!(
                "a look-up of {} does not reach symbol {} of DT_SYMTAB: the loader would not find what the symbol table lists",
                symbol.name, symbol.index
            );
            return Err(image.error(field, Some(offset), problem));
        }
    }
    Ok(())
}
