//! Which targets a runtime registers: read from the code that builds the registry, or from the constant array that is one.
//!
//! ROCr builds its registry in one large function ([`super::builder`]); HIP keeps a constant array of records ([`super::table`]). Either
//! reading is trusted only if it is the only one and passes the checks here; otherwise there is none, and names are just names.

use std::collections::{BTreeMap, BTreeSet};

use super::builder;
use super::identity::Identity;
use super::names::Names;
use super::table::{self, Table};
use super::target::{Features, Generic, Name, Target, Triple};
use crate::elf::{Elf, Result};

/// Devices that a registry built by code holds at least; ROCr 4.5 had 25.
const LEAST_BUILT: usize = 20;
/// Devices that an array holds at least: an array is more explicit than code, and ROCr 4.1 had 19.
const LEAST_IN_ARRAY: usize = 10;
/// Devices that every ROCr since 4.5 registers.
const ALWAYS: [&str; 5] = ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030"];

/// Where a registry was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The function between these addresses.
    Function(u64, u64),
    /// The array at this address; true if its records hold the versions of their names.
    Array(u64, bool),
}

/// Targets, each with the features it is registered with; the empty set is the base entry.
pub type Targets = BTreeMap<Triple, BTreeSet<Features>>;

/// The targets a runtime registers.
#[derive(Debug)]
pub struct Registry {
    /// Where they were read.
    pub source: Source,
    /// Devices.
    pub targets: Targets,
    /// Families of code objects, features left out.
    pub generics: BTreeSet<Generic>,
    /// Devices in HIP's array whose entry is switched off for this runtime.
    pub disabled: BTreeSet<Triple>,
}

/// What a function or an array holds, before it is judged.
#[derive(Debug, Default)]
pub struct Candidate {
    /// Devices.
    pub targets: Targets,
    /// Families of code objects.
    pub generics: BTreeSet<Generic>,
}

impl Candidate {
    /// Adds an entry.
    pub fn add(&mut self, name: Name) {
        match name {
            Name::Target(Target { triple, features }) => {
                self.targets.entry(triple).or_default().insert(features);
            }
            Name::Generic(generic) => {
                self.generics.insert(Generic { features: Features::default(), ..generic });
            }
        }
    }

    /// True if a device has an entry with features.
    pub fn has_features(&self) -> bool {
        self.targets.values().flatten().any(|features| !features.is_empty())
    }

    /// All entries.
    pub fn names(&self) -> impl Iterator<Item = Name> + '_ {
        let targets = self.targets.iter().flat_map(|(&triple, all)| all.iter().map(move |&features| Name::Target(Target { triple, features })));
        targets.chain(self.generics.iter().copied().map(Name::Generic))
    }

    /// What is wrong with it as a registry; `None` if nothing is.
    fn fault(&self, least: usize, always: &[&str]) -> Option<String> {
        let bases = self.targets.values().filter(|features| features.contains(&Features::default())).count();
        if bases < least {
            return Some(format!("{bases} targets, where a registry has {least} or more"));
        }
        for (triple, features) in &self.targets {
            if !features.contains(&Features::default()) {
                return Some(format!("{triple} with features, but not {triple} itself"));
            }
            let xnack = |on| features.iter().any(|features| features.xnack == Some(on));
            if xnack(true) != xnack(false) {
                return Some(format!("{triple} with xnack in one state only"));
            }
        }
        let names: BTreeSet<_> = self.targets.keys().map(ToString::to_string).collect();
        always.iter().find(|&&name| !names.contains(name)).map(|name| format!("no {name}, which every ROCr since 4.5 registers"))
    }
}

/// Reads the registry of a runtime's file, or says why there is none to read.
pub(super) fn read(image: &Elf, identity: Identity, names: &Names) -> Result<std::result::Result<Registry, String>> {
    if names.crowded {
        return Ok(Err("the file holds more ids than any runtime, so no structure was looked for".into()));
    }
    match identity {
        Identity::Hip => Ok(read_hip(&table::find(image, names)?)),
        Identity::Rocr => read_rocr(image, names),
        Identity::Other => Ok(Err("no runtime".into())),
    }
}

