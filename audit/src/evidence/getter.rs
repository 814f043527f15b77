//! A function that fills a dispatch table on its first call, read symbolically: which address it stores into which slot.
//!
//! The code is followed in the order of its addresses. Registers are forgotten where a branch lands and what an unmodelled instruction writes
//! is unknown, so that an address is stored for certain or not at all. A store into the table of a value that is not known refuses the table.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::code::memory::{Filled, Memory};

/// A table as its getter fills it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling {
    /// Where the table begins: its first word is its size in bytes.
    pub base: u64,
    /// The size in bytes that the getter stores there, the word of the size itself included.
    pub size: u64,
    /// The instruction that stores the size.
    pub sized_at: u64,
    /// Offset of the first slot.
    pub first: u64,
    /// Offset in the table to what is stored there (0 for an empty slot) and the instruction that does.
    pub slots: BTreeMap<u64, (u64, u64)>,
}

/// Largest table believed; HIP 7.2.4 has 0xfd8 bytes.
pub(super) const LARGEST: u64 = 1 << 16;

/// Where the stack is taken to be.
const STACK: u64 = 0x7000_0000_0000_0000;

/// What half a vector register or a whole general one holds.
type Value = Option<u64>;

pub(super) struct State<'a> {
    memory: &'a Memory<'a>,
    general: [Value; 16],
    vector: [[Value; 2]; 32],
    /// Place to value and instruction; `None` is a store of something unknown.
    pub(super) stores: BTreeMap<u64, (Value, u64)>,
}

/// Follows the code of a getter. The error says what stands against the table, with the instruction.
pub fn follow(code: &[u8], start: u64, memory: &Memory<'_>) -> Result<Filling, String> {
    let landings = landings(code, start);
    let mut state = State::new(memory);
    let mut sizes = Vec::new();
    let mut info = InstructionInfoFactory::new();
    for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        if landings.contains(&instruction.ip()) {
            state.forget();
        }
        if instruction.is_invalid() {
            return Err(format!("no instruction at {:#x}", instruction.ip()));
        }
        if let (Code::Mov_rm64_imm32, Some(place)) = (instruction.code(), state.place(&instruction)) {
            let size = instruction.immediate(1);
            if size.is_multiple_of(8) && (16..LARGEST).contains(&size) {
                sizes.push((place, size, instruction.ip()));
            }
        }
        state.step(&instruction, &mut info);
    }
    let [(base, size, sized_at)] = sizes[..] else {
        return Err(format!("{} immediates that could be the size of a table, where one is expected", sizes.len()));
    };
    state.filling(base, size, sized_at, 8)
}

/// Where branches of this code land.
pub(super) fn landings(code: &[u8], start: u64) -> BTreeSet<u64> {
    let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let branches = decoder.into_iter().filter(|instruction| {
        matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
            && instruction.op0_kind() == OpKind::NearBranch64
    });
    branches.map(|instruction| instruction.near_branch_target()).collect()
}

impl<'a> State<'a> {
    /// Nothing is known yet.
    pub(super) fn new(memory: &'a Memory<'a>) -> Self {
        Self { memory, general: [None; 16], vector: [[None; 2]; 32], stores: BTreeMap::new() }
    }

    /// With a stack of its own: the stack pointer is a place that no file has.
    pub(super) fn with_stack(memory: &'a Memory<'a>) -> Self {
        let mut state = Self::new(memory);
        state.general[Register::RSP.number()] = Some(STACK);
        state
    }

    /// What was stored into a table, from its first slot on.
    pub(super) fn filling(&self, base: u64, size: u64, sized_at: u64, first: u64) -> Result<Filling, String> {
        let mut slots = BTreeMap::new();
        for (&place, &(value, at)) in self.stores.range(base.saturating_add(first)..base.saturating_add(size)) {
            let Some(value) = value else { return Err(format!("the instruction at {at:#x} stores what is not known into slot {:#x}", place - base)) };
            slots.insert(place - base, (value, at));
        }
        Ok(Filling { base, size, sized_at, first, slots })
    }

    /// Forgets what registers hold.
    pub(super) fn forget(&mut self) {
        self.general = [None; 16];
        self.vector = [[None; 2]; 32];
    }

