//! All functions of a file decoded once: who calls whom, which addresses they make, which slots of tables they call through.
//!
//! x86-64 only. Calls and jumps that leave a function are edges, own and foreign PLT entries included; what is called through a register or a
//! table is kept as the offset in the table, never guessed. Every fact carries the address of its instruction.

use std::collections::{HashMap, HashSet};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

use super::extents;
use super::memory::{Filled, Memory};
use crate::elf::{Elf, Result};

/// Index of a function in [`Program::functions`].
pub type Function = u32;

/// Where a call goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A function of this file, directly.
    Function(Function),
    /// A dynamic symbol, by its index, through PLT or GOT: whoever the loader finds.
    Symbol(u32),
}

/// A call or a jump that leaves its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The function it stands in.
    pub from: Function,
    /// The instruction.
    pub at: u64,
    /// Where it goes.
    pub to: Target,
}

/// An address that an instruction makes, or loads from a place that a relocation fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The function it stands in.
    pub from: Function,
    /// The instruction.
    pub at: u64,
    /// The address.
    pub to: u64,
}

/// A call through a table of pointers at a register: `call [rax + offset]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableCall {
    /// The function it stands in.
    pub from: Function,
    /// The instruction.
    pub at: u64,
    /// Bytes from the start of the table.
    pub offset: u32,
}

/// One file's code. Each list is sorted by the function that its entries stand in.
#[derive(Debug, Default)]
pub struct Program {
    /// Start and end of each function, ascending.
    pub functions: Vec<(u64, u64)>,
    /// Calls and jumps that leave their function.
    pub calls: Vec<Call>,
    /// Addresses made.
    pub references: Vec<Reference>,
    /// Calls through tables.
    pub table_calls: Vec<TableCall>,
    /// Bytes of the executable segments.
    pub executable: u64,
    /// Of these, those that lie in functions; the rest is start-up code and padding.
    pub covered: u64,
}

/// The entries of a sorted list that stand in one function.
macro_rules! of_function {
    ($list:expr, $function:expr) => {{
        let from = $list.partition_point(|entry| entry.from < $function);
        let to = from + $list[from..].partition_point(|entry| entry.from == $function);
        &$list[from..to]
    }};
}

impl Program {
    /// Decodes every function. For another machine than x86-64, or a file without frame descriptions, there is nothing to decode.
    pub fn read(image: &Elf, memory: &Memory<'_>) -> Result<Self> {
        let mut program = Self { functions: extents::read(image)?, ..Self::default() };
        let mut targets = HashMap::new();
        program.executable = image.segments.iter().filter(|segment| segment.kind == 1 && segment.executable()).map(|s| s.file_size).sum();
        for index in 0..program.functions.len() {
            let (start, end) = program.functions[index];
            // A description of memory that the file does not hold describes no code.
            let Ok(window) = image.window("machine code", start, end - start) else { continue };
            program.covered += end - start;
            program.decode(index as Function, &window.bytes, memory, image, &mut targets);
        }
        // Linkers describe the PLT as a function; its entries' own jumps are no calls of anybody.
        let entries: HashSet<u64> = targets.values().flatten().filter(|(to, _)| matches!(to, Target::Symbol(_))).map(|&(_, at)| at).collect();
        program.calls.retain(|call| !entries.contains(&call.at));
        Ok(program)
    }

    /// The function that an address lies in.
    pub fn at(&self, address: u64) -> Option<Function> {
        let next = self.functions.partition_point(|&(start, _)| start <= address);
        let index = next.checked_sub(1)?;
        (address < self.functions[index].1).then_some(index as Function)
    }

    /// The function that starts at an address.
    pub fn starting_at(&self, address: u64) -> Option<Function> {
        self.at(address).filter(|&function| self.start(function) == address)
    }

    /// Where a function starts.
    pub fn start(&self, function: Function) -> u64 {
        self.functions[function as usize].0
    }

    /// Calls of one function, in the order of their addresses.
    pub fn calls_of(&self, function: Function) -> &[Call] {
        of_function!(self.calls, function)
    }

    /// Addresses that one function makes.
    pub fn references_of(&self, function: Function) -> &[Reference] {
        of_function!(self.references, function)
    }

    /// Calls of one function through tables.
    pub fn table_calls_of(&self, function: Function) -> &[TableCall] {
        of_function!(self.table_calls, function)
    }

