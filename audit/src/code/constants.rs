//! Constants that straight-line code assembles: strings stored piece by piece, and numbers stored side by side.
//!
//! A compiler writes a short string with one or two overlapping immediates (`mov dword [rsp+80h], "gfx1"`, `mov dword [rsp+83h],
//! "1011"`), a longer one with 16-byte constants. This reads code in address order, keeps what registers and recent stores are known to
//! hold, and ignores jumps: a wrong guess costs a string that was never there or misses one, so callers accept only what parses.
//!
//! Instructions that matter are `mov`, `xor` and their like; any other forgets what it writes. x86-64 is decoded by iced-x86, AArch64 by a
//! handful of masks (Arm ARM, C4.1).

#![expect(clippy::cast_possible_wrap, reason = "sizes and places here are a few dozen at most")]

use std::collections::VecDeque;

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

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

/// Reads x86-64 code of one function at `address`; `tag` is how the strings looked for begin.
pub fn x86_64(code: &[u8], address: u64, tag: &[u8], constants: &Constants<'_>, see: &mut dyn FnMut(Constant)) {
    let mut state = X86 { general: [None; 16], versions: [0; 16], vector: [None; 16], memory: Memory::new(tag, see), constants };
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        state.memory.step();
        state.execute(&instruction);
    }
    state.memory.finish();
}

struct X86<'a> {
    general: [Option<u64>; 16],
    versions: [u32; 16],
    vector: [Option<Value>; 16],
    memory: Memory<'a>,
    constants: &'a Constants<'a>,
}

