//! Constants that straight-line code assembles: strings stored piece by piece, and numbers stored side by side.
//!
//! A compiler writes a short string with one or two overlapping immediates (`mov dword [rsp+80h], "gfx1"`, `mov dword [rsp+83h],
//! "1011"`), a longer one with 16-byte constants. This reads code in address order, keeps what registers and recent stores are known to
//! hold, and ignores jumps: a wrong guess costs a string that was never there or misses one, so callers accept only what parses.
//!
//! Instructions that matter are `mov`, `xor` and their like; any other forgets what it writes. Here is what the machines share: what memory
//! is known to hold. [`x86_64`](fn@x86_64) and [`aarch64`](fn@aarch64) read the code.

#![expect(clippy::cast_possible_wrap, reason = "sizes and places here are a few dozen at most")]

mod aarch64;
mod x86_64;

use std::collections::VecDeque;

pub use aarch64::aarch64;
pub use x86_64::x86_64;

/// Instructions after which a stored piece no longer joins another.
const REACH: u32 = 40;
/// Stores kept.
const KEPT: usize = 32;
/// Longest string put together, in bytes.
const LONGEST: usize = 64;

/// What code stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constant {
    /// Bytes that begin with the tag looked for, up to the last one known.
    Text {
        /// Address of the instruction that stored the first piece.
        at: u64,
        /// The bytes, NUL and what follows it left out.
        bytes: Vec<u8>,
    },
    /// A 4-byte number at offset 8 from an 8-byte one in the same object: `{ low, high }` at 0, `number` at 8.
    Numbers {
        /// Address of the instruction that completed it.
        at: u64,
        /// Lower and upper half of the 8-byte number, then the 4-byte number.
        numbers: [u32; 3],
    },
}

/// Fills a buffer of up to 16 bytes with constant bytes at an address of the file.
pub type Constants<'a> = dyn Fn(u64, &mut [u8]) -> Option<()> + 'a;

/// Constant bytes as a value.
fn constant(constants: &Constants<'_>, address: u64, size: usize) -> Option<Value> {
    let mut bytes = [0; 16];
    constants(address, bytes.get_mut(..size)?)?;
    Some(Value::from_le_bytes(bytes))
}

/// A register that addresses memory, numbered anew each time it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Base {
    register: u8,
    version: u32,
}

/// Up to 16 known bytes, little-endian, with zeros above them.
type Value = u128;

/// The lowest `size` bytes of a value; 16 at most.
fn low(value: Value, size: usize) -> Value {
    if size >= 16 { value } else { value & ((1 << (size * 8)) - 1) }
}

#[derive(Debug, Clone, Copy)]
struct Store {
    base: Base,
    offset: i64,
    value: Value,
    size: usize,
    age: u32,
    at: u64,
}

/// Recent stores of known bytes, and the strings that begin in them.
struct Memory<'a> {
    tag: &'a [u8],
    age: u32,
    recent: VecDeque<Store>,
    open: VecDeque<Store>,
    see: &'a mut dyn FnMut(Constant),
}

impl<'a> Memory<'a> {
    fn new(tag: &'a [u8], see: &'a mut dyn FnMut(Constant)) -> Self {
        Self { tag, age: 0, recent: VecDeque::with_capacity(KEPT), open: VecDeque::new(), see }
    }

    /// One instruction further: strings whose pieces are all behind are handed out.
    fn step(&mut self) {
        self.age += 1;
        while self.open.front().is_some_and(|store| self.age - store.age > REACH) {
            self.close();
        }
    }

    fn store(&mut self, at: u64, base: Base, offset: i64, value: Value, size: usize) {
        let store = Store { base, offset, value: low(value, size), size: size.min(16), age: self.age, at };
        if value.to_le_bytes()[..store.size].starts_with(self.tag) {
            // The same place written anew: what stood there is complete.
            if let Some(position) = self.open.iter().position(|open| open.base == base && open.offset == offset) {
                for _ in 0..=position {
                    self.close();
                }
            }
            self.open.push_back(store);
        }
        self.pair(&store);
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(store);
    }