/// HIP: the one array whose records hold the versions of their names.
fn read_hip(tables: &[Table]) -> std::result::Result<Registry, String> {
    let fitting: Vec<_> = tables.iter().filter(|table| table.versions_agree).collect();
    match fitting.as_slice() {
        [table] => from_table(table),
        [] => Err("no array of ids whose records hold the versions of their names".into()),
        several => Err(format!("{} arrays of ids with versions, where one is expected", several.len())),
    }
}

/// ROCr: the function that builds the registry, or an array, if there is exactly one of all.
fn read_rocr(image: &Elf, names: &Names) -> Result<std::result::Result<Registry, String>> {
    let mut tables = table::find(image, names)?;
    tables.retain(Table::has_features);
    let mut built = builder::find(image, names, tables.is_empty())?;
    Ok(match (built.as_mut_slice(), tables.as_slice()) {
        ([(range, candidate)], []) => {
            builder::complete(image, names, *range, candidate)?;
            match candidate.fault(LEAST_BUILT, &ALWAYS) {
                Some(fault) => Err(format!("the one function that refers to ids with features, at {:#x}, has {fault}", range.0)),
                None => Ok(Registry {
                    source: Source::Function(range.0, range.1),
                    targets: std::mem::take(&mut candidate.targets),
                    generics: std::mem::take(&mut candidate.generics),
                    disabled: BTreeSet::new(),
                }),
            }
        }
        ([], [table]) => from_table(table),
        ([], []) => Err("no function and no array refers to ids with features".into()),
        (functions, tables) => {
            Err(format!("{} functions and {} arrays refer to ids with features, where one of them is the registry", functions.len(), tables.len()))
        }
    })
}

fn from_table(table: &Table) -> std::result::Result<Registry, String> {
    let mut candidate = Candidate::default();
    let mut disabled = BTreeSet::new();
    for entry in &table.entries {
        match entry.name {
            // One state of a feature may be switched off; the device is if its base entry is.
            Name::Target(target) if !entry.enabled && target.features.is_empty() => {
                disabled.insert(target.triple);
            }
            Name::Target(_) if !entry.enabled => {}
            name => candidate.add(name),
        }
    }
    candidate.targets.retain(|triple, _| !disabled.contains(triple));
    if let Some(fault) = candidate.fault(LEAST_IN_ARRAY, &[]) {
        return Err(format!("the array of ids at {:#x} has {fault}", table.address));
    }
    let source = Source::Array(table.address, table.versions_agree);
    Ok(Registry { source, targets: candidate.targets, generics: candidate.generics, disabled })
}

#[cfg(test)]
mod tests {
    use super::{ALWAYS, Candidate};
    use crate::gfx::target::Name;

    fn candidate(names: &[&str]) -> Candidate {
        let mut candidate = Candidate::default();
        for name in names {
            candidate.add(name.parse::<Name>().unwrap());
        }
        candidate
    }

    #[test]
    fn a_good_one_has_no_fault() {
        let good = candidate(&["gfx900", "gfx900:xnack+", "gfx900:xnack-", "gfx906", "gfx908", "gfx90a", "gfx1030", "gfx11-generic"]);
        assert_eq!(good.fault(5, &ALWAYS), None);
        assert!(good.has_features());
        assert_eq!(good.names().count(), 8);
    }

    #[test]
    fn each_check_fires() {
        let fault = |names: &[&str], least, always: &[&str]| candidate(names).fault(least, always).unwrap_or_default();
        assert!(fault(&["gfx900"], 2, &[]).contains("1 targets"));
        assert!(fault(&["gfx900", "gfx906:xnack+", "gfx906:xnack-"], 1, &[]).contains("not gfx906 itself"));
        assert!(fault(&["gfx900", "gfx900:xnack+"], 1, &[]).contains("one state only"));
        assert!(fault(&["gfx900", "gfx906", "gfx908", "gfx90a"], 4, &ALWAYS).contains("no gfx1030"));
    }
}
