//! Whether what a caller passes flows on to another function: taint through registers, the stack and direct calls, x86-64 System V.
//!
//! Values are followed through moves and arithmetic, through slots of the own frame, by the address of such a slot, and through loads by a followed pointer;
//! states are joined where paths meet, and a jump through a table may lead to every place that nothing else leads to. Stores elsewhere than to the own
//! frame, and what a called function returns, are not followed: "does not flow" means "not seen".

use std::collections::{BTreeSet, HashMap, HashSet};

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory, UsedRegister,
};

use super::program::{Function, Program};

/// What a function gets: a bit for each of the six argument registers, and one for the arguments on the stack.
pub type Arguments = u8;

/// Everything that a caller can pass.
pub const ALL: Arguments = 0x7f;
/// The bit of the arguments on the stack.
const ON_STACK: Arguments = 0x40;
/// Argument registers in their order, by number.
const ORDER: [usize; 6] = [7, 6, 2, 1, 8, 9];
/// Registers that a call leaves alone: rbx, rsp, rbp, r12 to r15.
const KEPT: u16 = 0b1111_0000_0011_1000;
/// Bytes at the top of the stack that may be arguments of a call.
const OUTGOING: i64 = 24;
/// Bytes of a structure whose address is passed.
const STRUCTURE: i64 = 64;
/// Longest function that is followed, in instructions.
const LONGEST: usize = 20_000;
/// Visits of one block at most: each adds a bit or a slot to its state, or is the last.
const MOST_VISITS: usize = 64;

/// Something leaves a function with arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// The call or jump.
    pub at: u64,
    /// Which of its arguments hold what was followed.
    pub arguments: Arguments,
}

/// What is followed, at one place of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    general: u16,
    vector: u32,
    /// Bytes of the frame, by their distance from where the stack pointer was at the function's start.
    slots: BTreeSet<i64>,
    /// The stack pointer, and the frame pointer where it is one, as such distances.
    top: i64,
    frame: Option<i64>,
    /// Registers that hold the address of a slot: its distance.
    addresses: [Option<i64>; 16],
    incoming: bool,
}

impl State {
    /// Adds what another path brings; true if that is more.
    fn join(&mut self, other: &Self) -> bool {
        let before = (self.general, self.vector, self.slots.len(), self.frame);
        self.general |= other.general;
        self.vector |= other.vector;
        self.slots.extend(&other.slots);
        self.frame = self.frame.filter(|&frame| other.frame == Some(frame));
        for (own, other) in self.addresses.iter_mut().zip(other.addresses) {
            // What only one path knows is kept: more may flow so, never less.
            *own = own.or(other);
        }
        before != (self.general, self.vector, self.slots.len(), self.frame)
    }

    fn entered(arguments: Arguments) -> Self {
        let general = ORDER.iter().enumerate().filter(|(bit, _)| arguments & (1 << bit) != 0).fold(0, |set, (_, &number)| set | 1 << number);
        Self { general, incoming: arguments & ON_STACK != 0, ..Self::default() }
    }

    /// The arguments that a call would get here, or the function that a jump goes to, which finds a return address on top.
    fn leaving(&self, jump: bool) -> Arguments {
        let structure = |at: i64| self.slots.range(at..at.saturating_add(STRUCTURE)).next().is_some();
        let followed = |number: usize| self.general & (1 << number) != 0 || self.addresses[number].is_some_and(structure);
        let registers = ORDER.iter().enumerate().filter(|&(_, &number)| followed(number)).fold(0, |set, (bit, _)| set | 1 << bit);
        let first = self.top + if jump { 8 } else { 0 };
        let outgoing = self.slots.range(first..first + OUTGOING).next().is_some() || jump && self.incoming;
        registers | if outgoing { ON_STACK } else { 0 }
    }

    /// Where a memory operand of the frame lies.
    fn place(&self, memory: &UsedMemory) -> Option<(i64, i64)> {
        if memory.index() != Register::None {
            return None;
        }
        let base = match memory.base() {
            Register::RSP => self.top,
            Register::RBP if self.frame.is_some() => self.frame?,
            base if base.is_gpr64() => self.addresses[base.number()]?,
            _ => return None,
        };
        Some((base.wrapping_add(memory.displacement().cast_signed()), i64::try_from(memory.memory_size().size()).unwrap_or(1).max(1)))
    }

    fn holds(&self, (at, size): (i64, i64)) -> bool {
        // Above the return address lie the arguments that the caller put there.
        (self.incoming && at >= 8) || self.slots.range(at..at.saturating_add(size)).next().is_some()
    }

    fn put(&mut self, (at, size): (i64, i64), followed: bool) {
        for byte in at..at.saturating_add(size.min(64)) {
            if followed {
                self.slots.insert(byte);
            } else {
                self.slots.remove(&byte);
            }
        }
    }

    fn has(&self, register: Register) -> bool {
        match set_of(register) {
            Some((general, vector)) => self.general & general != 0 || self.vector & vector != 0,
            None => false,
        }
    }
}

