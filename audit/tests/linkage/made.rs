//! Files of other machines, written byte by byte: header, two segments, and a dynamic section with symbols and, if asked for, a requirement.

use super::patch::number;

/// Writes a shared object that exports the function `hipMalloc`. The recipe is a row of words:
///
/// - `class=32` or `64`, `order=little` or `big`, `machine=NUMBER`
/// - `need=FILE:VERSION:SYMBOL`: imports a symbol with a version of a file
/// - `tag=TAG:VALUE`: one more entry of the dynamic section
/// - `strings=ADDRESS`: the string table in a segment of its own at this address, with other bytes where a reader by file offset would look
pub fn write(recipe: &str) -> Vec<u8> {
    let mut file = Writer { wide: true, big: false, bytes: Vec::new() };
    let (mut machine, mut need, mut tags, mut strings_at) = (62, None, Vec::new(), None);
    for word in recipe.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or_else(|| panic!("{word}: key=value"));
        match key {
            "class" => file.wide = value == "64",
            "order" => file.big = value == "big",
            "machine" => machine = number(value),
            "need" => need = Some(value.split(':').collect::<Vec<_>>()),
            "tag" => tags.push(value.split_once(':').map(|(tag, value)| (number(tag), number(value))).expect("tag:value")),
            "strings" => strings_at = Some(number(value)),
            other => panic!("{other} is no part of a recipe"),
        }
    }
    file.write(machine, need.as_deref(), &tags, strings_at);
    file.bytes
}

struct Writer {
    wide: bool,
    big: bool,
    bytes: Vec<u8>,
}

/// All tables lie on the first page: where each begins.
const SYMBOLS: u64 = 0x200;
const HASH: u64 = 0x300;
const VERSIONS: u64 = 0x340;
const NEEDS: u64 = 0x360;
const DYNAMIC: u64 = 0x400;
const STRINGS: u64 = 0x700;
const CODE: u64 = 0x800;
const END: u64 = 0x900;

impl Writer {
    fn number(&mut self, size: usize, value: u64) {
        if self.big { self.bytes.extend(&value.to_be_bytes()[8 - size..]) } else { self.bytes.extend(&value.to_le_bytes()[..size]) }
    }

    fn word(&mut self, value: u64) {
        self.number(if self.wide { 8 } else { 4 }, value);
    }

    fn to(&mut self, offset: u64) {
        assert!(self.bytes.len() as u64 <= offset, "a table grew into the next");
        self.bytes.resize(offset as usize, 0);
    }

    fn write(&mut self, machine: u64, need: Option<&[&str]>, tags: &[(u64, u64)], strings_at: Option<u64>) {
        let mut strings = String::from("\0hipMalloc\0");
        let mut offset_of = |text: &str| {
            let at = strings.len() as u64;
            strings.push_str(text);
            strings.push('\0');
            at
        };
        let names = need.map(|need| [offset_of(need[0]), offset_of(need[1]), offset_of(need[2])]);

        let segments = 3 + u64::from(strings_at.is_some());
        self.bytes.extend([0x7f, b'E', b'L', b'F', if self.wide { 2 } else { 1 }, if self.big { 2 } else { 1 }, 1]);
        self.to(16);
        self.number(2, 3);
        self.number(2, machine);
        self.number(4, 1);
        self.word(0);
        let header = if self.wide { 64 } else { 52 };
        self.word(header);
        self.word(0);
        self.number(4, 0);
        self.number(2, header);
        self.number(2, if self.wide { 56 } else { 32 });
        self.number(2, segments);
        self.number(2, 0);
        self.number(2, 0);
        self.number(2, 0);

        let strings_size = strings.len() as u64;
        self.segment(1, 5, 0, 0, END);
        if let Some(address) = strings_at {
            self.segment(1, 4, 0x10000, address, strings_size);
        }
        self.segment(2, 4, DYNAMIC, DYNAMIC, 0x200);
        self.segment(0x6474_e551, 6, 0, 0, 0);

        self.to(SYMBOLS);
        self.symbol(0, 0, 0, 0);
        self.symbol(1, 0x12, 1, CODE);
        if let Some([_, _, symbol]) = names {
            self.symbol(symbol, 0x12, 0, 0);
        }
        let count = 2 + u64::from(names.is_some());
        self.to(HASH);
        self.number(4, 1);
        self.number(4, count);
        self.number(4, 1);
        for _ in 0..count {
            self.number(4, 0);
        }
        if let Some([file, version, _]) = names {
            self.to(VERSIONS);
            for index in [0, 1, 2] {
                self.number(2, index);
            }
            self.to(NEEDS);
            for (size, value) in [(2, 1), (2, 1), (4, file), (4, 16), (4, 0)] {
                self.number(size, value);
            }
            let hash = need.map_or(0, |need| sysv_hash(need[1]));
            for (size, value) in [(4, hash), (2, 0), (2, 2), (4, version), (4, 0)] {
                self.number(size, value);
            }
        }

        self.to(DYNAMIC);
        let symbol_size = if self.wide { 24 } else { 16 };
        let mut entries = vec![(4, HASH), (5, strings_at.unwrap_or(STRINGS)), (6, SYMBOLS), (10, strings_size), (11, symbol_size)];
        if let Some([file, _, _]) = names {
            entries.extend([(1, file), (0x6fff_fff0, VERSIONS), (0x6fff_fffe, NEEDS), (0x6fff_ffff, 1)]);
        }
        entries.extend(tags);
        entries.push((0, 0));
        for (tag, value) in entries {
            self.word(tag);
            self.word(value);
        }
        self.to(STRINGS);
        match strings_at {
            Some(_) => self.bytes.extend(vec![b'#'; strings.len()]),
            None => self.bytes.extend(strings.as_bytes()),
        }
        self.to(END);
        if strings_at.is_some() {
            self.to(0x10000);
            self.bytes.extend(strings.as_bytes());
        }
    }

    fn segment(&mut self, kind: u64, flags: u64, offset: u64, address: u64, size: u64) {
        self.number(4, kind);
        if self.wide {
            self.number(4, flags);
        }
        for value in [offset, address, address, size, size] {
            self.word(value);
        }
        if !self.wide {
            self.number(4, flags);
        }
        self.word(0x10000);
    }

    fn symbol(&mut self, name: u64, info: u64, section: u64, value: u64) {
        self.number(4, name);
        if self.wide {
            for (size, value) in [(1, info), (1, 0), (2, section), (8, value), (8, 0)] {
                self.number(size, value);
            }
        } else {
            for (size, value) in [(4, value), (4, 0), (1, info), (1, 0), (2, section)] {
                self.number(size, value);
            }
        }
    }
}

/// The hash of `DT_HASH` and of version names.
fn sysv_hash(name: &str) -> u64 {
    name.bytes().fold(0, |hash, byte| {
        let hash = (hash << 4) + u64::from(byte);
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}
