//! Names of targets as bytes of a file: which stand where, and in what company.
//!
//! A name that stands somewhere proves little (machine code, source paths and constants that run into each other look like names), so each is
//! kept by the form it was found in. What the forms mean is decided in [`super::registry`] and [`super::verdict`].

use std::collections::BTreeSet;

use memchr::memmem;

use super::target::{HSA_PREFIX, Name, Target, Triple};
use crate::code::sweep::{self, CONTEXT, Chunk};
use crate::elf::{Elf, Result, Segment};

/// How every name begins.
pub const TAG: &[u8] = b"gfx";
/// Longest id: `gfx10-3-generic:sramecc+:xnack-` takes 32 bytes.
const LONGEST: usize = 48;
/// Ids and immediates kept at most. The real libraries hold a few hundred; a file made to hold millions gets no structural reading.
const MOST: usize = 1 << 14;
/// How the line with the build's version begins in `libhsa-runtime64`.
const BUILD_ID_TAG: &[u8] = b"ROCR BUILD ID: \"";

/// A NUL-terminated id, with or without features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id {
    /// Where it starts; maybe inside a longer string that the linker merged it into.
    pub address: u64,
    /// What it says.
    pub name: Name,
}

impl Id {
    /// True for a device with features.
    pub fn has_features(&self) -> bool {
        matches!(self.name, Name::Target(target) if !target.features.is_empty())
    }
}

/// Names of targets in a file, or in the parts of it that were read.
#[derive(Debug, Default)]
pub struct Names {
    /// NUL-terminated ids, by address.
    pub ids: Vec<Id>,
    /// Whole words that are a target, features not looked at.
    pub words: BTreeSet<Triple>,
    /// Targets that begin a longer word (`gfx942a`, two constants without a NUL between them), end one (`libgfx1250_x`) or stand among
    /// machine code: too little to count, enough not to call the target absent.
    pub fused: BTreeSet<Triple>,
    /// `amdgcn-amd-amdhsa--gfx…` as the target of an embedded code object: a msgpack string whose length fits.
    pub code_objects: BTreeSet<Triple>,
    /// Places in executable segments where `gfx` stands, in immediates or in constants among the code.
    pub immediates: Vec<u64>,
    /// What stands between the quotes of `ROCR BUILD ID: "…"`.
    pub build_id: Option<String>,
    /// More than was kept.
    pub crowded: bool,
    /// Which low bits the addresses of ids have.
    low_bits: Vec<bool>,
}

/// The bits of an address that tell most others from those of the few ids, without a search.
fn low_bits(address: u64) -> usize {
    (address & 0xfff) as usize
}

impl Names {
    /// The id that starts at an address.
    pub fn id_at(&self, address: u64) -> Option<Name> {
        if self.low_bits.get(low_bits(address)) != Some(&true) {
            return None;
        }
        let position = self.ids.binary_search_by_key(&address, |id| id.address).ok()?;
        Some(self.ids[position].name)
    }

    /// True if any form of the name stands in the data of the file.
    pub fn mention(&self, triple: Triple) -> bool {
        self.words.contains(&triple) || self.fused.contains(&triple) || self.code_objects.contains(&triple)
    }
}

/// A part of a file's loaded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Segments that are neither written nor executed: where linkers put constants.
    Constants,
    /// Executable segments, and so the constants of linkers that do not keep the two apart.
    Code,
    /// Writable segments: most of a runtime's bytes, embedded code objects, and few names.
    Data,
}

impl Part {
    fn of(segment: &Segment) -> Self {
        match (segment.writable(), segment.executable()) {
            (_, true) => Self::Code,
            (true, false) => Self::Data,
            (false, false) => Self::Constants,
        }
    }
}