    /// Forgets what a called function may change: all but the stack pointer.
    pub(super) fn forget_called(&mut self) {
        let stack = self.general[Register::RSP.number()];
        self.forget();
        self.general[Register::RSP.number()] = stack;
    }

    /// The address of a memory operand, if it is known.
    fn place(&self, instruction: &Instruction) -> Value {
        if instruction.is_ip_rel_memory_operand() {
            return Some(instruction.ip_rel_memory_address());
        }
        let base = instruction.memory_base();
        if !base.is_gpr64() || instruction.memory_index() != Register::None {
            return None;
        }
        self.general[base.number()].map(|value| value.wrapping_add(instruction.memory_displacement64()))
    }

    /// What is loaded from a place: an address that a relocation puts there, or what this code has stored.
    fn load(&self, place: Value) -> Value {
        let place = place?;
        if let Some(&(value, _)) = self.stores.get(&place) {
            return value;
        }
        match self.memory.filled(place)? {
            Filled::Address(address) => Some(address),
            Filled::Symbol(_) => None,
        }
    }

    /// A number in memory that no code may write, where nothing else is loaded from there.
    fn constant(&self, place: Value) -> Value {
        self.memory.word(place?)
    }

    fn operand(&self, instruction: &Instruction, index: u32) -> Value {
        match instruction.op_kind(index) {
            OpKind::Register if instruction.op_register(index).is_gpr64() => self.general[instruction.op_register(index).number()],
            OpKind::Register if instruction.op_register(index).is_vector_register() => self.vector[instruction.op_register(index).number()][0],
            OpKind::Memory => {
                let place = self.place(instruction);
                self.load(place).or_else(|| self.constant(place))
            }
            OpKind::Register | OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => None,
            _ => Some(instruction.immediate(index)),
        }
    }

    /// Does what an instruction does.
    pub(super) fn step(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        let xmm = |index| instruction.op_register(index).number();
        let memory_first = instruction.op0_kind() == OpKind::Memory;
        match instruction.code() {
            Code::Mov_r64_rm64 | Code::Mov_rm64_r64 | Code::Mov_rm64_imm32 | Code::Mov_r64_imm64 if !memory_first => {
                self.general[instruction.op0_register().number()] = self.operand(instruction, 1);
            }
            Code::Mov_rm64_r64 | Code::Mov_rm64_imm32 => self.store(instruction, 0, self.operand(instruction, 1)),
            Code::Add_rm64_imm8 | Code::Add_rm64_imm32 | Code::Add_RAX_imm32 | Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 if !memory_first => {
                let by = if instruction.mnemonic() == Mnemonic::Add { instruction.immediate(1) } else { instruction.immediate(1).wrapping_neg() };
                let register = &mut self.general[instruction.op0_register().number()];
                *register = register.map(|value| value.wrapping_add(by));
            }
            Code::Push_r64 | Code::Pop_r64 => self.move_stack(instruction),
            Code::Lea_r64_m => self.general[instruction.op0_register().number()] = self.place(instruction),
            Code::Movq_xmm_xmmm64 | Code::Movq_xmm_rm64 | Code::VEX_Vmovq_xmm_xmmm64 | Code::VEX_Vmovq_xmm_rm64 => {
                self.vector[xmm(0)] = [self.operand(instruction, 1), Some(0)];
            }
            Code::Movhps_xmm_m64 | Code::Movhpd_xmm_m64 => self.vector[xmm(0)][1] = self.operand(instruction, 1),
            Code::VEX_Vmovhps_xmm_xmm_m64 => self.vector[xmm(0)] = [self.vector[xmm(1)][0], self.operand(instruction, 2)],
            Code::Punpcklqdq_xmm_xmmm128 if instruction.op1_kind() == OpKind::Register => {
                self.vector[xmm(0)] = [self.vector[xmm(0)][0], self.vector[xmm(1)][0]];
            }
            Code::VEX_Vpunpcklqdq_xmm_xmm_xmmm128 if instruction.op2_kind() == OpKind::Register => {
                self.vector[xmm(0)] = [self.vector[xmm(1)][0], self.vector[xmm(2)][0]];
            }
            Code::Pinsrq_xmm_rm64_imm8 => self.vector[xmm(0)][usize::from(instruction.immediate8() & 1)] = self.operand(instruction, 1),
            Code::VEX_Vpinsrq_xmm_xmm_rm64_imm8 => {
                let mut value = self.vector[xmm(1)];
                value[usize::from(instruction.immediate8() & 1)] = self.operand(instruction, 2);
                self.vector[xmm(0)] = value;
            }
            Code::Pxor_xmm_xmmm128 | Code::Xorps_xmm_xmmm128
                if instruction.op1_kind() == OpKind::Register && instruction.op0_register() == instruction.op1_register() =>
            {
                self.vector[xmm(0)] = [Some(0); 2];
            }
            code if is_wide_move(code) && memory_first => {
                let value = self.vector[xmm(1)];
                self.store(instruction, 0, value[0]);
                self.store(instruction, 8, value[1]);
            }
            code if is_wide_move(code) => {
                self.vector[xmm(0)] = match instruction.op1_kind() {
                    OpKind::Memory => {
                        let place = self.place(instruction);
                        [self.load(place), self.load(place.map(|place| place.wrapping_add(8)))]
                    }
                    _ => self.vector[xmm(1)],
                };
            }
            Code::Movq_xmmm64_xmm | Code::Movq_rm64_xmm | Code::Movlps_m64_xmm if memory_first => self.store(instruction, 0, self.vector[xmm(1)][0]),
            Code::Movhps_m64_xmm | Code::Movhpd_m64_xmm => self.store(instruction, 0, self.vector[xmm(1)][1]),
            _ => self.unmodelled(instruction, info),
        }
    }

