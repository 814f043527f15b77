//! What one file has to do with the families, no judgement: imports, definitions, strings, how it opens libraries.

use std::collections::BTreeSet;

use super::words::Word;
use crate::code::calls;
use crate::elf::{Elf, Result, constants, segment_type};
use crate::manifest::Family;

/// `DF_1_PIE` of `DT_FLAGS_1`.
const PIE: u64 = 0x0800_0000;

/// `RTLD_DEEPBIND`, glibc's `dlfcn.h`.
const DEEPBIND: u32 = 8;

/// An import that a family defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    pub family: usize,
    pub name: String,
    pub node: Option<String>,
}

/// Whether a file opens libraries with `RTLD_DEEPBIND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeepBind {
    /// Every call of dlopen has constant flags without it, or there is none.
    No,
    /// At least one call has it.
    Yes,
    /// Not every call could be read; why.
    Unread(&'static str),
}

/// Facts of one file.
#[derive(Debug)]
pub(super) struct Facts {
    pub soname: Option<String>,
    pub build_id: Option<String>,
    pub machine: String,
    /// Families whose runtime this file is.
    pub runtime: BTreeSet<usize>,
    /// Families whose runtime it needs by `DT_NEEDED`.
    pub needed: BTreeSet<usize>,
    pub imports: BTreeSet<Import>,
    /// Functions of dlfcn.h that it imports, with the version they are asked for.
    pub dynamic: Vec<(String, Option<String>)>,
    /// Names of exports that stand in it as strings.
    pub names: BTreeSet<(usize, String)>,
    /// Strings that name a runtime's library.
    pub libraries: BTreeSet<(usize, String)>,
    pub devices: BTreeSet<String>,
    pub thunk: BTreeSet<String>,
    /// A program without interpreter.
    pub static_program: bool,
    pub deepbind: DeepBind,
    /// Class and machine.
    pub platform: (u64, u16),
}

impl Facts {
    pub(super) fn imports_any(&self, names: &[&str]) -> bool {
        self.dynamic.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// True if the file has anything to do with a family: words that nothing can reach or use are none of it.
    pub(super) fn touches(&self) -> bool {
        let strings = !self.names.is_empty() || !self.libraries.is_empty();
        let reaches = strings && (self.static_program || self.imports_any(&["dlopen", "dlmopen", "dlsym", "dlvsym"]));
        !self.imports.is_empty()
            || !self.needed.is_empty()
            || !self.runtime.is_empty()
            || !self.devices.is_empty()
            || !self.thunk.is_empty()
            || reaches
    }
}

/// True for what a process maps: programs and libraries of a processor. Objects for the linker, core dumps and code for a GPU are not.
pub(super) fn is_mapped(image: &Elf) -> bool {
    matches!(image.header.file_type, 2 | 3) && image.header.machine != constants::EM_AMDGPU.0
}

pub(super) fn gather(image: &Elf, found: Vec<(u64, Word)>, families: &[Family]) -> Result<Facts> {
    let names = image.names()?;
    let table = image.symbols()?;
    let pie = image.dynamic.value(constants::DT_FLAGS_1).is_some_and(|flags| flags & PIE != 0);
    let interpreted = image.segment(segment_type::INTERP).is_some();
    let mut facts = Facts {
        soname: names.soname,
        build_id: image.build_id()?,
        machine: image.header.machine_name(),
        runtime: BTreeSet::new(),
        needed: BTreeSet::new(),
        imports: BTreeSet::new(),
        dynamic: Vec::new(),
        names: BTreeSet::new(),
        libraries: BTreeSet::new(),
        devices: BTreeSet::new(),
        thunk: BTreeSet::new(),
        static_program: !interpreted && (image.header.file_type == 2 || pie),
        deepbind: DeepBind::No,
        platform: (image.header.word_size(), image.header.machine),
    };
    let exports: BTreeSet<&str> = table.exports().map(|symbol| &*symbol.name).collect();
    for (index, family) in families.iter().enumerate() {
        let identity = &family.identity;
        let is = |name: &str| family.is_runtime_name(name);
        if facts.soname.as_deref().is_some_and(is) && identity.anchors.iter().all(|anchor| exports.contains(anchor.as_str())) {
            facts.runtime.insert(index);
        }
        if names.needed.iter().any(|name| is(name)) {
            facts.needed.insert(index);
        }
    }
    let mut dlopen = Vec::new();
    for symbol in table.imports() {
        let version = table.version(symbol);
        let node = version.map(|version| version.node.to_string());
        if ["dlopen", "dlmopen", "dlsym", "dlvsym"].contains(&&*symbol.name) {
            if symbol.name == "dlopen" {
                dlopen.push(symbol.index);
            }
            facts.dynamic.push((symbol.name.to_string(), node));
            continue;
        }
        for (index, family) in families.iter().enumerate().filter(|(index, _)| !facts.runtime.contains(index)) {
            if family.concerns(&symbol.name, version.and_then(|version| version.file), facts.needed.contains(&index)) {
                facts.imports.insert(Import { family: index, name: symbol.name.to_string(), node: node.clone() });
            }
            if family.identity.thunk_prefix.as_ref().is_some_and(|prefix| symbol.name.starts_with(prefix.as_str())) {
                facts.thunk.insert(symbol.name.to_string());
            }
        }
    }
    let thunk = |family: &Family, name: &str| family.identity.thunk_prefix.as_ref().is_some_and(|prefix| name.starts_with(prefix.as_str()));
    facts.thunk.extend(exports.iter().filter(|name| families.iter().any(|family| thunk(family, name))).map(|name| (*name).to_string()));
    take_words(image, found, &mut facts);
    if facts.touches() {
        for index in dlopen {
            let calls = calls::second_arguments(image, index)?;
            facts.deepbind = match calls.because {
                _ if calls.constants.iter().any(|flags| flags & DEEPBIND != 0) => DeepBind::Yes,
                Some(because) => DeepBind::Unread(because),
                None if calls.unread > 0 => DeepBind::Unread("a call of dlopen whose flags are no constant"),
                None => facts.deepbind,
            };
        }
    }
    Ok(facts)
}

/// Words in loaded bytes, those of the dynamic string table left out: what stands there is known from the symbols.
fn take_words(image: &Elf, found: Vec<(u64, Word)>, facts: &mut Facts) {
    let strings = image
        .dynamic
        .value(constants::DT_STRTAB)
        .zip(image.dynamic.value(constants::DT_STRSZ))
        .and_then(|(address, size)| image.locate(address).map(|(offset, _)| offset..offset.saturating_add(size)));
    let loaded = |at: u64| {
        let inside =
            |segment: &&crate::elf::Segment| segment.kind == segment_type::LOAD && at >= segment.offset && at - segment.offset < segment.file_size;
        image.segments.iter().any(|segment| inside(&segment)) && !strings.as_ref().is_some_and(|strings| strings.contains(&at))
    };
    for (_, word) in found.into_iter().filter(|&(at, _)| loaded(at)) {
        match word {
            // A runtime knows its own names, its own device, and what it is called.
            Word::Name { family, .. } | Word::Library { family, .. } | Word::Device { family, .. } | Word::Thunk { family, .. }
                if facts.runtime.contains(&family) => {}
            Word::Name { family, name } => {
                facts.names.insert((family, name));
            }
            Word::Library { family, text } => {
                facts.libraries.insert((family, text));
            }
            Word::Device { path, .. } => {
                facts.devices.insert(path);
            }
            Word::Thunk { name, .. } => {
                facts.thunk.insert(name);
            }
        }
    }
}
