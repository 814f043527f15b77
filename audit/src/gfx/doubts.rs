//! A closer look at a target that the registry lacks: does the file hold it in a way that contradicts the reading?
//!
//! The parts of the file that the registry did not need are read here, and code that could put the name together is decoded. It is done only
//! where the answer would be "unsupported", or where there is no registry.

use std::collections::{BTreeMap, BTreeSet};

use super::builder::{begins_name, explain};
use super::names::{Names, Part, TAG};
use super::registry::{Registry, Source};
use super::target::{Features, Name, Target, Triple};
use crate::code::assembly::{AARCH64, Assembly};
use crate::code::constants::Constant;
use crate::code::{functions, sweep};
use crate::elf::{Elf, Result, Segment};

/// What speaks against a reading.
#[derive(Debug, Default)]
pub struct Doubts {
    /// Names in the parts of the file that the registry did not need.
    pub elsewhere: Names,
    /// Targets that decoded code puts together from immediates.
    pub assembled: BTreeSet<Triple>,
}

/// Looks closer at one target that the registry lacks. `unread` are the parts of the file whose names are not among `names` yet.
pub(super) fn about(image: &Elf, registry: &Registry, triple: Triple, names: &Names, unread: &[Part]) -> Result<Doubts> {
    // Records that hold the versions of their names are all there is to an array; the code around it compares names with many things.
    if let Source::Array(_, true) = registry.source {
        return Ok(Doubts::default());
    }
    let mut doubts = Doubts::default();
    for &part in unread {
        doubts.elsewhere.read(image, part)?;
    }
    match registry.source {
        Source::Function(..) => doubts.decode_for(image, names, triple)?,
        Source::Array(..) => doubts.decode_all(image)?,
    }
    Ok(doubts)
}

/// Looks for names that all code puts together, where no registry says what is registered.
pub(super) fn in_code(image: &Elf) -> Result<Doubts> {
    let mut doubts = Doubts::default();
    doubts.decode_all(image)?;
    Ok(doubts)
}

/// The versions that the registry's code stores as numbers: read apart from the names, so that the two confirm each other.
///
/// ROCr stores each entry's major at offset 8 of an object and step and minor at 0. Measured on 5.2.3, 6.1.2, 6.4.3 and 7.2.4 for x86-64:
/// exactly the digits of the registered names. Another compiler may do it in a way that is not followed; then versions are missing.
pub fn versions(image: &Elf, registry: &Registry) -> Result<BTreeSet<Triple>> {
    super::bounded(image)?;
    let mut found = BTreeSet::new();
    if let Source::Function(start, end) = registry.source {
        Assembly::new(image, TAG).function((start, end), &mut |constant| {
            if let Constant::Numbers { numbers: [step, minor, major], .. } = constant {
                found.extend(version(major, minor, step));
            }
        })?;
    }
    Ok(found)
}

impl Doubts {
    /// Decodes the functions with an immediate that the target's name could begin with.
    fn decode_for(&mut self, image: &Elf, names: &Names, triple: Triple) -> Result<()> {
        let assembly = Assembly::new(image, TAG);
        let functions = functions::read(image)?;
        let asked = [(Name::Target(Target { triple, features: Features::default() }), triple.to_string())];
        let moves = if image.header.machine == AARCH64 { moves(image)? } else { Vec::new() };
        let mut places: BTreeMap<_, Vec<u64>> = BTreeMap::new();
        for &at in names.immediates.iter().chain(&self.elsewhere.immediates).chain(&moves) {
            if let Some(range) = functions.around(at) {
                places.entry(range).or_default().push(at);
            }
        }
        for (range, places) in places {
            let code = assembly.code(range)?;
            let possible = |&at: &u64| explain(&code, (at - range.0) as usize, &asked).is_some();
            if places.iter().any(possible) || places.iter().any(|at| moves.binary_search(at).is_ok()) {
                assembly.function(range, &mut |constant| self.assembled.extend(assembled_target(&constant)))?;
            }
        }
        Ok(())
    }

    fn decode_all(&mut self, image: &Elf) -> Result<()> {
        Assembly::new(image, TAG).everything(&mut |constant| self.assembled.extend(assembled_target(&constant)))
    }

    /// What contradicts the registry on a target that it lacks.
    pub fn against(&self, triple: Triple) -> Option<&'static str> {
        if self.assembled.contains(&triple) {
            return Some("its code puts the name together");
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