    fn decode(&mut self, from: Function, code: &[u8], memory: &Memory<'_>, image: &Elf, targets: &mut HashMap<u64, Option<(Target, u64)>>) {
        let (start, end) = self.functions[from as usize];
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        // Registers that hold an entry of a table: its offset there.
        let mut loaded = [None::<u32>; 16];
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let at = instruction.ip();
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
                    if instruction.op0_kind() == OpKind::NearBranch64 =>
                {
                    let to = instruction.near_branch_target();
                    if !(start..end).contains(&to) || (to == start && instruction.flow_control() == FlowControl::Call) {
                        let target = *targets.entry(to).or_insert_with(|| self.resolve(to, memory, image));
                        self.calls.extend(target.map(|(to, _)| Call { from, at, to }));
                    }
                    if instruction.flow_control() == FlowControl::Call {
                        loaded = [None; 16];
                    }
                    continue;
                }
                FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    self.indirect(from, &instruction, memory, &loaded);
                    loaded = [None; 16];
                    continue;
                }
                _ => continue,
            }
            self.note_address(from, &instruction, memory);
            if instruction.op0_kind() == OpKind::Register && instruction.op0_register().is_gpr() {
                let entry = matches!(instruction.code(), Code::Mov_r64_rm64).then(|| table_entry(&instruction)).flatten();
                loaded[instruction.op0_register().full_register().number()] = entry;
            }
        }
    }

    fn indirect(&mut self, from: Function, instruction: &Instruction, memory: &Memory<'_>, loaded: &[Option<u32>; 16]) {
        let at = instruction.ip();
        match instruction.op0_kind() {
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
                let to = match memory.filled(instruction.ip_rel_memory_address()) {
                    Some(Filled::Symbol(symbol)) => Some(Target::Symbol(symbol)),
                    Some(Filled::Address(address)) => self.at(address).map(Target::Function),
                    None => None,
                };
                self.calls.extend(to.map(|to| Call { from, at, to }));
            }
            OpKind::Memory => self.table_calls.extend(table_entry(instruction).map(|offset| TableCall { from, at, offset })),
            OpKind::Register if instruction.op0_register().is_gpr() => {
                let offset = loaded[instruction.op0_register().full_register().number()];
                self.table_calls.extend(offset.map(|offset| TableCall { from, at, offset }));
            }
            _ => {}
        }
    }

    fn note_address(&mut self, from: Function, instruction: &Instruction, memory: &Memory<'_>) {
        if !instruction.is_ip_rel_memory_operand() {
            return;
        }
        let place = instruction.ip_rel_memory_address();
        let at = instruction.ip();
        if matches!(instruction.code(), Code::Lea_r64_m) {
            self.references.push(Reference { from, at, to: place });
        } else if let Some(Filled::Address(to)) = memory.filled(place)
            && instruction.op0_kind() == OpKind::Register
        {
            self.references.push(Reference { from, at, to });
        }
    }

    /// What lies at the target of a branch, and the instruction that goes there: a PLT entry, which jumps on through the GOT, or a function.
    fn resolve(&self, to: u64, memory: &Memory<'_>, image: &Elf) -> Option<(Target, u64)> {
        let stub = image.window_up_to("PLT", to, 32).ok()?;
        let mut decoder = Decoder::with_ip(64, &stub.bytes, to, DecoderOptions::NONE);
        for _ in 0..2 {
            let instruction = decoder.decode();
            if instruction.code() == Code::Endbr64 {
                continue;
            }
            if instruction.code() == Code::Jmp_rm64
                && instruction.is_ip_rel_memory_operand()
                && let Some(Filled::Symbol(symbol)) = memory.filled(instruction.ip_rel_memory_address())
            {
                return Some((Target::Symbol(symbol), instruction.ip()));
            }
            break;
        }
        self.at(to).map(|function| (Target::Function(function), to))
    }
}

/// The offset of a memory operand that may be an entry of a table of functions: one base register that is no stack pointer, and no index.
fn table_entry(instruction: &Instruction) -> Option<u32> {
    let base = instruction.memory_base();
    let fits = base.is_gpr64() && !matches!(base, Register::RSP | Register::RBP) && instruction.memory_index() == Register::None;
    let offset = u32::try_from(instruction.memory_displacement64()).ok()?;
    (fits && instruction.op_kind(instruction.op_count() - 1) == OpKind::Memory && offset.is_multiple_of(8)).then_some(offset)
}