impl Names {
    /// Adds the names of one part of a file.
    pub(super) fn read(&mut self, image: &Elf, part: Part) -> Result<()> {
        let (tag, build_tag) = (memmem::Finder::new(TAG), memmem::Finder::new(BUILD_ID_TAG));
        let wanted = |segment: &Segment| Part::of(segment) == part;
        sweep::segments(image, wanted, |chunk| {
            if part != Part::Data
                && self.build_id.is_none()
                && let Some(position) = build_tag.find(&chunk.bytes[chunk.from..])
            {
                self.build_id = quoted(&chunk.bytes[chunk.from + position + BUILD_ID_TAG.len()..]);
            }
            for position in tag.find_iter(&chunk.bytes[chunk.from..]).map(|position| position + chunk.from) {
                if position >= chunk.to {
                    break;
                }
                self.see(chunk, position, part == Part::Code);
            }
        })?;
        self.ids.sort_unstable_by_key(|id| id.address);
        self.ids.dedup_by_key(|id| id.address);
        Ok(())
    }

    /// True if an id with features is among the names.
    pub fn have_features(&self) -> bool {
        self.ids.iter().any(Id::has_features)
    }

    /// Takes in the `gfx` at a position of a chunk.
    fn see(&mut self, chunk: Chunk<'_>, position: usize, executable: bool) {
        let rest = &chunk.bytes[position..chunk.bytes.len().min(position + LONGEST)];
        let address = chunk.address + position as u64;
        let before = &chunk.bytes[position.saturating_sub(CONTEXT)..position];
        let bounded = !before.last().copied().is_some_and(is_word);
        if executable {
            if self.immediates.len() == MOST {
                self.crowded = true;
                return;
            }
            self.immediates.push(address);
        }
        if let Some(name) = memchr::memchr(0, rest).and_then(|end| Name::in_file(&rest[..end])) {
            if self.ids.len() == MOST {
                self.crowded = true;
                return;
            }
            self.ids.push(Id { address, name });
            self.low_bits.resize(low_bits(u64::MAX) + 1, false);
            self.low_bits[low_bits(address)] = true;
            if let Name::Target(Target { triple, .. }) = name {
                if bounded {
                    self.words.insert(triple)
                } else {
                    self.fused.insert(triple)
                };
            }
            return;
        }
        let word = word(rest);
        if executable {
            // In code the bytes after an immediate are the next instruction: what looks like a word there may be chance.
            self.fused.extend(longest_target(word));
            return;
        }
        match Name::in_file(word) {
            Some(Name::Target(Target { triple, .. })) if bounded => {
                self.words.insert(triple);
                if is_code_object(before, rest) {
                    self.code_objects.insert(triple);
                }
            }
            _ => self.fused.extend(longest_target(word)),
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The word at the start of `bytes`: letters, digits and `_`.
fn word(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&byte| !is_word(byte)).unwrap_or(bytes.len())]
}

/// The longest target that a word begins with.
fn longest_target(word: &[u8]) -> Option<Triple> {
    (6..=word.len().min(7)).rev().find_map(|len| match Name::in_file(&word[..len]) {
        Some(Name::Target(target)) => Some(target.triple),
        _ => None,
    })
}

/// True if a target triple ends before `rest` and the msgpack header in front of it gives its very length.
///
/// `amdhsa.target` in the metadata note of a code object: LLVM "User Guide for AMDGPU Backend", code object metadata V4 and later.
fn is_code_object(before: &[u8], rest: &[u8]) -> bool {
    let Some(header) = before.strip_suffix(HSA_PREFIX.as_bytes()) else { return false };
    let id = rest.iter().position(|&byte| !is_word(byte) && !matches!(byte, b':' | b'+' | b'-')).unwrap_or(rest.len());
    let len = HSA_PREFIX.len() + id;
    match header {
        [.., short] if len < 32 && usize::from(*short) == 0xa0 | len => true,
        [.., 0xd9, long] => usize::from(*long) == len,
        _ => false,
    }
}

/// Text up to the closing quote.
fn quoted(bytes: &[u8]) -> Option<String> {
    let end = memchr::memchr(b'"', &bytes[..bytes.len().min(96)])?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Chunk, Names, is_code_object, longest_target, quoted, word};

    fn read(bytes: &[u8], executable: bool) -> Names {
        let mut names = Names::default();
        let chunk = Chunk { bytes, address: 0x1000, from: 0, to: bytes.len() };
        for position in memchr::memmem::find_iter(bytes, b"gfx") {
            names.see(chunk, position, executable);
        }
        names
    }

