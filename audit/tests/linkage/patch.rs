//! Bytes changed in a finished 64-bit little-endian file, where no toolchain makes what is wanted.

/// Applies one step:
///
/// - `header OFFSET SIZE VALUE`: a number in the ELF header
/// - `segment TYPE INDEX FIELD VALUE`: a field (`type flags offset address filesz memsz align`) of the INDEX-th program header of a type
///   (`load dynamic stack`); `+VALUE` adds
/// - `dynamic TAG NEWTAG VALUE`: the first entry with a tag becomes another; `=` keeps the value
/// - `relocation FROM TO`: the type of every entry of `DT_RELA` with the type FROM
/// - `symbol NAME FIELD VALUE`: `section` (`st_shndx`), `value` (`st_value`) or `version` (its `DT_VERSYM` entry) of a dynamic symbol
/// - `weak VERSION`: the requirement gets `VER_FLG_WEAK`
/// - `no-sections`: the section headers are gone
pub fn apply(bytes: &mut Vec<u8>, step: &str) {
    let words: Vec<&str> = step.split_whitespace().collect();
    match words[..] {
        ["header", offset, size, value] => put(bytes, number(offset) as usize, number(size) as usize, number(value)),
        ["segment", kind, index, field, value] => segment(bytes, kind, number(index) as usize, field, value),
        ["dynamic", tag, new, value] => dynamic(bytes, number(tag), number(new), value),
        ["relocation", from, to] => relocation(bytes, number(from), number(to)),
        ["symbol", name, field, value] => symbol(bytes, name, field, number(value)),
        ["weak", version] => weak(bytes, version),
        ["no-sections"] => {
            let start = get(bytes, 40, 8) as usize;
            put(bytes, 40, 8, 0);
            put(bytes, 60, 2, 0);
            put(bytes, 62, 2, 0);
            bytes.truncate(start);
        }
        _ => panic!("no such patch: {step}"),
    }
}

/// The bytes of a file with these steps applied.
pub fn file(path: &std::path::Path, steps: &[impl AsRef<str>]) -> Vec<u8> {
    all(std::fs::read(path).expect("just built"), steps)
}

/// Bytes with these steps applied.
pub fn all(mut bytes: Vec<u8>, steps: &[impl AsRef<str>]) -> Vec<u8> {
    for step in steps {
        apply(&mut bytes, step.as_ref());
    }
    bytes
}

/// Decimal or `0x` hex.
pub fn number(text: &str) -> u64 {
    let parsed = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    parsed.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn get(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn put(bytes: &mut [u8], at: usize, size: usize, value: u64) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

fn headers(bytes: &[u8], kind: u64) -> Vec<usize> {
    let (table, count) = (get(bytes, 32, 8) as usize, get(bytes, 56, 2) as usize);
    (0..count).map(|index| table + index * 56).filter(|&at| get(bytes, at, 4) == kind).collect()
}

fn segment(bytes: &mut [u8], kind: &str, index: usize, field: &str, value: &str) {
    let kind = match kind {
        "load" => 1,
        "dynamic" => 2,
        "stack" => 0x6474_e551,
        other => number(other),
    };
    let (skip, size) = match field {
        "type" => (0, 4),
        "flags" => (4, 4),
        "offset" => (8, 8),
        "address" => (16, 8),
        "filesz" => (32, 8),
        "memsz" => (40, 8),
        "align" => (48, 8),
        other => panic!("no field is called {other}"),
    };
    let at = headers(bytes, kind)[index] + skip;
    let value = match value.strip_prefix('+') {
        Some(more) => get(bytes, at, size) + number(more),
        None => number(value),
    };
    put(bytes, at, size, value);
}

/// Where the entries of the dynamic section stand.
fn entries(bytes: &[u8]) -> Vec<usize> {
    let header = headers(bytes, 2)[0];
    let (start, size) = (get(bytes, header + 8, 8) as usize, get(bytes, header + 32, 8) as usize);
    (start..start + size).step_by(16).collect()
}

fn value_of(bytes: &[u8], tag: u64) -> u64 {
    let at = entries(bytes).into_iter().find(|&at| get(bytes, at, 8) == tag).unwrap_or_else(|| panic!("no entry has tag {tag:#x}"));
    get(bytes, at + 8, 8)
}

fn dynamic(bytes: &mut [u8], tag: u64, new: u64, value: &str) {
    let at = entries(bytes).into_iter().find(|&at| get(bytes, at, 8) == tag).unwrap_or_else(|| panic!("no entry has tag {tag:#x}"));
    put(bytes, at, 8, new);
    if value != "=" {
        put(bytes, at + 8, 8, number(value));
    }
}

/// The linker puts these tables into the first segment, whose offset and address are both 0.
fn relocation(bytes: &mut [u8], from: u64, to: u64) {
    let (start, size) = (value_of(bytes, 7) as usize, value_of(bytes, 8) as usize);
    let found: Vec<usize> = (start..start + size).step_by(24).filter(|&at| get(bytes, at + 8, 4) == from).collect();
    assert!(!found.is_empty(), "no relocation has type {from}");
    for at in found {
        put(bytes, at + 8, 4, to);
    }
}

fn symbol(bytes: &mut [u8], name: &str, field: &str, value: u64) {
    let (strings, symbols, versions) = (value_of(bytes, 5) as usize, value_of(bytes, 6) as usize, value_of(bytes, 0x6fff_fff0) as usize);
    let is_named = |bytes: &[u8], at: usize| {
        let start = strings + get(bytes, at, 4) as usize;
        bytes[start..].starts_with(name.as_bytes()) && bytes[start + name.len()] == 0
    };
    let index = (1..1000).find(|index| is_named(bytes, symbols + index * 24)).expect("the table ends before");
    match field {
        "section" => put(bytes, symbols + index * 24 + 6, 2, value),
        "value" => put(bytes, symbols + index * 24 + 8, 8, value),
        "version" => put(bytes, versions + index * 2, 2, value),
        other => panic!("no field is called {other}"),
    }
}

fn weak(bytes: &mut [u8], version: &str) {
    let strings = value_of(bytes, 5) as usize;
    let mut need = value_of(bytes, 0x6fff_fffe) as usize;
    loop {
        let mut aux = need + get(bytes, need + 8, 4) as usize;
        loop {
            let name = strings + get(bytes, aux + 8, 4) as usize;
            if bytes[name..].starts_with(version.as_bytes()) && bytes[name + version.len()] == 0 {
                put(bytes, aux + 4, 2, 2);
                return;
            }
            match get(bytes, aux + 12, 4) as usize {
                0 => break,
                next => aux += next,
            }
        }
        match get(bytes, need + 12, 4) as usize {
            0 => panic!("no requirement is called {version}"),
            next => need += next,
        }
    }
}