/// Number of the 64-bit register that a general-purpose register is part of.
fn general(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

fn vector(register: Register) -> Option<usize> {
    (register.is_xmm() && register.number() < 16).then(|| register.number())
}

/// Registers that a call may overwrite in the System V ABI: rax, rcx, rdx, rsi, rdi, r8 to r11.
const CALL_CLOBBERED: [usize; 9] = [0, 1, 2, 6, 7, 8, 9, 10, 11];

impl X86<'_> {
    fn execute(&mut self, instruction: &Instruction) {
        match instruction.mnemonic() {
            Mnemonic::Call | Mnemonic::Syscall => {
                for register in CALL_CLOBBERED {
                    self.set(register, None);
                }
                self.vector = [None; 16];
            }
            Mnemonic::Mov
            | Mnemonic::Movd
            | Mnemonic::Movq
            | Mnemonic::Movaps
            | Mnemonic::Movups
            | Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Movapd
            | Mnemonic::Movupd
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovups
            | Mnemonic::Vmovdqa
            | Mnemonic::Vmovdqu
            | Mnemonic::Vmovd
            | Mnemonic::Vmovq => self.transfer(instruction),
            Mnemonic::Xor | Mnemonic::Add | Mnemonic::Sub | Mnemonic::Or | Mnemonic::And => self.arithmetic(instruction),
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop => {}
            Mnemonic::Punpcklqdq => {
                let both = (vector(instruction.op0_register()), vector(instruction.op1_register()));
                let value = match both {
                    (Some(to), Some(from)) => self.vector[to].zip(self.vector[from]).map(|(lower, upper)| low(lower, 8) | upper << 64),
                    _ => None,
                };
                self.write_vector(instruction, value);
            }
            Mnemonic::Pxor | Mnemonic::Xorps if instruction.op0_register() == instruction.op1_register() => {
                self.write_vector(instruction, Some(0));
            }
            Mnemonic::Mul | Mnemonic::Imul | Mnemonic::Div | Mnemonic::Idiv | Mnemonic::Cdq | Mnemonic::Cqo | Mnemonic::Cpuid | Mnemonic::Rdtsc => {
                self.forget_first(instruction);
                for register in 0..4 {
                    self.set(register, None);
                }
            }
            Mnemonic::Xchg | Mnemonic::Xadd => {
                self.forget_first(instruction);
                if let Some(register) = general(instruction.op1_register()) {
                    self.set(register, None);
                }
            }
            _ => self.forget_first(instruction),
        }
    }

    fn set(&mut self, register: usize, value: Option<u64>) {
        self.general[register] = value;
        self.versions[register] = self.versions[register].wrapping_add(1);
    }

    fn forget_first(&mut self, instruction: &Instruction) {
        if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register {
            return;
        }
        if let Some(register) = general(instruction.op0_register()) {
            self.set(register, None);
        }
        self.write_vector(instruction, None);
    }

    fn write_vector(&mut self, instruction: &Instruction, value: Option<Value>) {
        if let Some(register) = vector(instruction.op0_register()) {
            self.vector[register] = value;
        }
    }

    /// The place a memory operand names: base register and displacement, no index.
    fn place(&self, instruction: &Instruction) -> Option<(Base, i64)> {
        let register = instruction.memory_base();
        if instruction.memory_index() != Register::None || register == Register::RIP || instruction.segment_prefix() != Register::None {
            return None;
        }
        let register = general(register)?;
        let base = Base { register: register as u8, version: self.versions[register] };
        Some((base, instruction.memory_displacement64().cast_signed()))
    }

    /// An operand's value where known, as many bytes of it as `size`.
    fn read(&self, instruction: &Instruction, operand: u32, size: usize) -> Option<Value> {
        let value = match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand);
                if matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) {
                    return None;
                }
                match vector(register) {
                    Some(index) => self.vector[index]?,
                    None => self.general[general(register)?]?.into(),
                }
            }
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => constant(self.constants, instruction.ip_rel_memory_address(), size)?,
            OpKind::Memory => {
                let (base, offset) = self.place(instruction)?;
                self.memory.load(base, offset, size)?
            }
            kind if is_immediate(kind) => instruction.immediate(operand).into(),
            _ => return None,
        };
        Some(low(value, size))
    }

    /// Writes the first operand. A write of 4 bytes to a register clears the rest of it, as does one of 2 here: the rest is not followed.
    fn write(&mut self, instruction: &Instruction, value: Option<Value>, size: usize) {
        match instruction.op0_kind() {
            OpKind::Register => {
                let register = instruction.op0_register();
                if let Some(index) = general(register) {
                    self.set(index, value.filter(|_| register.size() > 1).map(|value| value as u64));
                } else {
                    self.write_vector(instruction, value);
                }
            }
            OpKind::Memory => {
                if let (Some(value), Some((base, offset))) = (value, self.place(instruction)) {
                    self.memory.store(instruction.ip(), base, offset, value, size);
                }
            }
            _ => {}
        }
    }

    fn transfer(&mut self, instruction: &Instruction) {
        let size = operand_size(instruction);
        self.write(instruction, self.read(instruction, 1, size), size);
    }

    fn arithmetic(&mut self, instruction: &Instruction) {
        let size = operand_size(instruction);
        let itself = instruction.op1_kind() == OpKind::Register && instruction.op0_register() == instruction.op1_register();
        let operands = || self.read(instruction, 0, size).zip(self.read(instruction, 1, size));
        let value = match instruction.mnemonic() {
            Mnemonic::Xor | Mnemonic::Sub if itself => Some(0),
            Mnemonic::Xor => operands().map(|(left, right)| left ^ right),
            Mnemonic::Add => operands().map(|(left, right)| left.wrapping_add(right)),
            Mnemonic::Sub => operands().map(|(left, right)| left.wrapping_sub(right)),
            Mnemonic::Or => operands().map(|(left, right)| left | right),
            _ => operands().map(|(left, right)| left & right),
        };
        self.write(instruction, value.map(|value| low(value, size)), size);
    }
}

fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

/// Bytes that a move or an arithmetic instruction moves.
fn operand_size(instruction: &Instruction) -> usize {
    // The 64-bit move between vector registers and the rest; the register's own size would say 16.
    let quad = [
        Code::Movq_xmm_rm64,
        Code::Movq_rm64_xmm,
        Code::Movq_xmm_xmmm64,
        Code::Movq_xmmm64_xmm,
        Code::VEX_Vmovq_xmm_rm64,
        Code::VEX_Vmovq_rm64_xmm,
        Code::VEX_Vmovq_xmm_xmmm64,
        Code::VEX_Vmovq_xmmm64_xmm,
    ];
    let double = [Code::Movd_xmm_rm32, Code::Movd_rm32_xmm, Code::VEX_Vmovd_xmm_rm32, Code::VEX_Vmovd_rm32_xmm];
    match instruction.code() {
        code if quad.contains(&code) => 8,
        code if double.contains(&code) => 4,
        _ if instruction.op0_kind() == OpKind::Register => instruction.op0_register().size(),
        _ => instruction.memory_size().size(),
    }
}

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
