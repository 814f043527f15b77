//! Names and prototypes of functions from a file of debug information: the symbol table for names, DWARF for what a function takes and returns.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use gimli::{AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, RunTimeEndian, Unit, UnitOffset, constants as dw};

use crate::elf::{ElfError, Result, debug::DebugFile};

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Types that refer to types that refer to types: no declaration nests deeper.
const DEEPEST: usize = 12;

/// What the source says of one function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prototype {
    /// In C's notation: `hipError_t hipMalloc(void **ptr, size_t size)`.
    pub text: String,
    /// A parameter is a pointer to a pointer, by whatever names: something is handed back through it.
    pub out_pointer: bool,
    /// A parameter is a size: a `size_t` itself, by whatever names.
    pub size: bool,
}

/// Names by the address where a function starts.
pub fn names(file: &DebugFile) -> Result<BTreeMap<u64, String>> {
    Ok(file.functions()?.into_iter().filter(|(address, name)| *address != 0 && !name.is_empty()).collect())
}

/// Prototypes of the functions that start at these addresses. A file without DWARF has none; DWARF that gimli cannot read is an error.
pub fn prototypes(file: &DebugFile, wanted: &BTreeSet<u64>) -> Result<BTreeMap<u64, Prototype>> {
    let endian = if file.little_endian { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let sections = gimli::DwarfSections::load(|id| Ok::<_, ElfError>(Cow::Owned::<'static, [u8]>(file.section(id.name())?)))?;
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, endian));
    let broken = |error: gimli::Error| file.error(".debug_info", error.to_string());
    let mut declarations = Declarations { dwarf: &dwarf, units: Vec::new() };
    let mut headers = dwarf.units();
    while let Some(header) = headers.next().map_err(broken)? {
        declarations.units.push(dwarf.unit(header).map_err(broken)?);
    }
    let mut found = BTreeMap::new();
    for unit in 0..declarations.units.len() {
        declarations.collect(unit, wanted, &mut found).map_err(broken)?;
    }
    Ok(found)
}

/// An entry: the unit, by position, and where in it.
#[derive(Debug, Clone, Copy)]
struct At {
    unit: usize,
    entry: UnitOffset,
}

/// What an entry says of its type.
#[derive(Debug, Clone, Copy)]
enum Type {
    /// Nothing: `void`.
    None,
    /// It stands here.
    At(At),
    /// It stands in a file beside this one (`.gnu_debugaltlink`), or in a section of types.
    Elsewhere,
}

/// All units of a program. Entries refer to each other across units where a linker or `dwz` has shared them.
struct Declarations<'a> {
    dwarf: &'a Dwarf<Slice<'a>>,
    units: Vec<Unit<Slice<'a>>>,
}

type Entry<'a, 'u> = DebuggingInformationEntry<'u, 'u, Slice<'a>>;

impl<'a> Declarations<'a> {
    fn collect(&self, unit: usize, wanted: &BTreeSet<u64>, found: &mut BTreeMap<u64, Prototype>) -> gimli::Result<()> {
        let mut entries = self.units[unit].entries();
        while let Some((_, entry)) = entries.next_dfs()? {
            if entry.tag() != dw::DW_TAG_subprogram {
                continue;
            }
            let start = match entry.attr_value(dw::DW_AT_low_pc)? {
                Some(value) => self.dwarf.attr_address(&self.units[unit], value)?,
                None => None,
            };
            if let Some(start) = start.filter(|start| wanted.contains(start)) {
                let at = At { unit, entry: entry.offset() };
                found.insert(start, self.prototype(at)?);
            }
        }
        Ok(())
    }

    fn entry(&self, at: At) -> gimli::Result<Entry<'a, '_>> {
        self.units[at.unit].entry(at.entry)
    }