    /// Bytes stored at a place, if the last store that touches it covers them all.
    fn load(&self, base: Base, offset: i64, size: usize) -> Option<Value> {
        let overlaps = |store: &&Store| store.base == base && store.offset < offset + size as i64 && offset < store.offset + store.size as i64;
        let store = self.recent.iter().rev().find(overlaps)?;
        let skip = usize::try_from(offset - store.offset).ok()?;
        (skip + size <= store.size).then(|| low(store.value >> (skip * 8), size))
    }

    fn pair(&mut self, last: &Store) {
        let partner = |offset: i64, size: usize| {
            let fits = |store: &&Store| store.base == last.base && store.offset == offset && store.size == size && self.age - store.age <= REACH;
            self.recent.iter().rev().find(fits).copied()
        };
        let (pair, single) = match last.size {
            4 => (partner(last.offset - 8, 8), Some(*last)),
            8 => (Some(*last), partner(last.offset + 8, 4)),
            _ => return,
        };
        if let (Some(pair), Some(single)) = (pair, single) {
            let numbers = [pair.value as u32, (pair.value >> 32) as u32, single.value as u32];
            (self.see)(Constant::Numbers { at: last.at, numbers });
        }
    }

    fn close(&mut self) {
        let Some(first) = self.open.pop_front() else { return };
        let mut bytes = [0_u8; LONGEST];
        let mut known = [false; LONGEST];
        // Pieces may be stored before the first one of the string or after it, within reach either way.
        for store in self.recent.iter().filter(|store| store.base == first.base && store.age.abs_diff(first.age) <= REACH) {
            for (index, byte) in store.value.to_le_bytes().into_iter().take(store.size).enumerate() {
                let Ok(place) = usize::try_from(store.offset - first.offset + index as i64) else { continue };
                if place < LONGEST {
                    (bytes[place], known[place]) = (byte, true);
                }
            }
        }
        let end = known.iter().zip(bytes).position(|(&known, byte)| !known || byte == 0).unwrap_or(LONGEST);
        // A store may have changed the first bytes since.
        if bytes[..end].starts_with(self.tag) {
            (self.see)(Constant::Text { at: first.at, bytes: bytes[..end].to_vec() });
        }
    }

