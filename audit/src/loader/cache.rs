//! `/etc/ld.so.cache`, old format, new format, and the new one behind the old (`elf/dl-cache.c`, `sysdeps/generic/dl-cache.h`).

use std::collections::HashMap;

use super::hwcaps::Cpu;

const OLD: &[u8] = b"ld.so-1.7.0";
const NEW: &[u8] = b"glibc-ld.so.cache1.1";
/// Header of the old format: the magic, a byte to align, the number of entries.
const OLD_HEAD: usize = 16;
const OLD_ENTRY: usize = 12;
const NEW_HEAD: usize = 48;
const NEW_ENTRY: usize = 24;
const EXTENSION: u32 = 0xeaa4_2174;
/// Bits 32 to 63 of `hwcap` of an entry whose low half is an index of capability names.
const NAMED: u64 = 1 << 62;
/// The legacy subdirectory `tls`, which every loader of its time searched.
const TLS: u64 = 1 << 63;

/// Flags of an entry for any ELF library, and of one for i386.
const ANY: u32 = 1;
const I386: u32 = 3;

#[derive(Debug, Clone)]
struct Entry {
    exact: bool,
    capability: Capability,
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Capability {
    None,
    Named(String),
    Legacy,
}

/// The libraries of one cache that a program of one machine may use.
#[derive(Debug, Default)]
pub struct Cache {
    entries: HashMap<String, Vec<Entry>>,
}

/// Answer of a look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cached {
    /// No entry.
    Nothing,
    /// This path.
    Path(String),
    /// An entry for a legacy capability: whether it counts is not known.
    Unclear(String),
}

/// The flags of a machine's entries: libc6, and the ABI. From `ldconfig -p` and `sysdeps/unix/sysv/linux/*/dl-cache.h`.
pub fn flags(machine: u16, is_64: bool) -> Option<u32> {
    match (machine, is_64) {
        (62, true) => Some(0x0303),
        (62, false) => Some(0x0803),
        (3, _) => Some(I386),
        (183, true) => Some(0x0a03),
        (21, _) => Some(0x0503),
        (243, true) => Some(0x1003),
        _ => None,
    }
}

impl Cache {
    /// Reads the bytes of a cache; the error says what is wrong.
    pub fn read(bytes: &[u8], flags: u32) -> Result<Self, String> {
        if bytes.starts_with(NEW) {
            return Self::read_new(bytes, 0, flags);
        }
        if !bytes.starts_with(OLD) {
            return Err("neither format's magic stands at its start".into());
        }
        let count = word(bytes, 12)? as usize;
        let strings = OLD_HEAD.saturating_add(count.saturating_mul(OLD_ENTRY));
        let behind = strings.saturating_add(7) & !7;
        if bytes.get(behind..).is_some_and(|rest| rest.starts_with(NEW)) {
            return Self::read_new(bytes, behind, flags);
        }
        let mut cache = Self::default();
        for index in 0..count {
            let at = OLD_HEAD + index * OLD_ENTRY;
            let text = |field| string(bytes, strings.saturating_add(word(bytes, at + field)? as usize));
            cache.add(word(bytes, at)?, flags, text(4)?, text(8)?, Capability::None);
        }
        Ok(cache)
    }

