//! `DT_VERDEF` and `DT_VERNEED`: version nodes that a file defines and requirements it has on others (GNU symbol versioning).

use object::elf;
use object::endian::{U16, U32};
use object::pod::{self, Pod};

use super::Elf;
use super::error::Result;
use super::string::Strings;
use super::{Endianness, Window};

/// Bytes of version chain read at first; most files need no more.
const FIRST_BYTES: u64 = 1 << 12;

/// Bytes of version chain read at most: 65,535 nodes fit many times over.
const MOST_BYTES: u64 = 1 << 20;

/// Versions one file can tell apart: `DT_VERSYM` has 15 bits for the index.
const MOST_VERSIONS: usize = 0x7fff;

/// One entry of `DT_VERNEED`: a version asked of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The file asked, `vn_file`.
    pub file: String,
    /// The version node, `vna_name`, an opaque string.
    pub version: String,
    /// `VER_FLG_WEAK`: the loader warns instead of stopping. The binding of the symbols does not matter here.
    pub weak: bool,
    /// `vna_other`, what `DT_VERSYM` holds for the symbols that cause this requirement.
    pub index: u16,
}

/// One entry of `DT_VERDEF`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The node's name, first `vda_name`.
    pub name: String,
    /// `vd_ndx`.
    pub index: u16,
    /// `VER_FLG_BASE`: names the file itself, not a node.
    pub base: bool,
}

/// All versions of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions {
    /// Nodes defined, in file order.
    pub definitions: Vec<Definition>,
    /// Versions required, in file order.
    pub requirements: Vec<Requirement>,
}

/// Reads both chains.
pub(super) fn read(image: &Elf) -> Result<Versions> {
    let strings = image.strings()?;
    let dynamic = &image.dynamic;
    for (name, tag) in [("DT_VERNEED", elf::DT_VERNEED), ("DT_VERDEF", elf::DT_VERDEF)] {
        if dynamic.has(tag) && !dynamic.has(elf::DT_VERSYM) {
            let problem = format!("missing beside {name}: nothing says which symbol has which version");
            return Err(image.error("DT_VERSYM", dynamic.offset(tag), problem));
        }
    }
    Ok(Versions { definitions: read_definitions(image, strings)?, requirements: read_requirements(image, strings)? })
}

/// A chain of version records: its bytes, and a cursor that only moves forward.
struct Chain<'a> {
    image: &'a Elf,
    name: &'static str,
    window: Window,
    endian: Endianness,
}

impl<'a> Chain<'a> {
    /// Opens the chain at a tag, and says how many entries its count tag announces; `None` where the file has none.
    fn open(image: &'a Elf, name: &'static str, tag: elf::DynamicTag, count: elf::DynamicTag) -> Result<Option<(Self, u64)>> {
        let dynamic = &image.dynamic;
        let Some(address) = dynamic.value(tag) else { return Ok(None) };
        let Some(entries) = dynamic.value(count) else {
            return Err(image.error(&format!("{name}NUM"), dynamic.offset(tag), format!("{name} without {name}NUM")));
        };
        let window = image.window_up_to(name, address, FIRST_BYTES)?;
        Ok(Some((Self { image, name, window, endian: image.header.endian }, entries)))
    }

    fn record<T: Pod>(&mut self, field: &str, position: usize) -> Result<T> {
        let end = position.saturating_add(size_of::<T>());
        let room = self.window.bytes.len() as u64;
        if end as u64 > room && (FIRST_BYTES..MOST_BYTES).contains(&room) {
            self.window = self.image.window_up_to(self.name, self.window.address, MOST_BYTES)?;
        }
        let tail = self.window.bytes.get(position..).unwrap_or_default();
        pod::from_bytes::<T>(tail)
            .map(|(record, _)| *record)
            .map_err(|()| self.image.error(field, Some(self.at(position)), "the record leaves the segment's part of the file".to_string()))
    }

    fn at(&self, position: usize) -> u64 {
        self.window.offset + position as u64
    }

    fn u16(&self, value: U16<Endianness>) -> u16 {
        value.get(self.endian)
    }

    fn u32(&self, value: U32<Endianness>) -> u32 {
        value.get(self.endian)
    }

    /// The position `step` bytes on, or `None` where the chain ends. The loader follows the links and ignores the counts, so both must agree:
    /// after `seen` entries a chain of `announced` must end exactly when the counts are equal.
    fn advance(&self, field: &str, position: usize, step: u32, seen: u64, announced: u64) -> Result<Option<usize>> {
        if (step == 0) == (seen == announced) {
            return Ok((step != 0).then(|| position.saturating_add(step as usize)));
        }
        let problem = format!("entry {seen} of {announced} announced, yet the link to the next one is {step}: links and count contradict each other");
        Err(self.image.error(field, Some(self.at(position)), problem))
    }
}