    fn finish(mut self) {
        while !self.open.is_empty() {
            self.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Constant, aarch64, x86_64};

    type Reader = fn(&[u8], u64, &[u8], &super::Constants<'_>, &mut dyn FnMut(Constant));

    /// Strings and numbers of a piece of code whose constants in memory are the given bytes, wherever they are read.
    fn read(reader: Reader, pieces: &[&[u8]], memory: &[u8]) -> (Vec<String>, Vec<[u32; 3]>) {
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        let constants = |_: u64, buffer: &mut [u8]| {
            buffer.copy_from_slice(memory.get(..buffer.len())?);
            Some(())
        };
        reader(&pieces.concat(), 0x1000, b"gfx", &constants, &mut |constant| match constant {
            Constant::Text { bytes, .. } => texts.push(String::from_utf8(bytes).unwrap()),
            Constant::Numbers { numbers: found, .. } => numbers.push(found),
        });
        (texts, numbers)
    }

    fn texts(pieces: &[&[u8]], memory: &[u8]) -> Vec<String> {
        read(x86_64, pieces, memory).0
    }

    #[test]
    fn overlapping_immediates() {
        // mov dword [rsp+80h], "gfx1"; mov dword [rsp+83h], "1011"; mov byte [rsp+87h], 0.
        let pieces: [&[u8]; 3] = [b"\xc7\x84\x24\x80\0\0\0gfx1", b"\xc7\x84\x24\x83\0\0\x001011", b"\xc6\x84\x24\x87\0\0\0\0"];
        assert_eq!(texts(&pieces, b""), ["gfx1011"]);
    }

    #[test]
    fn the_rest_may_come_first() {
        // mov ecx, "0c"; mov word [rsp+84h], cx; mov dword [rsp+80h], "gfx9".
        let pieces: [&[u8]; 3] = [b"\xb90c\0\0", b"\x66\x89\x8c\x24\x84\0\0\0", b"\xc7\x84\x24\x80\0\0\0gfx9"];
        assert_eq!(texts(&pieces, b""), ["gfx90c"]);
    }

    #[test]
    fn a_constant_of_sixteen_bytes_and_one_of_eight() {
        // movdqa xmm0, [rip]; movups [rax], xmm0; mov rcx, "+:xnack+"; mov [rax+14], rcx.
        let pieces: [&[u8]; 4] = [b"\x66\x0f\x6f\x05\0\0\0\0", b"\x0f\x11\0", b"\x48\xb9+:xnack+", b"\x48\x89\x48\x0e"];
        assert_eq!(texts(&pieces, b"gfx908:sramecc+:"), ["gfx908:sramecc+:xnack+"]);
        assert!(texts(&pieces, b"").is_empty());
    }

    #[test]
    fn what_is_changed_in_memory() {
        let hidden: Vec<u8> = b"gfx1250\0".iter().map(|byte| byte ^ 0x55).collect();
        // mov rax, hidden; mov [rdi], rax; mov rdx, 55…55h; mov rax, [rdi]; xor rax, rdx; mov [rdi], rax.
        let pieces: [&[u8]; 7] = [b"\x48\xb8", &hidden, b"\x48\x89\x07", b"\x48\xbaUUUUUUUU", b"\x48\x8b\x07", b"\x48\x31\xd0", b"\x48\x89\x07"];
        assert_eq!(texts(&pieces, b""), ["gfx1250"]);
    }

    #[test]
    fn a_call_moves_the_object() {
        // mov dword [rax], "gfx1"; call; mov dword [rax+3], "1011".
        let pieces: [&[u8]; 3] = [b"\xc7\0gfx1", b"\xe8\0\0\0\0", b"\xc7\x40\x031011"];
        assert_eq!(texts(&pieces, b""), ["gfx1"]);
    }

    #[test]
    fn one_place_used_twice() {
        let pieces: [&[u8]; 4] = [b"\xc7\x44\x24\x08gfx1", b"\xc7\x44\x24\x0b1011", b"\xc7\x44\x24\x08gfx1", b"\xc7\x44\x24\x0b1201"];
        assert_eq!(texts(&pieces, b""), ["gfx1011", "gfx1201"]);
    }

    #[test]
    fn numbers_side_by_side() {
        // mov rcx, [rip]; mov dword [rax+58h], 9; mov [rax+50h], rcx.
        let pieces: [&[u8]; 3] = [b"\x48\x8b\x0d\0\0\0\0", b"\xc7\x40\x58\x09\0\0\0", b"\x48\x89\x48\x50"];
        assert_eq!(read(x86_64, &pieces, b"\x0a\0\0\0\x04\0\0\0").1, [[10, 4, 9]]);
    }

    #[test]
    fn aarch64_moves_and_vector_copies() {
        let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        // mov x1, "gf"; movk x1, "x9", lsl 16; str w1, [x0]; mov w2, "0a"; strh w2, [x0, #4].
        let stores = code(&[0xd28c_cce1, 0xf2a7_2f01, 0xb900_0001, 0x528c_2602, 0x7900_0802]);
        assert_eq!(read(aarch64, &[&stores], b"").0, ["gfx90a"]);
        // adrp x1, .; ldr q0, [x1, #16]; str q0, [sp, #48].
        let copies = code(&[0x9000_0001, 0x3dc0_0420, 0x3d80_0fe0]);
        assert_eq!(read(aarch64, &[&copies], b"gfx1100:xnack+\0\0").0, ["gfx1100:xnack+"]);
    }

    #[test]
    fn any_code_is_read() {
        let mut seed = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        })
        .take(1 << 16)
        .collect();
        for reader in [x86_64 as Reader, aarch64] {
            read(reader, &[&noise], b"gfx");
        }
    }
}