    /// The new format from `start` on. Names are counted from there, the extension from the start of the file.
    fn read_new(file: &[u8], start: usize, flags: u32) -> Result<Self, String> {
        let bytes = &file[start..];
        let order = bytes.get(28).copied().unwrap_or(0) & 3;
        if order == 3 || order == 1 {
            return Err("its byte order is not this machine's".into());
        }
        let count = word(bytes, 20)? as usize;
        let names = capability_names(file, word(bytes, 32)? as usize).unwrap_or_default();
        let mut cache = Self::default();
        for index in 0..count {
            let at = NEW_HEAD.saturating_add(index.saturating_mul(NEW_ENTRY));
            let text = |field| string(bytes, word(bytes, at + field)? as usize);
            let hwcap = u64::from(word(bytes, at + 16)?) | u64::from(word(bytes, at + 20)?) << 32;
            let capability = match hwcap {
                0 | TLS => Capability::None,
                _ if hwcap >> 32 == NAMED >> 32 || hwcap & NAMED != 0 && hwcap & TLS == 0 => {
                    Capability::Named(names.get(hwcap as u32 as usize).cloned().unwrap_or_default())
                }
                _ => Capability::Legacy,
            };
            cache.add(word(bytes, at)?, flags, text(4)?, text(8)?, capability);
        }
        Ok(cache)
    }

    fn add(&mut self, has: u32, wanted: u32, name: String, path: String, capability: Capability) {
        // 1 stands for any ELF library, on the oldest machine alone (measured: no 64-bit x86 loader takes it); an exact match goes before it.
        if has == wanted || (has == ANY && wanted == I386) {
            self.entries.entry(name).or_default().push(Entry { exact: has == wanted, capability, path });
        }
    }

    /// True if the answer for this name depends on the CPU.
    pub fn depends_on_cpu(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entries| entries.iter().any(|entry| matches!(entry.capability, Capability::Named(_))))
    }

    /// What a loader takes on this CPU; `named` if it knows `glibc-hwcaps`.
    pub fn find(&self, name: &str, cpu: Cpu, named: bool) -> Cached {
        let Some(entries) = self.entries.get(name) else { return Cached::Nothing };
        let level = |entry: &Entry| match &entry.capability {
            Capability::Named(name) => (2..=cpu.level).find(|level| *name == format!("x86-64-v{level}")),
            _ => None,
        };
        if let Some(best) = entries.iter().filter(|entry| named && level(entry).is_some()).max_by_key(|entry| level(entry)) {
            return Cached::Path(best.path.clone());
        }
        let plain = || entries.iter().filter(|entry| !matches!(entry.capability, Capability::Named(_)));
        match plain().find(|entry| entry.exact).or_else(|| plain().next_back()) {
            None => Cached::Nothing,
            Some(entry) if plain().any(|entry| entry.capability == Capability::Legacy) => Cached::Unclear(entry.path.clone()),
            Some(entry) => Cached::Path(entry.path.clone()),
        }
    }
}

/// The names that entries refer to by index: an extension of the new format. Behind the old format, ldconfig counts these names from where the new one
/// starts and the loader from the start of the file, so that it finds none of them (measured, 2.36 and 2.44); what counts is the loader.
fn capability_names(file: &[u8], extension: usize) -> Option<Vec<String>> {
    if extension == 0 || word(file, extension).ok()? != EXTENSION {
        return None;
    }
    let sections = word(file, extension + 4).ok()?.min(64) as usize;
    let section = (0..sections).map(|index| extension + 8 + index * 16).find(|&at| word(file, at) == Ok(1))?;
    let (array, size) = (word(file, section + 8).ok()? as usize, word(file, section + 12).ok()? as usize);
    (0..size / 4).map(|index| string(file, word(file, array + index * 4).ok()? as usize).ok()).collect()
}

fn word(bytes: &[u8], at: usize) -> Result<u32, String> {
    let found = at.checked_add(4).and_then(|end| bytes.get(at..end)).and_then(|four| four.try_into().ok());
    found.map(u32::from_le_bytes).ok_or_else(|| format!("it is cut short at {at:#x} of {} bytes", bytes.len()))
}

fn string(bytes: &[u8], at: usize) -> Result<String, String> {
    let rest = bytes.get(at..).ok_or_else(|| format!("a name at {at:#x} lies behind its {} bytes", bytes.len()))?;
    let end = memchr::memchr(0, &rest[..rest.len().min(4096)]).ok_or_else(|| format!("the name at {at:#x} has no end"))?;
    Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
}
