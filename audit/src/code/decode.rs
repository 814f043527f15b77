//! One function decoded: its calls, the addresses it makes, its calls through tables. Needs no file any more, so that threads can share the work.

use std::collections::HashMap;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

use super::memory::{Filled, filled};
use super::program::{Call, Function, Reference, TableCall, Target, Unresolved, lies_in};
use super::sweep;
use crate::elf::{Elf, Result, Segment};

/// Longest entry of a PLT, in bytes: `endbr64` and a jump.
const PLT_ENTRY: u64 = 32;

/// The executable segments' bytes.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    /// Address and bytes of each.
    segments: Vec<(u64, Vec<u8>)>,
}

impl Bytes {
    /// Reads them. Segments that together take more than twice the file are an error.
    pub(super) fn read(image: &Elf) -> Result<Self> {
        let loads = sweep::bounded(image, Segment::executable)?;
        let read = |segment: &&Segment| Ok((segment.address, image.bytes("machine code", segment.offset, segment.file_size)?));
        Ok(Self { segments: loads.iter().map(read).collect::<Result<_>>()? })
    }

    /// Bytes of all segments.
    pub(super) fn len(&self) -> u64 {
        self.segments.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// What stands from an address on, at most so many bytes; none outside.
    pub(super) fn at(&self, address: u64, most: u64) -> &[u8] {
        let found = self.segments.iter().find_map(|(start, bytes)| bytes.get(usize::try_from(address.checked_sub(*start)?).ok()?..));
        found.map_or(&[], |bytes| &bytes[..bytes.len().min(usize::try_from(most).unwrap_or(usize::MAX))])
    }
}

/// What functions were found to do.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// Calls and jumps that leave their function.
    pub(super) calls: Vec<Call>,
    /// Addresses made.
    pub(super) references: Vec<Reference>,
    /// Calls through tables.
    pub(super) table_calls: Vec<TableCall>,
    /// Calls and jumps whose target is not known.
    pub(super) unresolved: Vec<Unresolved>,
    /// Bytes of the functions.
    pub(super) covered: u64,
}

/// Where branches lead, remembered by their address, each with the instruction that goes there.
#[derive(Debug, Default)]
pub(super) struct Targets(HashMap<u64, Option<(Target, u64)>>);

impl Targets {
    /// The jumps of PLT entries among them.
    pub(super) fn entries(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.values().flatten().filter(|(to, _)| matches!(to, Target::Symbol(_))).map(|&(_, at)| at)
    }
}

/// What a register holds, as far as calls need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The entry of a table of functions at this offset.
    Entry(u32),
    /// What a table of 32-bit offsets holds, or the address made of it: a place in the function.
    Case,
}

/// What decoding needs of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    /// Start and end of each function, ascending.
    pub(super) functions: &'a [(u64, u64)],
    /// The code.
    pub(super) bytes: &'a Bytes,
    /// What relocations fill, ascending by place.
    pub(super) places: &'a [(u64, Filled)],
}