    fn prototype(&self, at: At) -> gimli::Result<Prototype> {
        let name = self.name(at, 0)?.unwrap_or_else(|| "?".into());
        let result = self.type_name(self.type_of(at, 0)?, 0)?;
        let mut prototype = Prototype::default();
        let mut parameters = Vec::new();
        let mut tree = self.units[at.unit].entries_tree(Some(at.entry))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            if child.entry().tag() != dw::DW_TAG_formal_parameter {
                continue;
            }
            let parameter = At { unit: at.unit, entry: child.entry().offset() };
            let kind = self.type_of(parameter, 0)?;
            let text = self.type_name(kind, 0)?;
            prototype.out_pointer |= self.is_out_pointer(kind)?;
            prototype.size |= self.is_size(kind)?;
            let space = if text.ends_with('*') { "" } else { " " };
            parameters.push(self.name(parameter, 0)?.map_or(text.clone(), |name| format!("{text}{space}{name}")));
        }
        let space = if result.ends_with('*') { "" } else { " " };
        prototype.text = format!("{result}{space}{name}({})", parameters.join(", "));
        Ok(prototype)
    }

    /// A type behind the names and qualifiers that stand before it.
    fn bare(&self, mut kind: Type) -> gimli::Result<Type> {
        for _ in 0..DEEPEST {
            let Type::At(at) = kind else { break };
            if !matches!(self.entry(at)?.tag(), dw::DW_TAG_typedef | dw::DW_TAG_const_type | dw::DW_TAG_volatile_type) {
                break;
            }
            kind = self.type_of(at, 0)?;
        }
        Ok(kind)
    }

    /// What a pointer points to; nothing for what is none.
    fn behind(&self, kind: Type) -> gimli::Result<Option<Type>> {
        match self.bare(kind)? {
            Type::At(at) if self.entry(at)?.tag() == dw::DW_TAG_pointer_type => self.type_of(at, 0).map(Some),
            _ => Ok(None),
        }
    }

    /// True for a pointer to a pointer, under whatever names.
    fn is_out_pointer(&self, kind: Type) -> gimli::Result<bool> {
        match self.behind(kind)? {
            Some(kind) => Ok(self.behind(kind)?.is_some()),
            None => Ok(false),
        }
    }

    /// True for a `size_t` that is passed itself, under whatever names.
    fn is_size(&self, mut kind: Type) -> gimli::Result<bool> {
        for _ in 0..DEEPEST {
            let Type::At(at) = kind else { return Ok(false) };
            match self.entry(at)?.tag() {
                dw::DW_TAG_typedef if self.name(at, 0)?.as_deref() == Some("size_t") => return Ok(true),
                dw::DW_TAG_typedef | dw::DW_TAG_const_type | dw::DW_TAG_volatile_type => kind = self.type_of(at, 0)?,
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    /// The entry that an attribute refers to.
    fn referred(&self, from: At, value: Option<AttributeValue<Slice<'a>>>) -> Type {
        match value {
            None => Type::None,
            Some(AttributeValue::UnitRef(entry)) => Type::At(At { entry, ..from }),
            Some(AttributeValue::DebugInfoRef(offset)) => {
                let start = |unit: &Unit<Slice<'a>>| unit.header.offset().as_debug_info_offset().map(|start| start.0);
                let unit = self.units.partition_point(|unit| start(unit).is_some_and(|start| start <= offset.0)).checked_sub(1);
                let at = unit.and_then(|unit| Some(At { unit, entry: offset.to_unit_offset(&self.units[unit].header)? }));
                at.map_or(Type::Elsewhere, Type::At)
            }
            Some(_) => Type::Elsewhere,
        }
    }

    /// The declaration that an entry stands for.
    fn origin(&self, at: At) -> gimli::Result<Option<At>> {
        let entry = self.entry(at)?;
        for attribute in [dw::DW_AT_abstract_origin, dw::DW_AT_specification] {
            if let Type::At(origin) = self.referred(at, entry.attr_value(attribute)?) {
                return Ok(Some(origin));
            }
        }
        Ok(None)
    }

    fn name(&self, at: At, depth: usize) -> gimli::Result<Option<String>> {
        match self.entry(at)?.attr_value(dw::DW_AT_name)? {
            Some(AttributeValue::DebugStrRefSup(_)) => return Ok(Some("?".into())),
            Some(value) => return Ok(Some(self.dwarf.attr_string(&self.units[at.unit], value)?.to_string_lossy().into_owned())),
            None => {}
        }
        match self.origin(at)? {
            Some(origin) if depth < DEEPEST => self.name(origin, depth + 1),
            _ => Ok(None),
        }
    }

    fn type_of(&self, at: At, depth: usize) -> gimli::Result<Type> {
        let found = self.referred(at, self.entry(at)?.attr_value(dw::DW_AT_type)?);
        match (found, self.origin(at)?) {
            (Type::None, Some(origin)) if depth < DEEPEST => self.type_of(origin, depth + 1),
            (found, _) => Ok(found),
        }
    }

    fn type_name(&self, kind: Type, depth: usize) -> gimli::Result<String> {
        let at = match kind {
            Type::None => return Ok("void".into()),
            Type::Elsewhere => return Ok("?".into()),
            Type::At(_) if depth == DEEPEST => return Ok("…".into()),
            Type::At(at) => at,
        };
        let below = || self.type_name(self.type_of(at, 0)?, depth + 1);
        Ok(match self.entry(at)?.tag() {
            dw::DW_TAG_pointer_type => {
                let to = below()?;
                let space = if to.ends_with('*') { "" } else { " " };
                format!("{to}{space}*")
            }
            dw::DW_TAG_reference_type => format!("{} &", below()?),
            dw::DW_TAG_const_type => format!("const {}", below()?),
            dw::DW_TAG_volatile_type => format!("volatile {}", below()?),
            dw::DW_TAG_subroutine_type => "function".into(),
            _ => self.name(at, 0)?.unwrap_or_else(|| "?".into()),
        })
    }
}
