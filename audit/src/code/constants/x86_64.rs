//! x86-64, decoded by iced-x86.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::{Base, Constant, Constants, Memory, Value, constant, low};

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
