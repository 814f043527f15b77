//! A closer look at a target that the registry lacks: does the file hold it in a way that contradicts the reading?
//!
//! The parts of the file that the registry did not need are read here, and code is decoded, so this costs more than the rest together. It is
//! done only where the answer would be "unsupported", or where there is no registry.

use std::collections::BTreeSet;

use super::builder::begins_name;
use super::names::{Names, Part, TAG};
use super::registry::{Registry, Source, Targets};
use super::target::{Name, Target, Triple};
use crate::code::assembly::{AARCH64, Assembly};
use crate::code::constants::Constant;
use crate::code::{functions, sweep};
use crate::elf::{Elf, Result, Segment};

/// What speaks against a reading.
#[derive(Debug, Default)]
pub struct Doubts {
    /// Names in the parts of the file that the registry did not need.
    pub elsewhere: Names,
    /// Targets that code puts together from immediates.
    pub assembled: BTreeSet<Triple>,
    /// Versions that the registry's code stores without a name that goes with them.
    pub stray_versions: BTreeSet<Triple>,
    /// True if each registered target's version was seen in the registry's code, or in the records of the array: the digits of its name, stored
    /// as numbers.
    pub versions_agree: bool,
}

/// Looks closer. `unread` are the parts of the file whose names are not among `names` yet.
pub fn read(image: &Elf, registry: Option<&Registry>, names: &Names, unread: &[Part]) -> Result<Doubts> {
    let mut doubts = Doubts::default();
    for &part in unread {
        doubts.elsewhere.read(image, part)?;
    }
    match registry.map(|registry| (registry.source, &registry.targets)) {
        Some((Source::Function(start, end), targets)) => doubts.read_builder(image, names, (start, end), targets)?,
        // Records that hold the versions of their names are all there is to an array; code compares names with many things.
        Some((Source::Array(_, true), _)) => doubts.versions_agree = true,
        Some((Source::Array(_, false), _)) | None => {
            let assembled = &mut doubts.assembled;
            Assembly::new(image, TAG).everything(&mut |constant| assembled.extend(assembled_target(&constant)))?;
        }
    }
    Ok(doubts)
}

impl Doubts {
    /// Decodes the builder for names and versions, and the functions with immediates that begin a name.
    fn read_builder(&mut self, image: &Elf, names: &Names, builder: (u64, u64), targets: &Targets) -> Result<()> {
        let assembly = Assembly::new(image, TAG);
        let mut versions = BTreeSet::new();
        assembly.function(builder, &mut |constant| match constant {
            Constant::Text { .. } => self.assembled.extend(assembled_target(&constant)),
            Constant::Numbers { numbers: [step, minor, major], .. } => versions.extend(version(major, minor, step)),
        })?;
        let functions = functions::read(image)?;
        let mut begins = [names.immediates.as_slice(), self.elsewhere.immediates.as_slice()].concat();
        if image.header.machine == AARCH64 {
            begins.extend(moves(image)?);
        }
        let others: BTreeSet<_> = begins.into_iter().filter_map(|at| functions.around(at)).filter(|&range| range != builder).collect();
        for range in others {
            assembly.function(range, &mut |constant| self.assembled.extend(assembled_target(&constant)))?;
        }
        // Where not every version shows, the compiler stores them in a way that is not followed, and one more means nothing.
        self.versions_agree = targets.keys().all(|triple| versions.contains(triple));
        if self.versions_agree {
            self.stray_versions = versions.into_iter().filter(|triple| !targets.contains_key(triple)).collect();
        }
        Ok(())
    }

    /// What contradicts the registry on a target that it lacks.
    pub fn about(&self, triple: Triple) -> Option<&'static str> {
        if self.assembled.contains(&triple) {
            return Some("its code puts the name together");
        }
        if self.stray_versions.contains(&triple) {
            return Some("the registry's code stores its version");
        }
        self.elsewhere.code_objects.contains(&triple).then_some("it embeds a code object for it")
    }
}

/// Where AArch64 code begins to move a name into a register; its immediates hold two characters each.
fn moves(image: &Elf) -> Result<Vec<u64>> {
    let mut found = Vec::new();
    sweep::segments(image, Segment::executable, |chunk| {
        let misaligned = (chunk.address.wrapping_add(chunk.from as u64) & 3) as usize;
        let first = chunk.from + (4 - misaligned) % 4;
        let words = chunk.bytes.get(first..).unwrap_or_default().chunks_exact(4).zip((first..chunk.to).step_by(4));
        found.extend(words.filter(|(word, _)| begins_name(word)).map(|(_, position)| chunk.address + position as u64));
    })?;
    Ok(found)
}

fn assembled_target(constant: &Constant) -> Option<Triple> {
    match constant {
        Constant::Text { bytes, .. } => match Name::in_file(bytes) {
            Some(Name::Target(Target { triple, .. })) => Some(triple),
            _ => None,
        },
        Constant::Numbers { .. } => None,
    }
}

/// Three numbers as ROCr keeps a version: only those that a device could have.
fn version(major: u32, minor: u32, step: u32) -> Option<Triple> {
    let triple = Triple { major, minor: u8::try_from(minor).ok()?, step: u8::try_from(step).ok()? };
    (triple.plausible() && triple.minor < 16 && triple.step < 16).then_some(triple)
}