    /// What is pushed and popped is not followed.
    fn move_stack(&mut self, instruction: &Instruction) {
        let stack = &mut self.general[Register::RSP.number()];
        *stack = stack.map(|top| top.wrapping_add_signed(instruction.stack_pointer_increment().into()));
        match (instruction.code(), *stack) {
            (Code::Push_r64, Some(top)) => {
                self.stores.insert(top, (None, instruction.ip()));
            }
            (Code::Pop_r64, _) if instruction.op0_register() != Register::RSP => self.general[instruction.op0_register().number()] = None,
            _ => {}
        }
    }

    fn store(&mut self, instruction: &Instruction, skip: u64, value: Value) {
        if let Some(place) = self.place(instruction) {
            self.stores.insert(place.wrapping_add(skip), (value, instruction.ip()));
        }
    }

    /// Whatever else writes: the value is unknown from here on.
    fn unmodelled(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        if instruction.flow_control() != FlowControl::Next && instruction.is_call_near() | instruction.is_call_near_indirect() {
            self.forget();
            return;
        }
        let info = info.info(instruction);
        let writes = |access| !matches!(access, OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess);
        for used in info.used_registers().iter().filter(|used| writes(used.access())) {
            let register = used.register().full_register();
            if register.is_gpr64() {
                self.general[register.number()] = None;
            } else if register.is_vector_register() {
                self.vector[register.number()] = [None; 2];
            }
        }
        if let (Some(place), true) = (self.place(instruction), info.used_memory().iter().any(|used| writes(used.access()))) {
            let size = instruction.memory_size().size().max(1) as u64;
            for word in 0..size.div_ceil(8) {
                self.stores.insert(place.wrapping_add(8 * word), (None, instruction.ip()));
            }
        }
    }
}

fn is_wide_move(code: Code) -> bool {
    matches!(
        code,
        Code::Movups_xmm_xmmm128
            | Code::Movups_xmmm128_xmm
            | Code::Movaps_xmm_xmmm128
            | Code::Movaps_xmmm128_xmm
            | Code::Movdqa_xmm_xmmm128
            | Code::Movdqa_xmmm128_xmm
            | Code::Movdqu_xmm_xmmm128
            | Code::Movdqu_xmmm128_xmm
            | Code::Movupd_xmm_xmmm128
            | Code::Movupd_xmmm128_xmm
            | Code::VEX_Vmovups_xmm_xmmm128
            | Code::VEX_Vmovups_xmmm128_xmm
            | Code::VEX_Vmovaps_xmm_xmmm128
            | Code::VEX_Vmovaps_xmmm128_xmm
            | Code::VEX_Vmovdqa_xmm_xmmm128
            | Code::VEX_Vmovdqa_xmmm128_xmm
            | Code::VEX_Vmovdqu_xmm_xmmm128
            | Code::VEX_Vmovdqu_xmmm128_xmm
    )
}
