//! What is looked for in a file: names, library names and device files of the families, from their manifests.

use aho_corasick::AhoCorasick;

use crate::manifest::Family;

/// A shorter beginning of names would be found everywhere.
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

/// The families as one searcher.
pub(super) struct Words<'a> {
    families: &'a [Family],
    searcher: AhoCorasick,
}

impl<'a> Words<'a> {
    pub(super) fn new(families: &'a [Family]) -> Self {
        let mut needles: Vec<String> = Vec::new();
        for family in families {
            let identity = &family.identity;
            match stem(&identity.anchors) {
                Some(stem) => needles.push(stem.into()),
                None => needles.extend(family.rows().iter().map(|row| row.name.into())),
            }
            needles.push(identity.soname_prefix.clone());
            needles.extend(identity.devices.iter().chain(&identity.thunk_prefix).cloned());
        }
        // A needle that holds another is found with it: what stands around a hit is looked at in any case.
        let all = needles.clone();
        needles.retain(|needle| !all.iter().any(|other| other != needle && needle.contains(other.as_str())));
        needles.sort();
        needles.dedup();
        // A few short strings cannot exceed what the searcher can hold.
        let searcher = AhoCorasick::new(&needles).expect("a searcher of a few needles");
        Self { families, searcher }
    }

    /// Everything in `bytes` that begins at `from` or later and before `to`, as (position, word).
    pub(super) fn find(&self, bytes: &[u8], from: usize, to: usize, see: &mut dyn FnMut(usize, Word)) {
        for hit in self.searcher.find_iter(bytes).map(|hit| hit.start()) {
            if (from..to).contains(&hit) {
                self.around(bytes, hit, see);
            }
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