fn read_requirements(image: &Elf, strings: &Strings) -> Result<Vec<Requirement>> {
    let Some((mut chain, files)) = Chain::open(image, "DT_VERNEED", elf::DT_VERNEED, elf::DT_VERNEEDNUM)? else { return Ok(Vec::new()) };
    let mut requirements = Vec::new();
    let mut meter = strings.meter();
    // The loader reads the first entry without looking at the counts, so a count of 0 is a contradiction that `advance` finds.
    let mut next_file = Some(0);
    let mut files_seen = 0;
    while let Some(position) = next_file {
        let need: elf::Verneed<Endianness> = chain.record("vn_version", position)?;
        if chain.u16(need.vn_version) != 1 {
            return Err(image.error("vn_version", Some(chain.at(position)), format!("{} where only 1 exists", chain.u16(need.vn_version))));
        }
        let file = strings.get(image, "vn_file", Some(chain.at(position)), chain.u32(need.vn_file).into())?;
        let count = chain.u16(need.vn_cnt);
        let mut next_entry = Some(position.saturating_add(chain.u32(need.vn_aux) as usize));
        let mut seen = 0;
        while let Some(entry) = next_entry {
            let aux: elf::Vernaux<Endianness> = chain.record("vn_aux", entry)?;
            let version = strings.get(image, "vna_name", Some(chain.at(entry)), chain.u32(aux.vna_name).into())?;
            meter.count(image, "vna_name", chain.at(entry), file.len() + version.len())?;
            check_hash(&chain, strings, "vna_hash", entry, chain.u32(aux.vna_hash), chain.u32(aux.vna_name))?;
            let index = aux.vna_other.get(chain.endian).0 & elf::VERSYM_VERSION;
            if index <= elf::VER_NDX_GLOBAL.0 {
                let problem = format!("index {index} for {version}, where 0 and 1 stand for symbols without a version");
                return Err(image.error("vna_other", Some(chain.at(entry)), problem));
            }
            let weak = aux.vna_flags.get(chain.endian).0 & elf::VER_FLG_WEAK.0 != 0;
            requirements.push(Requirement { file: file.clone().into_owned(), version: version.into_owned(), weak, index });
            if requirements.len() > MOST_VERSIONS {
                return Err(image.error(
                    "DT_VERNEED",
                    Some(chain.window.offset),
                    format!("more than {MOST_VERSIONS} versions: the table repeats itself"),
                ));
            }
            seen += 1;
            next_entry = chain.advance("vna_next", entry, chain.u32(aux.vna_next), seen, count.into())?;
        }
        files_seen += 1;
        next_file = chain.advance("vn_next", position, chain.u32(need.vn_next), files_seen, files)?;
    }
    Ok(requirements)
}

fn read_definitions(image: &Elf, strings: &Strings) -> Result<Vec<Definition>> {
    let Some((mut chain, count)) = Chain::open(image, "DT_VERDEF", elf::DT_VERDEF, elf::DT_VERDEFNUM)? else { return Ok(Vec::new()) };
    let mut definitions: Vec<Definition> = Vec::new();
    let mut meter = strings.meter();
    let mut next = Some(0);
    while let Some(position) = next {
        let definition: elf::Verdef<Endianness> = chain.record("vd_version", position)?;
        if chain.u16(definition.vd_version) != 1 {
            return Err(image.error("vd_version", Some(chain.at(position)), format!("{} where only 1 exists", chain.u16(definition.vd_version))));
        }
        let aux_position = position.saturating_add(chain.u32(definition.vd_aux) as usize);
        let aux: elf::Verdaux<Endianness> = chain.record("vd_aux", aux_position)?;
        let name = strings.get(image, "vda_name", Some(chain.at(aux_position)), chain.u32(aux.vda_name).into())?;
        meter.count(image, "vda_name", chain.at(aux_position), name.len())?;
        check_hash(&chain, strings, "vd_hash", position, chain.u32(definition.vd_hash), chain.u32(aux.vda_name))?;
        let index = definition.vd_ndx.get(chain.endian).0 & elf::VERSYM_VERSION;
        let base = definition.vd_flags.get(chain.endian).0 & elf::VER_FLG_BASE.0 != 0;
        if index == 0 || (index == elf::VER_NDX_GLOBAL.0) != base {
            let problem = format!("index {index} for {name}, where 1 stands for the base version (VER_FLG_BASE) and no other");
            return Err(image.error("vd_ndx", Some(chain.at(position)), problem));
        }
        definitions.push(Definition { name: name.into_owned(), index, base });
        if definitions.len() > MOST_VERSIONS {
            return Err(image.error("DT_VERDEF", Some(chain.window.offset), format!("more than {MOST_VERSIONS} versions: the table repeats itself")));
        }
        next = chain.advance("vd_next", position, chain.u32(definition.vd_next), definitions.len() as u64, count)?;
    }
    Ok(definitions)
}

/// The loader compares hash and name of a version; with a wrong hash it finds none, whatever the name.
fn check_hash(chain: &Chain<'_>, strings: &Strings, field: &str, position: usize, stored: u32, name: u32) -> Result<()> {
    let at = Some(chain.at(position));
    let expected = elf::hash(strings.raw(chain.image, field, at, name.into())?);
    if stored == expected {
        return Ok(());
    }
    Err(chain.image.error(field, at, format!("{stored:#x}, where the name hashes to {expected:#x}: the loader would not find this version")))
}
