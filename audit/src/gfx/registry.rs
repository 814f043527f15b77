//! Which targets a runtime registers: read from the code that builds the registry, or from the constant array that is one.
//!
//! ROCr builds its registry in one large function, and that function is the only one that refers to ids with features: other tables (ELF
//! flags, image kernels, conversion of old code objects) name bare ids. HIP keeps a constant array of records. Either reading is trusted
//! only if it passes its checks; otherwise there is none, and names are just names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::identity::Identity;
use super::names::Names;
use super::table::{self, Table};
use super::target::{Features, Generic, Name, Target, Triple};
use crate::code::constants::{self, Constant};
use crate::code::functions::{self, Functions};
use crate::code::{references, sweep};
use crate::elf::{Elf, Result, Segment, segment_type};

/// `EM_X86_64` and `EM_AARCH64`, the machines whose code is read.
const X86_64: u16 = 62;
const AARCH64: u16 = 183;
/// Devices that a registry built by code holds at least; ROCr 4.5 had 25.
const LEAST_BUILT: usize = 20;
/// Devices that an array holds at least: an array is more explicit than code, and ROCr 4.1 had 19.
const LEAST_IN_ARRAY: usize = 10;
/// Devices that every ROCr since 4.5 registers.
const ALWAYS: [&str; 5] = ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030"];
/// References kept at most; the real libraries have about 200.
const MOST_REFERENCES: usize = 1 << 16;
/// Code decoded at most for constants, in bytes.
const MOST_CODE: u64 = 1 << 24;
/// Code decoded at once where function bounds are not known.
const SLICE: u64 = 1 << 16;

/// Where a registry was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The function at this address.
    Function(u64),
    /// The array at this address.
    Array(u64),
}

/// The targets a runtime registers.
#[derive(Debug)]
pub struct Registry {
    /// Where they were read.
    pub source: Source,
    /// Devices, each with the features it is registered with (the empty set is the base entry).
    pub targets: BTreeMap<Triple, BTreeSet<Features>>,
    /// Families of code objects, features left out.
    pub generics: BTreeSet<Generic>,
    /// Devices in HIP's array whose entry is switched off for this runtime.
    pub disabled: BTreeSet<Triple>,
    /// True if the version stored with each entry was read as well and equals the digits of its name.
    pub versions_agree: bool,
}

/// What the structure of a file says.
#[derive(Debug, Default)]
pub struct Structure {
    /// The registry, where exactly one was found that passes its checks.
    pub registry: Option<Registry>,
    /// Why there is none.
    pub why_not: Option<String>,
    /// Targets that code assembles from immediates, wherever.
    pub assembled: BTreeSet<Triple>,
    /// Versions that the builder stores without a name that goes with them.
    pub stray_versions: BTreeSet<Triple>,
}

/// What a function or an array holds, before it is judged.
#[derive(Debug, Default)]
struct Candidate {
    targets: BTreeMap<Triple, BTreeSet<Features>>,
    generics: BTreeSet<Generic>,
}

impl Candidate {
    fn add(&mut self, name: Name) {
        match name {
            Name::Target(Target { triple, features }) => {
                self.targets.entry(triple).or_default().insert(features);
            }
            Name::Generic(generic) => {
                self.generics.insert(Generic { features: Features::default(), ..generic });
            }
        }
    }

    fn has_features(&self) -> bool {
        self.targets.values().flatten().any(|features| !features.is_empty())
    }

    /// What is wrong with it as a registry; `None` if nothing is.
    fn fault(&self, least: usize, always: &[&str]) -> Option<String> {
        let bases = self.targets.values().filter(|features| features.contains(&Features::default())).count();
        if bases < least {
            return Some(format!("{bases} targets, where a registry has {least} or more"));
        }
        if let Some((triple, features)) = self.targets.iter().find(|(_, features)| !features.contains(&Features::default())) {
            let features = features.first().copied().unwrap_or_default();
            return Some(format!("{triple}{features} without {triple} itself"));
        }
        for (triple, features) in &self.targets {
            let xnack = |on| features.iter().any(|features| features.xnack == Some(on));
            if xnack(true) != xnack(false) {
                return Some(format!("{triple} with xnack in one state only"));
            }
        }
        let names: BTreeSet<_> = self.targets.keys().map(ToString::to_string).collect();
        always.iter().find(|&&name| !names.contains(name)).map(|name| format!("no {name}, which every ROCr since 4.5 registers"))
    }
}

/// Reads the structure of a runtime's file.
pub fn read(image: &Elf, identity: Identity, names: &Names) -> Result<Structure> {
    if names.crowded {
        return Ok(Structure { why_not: Some("the file holds more ids than any runtime: no structure was looked for".into()), ..Structure::default() });
    }
    let tables = table::find(image, names)?;
    match identity {
        Identity::Hip => read_hip(image, &tables),
        Identity::Rocr => read_rocr(image, names, &tables),
        Identity::Other => Ok(Structure::default()),
    }
}

