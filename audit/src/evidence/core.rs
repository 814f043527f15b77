//! The functions that allocate, named by structure and by difference, without a name of the file being trusted.
//!
//! Allocators sit behind virtual calls, so that direct calls from an export do not reach them, and following every virtual call marks everything.
//! The rule starts at the other end. One class family stands for allocations: the functions that make its objects (they refer to its virtual tables
//! and are no members) are the first half; the functions that call, through a table, a slot of the class with most calls of the allocators
//! beneath whose body makes such objects are the other. Of both, what seeds reach and certain non-allocators do not is the core. The class family
//! is not given: it is the one for which the core covers every seed. None, or several that disagree, and there is no core.

use super::graph::{Graph, Set, Ways};
use crate::code::classes::Classes;
use crate::code::program::{Function, Program};

/// One of so many exports whose first calls have a function in common make that function one of initialisation, logging or bookkeeping.
const SHARED: usize = 2;
/// Functions that a virtual call may lead to at most; a slot that half of all classes have says nothing.
const MOST_CANDIDATES: usize = 12;

/// Why a function is in the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It refers to a virtual table of the class family, by this instruction.
    Makes(u64),
    /// It calls a slot at this offset of the device's table, by this instruction.
    CallsSlot(u64, u32),
}

/// The core of one runtime.
#[derive(Debug)]
pub struct Core {
    /// The class family's root, mangled.
    pub class: String,
    /// The class with most slots that call an allocator beneath.
    pub device: Option<String>,
    /// Its table, by position.
    pub device_table: Option<usize>,
    /// Offsets in its table whose functions make objects of the family, with the functions.
    pub slots: Vec<(u32, Function)>,
    /// Its functions.
    pub members: Vec<(Function, Why)>,
    /// Shortest ways to it.
    pub ways: Ways,
}

/// What the rule starts from.
#[derive(Debug)]
pub struct Start<'a> {
    /// Bodies of all exports.
    pub bodies: &'a [Function],
    /// Bodies of exports that allocate for certain.
    pub seeds: &'a [Function],
    /// Bodies of exports that do not for certain.
    pub negatives: &'a [Function],
    /// Functions that call an allocator beneath.
    pub sinks: &'a [Function],
}

/// Functions that many exports call first: initialisation, thread bookkeeping, logging.
pub fn shared(graph: &Graph, bodies: &[Function]) -> Set {
    let mut count = vec![0_usize; graph.none().len()];
    for &body in bodies {
        for edge in graph.from(body) {
            count[edge.to as usize] += 1;
        }
    }
    let least = bodies.len().div_ceil(SHARED).max(2);
    count.into_iter().map(|count| count >= least).collect()
}

/// Finds the core, or says why there is none.
pub fn find(program: &Program, classes: &Classes, graph: &Graph, blocked: &Set, start: &Start<'_>) -> Result<Core, String> {
    if start.seeds.is_empty() {
        return Err("no seed of the manifest has a body here".into());
    }
    if classes.tables.is_empty() {
        return Err("no type information of classes: built without RTTI, or not from C++".into());
    }
    let wanted = reached_from_seeds_alone(graph, blocked, start);
    let device = device(classes, start.sinks);
    let makers = makers(program, classes);
    let mut found: Vec<Core> = Vec::new();
    for class in 0..classes.all.len() {
        let (slots, mut members) = halves(program, classes, class, device, &makers);
        members.retain(|&(function, _)| wanted[function as usize]);
        if members.is_empty() {
            continue;
        }
        let ways = graph.ways(members.iter().map(|&(function, _)| function), blocked);
        if start.seeds.iter().all(|&seed| ways.hops[seed as usize].is_some()) {
            let device_table = device;
            let device = device.map(|table| classes.all[classes.tables[table].class].name.clone());
            found.push(Core { class: classes.all[class].name.clone(), device, device_table, slots, members, ways });
        }
    }
    let same = |core: &Core, other: &Core| core.members.iter().map(|member| member.0).eq(other.members.iter().map(|member| member.0));
    match found.len() {
        0 => Err("no class family's core covers all seeds".into()),
        _ if found.iter().all(|core| same(core, &found[0])) => Ok(found.swap_remove(0)),
        count => {
            let names: Vec<&str> = found.iter().map(|core| core.class.as_str()).take(4).collect();
            Err(format!("{count} class families cover all seeds and disagree: {}", names.join(", ")))
        }
    }
}