/// The bit of a register that values travel in; the stack pointer is none.
fn set_of(register: Register) -> Option<(u16, u32)> {
    if register.is_gpr() {
        let number = register.full_register().number();
        return (number != 4).then_some((1 << number, 0));
    }
    register.is_vector_register().then(|| (0, 1 << register.number()))
}

/// Follows what enters functions; results are kept, since many exports share functions.
pub struct Flow<'a> {
    program: &'a Program,
    factory: InstructionInfoFactory,
    known: HashMap<(Function, Arguments), Vec<Leaving>>,
}

impl<'a> Flow<'a> {
    /// For one program.
    pub fn new(program: &'a Program) -> Self {
        Self { program, factory: InstructionInfoFactory::new(), known: HashMap::new() }
    }

    /// Every call or jump of a function that passes on something of what it got, by address. A function that is too long passes on nothing.
    pub fn of(&mut self, function: Function, arguments: Arguments) -> &[Leaving] {
        if !self.known.contains_key(&(function, arguments)) {
            let found = self.follow(function, arguments);
            self.known.insert((function, arguments), found);
        }
        &self.known[&(function, arguments)]
    }

    fn follow(&mut self, function: Function, arguments: Arguments) -> Vec<Leaving> {
        let (start, end) = self.program.functions[function as usize];
        let decoder = Decoder::with_ip(64, self.program.code(function), start, DecoderOptions::NONE);
        let code: Vec<Instruction> = decoder.into_iter().take(LONGEST + 1).collect();
        if code.len() > LONGEST || code.is_empty() {
            return Vec::new();
        }
        let position = |address: u64| code.binary_search_by_key(&address, Instruction::ip).ok();
        let cases = cases(&code);
        let mut states: HashMap<usize, (State, usize)> = HashMap::from([(0, (State::entered(arguments), 0))]);
        let mut open = vec![0_usize];
        let mut found: HashMap<u64, Arguments> = HashMap::new();
        while let Some(block) = open.pop() {
            let Some((state, visits)) = states.get_mut(&block) else { continue };
            *visits += 1;
            if *visits > MOST_VISITS {
                continue;
            }
            let mut state = state.clone();
            let mut onward = |to: usize, state: &State, open: &mut Vec<usize>| {
                let known = states.get_mut(&to);
                if known.is_none_or(|(known, _)| known.join(state)) {
                    states.entry(to).or_insert_with(|| (state.clone(), 0));
                    open.push(to);
                }
            };
            for (at, instruction) in code.iter().enumerate().skip(block) {
                let near = instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
                let inside = |to: u64| (start..end).contains(&to);
                match instruction.flow_control() {
                    FlowControl::Call | FlowControl::IndirectCall => {
                        *found.entry(instruction.ip()).or_default() |= state.leaving(false);
                        state.general &= KEPT;
                        for (number, address) in state.addresses.iter_mut().enumerate() {
                            *address = address.filter(|_| KEPT & (1 << number) != 0);
                        }
                        state.vector = 0;
                    }
                    FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch if near => {
                        let to = instruction.near_branch_target();
                        match inside(to).then(|| position(to)).flatten() {
                            Some(to) => onward(to, &state, &mut open),
                            None => *found.entry(instruction.ip()).or_default() |= state.leaving(true),
                        }
                        if instruction.flow_control() == FlowControl::UnconditionalBranch {
                            break;
                        }
                        // The next instruction may be reached from elsewhere, too: it starts a block of its own.
                        if at + 1 < code.len() {
                            onward(at + 1, &state, &mut open);
                        }
                        break;
                    }
                    FlowControl::IndirectBranch => {
                        *found.entry(instruction.ip()).or_default() |= state.leaving(true);
                        if !instruction.is_ip_rel_memory_operand() {
                            for &to in &cases {
                                onward(to, &state, &mut open);
                            }
                        }
                        break;
                    }
                    FlowControl::Return | FlowControl::Exception => break,
                    _ => self.step(instruction, &mut state),
                }
            }
        }
        let mut found: Vec<Leaving> =
            found.into_iter().filter(|&(_, arguments)| arguments != 0).map(|(at, arguments)| Leaving { at, arguments }).collect();
        found.sort_unstable_by_key(|leaving| leaving.at);
        found
    }