impl Reader<'_> {
    /// Decodes one function. A description of memory that the file does not hold as code describes no function.
    pub(super) fn decode(&self, from: Function, targets: &mut Targets, found: &mut Decoded) {
        let (start, end) = self.functions[from as usize];
        let code = self.bytes.at(start, end - start);
        if (code.len() as u64) < end - start {
            found.unresolved.push(Unresolved { from, at: start });
            return;
        }
        found.covered += end - start;
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        let mut held = [None::<Held>; 16];
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
                        let target = *targets.0.entry(to).or_insert_with(|| self.resolve(to));
                        match target {
                            Some((to, _)) => found.calls.push(Call { from, at, to }),
                            None => found.unresolved.push(Unresolved { from, at }),
                        }
                    }
                    if instruction.flow_control() == FlowControl::Call {
                        held = [None; 16];
                    }
                    continue;
                }
                FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    self.indirect(from, &instruction, &held, found);
                    held = [None; 16];
                    continue;
                }
                _ => {
                    if instruction.is_invalid() {
                        found.unresolved.push(Unresolved { from, at });
                    }
                    continue;
                }
            }
            self.note_address(from, &instruction, found);
            if instruction.op0_kind() == OpKind::Register && instruction.op0_register().is_gpr() {
                held[instruction.op0_register().full_register().number()] = holds(&instruction, &held);
            }
        }
    }

    fn indirect(&self, from: Function, instruction: &Instruction, held: &[Option<Held>; 16], found: &mut Decoded) {
        let at = instruction.ip();
        let entry = match instruction.op0_kind() {
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
                let to = match filled(self.places, instruction.ip_rel_memory_address()) {
                    Some(Filled::Symbol(symbol)) => Some(Target::Symbol(symbol)),
                    Some(Filled::Address(address)) => lies_in(self.functions, address).map(Target::Function),
                    None => None,
                };
                if let Some(to) = to {
                    return found.calls.push(Call { from, at, to });
                }
                None
            }
            OpKind::Memory => table_entry(instruction),
            OpKind::Register if instruction.op0_register().is_gpr() => match held[instruction.op0_register().full_register().number()] {
                Some(Held::Case) if instruction.flow_control() == FlowControl::IndirectBranch => return,
                Some(Held::Entry(offset)) => Some(offset),
                _ => None,
            },
            _ => None,
        };
        match entry {
            Some(offset) => found.table_calls.push(TableCall { from, at, offset }),
            None => found.unresolved.push(Unresolved { from, at }),
        }
    }

    fn note_address(&self, from: Function, instruction: &Instruction, found: &mut Decoded) {
        if !instruction.is_ip_rel_memory_operand() {
            return;
        }
        let place = instruction.ip_rel_memory_address();
        let at = instruction.ip();
        if matches!(instruction.code(), Code::Lea_r64_m) {
            found.references.push(Reference { from, at, to: place });
        } else if let Some(Filled::Address(to)) = filled(self.places, place)
            && instruction.op0_kind() == OpKind::Register
        {
            found.references.push(Reference { from, at, to });
        }
    }

    /// What lies at the target of a branch, and the instruction that goes there: a PLT entry, which jumps on through the GOT, or a function.
    fn resolve(&self, to: u64) -> Option<(Target, u64)> {
        let mut decoder = Decoder::with_ip(64, self.bytes.at(to, PLT_ENTRY), to, DecoderOptions::NONE);
        for _ in 0..2 {
            let instruction = decoder.decode();
            if instruction.code() == Code::Endbr64 {
                continue;
            }
            if instruction.code() == Code::Jmp_rm64
                && instruction.is_ip_rel_memory_operand()
                && let Some(Filled::Symbol(symbol)) = filled(self.places, instruction.ip_rel_memory_address())
            {
                return Some((Target::Symbol(symbol), instruction.ip()));
            }
            break;
        }
        lies_in(self.functions, to).map(|function| (Target::Function(function), to))
    }
}

/// What an instruction leaves in the general register that it writes.
fn holds(instruction: &Instruction, held: &[Option<Held>; 16]) -> Option<Held> {
    let of = |operand: u32| match instruction.op_kind(operand) {
        OpKind::Register if instruction.op_register(operand).is_gpr() => held[instruction.op_register(operand).full_register().number()],
        _ => None,
    };
    match instruction.code() {
        Code::Mov_r64_rm64 => table_entry(instruction).map(Held::Entry),
        Code::Movsxd_r64_rm32 if instruction.op1_kind() == OpKind::Memory && instruction.memory_index() != Register::None => Some(Held::Case),
        Code::Add_r64_rm64 | Code::Add_rm64_r64 if of(0) == Some(Held::Case) || of(1) == Some(Held::Case) => Some(Held::Case),
        _ => None,
    }
}

/// The offset of a memory operand that may be an entry of a table of functions: one base register that is no stack pointer, and no index.
fn table_entry(instruction: &Instruction) -> Option<u32> {
    let base = instruction.memory_base();
    let fits = base.is_gpr64() && !matches!(base, Register::RSP | Register::RBP) && instruction.memory_index() == Register::None;
    let offset = u32::try_from(instruction.memory_displacement64()).ok()?;
    (fits && instruction.op_kind(instruction.op_count() - 1) == OpKind::Memory && offset.is_multiple_of(8)).then_some(offset)
}
