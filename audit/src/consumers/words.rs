//! What is looked for in a file: names, library names and device files of the families, from their manifests.

use std::collections::BTreeSet;
use std::ops::Range;

use memchr::memmem::Finder;

use crate::manifest::Family;

/// A shorter beginning of names, or of a needle, would be found everywhere.
const SHORTEST_STEM: usize = 3;

/// Longest string that is looked at around a hit.
pub(super) const LONGEST: usize = 256;

/// Something in the bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    /// An export of a family, as a string of its own.
    Name { family: usize, name: String },
    /// A string with the name of a family's runtime library in it.
    Library { family: usize, text: String },
    /// A function of the library between runtime and kernel.
    Thunk { family: usize, name: String },
    /// A device file.
    Device { family: usize, path: String },
}

/// The families' needles, each with its own search: a few passes over bytes in the processor's cache are faster than one with an automaton.
pub(super) struct Words<'a> {
    families: &'a [Family],
    finders: Vec<Finder<'static>>,
}

impl<'a> Words<'a> {
    pub(super) fn new(families: &'a [Family]) -> Self {
        let (mut needles, mut stems) = (Vec::new(), Vec::new());
        for family in families {
            let identity = &family.identity;
            match stem(&identity.anchors) {
                Some(stem) => stems.push(stem),
                None => needles.extend(family.rows().iter().map(|row| row.name.to_owned())),
            }
            needles.push(identity.soname_prefix.clone());
            needles.extend(identity.devices.iter().chain(&identity.thunk_prefix).cloned());
        }
        needles.extend(stems.iter().map(|&stem| stem.to_owned()));
        Self { families, finders: shared(&needles, &stems).iter().map(|needle| Finder::new(needle).into_owned()).collect() }
    }

    /// The words around every needle that begins in the part `own` of `bytes`, as (position, word).
    pub(super) fn find(&self, bytes: &[u8], own: Range<usize>, see: &mut dyn FnMut(usize, Word)) {
        for hit in self.finders.iter().flat_map(|finder| finder.find_iter(bytes)).filter(|hit| own.contains(hit)) {
            self.around(bytes, hit, see);
        }
    }

    /// What the string around a hit is.
    fn around(&self, bytes: &[u8], hit: usize, see: &mut dyn FnMut(usize, Word)) {
        let (start, end) = run(bytes, hit, |byte| (0x20..0x7f).contains(&byte));
        let text = String::from_utf8_lossy(&bytes[start..end]);
        let (first, last) = run(bytes, hit, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let name = std::str::from_utf8(&bytes[first..last]).unwrap_or_default();
        let ends = bytes.get(last).is_none_or(|&byte| byte == 0);
        for (family, identity) in self.families.iter().map(|family| &family.identity).enumerate() {
            if text.contains(identity.soname_prefix.as_str()) {
                see(start, Word::Library { family, text: text.trim().into() });
            }
            if let Some(path) = identity.devices.iter().find(|path| text.contains(path.as_str())) {
                see(start, Word::Device { family, path: path.clone() });
            }
            if identity.thunk_prefix.as_ref().is_some_and(|prefix| name.starts_with(prefix.as_str())) && ends {
                see(first, Word::Thunk { family, name: name.into() });
            }
            if ends && self.families[family].row(name).is_some() {
                see(first, Word::Name { family, name: name.into() });
            }
        }
    }
}

/// As few needles as find all of these, because what stands around a hit is looked at in any case: a needle that holds another is found with it, and so
/// are a family's names, library and thunk with the first letters of a stem, where those share them.
fn shared(needles: &[String], stems: &[&str]) -> Vec<String> {
    let heads = stems.iter().filter_map(|stem| stem.get(..SHORTEST_STEM));
    let common = heads.filter(|head| needles.iter().filter(|needle| needle.contains(head)).count() > 1);
    let all: BTreeSet<&str> = common.chain(needles.iter().map(String::as_str)).collect();
    let covered = |needle: &&&str| !all.iter().any(|other| other != *needle && needle.contains(other));
    all.iter().filter(covered).map(|&needle| needle.to_owned()).collect()
}

/// How all of these names begin.
fn stem(names: &[String]) -> Option<&str> {
    let first = names.first()?;
    let common = names.iter().map(|name| name.bytes().zip(first.bytes()).take_while(|(a, b)| a == b).count()).min()?;
    (common >= SHORTEST_STEM).then(|| &first[..common])
}

/// The longest run of bytes that fit around a position.
fn run(bytes: &[u8], at: usize, fits: impl Fn(u8) -> bool) -> (usize, usize) {
    let low = at.saturating_sub(LONGEST);
    let high = bytes.len().min(at + LONGEST);
    let start = bytes[low..at].iter().rposition(|&byte| !fits(byte)).map_or(low, |place| low + place + 1);
    let end = bytes[at..high].iter().position(|&byte| !fits(byte)).map_or(high, |place| at + place);
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::shared;

    #[test]
    fn few_needles_find_all() {
        let of = |needles: &[&str], stems: &[&str]| {
            let needles: Vec<String> = needles.iter().chain(stems).map(|&needle| needle.into()).collect();
            shared(&needles, stems)
        };
        let real = ["libamdhip64.so", "libhsa-runtime64.so", "/dev/kfd", "hsaKmt"];
        assert_eq!(of(&real, &["hip", "hsa_"]), ["/dev/kfd", "hip", "hsa"]);
        assert_eq!(of(&["clFlush", "clFinish", "libOpenCL.so", "libcl.so"], &[]), ["clFinish", "clFlush", "libOpenCL.so", "libcl.so"]);
        assert_eq!(of(&["libabc.so", "ab", "cab"], &["ab"]), ["ab"]);
    }
}
