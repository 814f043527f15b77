//! Python sources: `ctypes.CDLL("libamdhip64.so")` reaches a runtime without one import that an ELF file would show.
//!
//! No Python is run and none is understood: strings, comments and words are told apart, no more. What such a file does is decided while it runs,
//! so it is never "held"; it is a candidate with its reason, or nothing.

use std::collections::BTreeSet;

use super::checks;
use super::facts::Import;
use super::judge::{reached, reason};
use super::{Auditor, Reached, Subject, Verdict};
use crate::elf::{Result, Source};

/// Larger sources are none that anybody wrote.
const MOST_BYTES: u64 = 16 << 20;
/// Longest string that can be the name of a library or of a device.
const LONGEST: usize = 256;
/// Words without which a source opens no library itself.
const OPENERS: [&str; 7] = ["ctypes", "cffi", "CDLL", "PyDLL", "LoadLibrary", "dlopen", "FFI"];

/// Judges a source; `None` if it names no runtime and no device, or opens no library, unless `always`.
pub(super) fn audit(auditor: &Auditor<'_>, source: &Source, always: bool) -> Result<Option<Subject>> {
    if source.len() > MOST_BYTES {
        return Err(source.error("file", None, format!("{} bytes, more than any Python source: it is not read", source.len())));
    }
    let bytes = source.read("file", 0, source.len())?;
    let stems: Vec<&str> = auditor.families.iter().map(|family| stem(&family.identity.soname_prefix)).collect();
    let devices = auditor.families.iter().flat_map(|family| &family.identity.devices);
    let needles = stems.iter().copied().chain(devices.map(String::as_str));
    if !always && !needles.into_iter().any(|needle| memchr::memmem::find(&bytes, needle.as_bytes()).is_some()) {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    let parts = Parts::of(&text);
    let opens = OPENERS.iter().any(|opener| parts.words.contains(opener));
    let (mut families, mut libraries, mut kernel, mut lookups) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (index, family) in auditor.families.iter().enumerate() {
        let identity = &family.identity;
        let named = |string: &&&str| string.contains(identity.soname_prefix.as_str()) || **string == stems[index];
        let found: Vec<&&str> = parts.strings.iter().filter(named).filter(|_| opens).collect();
        if !found.is_empty() {
            families.insert(family.name().to_string());
            libraries.extend(found.into_iter().map(|string| (*string).to_string()));
            let known = parts.words.iter().chain(&parts.strings).filter(|word| family.row(word).is_some()).collect::<BTreeSet<_>>();
            lookups.extend(known.into_iter().map(|name| reached(auditor, &Import { family: index, name: (*name).to_string(), node: None })));
        }
        kernel.extend(
            parts.strings.iter().filter(|string| identity.devices.iter().any(|device| string.contains(device.as_str()))).map(|s| (*s).to_string()),
        );
    }
    let mut reasons = Vec::new();
    if !libraries.is_empty() {
        let names: Vec<String> = lookups.iter().filter(|reached: &&Reached| reached.must_interpose).map(|reached| reached.name.clone()).collect();
        let which = libraries.iter().cloned().collect::<Vec<_>>().join(", ");
        let message = format!("names {which} and may open it; which functions it asks for by name is decided while it runs");
        reasons.push(reason(&checks::PYTHON_UNKNOWN, message, names));
    }
    if !kernel.is_empty() {
        let names: Vec<String> = kernel.iter().cloned().collect();
        reasons.push(reason(&checks::THUNK_UNKNOWN, format!("holds {}: it may talk to the kernel's device itself", names.join(", ")), names));
    }
    let verdict = reasons.iter().map(|reason| reason.verdict).max().unwrap_or(Verdict::Untouched);
    Ok((always || verdict != Verdict::Untouched).then(|| Subject {
        file: source.name().into(),
        soname: None,
        build_id: None,
        machine: "Python source".into(),
        verdict,
        runtime_of: Vec::new(),
        families: families.into_iter().collect(),
        imports: Vec::new(),
        lookups,
        libraries: libraries.into_iter().collect(),
        dynamic: Vec::new(),
        deepbind: "unknown",
        is_static: false,
        kernel: kernel.into_iter().collect(),
        reasons,
    }))
}

/// `libamdhip64.so` without both ends, as `ctypes.util.find_library` takes it.
fn stem(prefix: &str) -> &str {
    prefix.trim_start_matches("lib").trim_end_matches(".so")
}

/// Strings and words of a source; comments are neither.
#[derive(Debug, Default)]
struct Parts<'a> {
    strings: BTreeSet<&'a str>,
    words: BTreeSet<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Self {
        let (mut parts, mut rest) = (Self::default(), text);
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '#' => rest.find('\n').unwrap_or(rest.len()),
                '"' | '\'' => parts.string(rest, first),
                _ if first == '_' || first.is_alphanumeric() => {
                    let end = rest.find(|next: char| next != '_' && !next.is_alphanumeric()).unwrap_or(rest.len());
                    parts.words.insert(&rest[..end]);
                    end
                }
                _ => first.len_utf8(),
            };
            rest = &rest[length..];
        }
        parts
    }

    /// Length of the string at the start, with its quotes.
    fn string(&mut self, text: &'a str, quote: char) -> usize {
        let triple = text.len() >= 3 && text[1..].starts_with(quote) && text[2..].starts_with(quote);
        let begin = if triple { 3 } else { 1 };
        let mut at = begin;
        while let Some(found) = text[at..].find([quote, '\\', '\n']) {
            at += found;
            let rest = &text[at..];
            if let Some(escaped) = rest.strip_prefix('\\') {
                at += 1 + escaped.chars().next().map_or(0, char::len_utf8);
                continue;
            }
            let closes = if triple { rest.starts_with(if quote == '"' { "\"\"\"" } else { "'''" }) } else { rest.starts_with(quote) };
            // A string in single quotes ends with its line, closed or not.
            if closes || (!triple && rest.starts_with('\n')) {
                if at - begin <= LONGEST {
                    self.strings.insert(&text[begin..at]);
                }
                return at + if closes { begin } else { 0 };
            }
            at += 1;
        }
        text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::{Parts, stem};

    #[test]
    fn strings_words_and_comments_are_told_apart() {
        let parts = Parts::of("import ctypes # \"comment\"\nx = ctypes.CDLL('lib\\'a.so')\n\"\"\"doc 'x'\nstring\"\"\"\ny = \"open\nz = b''\n");
        assert_eq!(parts.strings.into_iter().collect::<Vec<_>>(), ["", "doc 'x'\nstring", "lib\\'a.so", "open"]);
        assert_eq!(parts.words.into_iter().collect::<Vec<_>>(), ["CDLL", "b", "ctypes", "import", "x", "y", "z"]);
    }

    #[test]
    fn any_text_comes_to_its_end() {
        for text in ["'", "\"\"\"", "'\\", "\"\"\"\\", "''", "'''", "é'é\\é'", "#", "\\'"] {
            Parts::of(text);
        }
        assert_eq!(stem("libamdhip64.so"), "amdhip64");
    }
}
