//! From an export to the function that does its work: through a dispatch table, where the runtime has one.
//!
//! Such a runtime exports stubs: each asks one function, the getter, for the table and jumps through a slot of it, or loads a variable that points to
//! the table. What is stored there is read by [`super::getter`] and [`super::pointed`]. A table is believed if at least [`LEAST`] stubs use it, each slot they use lies within the size that the getter
//! stores, and everything stored is the start of a function.

use std::collections::BTreeMap;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, OpKind, Register};

use super::{getter, pointed};
use crate::code::memory::Memory;
use crate::code::program::{Function, Program, Target};
use crate::elf::{Elf, Result};

/// Stubs that a getter has at least.
const LEAST: usize = 3;
/// Bytes of the largest stub; with six arguments and some on the stack HIP has 112.
const LARGEST_STUB: u64 = 256;
/// Bytes of the largest getter; HIP 7.2.4 has 7 kB.
const LARGEST_GETTER: u64 = 1 << 18;

/// Where a stub has its table from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A function that returns it.
    Getter(Function),
    /// A variable that points to it, by its address.
    Variable(u64),
}

/// An export that only jumps through a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stub {
    /// Where the table comes from.
    pub source: Source,
    /// Offset in the table.
    pub slot: u64,
    /// The instruction that jumps.
    pub jump: u64,
}

/// One dispatch table.
#[derive(Debug)]
pub struct Table {
    /// The start of the function that fills it.
    pub getter: u64,
    /// What it stores, or why that could not be read.
    pub filling: std::result::Result<getter::Filling, String>,
    /// Exports that jump through it.
    pub stubs: usize,
    /// Of these, how many have an implementation.
    pub recovered: usize,
}

/// What is known of an export's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// The export itself.
    Direct(Function),
    /// The function in a slot.
    Slot(Stub, Function),
    /// A stub whose slot is empty: a call jumps to address 0.
    Empty(Stub),
    /// A stub whose slot is not filled with the rest of a table to which a variable points: other code may fill it later.
    Late(Stub),
    /// A stub whose table could not be read.
    Unread(Stub),
    /// No function starts at the export.
    None,
}

impl Body {
    /// The function that does the work, if it is known.
    pub fn function(self) -> Option<Function> {
        match self {
            Self::Direct(function) | Self::Slot(_, function) => Some(function),
            Self::Empty(_) | Self::Late(_) | Self::Unread(_) | Self::None => None,
        }
    }
}

/// The body of each of these addresses, in their order, and the tables met.
pub fn bodies(image: &Elf, memory: &Memory<'_>, program: &Program, exports: &[u64]) -> Result<(Vec<Body>, Vec<Table>)> {
    let mut stubs = Vec::with_capacity(exports.len());
    for &address in exports {
        let function = program.starting_at(address);
        stubs.push((function, function.map(|function| stub(image, memory, program, function)).transpose()?.flatten()));
    }
    let mut by_source: BTreeMap<Source, Vec<Stub>> = BTreeMap::new();
    for stub in stubs.iter().filter_map(|(_, stub)| *stub) {
        by_source.entry(stub.source).or_default().push(stub);
    }
    by_source.retain(|_, stubs| stubs.len() >= LEAST);
    let mut fillings = BTreeMap::new();
    for (&source, stubs) in &by_source {
        match source {
            Source::Getter(getter) => {
                fillings.insert(source, (program.start(getter), returned(image, memory, program, getter, stubs)?));
            }
            // Where the table is not known, it may be no table of functions at all: the exports stay their own bodies.
            Source::Variable(variable) => {
                if let Ok((filler, filling)) = pointed::follow(program, memory, variable)
                    && let Ok(filling) = check(filling, stubs, program)
                {
                    fillings.insert(source, (program.start(filler), Ok(filling)));
                }
            }
        }
    }
    let bodies: Vec<Body> = stubs
        .into_iter()
        .map(|(function, stub)| match (function, stub) {
            (None, _) => Body::None,
            (Some(function), Some(stub)) => match fillings.get(&stub.source).map(|(_, filling)| filling) {
                // Fewer stubs than a table has: a function that happens to look like one.
                None => Body::Direct(function),
                Some(Err(_)) => Body::Unread(stub),
                Some(Ok(filling)) => match filling.slots.get(&stub.slot) {
                    Some(&(0, _)) | None if matches!(stub.source, Source::Variable(_)) => Body::Late(stub),
                    Some(&(0, _)) | None => Body::Empty(stub),
                    Some(&(address, _)) => program.starting_at(address).map_or(Body::Unread(stub), |body| Body::Slot(stub, body)),
                },
            },
            (Some(function), None) => Body::Direct(function),
        })
        .collect();
    let tables = fillings
        .into_iter()
        .map(|(source, (getter, filling))| Table {
            getter,
            filling,
            stubs: by_source[&source].len(),
            recovered: bodies.iter().filter(|body| matches!(body, Body::Slot(stub, _) if stub.source == source)).count(),
        })
        .collect();
    Ok((bodies, tables))
}

