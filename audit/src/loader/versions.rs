//! Versions that one object asks of another and does not get (`_dl_check_map_versions` in `elf/dl-version.c`, `check_match` in `dl-lookup.c`). The loader checks them for every
//! object before the program begins, whether a symbol of that version is used or not.

use serde::Serialize;

use super::closure::State;
use super::unknown::{self, Unknown};
use crate::elf::version::{Requirement, Versions};
use crate::elf::{Elf, Result, constants as elf};

/// What is wrong with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// The provider defines versions and not this one: the process does not start.
    Missing,
    /// The same, and the requirement is weak (`VER_FLG_WEAK`): the loader says so and goes on.
    Weak,
    /// The provider has no symbol versions at all, not even `DT_VERSYM`: the loader says so, and ends the process by an assertion of its own when it
    /// binds a symbol of this version.
    Unversioned,
}

/// A version that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmet {
    /// Path of the object that does not define it.
    pub provider: String,
    /// The version node.
    pub version: String,
    /// Path of the object that asks.
    pub required_by: String,
    /// In which way.
    pub lack: Lack,
}

/// One object: its versions, whether it defines any (`DT_VERDEF`), and whether its symbols have any (`DT_VERSYM`).
struct Own {
    versions: Versions,
    defines: bool,
    has: bool,
}

impl Own {
    fn lack(&self, requirement: &Requirement) -> Option<Lack> {
        match () {
            () if !self.has => Some(Lack::Unversioned),
            // Without definitions the loader gives a warning and binds by name.
            () if !self.defines || self.versions.definitions.iter().any(|definition| definition.name == requirement.version) => None,
            () if requirement.weak => Some(Lack::Weak),
            () => Some(Lack::Missing),
        }
    }
}

fn read(file: &std::path::Path) -> Result<Own> {
    let image = Elf::open(file)?;
    let has = |tag| image.dynamic.has(tag);
    Ok(Own { defines: has(elf::DT_VERDEF), has: has(elf::DT_VERSYM), versions: image.versions()? })
}

impl State {
    /// What is missing among the objects of one process, and what could not be read.
    pub(super) fn unmet(&self) -> (Vec<Unmet>, Vec<Unknown>) {
        let all: Vec<Result<Own>> = self.nodes.iter().map(|node| read(&node.object.file)).collect();
        let (mut unmet, mut unknowns) = (Vec::new(), Vec::new());
        for (node, read) in self.nodes.iter().zip(&all) {
            let own = match read {
                Ok(own) => &own.versions,
                Err(error) => {
                    unknowns.push(Unknown::new(&unknown::DAMAGED, node.object.path.as_str(), error.to_string()));
                    continue;
                }
            };
            for requirement in &own.requirements {
                // A library that is missing is a failure of its own.
                let Some(index) = self.by_name(&requirement.file) else { continue };
                let Ok(provider) = &all[index] else { continue };
                if let Some(lack) = provider.lack(requirement) {
                    unmet.push(Unmet {
                        provider: self.nodes[index].object.path.clone(),
                        version: requirement.version.clone(),
                        required_by: node.object.path.clone(),
                        lack,
                    });
                }
            }
        }
        (unmet, unknowns)
    }
}