    fn words(bytes: &[u8]) -> Vec<String> {
        read(bytes, false).words.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn s4_families_and_chance_are_no_words() {
        assert!(words(b"\0gfx9/ gfx10/ gfx9f gfx1f gfx11addrlib. image_lut_gfx11 gfx_target_version GFX942 gfx\0").is_empty());
    }

    #[test]
    fn s6_identifiers_are_no_words_but_are_remembered() {
        let names = read(b" gfx900_helper libgfx1250_x gfx942helper gfx942a xgfx1030 ", false);
        assert!(names.words.is_empty());
        assert_eq!(names.fused.iter().map(ToString::to_string).collect::<Vec<_>>(), ["gfx900", "gfx942", "gfx1030", "gfx1250"]);
    }

    #[test]
    fn s6_a_dash_before_is_a_boundary() {
        assert_eq!(words(b"\0amdgcn-amd-amdhsa--gfx1250 and gfx90a:xnack+,"), ["gfx90a", "gfx1250"]);
    }

    #[test]
    fn s7_longer_names_do_not_answer_for_shorter_ones() {
        assert!("".parse::<super::Name>().is_err(), "an empty target is no target");
        let names = read(b" gfx1200 gfx1100, gfx12-generic ", false);
        assert!(!names.mention("gfx120".parse().map(triple).unwrap()));
        assert!(names.fused.is_empty());
    }

    fn triple(name: super::Name) -> super::Triple {
        match name {
            super::Name::Target(target) => target.triple,
            super::Name::Generic(generic) => panic!("{generic}"),
        }
    }

    #[test]
    fn ids_need_their_nul_and_may_be_the_tail_of_a_longer_string() {
        let names = read(b"amdgcn-amd-amdhsa--gfx900\0gfx906:xnack+\0gfx9-4-generic\0gfx942a\0gfx908", false);
        let ids: Vec<_> = names.ids.iter().map(|id| (id.address, id.name.to_string())).collect();
        assert_eq!(ids, [(0x1013, "gfx900".into()), (0x101a, "gfx906:xnack+".into()), (0x1028, "gfx9-4-generic".into())]);
        assert_eq!(names.code_objects.len(), 0);
    }

    #[test]
    fn immediates_of_code_are_places_only() {
        let names = read(b"\xc7\x84\x24\x80\0\0\0gfx9f3\xc0\x48gfx90c:x", true);
        assert_eq!(names.immediates, [0x1007, 0x100f]);
        assert!(names.words.is_empty());
        assert_eq!(names.fused.iter().map(ToString::to_string).collect::<Vec<_>>(), ["gfx90c", "gfx9f3"]);
    }

    #[test]
    fn target_of_a_code_object_has_its_length_in_front() {
        assert!(is_code_object(b"\xb9amdgcn-amd-amdhsa--", b"gfx90a\xaeamdhsa.version"));
        assert!(is_code_object(b"\xd9\x29amdgcn-amd-amdhsa--", b"gfx90a:sramecc+:xnack-\xae"));
        assert!(!is_code_object(b"\xbaamdgcn-amd-amdhsa--", b"gfx90a\xae"));
        assert!(!is_code_object(b"\0amdgcn-amd-amdhsa--", b"gfx90a\0"));
        assert!(!is_code_object(b"\xb9", b"gfx90a\xae"));
        // A short string has at most 31 bytes; this one has 32.
        assert!(!is_code_object(b"\xa0amdgcn-amd-amdhsa--", b"gfx90a:xnack+\xae"));
    }

    #[test]
    fn helpers_end_at_the_end() {
        assert_eq!(word(b"gfx90a"), b"gfx90a");
        assert_eq!(longest_target(b"gfx1010a").map(|triple| triple.to_string()).as_deref(), Some("gfx1010"));
        assert_eq!(longest_target(b"gfx11"), None);
        assert_eq!(quoted(b"1.18.0-local-build-unknown\"").as_deref(), Some("1.18.0-local-build-unknown"));
        assert_eq!(quoted(b"\""), None);
        assert_eq!(quoted(b"no end"), None);
    }
}
