//! Constant arrays of target ids that relocations reach: HIP's `supportedIsas_`, and a ROCr whose registry were such an array.
//!
//! An array shows as relative relocations at equal distances, each to an id. Where the entries are records, the version stands in each as
//! three 32-bit numbers at one offset; that they equal the digits of their names proves the layout without knowing the source.

use std::collections::{BTreeMap, BTreeSet};

use super::names::Names;
use super::target::{Name, Target, Triple};
use crate::elf::{Elf, Endianness, Result};

/// Entries that make an array.
const LEAST_ENTRIES: usize = 10;
/// Largest record in bytes. HIP's take 56 and 64.
const LARGEST_RECORD: u64 = 256;

/// One array.
#[derive(Debug)]
pub struct Table {
    /// Address of the first entry's pointer.
    pub address: u64,
    /// Bytes from entry to entry.
    pub stride: u64,
    /// The ids in order, each with the flag byte where records have one.
    pub entries: Vec<Entry>,
    /// True if the records hold the versions their names say, nine in ten at least.
    pub versions_agree: bool,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The id.
    pub name: Name,
    /// HIP's `runtimeRocSupported_`, the byte four before the version: false for targets that only the Windows runtime drives.
    /// True where entries are no records.
    pub enabled: bool,
}

impl Table {
    /// True if a device in it has features: a registry's have, other lists name bare ids.
    pub fn has_features(&self) -> bool {
        self.entries.iter().filter_map(|entry| target(entry.name)).any(|target| !target.features.is_empty())
    }

    /// Devices in it, features left out.
    pub fn targets(&self) -> BTreeSet<Triple> {
        self.entries.iter().filter_map(|entry| target(entry.name)).map(|target| target.triple).collect()
    }
}

fn target(name: Name) -> Option<Target> {
    match name {
        Name::Target(target) => Some(target),
        Name::Generic(_) => None,
    }
}

/// Finds every array of at least [`LEAST_ENTRIES`] ids.
pub(super) fn find(image: &Elf, names: &Names) -> Result<Vec<Table>> {
    let pointers: BTreeMap<u64, Name> =
        image.relative_relocations()?.into_iter().filter_map(|(place, address)| Some((place, names.id_at(address)?))).collect();
    let mut tables = Vec::new();
    // Records may hold several pointers to ids, so whatever lies within an array is part of it.
    let mut taken = 0;
    for &start in pointers.keys() {
        if start < taken {
            continue;
        }
        // For the same reason the distance is to one of the next few.
        let strides = pointers.range(start + 1..).take(4).map(|(&place, _)| place - start).filter(|&stride| stride <= LARGEST_RECORD);
        let run = |stride: u64| {
            let places = (0..).map_while(move |index: u64| start.checked_add(index.checked_mul(stride)?));
            places.take_while(|place| pointers.contains_key(place))
        };
        let Some((length, stride)) = strides.map(|stride| (run(stride).count(), stride)).max_by_key(|&(length, stride)| (length, u64::MAX - stride))
        else {
            continue;
        };
        if length < LEAST_ENTRIES {
            continue;
        }
        taken = start.saturating_add(stride.saturating_mul(length as u64));
        let mut table = Table {
            address: start,
            stride,
            entries: run(stride).map(|place| Entry { name: pointers[&place], enabled: true }).collect(),
            versions_agree: false,
        };
        read_versions(image, &mut table)?;
        tables.push(table);
    }
    Ok(tables)
}

/// Looks for the offset at which every record holds its version, and reads the flags before it.
fn read_versions(image: &Elf, table: &mut Table) -> Result<()> {
    const VERSION: u64 = 12;
    let word = image.header.word_size();
    if table.stride < word + VERSION || table.targets().is_empty() {
        return Ok(());
    }
    // The last record may end before the stride does; what is missing reads as nothing.
    let window = image.window_up_to("array of target ids", table.address, table.stride * table.entries.len() as u64)?;
    let record = |index: usize| window.bytes.get(index * table.stride as usize..).unwrap_or_default();
    let devices: Vec<_> = table.entries.iter().enumerate().filter_map(|(index, entry)| Some((index, target(entry.name)?))).collect();
    let agreeing = |offset: usize| {
        let agrees = |&&(index, target): &&(usize, Target)| {
            let Triple { major, minor, step } = target.triple;
            let numbers = [0, 4, 8].map(|part| number(image.header.endian, record(index), offset + part));
            numbers == [Some(major), Some(minor.into()), Some(step.into())]
        };
        devices.iter().filter(agrees).count()
    };
    // Not all: HIP up to 7.2.4 has gfx909 with the version of gfx902. It looks devices up by name, so the name counts.
    let enough = devices.len() - devices.len() / 10;
    let Some(offset) = (word as usize..=(table.stride - VERSION) as usize).step_by(4).find(|&offset| agreeing(offset) >= enough) else {
        return Ok(());
    };
    let flags: Vec<_> = (0..table.entries.len()).map(|index| record(index).get(offset - 4).copied().unwrap_or(0)).collect();
    let flagged = offset - 4 >= word as usize && flags.iter().all(|&flag| flag <= 1);
    for (entry, flag) in table.entries.iter_mut().zip(flags).filter(|_| flagged) {
        entry.enabled = flag == 1;
    }
    table.versions_agree = true;
    Ok(())
}

fn number(endian: Endianness, bytes: &[u8], offset: usize) -> Option<u32> {
    let raw = bytes.get(offset..offset + 4)?.try_into().ok()?;
    Some(match endian {
        Endianness::Little => u32::from_le_bytes(raw),
        Endianness::Big => u32::from_be_bytes(raw),
    })
}
