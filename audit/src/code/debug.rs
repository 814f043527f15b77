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
    /// A parameter is a pointer to a pointer: something is handed back through it.
    pub out_pointer: bool,
    /// A parameter is a size: `size_t`, by whatever chain of names.
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
    let mut found = BTreeMap::new();
    let mut units = dwarf.units();
    let broken = |error: gimli::Error| file.error(".debug_info", error.to_string());
    while let Some(header) = units.next().map_err(broken)? {
        let unit = dwarf.unit(header).map_err(broken)?;
        Declarations { dwarf: &dwarf, unit: &unit }.collect(wanted, &mut found).map_err(broken)?;
    }
    Ok(found)
}

/// One unit of a program.
struct Declarations<'a> {
    dwarf: &'a Dwarf<Slice<'a>>,
    unit: &'a Unit<Slice<'a>>,
}

type Entry<'a, 'u> = DebuggingInformationEntry<'u, 'u, Slice<'a>>;

impl<'a> Declarations<'a> {
    fn collect(&self, wanted: &BTreeSet<u64>, found: &mut BTreeMap<u64, Prototype>) -> gimli::Result<()> {
        let mut entries = self.unit.entries();
        while let Some((_, entry)) = entries.next_dfs()? {
            if entry.tag() != dw::DW_TAG_subprogram {
                continue;
            }
            let start = match entry.attr_value(dw::DW_AT_low_pc)? {
                Some(value) => self.dwarf.attr_address(self.unit, value)?,
                None => None,
            };
            if let Some(start) = start.filter(|start| wanted.contains(start)) {
                let offset = entry.offset();
                found.insert(start, self.prototype(offset)?);
            }
        }
        Ok(())
    }

    fn prototype(&self, at: UnitOffset) -> gimli::Result<Prototype> {
        let entry = self.unit.entry(at)?;
        let name = self.name(&entry, 0)?.unwrap_or_else(|| "?".into());
        let result = match self.type_of(&entry, 0)? {
            Some(at) => self.type_name(at, 0)?,
            None => "void".into(),
        };
        let mut prototype = Prototype::default();
        let mut parameters = Vec::new();
        let mut tree = self.unit.entries_tree(Some(at))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let parameter = child.entry();
            if parameter.tag() != dw::DW_TAG_formal_parameter {
                continue;
            }
            let Some(kind) = self.type_of(parameter, 0)? else { continue };
            let text = self.type_name(kind, 0)?;
            prototype.out_pointer |= text.ends_with("**");
            prototype.size |= text.split(' ').any(|word| word == "size_t");
            let space = if text.ends_with('*') { "" } else { " " };
            parameters.push(self.name(parameter, 0)?.map_or(text.clone(), |name| format!("{text}{space}{name}")));
        }
        let space = if result.ends_with('*') { "" } else { " " };
        prototype.text = format!("{result}{space}{name}({})", parameters.join(", "));
        Ok(prototype)
    }

    /// The declaration that an entry stands for.
    fn origin(entry: &Entry<'a, '_>) -> gimli::Result<Option<UnitOffset>> {
        for attribute in [dw::DW_AT_abstract_origin, dw::DW_AT_specification] {
            if let Some(AttributeValue::UnitRef(at)) = entry.attr_value(attribute)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn name(&self, entry: &Entry<'a, '_>, depth: usize) -> gimli::Result<Option<String>> {
        if let Some(value) = entry.attr_value(dw::DW_AT_name)? {
            return Ok(Some(self.dwarf.attr_string(self.unit, value)?.to_string_lossy().into_owned()));
        }
        match Self::origin(entry)? {
            Some(at) if depth < DEEPEST => self.name(&self.unit.entry(at)?, depth + 1),
            _ => Ok(None),
        }
    }

    fn type_of(&self, entry: &Entry<'a, '_>, depth: usize) -> gimli::Result<Option<UnitOffset>> {
        if let Some(AttributeValue::UnitRef(at)) = entry.attr_value(dw::DW_AT_type)? {
            return Ok(Some(at));
        }
        match Self::origin(entry)? {
            Some(at) if depth < DEEPEST => self.type_of(&self.unit.entry(at)?, depth + 1),
            _ => Ok(None),
        }
    }

    fn type_name(&self, at: UnitOffset, depth: usize) -> gimli::Result<String> {
        if depth == DEEPEST {
            return Ok("…".into());
        }
        let entry = self.unit.entry(at)?;
        let below = |depth| match self.type_of(&entry, 0)? {
            Some(at) => self.type_name(at, depth),
            None => Ok("void".to_string()),
        };
        Ok(match entry.tag() {
            dw::DW_TAG_pointer_type => {
                let to = below(depth + 1)?;
                let space = if to.ends_with('*') { "" } else { " " };
                format!("{to}{space}*")
            }
            dw::DW_TAG_reference_type => format!("{} &", below(depth + 1)?),
            dw::DW_TAG_const_type => format!("const {}", below(depth + 1)?),
            dw::DW_TAG_volatile_type => format!("volatile {}", below(depth + 1)?),
            dw::DW_TAG_subroutine_type => "function".into(),
            _ => self.name(&entry, 0)?.unwrap_or_else(|| "?".into()),
        })
    }
}