/// HIP: the one array whose records hold the versions of their names.
fn read_hip(image: &Elf, tables: &[Table]) -> Result<Structure> {
    let fitting: Vec<_> = tables.iter().filter(|table| table.versions_agree).collect();
    let why_not = match fitting.as_slice() {
        [table] => match from_table(table, LEAST_IN_ARRAY) {
            Ok(registry) => return Ok(Structure { registry: Some(registry), ..Structure::default() }),
            Err(fault) => fault,
        },
        [] => "no array of ids whose records hold the versions of their names".into(),
        several => format!("{} arrays of ids with versions, where one is expected", several.len()),
    };
    without_registry(image, why_not)
}

/// ROCr: the function that builds the registry, or an array, if there is exactly one of all.
fn read_rocr(image: &Elf, names: &Names, tables: &[Table]) -> Result<Structure> {
    let functions = functions::read(image)?;
    let mut built = candidates(image, names, &functions)?;
    built.retain(|_, candidate| candidate.has_features());
    let arrays: Vec<_> = tables.iter().filter(|table| table.entries.iter().any(|entry| with_features(entry.name))).collect();
    let why_not = match (built.len(), arrays.as_slice()) {
        (1, []) => {
            let (start, candidate) = built.pop_first().unwrap_or_default();
            match candidate.fault(LEAST_BUILT, &ALWAYS) {
                None => return from_function(image, names, &functions, start, candidate),
                Some(fault) => format!("the function at {start:#x} refers to ids with features, but has {fault}"),
            }
        }
        (0, [table]) => match from_table(table, LEAST_IN_ARRAY) {
            Ok(registry) if registry.versions_agree => return Ok(Structure { registry: Some(registry), ..Structure::default() }),
            // Bare pointers prove less than records, so code that might add to them is read as well.
            Ok(registry) => {
                let assembled = assemble(image)?;
                return Ok(Structure { registry: Some(registry), assembled, ..Structure::default() });
            }
            Err(fault) => fault,
        },
        (0, []) if functions.is_empty() && !names.ids.is_empty() => "no function bounds (.eh_frame_hdr), and no array of ids with features".into(),
        (0, []) => "no function and no array refers to ids with features".into(),
        (functions, arrays) => {
            format!("{functions} functions and {} arrays refer to ids with features, where one builds the registry", arrays.len())
        }
    };
    without_registry(image, why_not)
}

fn with_features(name: Name) -> bool {
    matches!(name, Name::Target(Target { features, .. }) if !features.is_empty())
}

fn without_registry(image: &Elf, why_not: String) -> Result<Structure> {
    let assembled = assemble(image)?;
    Ok(Structure { why_not: Some(why_not), assembled, ..Structure::default() })
}

fn from_table(table: &Table, least: usize) -> std::result::Result<Registry, String> {
    let mut candidate = Candidate::default();
    let mut disabled = BTreeSet::new();
    for entry in &table.entries {
        match entry.name {
            Name::Target(target) if !entry.enabled => {
                // One state of a feature may be switched off; the device is if its base entry is.
                if target.features.is_empty() {
                    disabled.insert(target.triple);
                }
            }
            name => candidate.add(name),
        }
    }
    candidate.targets.retain(|triple, _| !disabled.contains(triple));
    if let Some(fault) = candidate.fault(least, &[]) {
        return Err(format!("the array of ids at {:#x} has {fault}", table.address));
    }
    Ok(Registry {
        source: Source::Array(table.address),
        targets: candidate.targets,
        generics: candidate.generics,
        disabled,
        versions_agree: table.versions_agree,
    })
}

/// Ids that each function refers to, by the function's start.
fn candidates(image: &Elf, names: &Names, functions: &Functions) -> Result<BTreeMap<u64, Candidate>> {
    let mut found: BTreeMap<u64, Candidate> = BTreeMap::new();
    let featured = names.ids.iter().any(|id| with_features(id.name));
    let (Some(first), Some(last)) = (names.ids.first(), names.ids.last()) else { return Ok(found) };
    if !featured || functions.is_empty() {
        return Ok(found);
    }
    let range = first.address..=last.address;
    let mut count = 0;
    let mut see = |reference: references::Reference| {
        if !range.contains(&reference.to) || count == MOST_REFERENCES {
            return;
        }
        if let (Some(name), Some((start, _))) = (names.id_at(reference.to), functions.around(reference.at)) {
            count += 1;
            found.entry(start).or_default().add(name);
        }
    };
    match image.header.machine {
        X86_64 => sweep::segments(image, Segment::executable, |_, chunk| references::x86_64(chunk, &mut see))?,
        AARCH64 => {
            let mut registers = references::AArch64::default();
            sweep::segments(image, Segment::executable, |_, chunk| registers.sweep(chunk, &mut see))?;
        }
        _ => {}
    }
    Ok(found)
}