/// What a getter stores into the table that it returns.
fn returned(
    image: &Elf,
    memory: &Memory<'_>,
    program: &Program,
    getter: Function,
    stubs: &[Stub],
) -> Result<std::result::Result<getter::Filling, String>> {
    let follow = |function: Function| -> Result<std::result::Result<getter::Filling, String>> {
        let (start, end) = program.functions[function as usize];
        let code = image.window("machine code", start, (end - start).min(LARGEST_GETTER))?.bytes;
        Ok(getter::follow(&code, start, memory).and_then(|filling| check(filling, stubs, program)))
    };
    let mut filling = follow(getter)?;
    // A compiler may leave the filling in a function of its own, which the getter calls.
    for call in program.calls_of(getter) {
        if let (Err(_), Target::Function(function)) = (&filling, call.to)
            && let Ok(found) = follow(function)?
        {
            filling = Ok(found);
        }
    }
    Ok(filling)
}

/// Holds a filling against its stubs and against the functions of the file.
fn check(filling: getter::Filling, stubs: &[Stub], program: &Program) -> std::result::Result<getter::Filling, String> {
    if let Some(stub) = stubs.iter().find(|stub| stub.slot < filling.first || stub.slot >= filling.size) {
        return Err(format!("the jump at {:#x} uses slot {:#x} of a table of {:#x} bytes", stub.jump, stub.slot, filling.size));
    }
    for (slot, &(address, at)) in &filling.slots {
        if address != 0 && program.starting_at(address).is_none() {
            return Err(format!("the instruction at {at:#x} stores {address:#x} into slot {slot:#x}: no function starts there"));
        }
    }
    Ok(filling)
}

/// What a register of a stub holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// The table.
    Table,
    /// What a variable at this address points to.
    Pointed(u64),
    /// What stands in a slot of one of these.
    Slot(Source, u64),
}

/// The stub that a function is, if it is one: at most one call, of a function of this file; then a load from the table that it returned, or to which
/// a variable points, and a jump or call to that.
fn stub(image: &Elf, memory: &Memory<'_>, program: &Program, function: Function) -> Result<Option<Stub>> {
    let (start, end) = program.functions[function as usize];
    // Beside the getter only `__stack_chk_fail` and its like.
    let mut own = program.calls_of(function).iter().filter_map(|call| match call.to {
        Target::Function(function) => Some(function),
        Target::Symbol(_) => None,
    });
    let getter = own.next();
    if end - start > LARGEST_STUB || getter == Some(function) || own.next().is_some() {
        return Ok(None);
    }
    let code = image.window("machine code", start, end - start)?.bytes;
    // What each register holds.
    let mut held = [None::<Held>; 16];
    for instruction in &mut Decoder::with_ip(64, &code, start, DecoderOptions::NONE) {
        let first = instruction.op0_register();
        let of_base = || (instruction.memory_base().is_gpr64() && instruction.memory_index() == Register::None).then(|| instruction.memory_base());
        let slot = || {
            let source = match held[of_base()?.number()]? {
                Held::Table => Source::Getter(getter?),
                Held::Pointed(variable) => Source::Variable(variable),
                Held::Slot(..) => return None,
            };
            Some(Held::Slot(source, instruction.memory_displacement64()))
        };
        match instruction.flow_control() {
            FlowControl::Call => {
                held = [None; 16];
                let returns = getter.is_some_and(|getter| instruction.near_branch_target() == program.start(getter));
                held[Register::RAX.number()] = returns.then_some(Held::Table);
                continue;
            }
            FlowControl::ConditionalBranch => return Ok(None),
            FlowControl::IndirectBranch | FlowControl::IndirectCall => {
                let held = match instruction.op0_kind() {
                    OpKind::Register if first.is_gpr64() => held[first.number()],
                    OpKind::Memory => slot(),
                    _ => None,
                };
                let Some(Held::Slot(source, slot)) = held else { return Ok(None) };
                return Ok(Some(Stub { source, slot, jump: instruction.ip() }));
            }
            _ => {}
        }
        if instruction.op0_kind() == OpKind::Register && first.is_gpr() {
            held[first.full_register().number()] = match (instruction.code(), instruction.op1_kind()) {
                (Code::Mov_r64_rm64, OpKind::Memory) if instruction.is_ip_rel_memory_operand() => {
                    let variable = instruction.ip_rel_memory_address();
                    memory.filled(variable).is_none().then_some(Held::Pointed(variable))
                }
                (Code::Mov_r64_rm64, OpKind::Memory) => slot(),
                (Code::Mov_r64_rm64 | Code::Mov_rm64_r64, OpKind::Register) => held[instruction.op1_register().number()],
                _ => None,
            };
        }
    }
    Ok(None)
}