    fn step(&mut self, instruction: &Instruction, state: &mut State) {
        let same = instruction.op_count() >= 2
            && instruction.op0_kind() == OpKind::Register
            && instruction.op1_kind() == OpKind::Register
            && instruction.op0_register() == instruction.op1_register();
        let clears = same && matches!(instruction.mnemonic(), Mnemonic::Xor | Mnemonic::Sub | Mnemonic::Pxor | Mnemonic::Xorps | Mnemonic::Xorpd);
        let info = self.factory.info(instruction);
        let reads = |access: OpAccess| matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite);
        let writes = |access: OpAccess| matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite);
        let by_register = info.used_registers().iter().any(|used: &UsedRegister| reads(used.access()) && state.has(used.register()));
        let by_memory = info.used_memory().iter().any(|used| reads(used.access()) && state.place(used).is_some_and(|place| state.holds(place)));
        // The address of a store is no value that is stored.
        let stores = info.used_memory().iter().find(|used| writes(used.access()));
        let value =
            if stores.is_some() && instruction.op_count() >= 2 && instruction.op0_kind() == OpKind::Memory && !reads_memory(info.used_memory()) {
                (1..instruction.op_count())
                    .any(|operand| instruction.op_kind(operand) == OpKind::Register && state.has(instruction.op_register(operand)))
            } else {
                by_register || by_memory
            };
        let followed = value && !clears;
        let address = address_of(instruction, state);
        let places: Vec<(i64, i64)> = info.used_memory().iter().filter(|used| writes(used.access())).filter_map(|used| state.place(used)).collect();
        for used in info.used_registers().iter().filter(|used| writes(used.access())) {
            let Some((general, vector)) = set_of(used.register()) else { continue };
            let whole = used.access() == OpAccess::Write && used.register().size() >= 4;
            if followed {
                state.general |= general;
                state.vector |= vector;
            } else if whole || clears {
                state.general &= !general;
                state.vector &= !vector;
            }
        }
        for place in places {
            state.put(place, followed);
        }
        for used in info.used_registers().iter().filter(|used| writes(used.access()) && used.register().is_gpr()) {
            state.addresses[used.register().full_register().number()] = address;
        }
        move_stack(instruction, state);
    }
}

/// The slot whose address an instruction puts into a register: by `lea`, or from another register.
fn address_of(instruction: &Instruction, state: &State) -> Option<i64> {
    let moved = |base: i64| base.wrapping_add(instruction.memory_displacement64().cast_signed());
    match instruction.mnemonic() {
        Mnemonic::Lea if instruction.memory_index() == Register::None => match instruction.memory_base() {
            Register::RSP => Some(moved(state.top)),
            Register::RBP if state.frame.is_some() => state.frame.map(moved),
            base if base.is_gpr64() => state.addresses[base.number()].map(moved),
            _ => None,
        },
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => match instruction.op1_register() {
            Register::RSP => Some(state.top),
            from if from.is_gpr64() => state.addresses[from.number()],
            _ => None,
        },
        _ => None,
    }
}

/// Where a jump through a table may lead: what follows a place that is never passed, and that no branch names.
fn cases(code: &[Instruction]) -> Vec<usize> {
    let near = |instruction: &&Instruction| instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64;
    let named: HashSet<u64> = code.iter().filter(near).map(Instruction::near_branch_target).collect();
    let ends = |instruction: &Instruction| {
        matches!(instruction.flow_control(), FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return)
    };
    // Padding stands between a jump and an aligned place.
    let pads = |instruction: &Instruction| instruction.mnemonic() == Mnemonic::Nop;
    let mut after = false;
    let mut found = Vec::new();
    for (at, instruction) in code.iter().enumerate() {
        if after && !pads(instruction) {
            if !named.contains(&instruction.ip()) {
                found.push(at);
            }
            after = false;
        }
        after |= ends(instruction);
    }
    found
}

fn reads_memory(used: &[UsedMemory]) -> bool {
    used.iter().any(|used| matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite))
}

/// Follows the stack pointer and a frame pointer.
fn move_stack(instruction: &Instruction, state: &mut State) {
    let first = if instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register { instruction.op0_register() } else { Register::None };
    let second = if instruction.op_count() > 1 && instruction.op1_kind() == OpKind::Register { instruction.op1_register() } else { Register::None };
    let by = || instruction.try_immediate(1).unwrap_or(0).cast_signed();
    match (instruction.mnemonic(), first) {
        (Mnemonic::Sub, Register::RSP) => state.top = state.top.wrapping_sub(by()),
        (Mnemonic::Add, Register::RSP) => state.top = state.top.wrapping_add(by()),
        (Mnemonic::Mov, Register::RBP) if second == Register::RSP => state.frame = Some(state.top),
        (Mnemonic::Mov, Register::RSP) if second == Register::RBP => state.top = state.frame.unwrap_or(state.top),
        (Mnemonic::Lea, Register::RSP) if instruction.memory_base() == Register::RBP => {
            let moved = |frame: i64| frame.wrapping_add(instruction.memory_displacement64().cast_signed());
            state.top = state.frame.map_or(state.top, moved);
        }
        (Mnemonic::Leave, _) => state.top = state.frame.map_or(state.top, |frame| frame.wrapping_add(8)),
        (_, Register::RBP) if !matches!(instruction.mnemonic(), Mnemonic::Push | Mnemonic::Cmp | Mnemonic::Test) => state.frame = None,
        _ => state.top = state.top.wrapping_add(instruction.stack_pointer_increment().into()),
    }
}
