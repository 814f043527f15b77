//! All functions of a file decoded once: who calls whom, which addresses they make, which slots of tables they call through.
//!
//! x86-64 only. Calls and jumps that leave a function are edges, own and foreign PLT entries included; what is called through a
//! table is kept as the offset in the table, never guessed, and every other call is kept as one whose target is not known. Every fact carries the address of its instruction.

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;

use super::decode::{Bytes, Decoded, Reader, Targets};
use super::extents;
use super::memory::Memory;
use crate::elf::{Elf, Result};
use crate::parallel;

/// Functions that one thread takes at once.
const BATCH: usize = 64;

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

/// A call or a jump whose target is not known: through a register, through memory that nothing fixed fills, or to no function that has bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unresolved {
    /// The function it stands in.
    pub from: Function,
    /// The instruction; the function's start, where its code is not in the file or is none.
    pub at: u64,
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
    /// Calls and jumps that lead nobody knows where. A jump by a table of offsets stays in its function and is none.
    pub unresolved: Vec<Unresolved>,
    /// Bytes of the executable segments.
    pub executable: u64,
    /// Of these, those that lie in functions; the rest is start-up code and padding.
    pub covered: u64,
    bytes: Bytes,
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
    /// Decodes every function, on all processors. For another machine than x86-64, or a file without frame descriptions, there is nothing to decode.
    pub fn read(image: &Elf, memory: &Memory<'_>) -> Result<Self> {
        let functions = extents::read(image)?;
        let bytes = Bytes::read(image)?;
        let reader = Reader { functions: &functions, bytes: &bytes, places: memory.places() };
        let batches: Vec<&[(u64, u64)]> = functions.chunks(BATCH).collect();
        let account = || (Targets::default(), Vec::new());
        let done = parallel::fold(&batches, &AtomicUsize::new(0), account, |(targets, done), at, batch| {
            let mut decoded = Decoded::default();
            for index in 0..batch.len() {
                reader.decode((at * BATCH + index) as Function, targets, &mut decoded);
            }
            done.push((at, decoded));
        });
        // Linkers describe the PLT as a function; its entries' own jumps are no calls of anybody.
        let entries: HashSet<u64> = done.iter().flat_map(|(targets, _)| targets.entries()).collect();
        let mut parts: Vec<(usize, Decoded)> = done.into_iter().flat_map(|(_, parts)| parts).collect();
        parts.sort_unstable_by_key(|&(at, _)| at);
        let mut program = Self { executable: bytes.len(), functions, bytes, ..Self::default() };
        for (_, part) in parts {
            program.covered += part.covered;
            program.calls.extend(part.calls.into_iter().filter(|call| !entries.contains(&call.at)));
            program.references.extend(part.references);
            program.table_calls.extend(part.table_calls);
            program.unresolved.extend(part.unresolved);
        }
        Ok(program)
    }

    /// The function that an address lies in.
    pub fn at(&self, address: u64) -> Option<Function> {
        lies_in(&self.functions, address)
    }

    /// The function that starts at an address.
    pub fn starting_at(&self, address: u64) -> Option<Function> {
        self.at(address).filter(|&function| self.start(function) == address)
    }

    /// The bytes of a function; none where the file does not hold it as code.
    pub fn code(&self, function: Function) -> &[u8] {
        let (start, end) = self.functions[function as usize];
        self.bytes.at(start, end - start)
    }

    /// Functions with four bytes that, taken as a distance from the instruction after them, lead to this address: all that can store there are among them.
    pub fn near(&self, address: u64) -> impl Iterator<Item = Function> {
        let near = move |function: &Function| {
            let start = self.start(*function).wrapping_add(4);
            let leads = |(at, bytes): (usize, &[u8])| {
                let distance = i64::from(i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
                start.wrapping_add(at as u64).wrapping_add_signed(distance) == address
            };
            self.code(*function).windows(4).enumerate().any(leads)
        };
        (0..self.functions.len() as Function).filter(near)
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

    /// Calls of one function whose target is not known.
    pub fn unresolved_of(&self, function: Function) -> &[Unresolved] {
        of_function!(self.unresolved, function)
    }

    /// Calls of one function through tables.
    pub fn table_calls_of(&self, function: Function) -> &[TableCall] {
        of_function!(self.table_calls, function)
    }
}

/// The function of a sorted list that an address lies in.
pub(super) fn lies_in(functions: &[(u64, u64)], address: u64) -> Option<Function> {
    let next = functions.partition_point(|&(start, _)| start <= address);
    let index = next.checked_sub(1)?;
    (address < functions[index].1).then_some(index as Function)
}
