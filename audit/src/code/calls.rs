//! Calls of an imported function and the constant that they pass as second argument: x86-64, System V calling convention.
//!
//! A call goes to a PLT entry (`call`, `jmp` with a 32-bit offset) or through the GOT (`call [rip + x]`). The constant is what the straight line
//! before the call puts into `esi`; anything between that could change it, or a jump that leads in between, makes it unread.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::extents;
use super::sweep::{self, Chunk};
use crate::elf::{Elf, Relocation, RelocationKind, Result, constants};

/// Longest function that is decoded for one call; a longer one is left unread.
const LONGEST_FUNCTION: u64 = 1 << 20;

/// Calls of one function.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Second arguments that are constants, one per call.
    pub constants: Vec<u32>,
    /// Calls whose second argument is not known.
    pub unread: usize,
    /// Why nothing could be read, where that is so.
    pub because: Option<&'static str>,
}

/// Finds the calls of the symbol with this index in `DT_SYMTAB`.
pub fn second_arguments(image: &Elf, symbol: u32) -> Result<Calls> {
    let nothing = |because| Ok(Calls { because: Some(because), ..Calls::default() });
    if image.header.machine != constants::EM_X86_64.0 || image.header.word_size() != 8 {
        return nothing("code of this machine is not decoded here");
    }
    let own = image.symbolic_relocations()?.iter().filter(|relocation| relocation.symbol == symbol);
    let (slots, others): (Vec<&Relocation>, Vec<&Relocation>) =
        own.partition(|found| matches!(found.kind, RelocationKind::JumpSlot | RelocationKind::GlobDat));
    if slots.is_empty() || !others.is_empty() {
        return nothing("its address stands in data, so that calls through pointers cannot be told");
    }
    let slots: HashSet<u64> = slots.iter().map(|slot| slot.place).collect();
    // What the loader does not look at may be broken without making the file unusable.
    let functions = extents::read(image).unwrap_or_default();
    if functions.is_empty() {
        return nothing("the bounds of functions are not known");
    }
    let sites = sites(image, &slots)?;
    if sites.is_empty() {
        return nothing("no direct call of it was found");
    }
    let mut calls = Calls::default();
    for site in sites {
        match constant_before(image, &functions, site)? {
            Some(constant) => calls.constants.push(constant),
            None => calls.unread += 1,
        }
    }
    Ok(calls)
}

/// Addresses of instructions that call or jump to the function; uses of its address that are no calls count as well, as calls that cannot be read.
fn sites(image: &Elf, slots: &HashSet<u64>) -> Result<Vec<u64>> {
    let (mut direct, mut jumps, mut found) = (Vec::new(), Vec::new(), Vec::new());
    sweep::segments(image, crate::elf::Segment::executable, |chunk: Chunk<'_>| {
        for position in chunk.from..chunk.to {
            let Some(&[opcode, modrm, a, b, c, d]) = chunk.bytes[position..].first_chunk() else { break };
            let at = chunk.address + position as u64;
            let offset = |bytes| i64::from(i32::from_le_bytes(bytes));
            if matches!(opcode, 0xe8 | 0xe9) {
                direct.push((at, (at + 5).wrapping_add_signed(offset([modrm, a, b, c]))));
            }
            let slot = (at + 6).wrapping_add_signed(offset([a, b, c, d]));
            let memory = modrm & 0xc7 == 0x05;
            if memory && slots.contains(&slot) {
                match (opcode, modrm) {
                    (0xff, 0x25) => jumps.push(at),
                    (0xff, 0x15) => found.push(at),
                    // The address is loaded: who calls it is not followed. No constant is found before this place.
                    _ => found.push(u64::MAX),
                }
            }
        }
    })?;
    for jump in jumps {
        // In a PLT entry `endbr64` (4 bytes) and a `bnd` prefix (1 byte) may stand before the jump; what nobody calls is a tail call.
        let entry = |to: u64| [0, 1, 4, 5].contains(&jump.wrapping_sub(to));
        let before = found.len();
        found.extend(direct.iter().filter(|&&(_, to)| entry(to)).map(|&(at, _)| at));
        if found.len() == before {
            found.push(jump);
        }
    }
    Ok(found)
}

/// What the straight line before an instruction puts into `esi`.
fn constant_before(image: &Elf, functions: &[(u64, u64)], site: u64) -> Result<Option<u32>> {
    let before = functions.partition_point(|&(start, _)| start <= site);
    let Some(&(start, end)) = before.checked_sub(1).map(|at| &functions[at]).filter(|&&(_, end)| site < end) else { return Ok(None) };
    if end - start > LONGEST_FUNCTION || start == site {
        return Ok(None);
    }
    let window = image.window("PT_LOAD", start, end - start)?;
    let mut decoder = Decoder::with_ip(64, &window.bytes, start, DecoderOptions::NONE);
    let (mut instruction, mut factory) = (Instruction::default(), InstructionInfoFactory::new());
    // Where it was set, and to what; `None` where it is not known.
    let mut known: Option<(u64, u32)> = None;
    let mut answer = None;
    let (mut targets, mut met, mut indirect) = (Vec::new(), false, false);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return Ok(None);
        }
        if instruction.ip() == site {
            (answer, met) = (known, true);
        }
        match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => targets.push(instruction.near_branch_target()),
            // A switch may lead anywhere in the function; a jump through the GOT leaves it.
            FlowControl::IndirectBranch => indirect |= !instruction.is_ip_rel_memory_operand(),
            _ => {}
        }
        known = match instruction.flow_control() {
            FlowControl::Next => after(&instruction, known, &mut factory),
            FlowControl::ConditionalBranch => known,
            _ => None,
        };
    }
    // Nothing else may lead between the constant and the call.
    let straight = |from: u64| !indirect && !targets.iter().any(|&target| target > from && target <= site);
    Ok(answer.filter(|&(from, _)| met && straight(from)).map(|(_, value)| value))
}

fn after(instruction: &Instruction, known: Option<(u64, u32)>, factory: &mut InstructionInfoFactory) -> Option<(u64, u32)> {
    let writes = factory
        .info(instruction)
        .used_registers()
        .iter()
        .any(|used| used.register().full_register() == Register::RSI && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead));
    if !writes {
        return known;
    }
    let (first, second) = (instruction.op0_register(), instruction.op1_kind());
    let wide = matches!(first, Register::ESI | Register::RSI);
    match instruction.mnemonic() {
        Mnemonic::Mov if wide && matches!(second, OpKind::Immediate32 | OpKind::Immediate32to64) => {
            Some((instruction.ip(), instruction.immediate(1) as u32))
        }
        Mnemonic::Xor if wide && second == OpKind::Register && instruction.op1_register() == first => Some((instruction.ip(), 0)),
        _ => None,
    }
}