/// The registry that a function builds, with what it and others assemble from immediates.
fn from_function(image: &Elf, names: &Names, functions: &Functions, start: u64, mut candidate: Candidate) -> Result<Structure> {
    let blocks = Blocks::default();
    let mut structure = Structure::default();
    let mut versions = BTreeSet::new();
    // Immediates elsewhere (comparisons in the image code) are no registration, but a name among them is worth knowing.
    let others: BTreeSet<_> = names.immediates.iter().filter_map(|&at| functions.around(at)).filter(|range| range.0 != start).collect();
    let own = functions.around(start).filter(|range| range.0 == start);
    for (range, builder) in own.map(|range| (range, true)).into_iter().chain(others.into_iter().map(|range| (range, false))) {
        decode(image, &blocks, range, &mut |constant| match constant {
            Constant::Text { bytes, .. } => match Name::in_file(&bytes) {
                Some(name) if builder => candidate.add(name),
                Some(Name::Target(target)) => {
                    structure.assembled.insert(target.triple);
                }
                _ => {}
            },
            Constant::Numbers { numbers: [step, minor, major], .. } if builder => versions.extend(version(major, minor, step)),
            Constant::Numbers { .. } => {}
        })?;
    }
    if let Some(fault) = candidate.fault(LEAST_BUILT, &ALWAYS) {
        structure.why_not = Some(format!("the function at {start:#x} assembles ids, and then has {fault}"));
        return Ok(structure);
    }
    let versions_agree = candidate.targets.keys().all(|triple| versions.contains(triple));
    if versions_agree {
        structure.stray_versions = versions.into_iter().filter(|triple| !candidate.targets.contains_key(triple)).collect();
    }
    structure.registry = Some(Registry {
        source: Source::Function(start),
        targets: candidate.targets,
        generics: candidate.generics,
        disabled: BTreeSet::new(),
        versions_agree,
    });
    Ok(structure)
}

/// Three numbers as ROCr keeps a version: only those that a device could have.
fn version(major: u32, minor: u32, step: u32) -> Option<Triple> {
    let triple = Triple { major, minor: u8::try_from(minor).ok()?, step: u8::try_from(step).ok()? };
    (triple.plausible() && triple.minor < 16 && triple.step < 16).then_some(triple)
}

/// Targets that any code assembles, read from start to end of each executable segment, up to [`MOST_CODE`] bytes.
fn assemble(image: &Elf) -> Result<BTreeSet<Triple>> {
    let blocks = Blocks::default();
    let mut found = BTreeSet::new();
    let mut left = MOST_CODE;
    for segment in image.segments.iter().filter(|segment| segment.kind == segment_type::LOAD && segment.executable()) {
        let size = segment.file_size.min(left);
        left -= size;
        let mut done = 0;
        while done < size {
            let start = segment.address + done;
            decode(image, &blocks, (start, start + SLICE.min(size - done)), &mut |constant| {
                if let Constant::Text { bytes, .. } = constant
                    && let Some(Name::Target(target)) = Name::in_file(&bytes)
                {
                    found.insert(target.triple);
                }
            })?;
            done += SLICE;
        }
    }
    Ok(found)
}

/// Decodes the code between two addresses for its constants.
fn decode(image: &Elf, blocks: &Blocks, (start, end): (u64, u64), see: &mut dyn FnMut(Constant)) -> Result<()> {
    let code = image.window_up_to("machine code", start, (end - start).min(MOST_CODE))?;
    let constant = |address: u64, buffer: &mut [u8]| blocks.read(image, address, buffer);
    match image.header.machine {
        X86_64 => constants::x86_64(&code.bytes, start, b"gfx", &constant, see),
        AARCH64 => constants::aarch64(&code.bytes, start, b"gfx", &constant, see),
        _ => {}
    }
    Ok(())
}

/// Constant data of a file, block by block: code refers to the same few again and again.
#[derive(Default)]
struct Blocks {
    read: RefCell<HashMap<u64, Vec<u8>>>,
}

impl Blocks {
    const SIZE: u64 = 1 << 12;
    /// Blocks kept at most.
    const MOST: usize = 256;

    /// Bytes that no running code changes: what a writable segment holds is no constant.
    fn read(&self, image: &Elf, address: u64, buffer: &mut [u8]) -> Option<()> {
        let holds = |segment: &&Segment| segment.kind == segment_type::LOAD && !segment.writable() && address.wrapping_sub(segment.address) < segment.file_size;
        let segment = image.segments.iter().find(holds)?;
        let start = address - (address - segment.address) % Self::SIZE;
        let mut blocks = self.read.borrow_mut();
        if blocks.len() == Self::MOST {
            blocks.clear();
        }
        // One that cannot be read is kept as empty, so that it is not tried again.
        let block = blocks.entry(start).or_insert_with(|| image.window_up_to("constant of the code", start, Self::SIZE + 16).map(|window| window.bytes).unwrap_or_default());
        let skip = (address - start) as usize;
        buffer.copy_from_slice(block.get(skip..skip + buffer.len())?);
        Some(())
    }
}
