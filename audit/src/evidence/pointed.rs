//! A dispatch table to which a variable points, as ROCr has: a stub loads the variable and jumps through a slot of the table.
//!
//! The table begins with its version, of which the upper half is the size in bytes (`ApiTableVersion` in `hsa_api_trace.h`). Nobody returns it: code that
//! runs at the start fills it, then calls a function that stores its address into the variable. That code is followed in a line, calls included where the
//! callee has no branches, until the variable is known. What is not known for certain is a reason, and the export then stays its own body.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind};

use super::getter::{self, Filling, State};
use crate::code::memory::Memory;
use crate::code::program::{Function, Program, Target};

/// Calls within calls that are followed at most; ROCr needs three.
const DEEPEST: usize = 4;
/// Bytes of a function that is followed where it is called; ROCr's table takes two thousand.
const LARGEST_CALLEE: usize = 1 << 14;
/// Bytes of the version before the first slot.
const VERSION: u64 = 16;
/// Largest version believed.
const NEWEST: u64 = 64;
/// Instructions that are followed for one caller at most; ROCr has a few hundred.
const MOST_STEPS: usize = 20_000;
/// Callers of the function that sets the variable at most.
const MOST_CALLERS: usize = 16;

/// What the table behind a variable holds, with the function that fills it.
pub fn follow(program: &Program, memory: &Memory<'_>, variable: u64) -> Result<(Function, Filling), String> {
    let writers: Vec<Function> = program.near(variable).filter(|&function| stores(program, function, variable)).collect();
    let mut callers: Vec<Function> = writers
        .iter()
        .flat_map(|&writer| program.calls.iter().filter(move |call| call.to == Target::Function(writer)).map(|call| call.from))
        .collect();
    callers.sort_unstable();
    callers.dedup();
    if callers.is_empty() || callers.len() > MOST_CALLERS {
        return Err(format!("{} functions lead to a store into the variable at {variable:#x}", callers.len()));
    }
    let mut found: Vec<(Function, Filling)> = Vec::new();
    for caller in callers {
        let mut walk = Walk { program, state: State::with_stack(memory), info: InstructionInfoFactory::new(), left: MOST_STEPS };
        walk.function(caller, 0);
        found.extend(walk.table(variable).map(|filling| (caller, filling)));
    }
    found.dedup_by(|a, b| (a.1.base, &a.1.slots) == (b.1.base, &b.1.slots));
    match found.len() {
        1 => Ok(found.swap_remove(0)),
        count => Err(format!("{count} tables that the variable at {variable:#x} may point to, where one is expected")),
    }
}

/// True if a function stores into a place by its address.
fn stores(program: &Program, function: Function, place: u64) -> bool {
    let decoder = Decoder::with_ip(64, program.code(function), program.start(function), DecoderOptions::NONE);
    decoder.into_iter().any(|instruction| {
        instruction.op_count() == 2
            && instruction.op0_kind() == OpKind::Memory
            && instruction.op1_kind() == OpKind::Register
            && instruction.is_ip_rel_memory_operand()
            && instruction.ip_rel_memory_address() == place
    })
}

struct Walk<'a> {
    program: &'a Program,
    state: State<'a>,
    info: InstructionInfoFactory,
    left: usize,
}

impl Walk<'_> {
    /// Follows a function in the order of its addresses.
    fn function(&mut self, function: Function, depth: usize) {
        let (code, start) = (self.program.code(function), self.program.start(function));
        let landings = getter::landings(code, start);
        for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
            if self.left == 0 {
                return self.state.forget();
            }
            self.left -= 1;
            if landings.contains(&instruction.ip()) {
                self.state.forget();
            }
            match instruction.flow_control() {
                FlowControl::Call => self.call(&instruction, depth),
                FlowControl::UnconditionalBranch if self.leaves(&instruction, function) => {
                    self.call(&instruction, depth);
                    self.state.forget();
                }
                FlowControl::Return => self.after_return(depth),
                _ => self.state.step(&instruction, &mut self.info),
            }
        }
    }

    /// What follows a return in a function that was not called from here is reached from elsewhere.
    fn after_return(&mut self, depth: usize) {
        if depth == 0 {
            self.state.forget();
        }
    }

    fn leaves(&self, instruction: &Instruction, function: Function) -> bool {
        instruction.op0_kind() == OpKind::NearBranch64 && self.program.at(instruction.near_branch_target()) != Some(function)
    }

    /// Follows a call into a function without branches; of any other nothing is known afterwards.
    fn call(&mut self, instruction: &Instruction, depth: usize) {
        let near = instruction.op0_kind() == OpKind::NearBranch64;
        let callee = if near { self.program.starting_at(instruction.near_branch_target()) } else { None };
        match callee.filter(|&callee| depth < DEEPEST && self.program.code(callee).len() < LARGEST_CALLEE && self.is_straight(callee)) {
            Some(callee) => self.function(callee, depth + 1),
            None => self.state.forget_called(),
        }
    }

    fn is_straight(&self, function: Function) -> bool {
        let decoder = Decoder::with_ip(64, self.program.code(function), self.program.start(function), DecoderOptions::NONE);
        let mut ends = 0;
        let straight = decoder.into_iter().all(|instruction| match instruction.flow_control() {
            FlowControl::Next | FlowControl::Call => !instruction.is_invalid() && ends == 0,
            FlowControl::Return => {
                ends += 1;
                ends == 1
            }
            FlowControl::UnconditionalBranch => {
                ends += 1;
                ends == 1 && self.leaves(&instruction, function)
            }
            _ => false,
        });
        straight && ends == 1
    }

    /// The table that the variable points to, by what was stored.
    fn table(&self, variable: u64) -> Option<Filling> {
        let base = self.state.stores.get(&variable)?.0?;
        let &(version, sized_at) = self.state.stores.get(&base)?;
        let (major, size) = (version? & 0xffff_ffff, version? >> 32);
        let fits = (1..=NEWEST).contains(&major) && size.is_multiple_of(8) && (VERSION..getter::LARGEST).contains(&size);
        let filling = fits.then(|| self.state.filling(base, size, sized_at, VERSION))?.ok()?;
        let values: BTreeSet<u64> = filling.slots.values().map(|&(value, _)| value).collect();
        // A table of which nothing is filled, or all with one address, is none.
        (values.len() > 1).then_some(filling)
    }
}
