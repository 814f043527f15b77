//! AArch64, decoded by a handful of masks (Arm ARM, C4.1).

use super::{Base, Constant, Constants, Memory, Value, constant};

/// Reads AArch64 code of one function at `address`; `tag` is how the strings looked for begin.
pub fn aarch64(code: &[u8], address: u64, tag: &[u8], constants: &Constants<'_>, see: &mut dyn FnMut(Constant)) {
    let mut state = Arm { general: [None; 32], pages: [None; 32], versions: [0; 32], vector: [None; 32], memory: Memory::new(tag, see), constants };
    for (index, word) in code.chunks_exact(4).enumerate() {
        state.memory.step();
        state.execute(address + index as u64 * 4, u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    }
    state.memory.finish();
}

struct Arm<'a> {
    general: [Option<u64>; 32],
    /// Addresses in the file, kept apart from numbers: only loads use them.
    pages: [Option<u64>; 32],
    versions: [u32; 32],
    vector: [Option<Value>; 32],
    memory: Memory<'a>,
    constants: &'a Constants<'a>,
}

/// The zero register where a value is read or written, the stack pointer where memory is addressed.
const ZERO: usize = 31;

impl Arm<'_> {
    fn execute(&mut self, at: u64, word: u32) {
        let field = |shift: u32, bits: u32| (word >> shift & ((1 << bits) - 1)) as usize;
        let (rd, rn, rm) = (field(0, 5), field(5, 5), field(16, 5));
        let wide = word >> 31 != 0;
        match word {
            // movz, movn, movk.
            _ if word & 0x1f80_0000 == 0x1280_0000 => {
                let (half, part) = (field(21, 2) as u32 * 16, field(5, 16) as u64);
                let value = match word >> 29 & 3 {
                    2 => Some(part << half),
                    0 => Some(!(part << half)),
                    3 => self.general[rd].map(|old| old & !(0xffff << half) | part << half),
                    _ => None,
                };
                self.set(rd, value.map(|value| if wide { value } else { value & 0xffff_ffff }));
            }
            // eor, orr (mov) of registers, no shift.
            _ if word & 0x7fe0_fc00 == 0x4a00_0000 => self.set(rd, self.value(rn).zip(self.value(rm)).map(|(left, right)| left ^ right)),
            _ if word & 0x7fe0_fc00 == 0x2a00_0000 => self.set(rd, self.value(rn).zip(self.value(rm)).map(|(left, right)| left | right)),
            _ if word & 0x9f00_0000 == 0x9000_0000 => {
                self.set(rd, None);
                let offset = i64::from((((word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3) << 11).cast_signed() >> 11) << 12;
                self.pages[rd] = Some((at & !0xfff).wrapping_add_signed(offset));
            }
            // add of an immediate: an address in the file, or a number.
            _ if word & 0xffc0_0000 == 0x9100_0000 => {
                let (page, value) = (self.pages[rn], if rn == ZERO { None } else { self.general[rn] });
                let add = field(10, 12) as u64;
                self.set(rd, value.map(|value| value.wrapping_add(add)));
                self.pages[rd] = page.map(|page| page.wrapping_add(add));
            }
            // Loads and stores of one register: unsigned offset, or unscaled.
            _ if word & 0x3b00_0000 == 0x3900_0000 => self.access(at, word, field(10, 12) as i64, true),
            _ if word & 0x3b20_0c00 == 0x3800_0000 => self.access(at, word, i64::from((word << 11).cast_signed() >> 23), false),
            // stp of two registers, signed offset.
            _ if word & 0x3bc0_0000 == 0x2900_0000 => {
                let size = match (word >> 26 & 1, word >> 30) {
                    (0 | 1, 0) => 4,
                    (0, 2) | (1, 1) => 8,
                    (1, 2) => 16,
                    _ => return,
                };
                let offset = i64::from((word << 10).cast_signed() >> 25) * size as i64;
                let base = Base { register: rn as u8, version: self.versions[rn] };
                for (index, register) in [rd, field(10, 5)].into_iter().enumerate() {
                    if let Some(value) = self.stored(word, register) {
                        self.memory.store(at, base, offset + (index * size) as i64, value, size);
                    }
                }
            }
            // bl, blr: x0 to x18 and the vector registers may change.
            _ if word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000 => {
                (0..=18).for_each(|register| self.set(register, None));
                self.vector = [None; 32];
            }
            // Other arithmetic writes its first register; branches, compares and system instructions write none that matters.
            _ if word >> 26 & 7 == 4 || word >> 25 & 7 == 5 => self.set(rd, None),
            _ => {}
        }
    }

    fn value(&self, register: usize) -> Option<u64> {
        if register == ZERO { Some(0) } else { self.general[register] }
    }

    fn set(&mut self, register: usize, value: Option<u64>) {
        self.pages[register] = None;
        self.versions[register] = self.versions[register].wrapping_add(1);
        self.general[register] = value;
    }

    /// What a store of `register` writes.
    fn stored(&self, word: u32, register: usize) -> Option<Value> {
        if word >> 26 & 1 != 0 { self.vector[register] } else { self.value(register).map(Value::from) }
    }

    fn access(&mut self, at: u64, word: u32, offset: i64, scaled: bool) {
        let (register, rn) = ((word & 31) as usize, (word >> 5 & 31) as usize);
        let is_vector = word >> 26 & 1 != 0;
        // The size stands in the top two bits; vector registers of 16 bytes have them 0 and the upper bit of opc set.
        let size = if is_vector && word >> 23 & 1 != 0 { 16 } else { 1_usize << (word >> 30) };
        let offset = if scaled { offset * size as i64 } else { offset };
        let base = Base { register: rn as u8, version: self.versions[rn] };
        let opc = word >> 22 & 3;
        if opc == 0 || (is_vector && opc == 2) {
            if let Some(value) = self.stored(word, register) {
                self.memory.store(at, base, offset, value, size);
            }
            return;
        }
        let value = match self.pages[rn] {
            Some(page) => constant(self.constants, page.wrapping_add_signed(offset), size),
            None => self.memory.load(base, offset, size),
        };
        if is_vector {
            self.vector[register] = value;
        } else {
            // Sign-extending loads (opc 2 and 3) are not followed.
            self.set(register, value.filter(|_| opc == 1).map(|value| value as u64));
        }
    }
}
