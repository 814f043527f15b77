//! What is compiled into one loader: which libc it belongs to, its version, default directories and `$LIB`.

use serde::Serialize;

use super::tree::Tree;
use crate::elf::{Class, Header};

/// Whose loader it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Libc {
    /// The GNU C library.
    Glibc,
    /// musl.
    Musl,
    /// Something else.
    Other,
}

/// A program interpreter.
#[derive(Debug, Clone, Serialize)]
pub struct Interpreter {
    /// `PT_INTERP` as it stands in the program.
    pub path: String,
    /// Whose it is.
    pub libc: Libc,
    /// (2, 36); `None` where the file does not say, as before 2.33.
    pub version: Option<(u32, u32)>,
    /// Default directories in order, each with its `/` at the end.
    pub directories: Vec<String>,
    /// What `$LIB` stands for.
    pub lib: Option<String>,
    /// Its cache: `/etc/ld.so.cache`, or below the prefix that it was built for.
    pub cache: String,
}

/// Where a distribution has glibc's loader for a machine, as its psABI demands.
pub fn usual(header: &Header) -> Option<&'static str> {
    match (header.machine, header.class) {
        (62, Class::Elf64) => Some("/lib64/ld-linux-x86-64.so.2"),
        (62, Class::Elf32) => Some("/libx32/ld-linux-x32.so.2"),
        (3, _) => Some("/lib/ld-linux.so.2"),
        (183, Class::Elf64) => Some("/lib/ld-linux-aarch64.so.1"),
        _ => None,
    }
}

impl Interpreter {
    /// Reads the file that a program names.
    pub fn read(tree: &Tree, path: &str) -> Result<Self, String> {
        let bytes = tree.read(path).map_err(|error| error.to_string())?;
        let name = path.rsplit('/').next().unwrap_or(path);
        let libc = match name {
            _ if name.starts_with("ld-musl-") => Libc::Musl,
            _ if name.starts_with("ld-linux") || name.starts_with("ld64.so") || name.starts_with("ld-2.") || name == "ld.so.1" => Libc::Glibc,
            _ => Libc::Other,
        };
        let directories = directories(&bytes);
        let lib = lib(&bytes, &directories);
        Ok(Self { path: path.to_string(), libc, version: version(&bytes), directories, lib, cache: cache(&bytes) })
    }

    /// True if it searches `glibc-hwcaps`: from 2.33 on, which is also when loaders began to carry their version.
    pub fn named_hwcaps(&self) -> bool {
        self.version.is_some_and(|version| version >= (2, 33))
    }

    /// True if it searches the older subdirectories: up to 2.36.
    pub fn legacy_hwcaps(&self) -> bool {
        self.version.is_none_or(|version| version < (2, 37))
    }
}

fn version(bytes: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b" release version ";
    let at = memchr::memmem::find(bytes, MARK)? + MARK.len();
    let text = std::str::from_utf8(bytes.get(at..at + 12)?).ok()?;
    let mut numbers =
        text.split('.').map(|number| number.bytes().take_while(u8::is_ascii_digit).fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')));
    Some((numbers.next()?, numbers.next()?))
}

/// The run of strings `/…/`, each with its NUL, that names most directories: the constant that the search starts from.
fn directories(bytes: &[u8]) -> Vec<String> {
    let mut best: Vec<String> = Vec::new();
    let mut run: Vec<String> = Vec::new();
    let mut expected = 0;
    for end in memchr::memmem::find_iter(bytes, b"/\0") {
        let start = bytes[..=end].iter().rposition(|&byte| !(b'!'..=b'~').contains(&byte)).map_or(0, |before| before + 1);
        let text = std::str::from_utf8(&bytes[start..=end]).unwrap_or_default();
        if start != expected {
            run.clear();
        }
        expected = end + 2;
        if text.len() > 2 && text.starts_with('/') && !text.starts_with("/proc") && !text.starts_with("/dev") {
            run.push(text.to_string());
            if run.len() > best.len() {
                best.clone_from(&run);
            }
        } else {
            run.clear();
        }
    }
    best
}

/// The path of its cache, a string in it; the usual one where there is none.
fn cache(bytes: &[u8]) -> String {
    const NAME: &[u8] = b"/ld.so.cache\0";
    let found = memchr::memmem::find_iter(bytes, NAME).find_map(|at| {
        let start = bytes[..at].iter().rposition(|byte| !(b'!'..=b'~').contains(byte)).map_or(0, |before| before + 1);
        let path = std::str::from_utf8(&bytes[start..at + NAME.len() - 1]).ok()?;
        path.starts_with('/').then(|| path.to_string())
    });
    found.unwrap_or_else(|| "/etc/ld.so.cache".into())
}

/// `$LIB` is the first default directory without the prefix; the loader holds it as a string of its own.
fn lib(bytes: &[u8], directories: &[String]) -> Option<String> {
    let first = directories.first()?.trim_matches('/');
    let name = first.strip_prefix("usr/").unwrap_or(first);
    let whole: Vec<u8> = [b"\0", name.as_bytes(), b"\0"].concat();
    memchr::memmem::find(bytes, &whole).map(|_| name.to_string())
}