/// Both halves of a class family's candidates for the core, before anything is taken away.
pub fn candidates(program: &Program, classes: &Classes, class: usize, device: Option<usize>) -> Vec<(Function, Why)> {
    halves(program, classes, class, device, &makers(program, classes)).1
}

/// Slots of the device that make objects of a class family; and the functions that make some or call such a slot.
#[expect(clippy::type_complexity, reason = "two lists")]
fn halves(
    program: &Program,
    classes: &Classes,
    class: usize,
    device: Option<usize>,
    makers: &[(Function, usize, u64)],
) -> (Vec<(u32, Function)>, Vec<(Function, Why)>) {
    let made = made_by(makers, classes, &classes.family(class));
    let slots = device.map_or(Vec::new(), |table| making_slots(classes, table, &made));
    let callers = callers(program, classes, &slots);
    let mut members: Vec<(Function, Why)> = made.iter().map(|&(function, at)| (function, Why::Makes(at))).chain(callers).collect();
    members.sort_unstable_by_key(|&(function, _)| function);
    members.dedup_by_key(|&mut (function, _)| function);
    (slots, members)
}

fn reached_from_seeds_alone(graph: &Graph, blocked: &Set, start: &Start<'_>) -> Set {
    let seeds = graph.reach(start.seeds.iter().copied(), blocked);
    let negatives = graph.reach(start.negatives.iter().copied(), blocked);
    seeds.into_iter().zip(negatives).map(|(seed, negative)| seed && !negative).collect()
}

/// The table with most functions that call an allocator beneath themselves.
fn device(classes: &Classes, sinks: &[Function]) -> Option<usize> {
    let calls = |table: usize| classes.tables[table].slots.iter().flatten().filter(|function| sinks.contains(function)).count();
    let best = (0..classes.tables.len()).max_by_key(|&table| (calls(table), std::cmp::Reverse(table)))?;
    (calls(best) > 0).then_some(best)
}

/// Every reference of a function to a virtual table: function, class, instruction.
fn makers(program: &Program, classes: &Classes) -> Vec<(Function, usize, u64)> {
    let found = program.references.iter().filter_map(|reference| Some((reference.from, classes.at(reference.to)?.class, reference.at)));
    found.collect()
}

/// Functions that make objects of a family and are none of its members.
fn made_by(makers: &[(Function, usize, u64)], classes: &Classes, family: &[bool]) -> Vec<(Function, u64)> {
    let mut found: Vec<(Function, u64)> = makers.iter().filter(|&&(_, class, _)| family[class]).map(|&(function, _, at)| (function, at)).collect();
    found.sort_unstable();
    found.dedup_by_key(|&mut (function, _)| function);
    let mut own: Vec<Function> =
        classes.tables.iter().filter(|table| family[table.class]).flat_map(|table| table.slots.iter().flatten().copied()).collect();
    own.sort_unstable();
    found.retain(|(function, _)| own.binary_search(function).is_err());
    found
}

/// Slots of the device's table whose functions make objects of the family.
fn making_slots(classes: &Classes, table: usize, makes: &[(Function, u64)]) -> Vec<(u32, Function)> {
    let slots = classes.tables[table].slots.iter().enumerate();
    slots
        .filter_map(|(index, &function)| {
            let function = function.filter(|function| makes.binary_search_by_key(function, |&(maker, _)| maker).is_ok())?;
            Some((index as u32 * 8, function))
        })
        .collect()
}

/// Functions that call one of these slots through a table, where few tables have so many slots.
fn callers(program: &Program, classes: &Classes, slots: &[(u32, Function)]) -> Vec<(Function, Why)> {
    let candidates = |offset: u32| {
        let mut all: Vec<Function> = classes.tables.iter().filter_map(|table| table.slots.get(offset as usize / 8).copied().flatten()).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let telling: Vec<u32> = slots.iter().map(|&(offset, _)| offset).filter(|&offset| candidates(offset) <= MOST_CANDIDATES).collect();
    let calls = program.table_calls.iter().filter(|call| telling.contains(&call.offset));
    calls.map(|call| (call.from, Why::CallsSlot(call.at, call.offset))).collect()
}
