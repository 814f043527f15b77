//! Which allocators of the family beneath an export reaches, by which ways, and whether that is all that it reaches.
//!
//! A *way* goes by direct calls, the own PLT included, and by calls through virtual tables where something speaks for one of them; such a step is one of
//! several and says of how many, so that a way seen need not be one that is taken. The functions that half of all exports call first are not passed: what
//! they allocate at first use is no export's own.
//!
//! *Followed* is an export from which no call leads nobody knows where, through a table or otherwise: what it reaches is then known. To be on
//! the safe side every function whose address is made on the way counts as called, and every slot of a virtual table that is made. Of all others
//! nothing bounds what they reach but what the whole runtime imports, which is the rule of `coverage` for `covered-below`.

use std::collections::HashMap;

use super::core::Core;
use super::graph::{Edge, Graph, Set, Ways};
use super::subject::{Address, Beneath, Step, Way};
use crate::code::classes::Classes;
use crate::code::program::{Function, Program, Target};

/// Functions that a call through a table may lead to at most, to be part of a way.
const MOST_CANDIDATES: usize = 12;

/// Edges through tables, or by addresses made, at most; HIP 7.2.4 has 90 thousand. A file with more is not followed.
const MOST_EDGES: usize = 1 << 21;
/// Imports that take memory at most; HIP has 5.
const MOST_SINKS: usize = 64;

/// An import that takes memory beneath.
#[derive(Debug, Clone)]
pub struct Sink {
    /// Its index in `DT_SYMTAB`.
    pub symbol: u32,
    /// Its name.
    pub name: String,
    /// True if every use is a relocation by name.
    pub preload_wins: bool,
}

/// What the functions of one program reach.
#[derive(Debug)]
pub struct Reach<'a> {
    program: &'a Program,
    sinks: &'a [Sink],
    candidates: HashMap<u32, Vec<Function>>,
    /// For each sink the functions that call it.
    callers: Vec<Vec<Function>>,
    /// For each sink the ways to a function that calls it.
    ways: Vec<Ways>,
    /// Everything that a function may lead to by what can be followed.
    whole: Graph,
    /// Ways to a call that cannot be followed.
    lost: Ways,
}

impl<'a> Reach<'a> {
    /// Reads the program once for all exports; nothing where it has more of anything than a runtime has.
    pub fn new(program: &'a Program, classes: &Classes, graph: &Graph, blocked: &Set, core: Option<&Core>, sinks: &'a [Sink]) -> Option<Self> {
        if sinks.is_empty() || sinks.len() > MOST_SINKS {
            return None;
        }
        let candidates = candidates(classes);
        let made = makers(program, classes);
        let wide = graph.with(through_tables(program, classes, graph, core, &candidates, &made)?.into_iter());
        let callers: Vec<Vec<Function>> = sinks.iter().map(|sink| callers(program, sink.symbol)).collect();
        let ways = callers.iter().map(|callers| wide.ways(callers.iter().copied(), blocked)).collect();
        let functions = program.references.iter().filter_map(|reference| {
            let to = program.starting_at(reference.to)?;
            Some(Edge { from: reference.from, to, at: reference.at })
        });
        let methods = made.iter().flat_map(|&(from, table, at)| {
            let slots = classes.tables[table].slots.iter().copied().flatten();
            slots.map(move |to| Edge { from, to, at })
        });
        let more: Vec<Edge> = functions.chain(methods).take(MOST_EDGES).collect();
        let whole = (more.len() < MOST_EDGES).then(|| graph.with(more.into_iter()))?;
        let nothing = graph.none();
        let lost = program.table_calls.iter().map(|call| call.from).chain(program.unresolved.iter().map(|call| call.from));
        let lost = whole.ways(lost, &nothing);
        Some(Self { program, sinks, candidates, callers, ways, whole, lost })
    }

    /// What an export with this body reaches.
    pub fn of(&self, body: Function) -> Beneath {
        match self.first_lost(body) {
            Some(not_followed) => {
                let found = self.sinks.iter().zip(&self.ways).filter(|(_, ways)| ways.hops[body as usize].is_some());
                Beneath {
                    followed: false,
                    not_followed: Some(Address(not_followed)),
                    ways: found.map(|(sink, ways)| self.way(body, sink, ways)).collect(),
                }
            }
            None => Beneath { followed: true, not_followed: None, ways: self.all(body) },
        }
    }

    /// The call nearest to an export that cannot be followed.
    fn first_lost(&self, body: Function) -> Option<u64> {
        self.lost.hops[body as usize]?;
        let last = self.lost.path(body).last().map_or(body, |edge| edge.to);
        let calls = self.program.table_calls_of(last).iter().map(|call| call.at);
        calls.chain(self.program.unresolved_of(last).iter().map(|call| call.at)).min()
    }

    /// Everything that a followed export reaches.
    fn all(&self, body: Function) -> Vec<Way> {
        let nothing = self.whole.none();
        let reached = self.whole.reach(std::iter::once(body), &nothing);
        let called = self.sinks.iter().zip(&self.callers).filter(|(_, callers)| callers.iter().any(|&function| reached[function as usize]));
        called.map(|(sink, callers)| self.way(body, sink, &self.whole.ways(callers.iter().copied(), &nothing))).collect()
    }

    fn way(&self, body: Function, sink: &Sink, ways: &Ways) -> Way {
        let mut path: Vec<Step> = ways.path(body).iter().map(|edge| self.step(edge)).collect();
        let last = ways.path(body).last().map_or(body, |edge| edge.to);
        let call = self.program.calls_of(last).iter().find(|call| call.to == Target::Symbol(sink.symbol));
        path.extend(call.map(|call| Step { at: Address(call.at), to: None, name: None, one_of: None }));
        Way { import: sink.name.clone(), preload_wins: sink.preload_wins, path }
    }

    fn step(&self, edge: &Edge) -> Step {
        let calls = self.program.table_calls_of(edge.from);
        let through = calls.iter().find(|call| call.at == edge.at).and_then(|call| self.candidates.get(&call.offset));
        Step { at: Address(edge.at), to: Some(Address(self.program.start(edge.to))), name: None, one_of: through.map(Vec::len) }
    }
}

/// Every reference of a function to a virtual table: function, table, instruction; by function.
fn makers(program: &Program, classes: &Classes) -> Vec<(Function, usize, u64)> {
    program.references.iter().filter_map(|reference| Some((reference.from, classes.position(reference.to)?, reference.at))).collect()
}

/// Steps through tables that may be part of a way. Where a function makes objects, its calls through tables may be theirs; below the class of the core
/// through whose table memory is made, they may be of that class; elsewhere a call says something if few functions stand at its offset.
fn through_tables(
    program: &Program,
    classes: &Classes,
    graph: &Graph,
    core: Option<&Core>,
    candidates: &HashMap<u32, Vec<Function>>,
    made: &[(Function, usize, u64)],
) -> Option<Vec<Edge>> {
    let device = core.and_then(|core| core.device_table);
    let nothing = graph.none();
    let below = graph.reach(core.into_iter().flat_map(|core| core.slots.iter().map(|&(_, function)| function)), &nothing);
    let slot = |table: usize, offset: u32| classes.tables[table].slots.get(offset as usize / 8).copied().flatten();
    let mut edges = Vec::new();
    for call in &program.table_calls {
        let from = made.partition_point(|&(function, ..)| function < call.from);
        let own = made[from..].iter().take_while(|&&(function, ..)| function == call.from).map(|&(_, table, _)| table);
        let own = own.chain(device.filter(|_| below[call.from as usize])).filter_map(|table| slot(table, call.offset));
        let few = candidates.get(&call.offset).filter(|all| all.len() <= MOST_CANDIDATES);
        let to = own.chain(few.into_iter().flatten().copied());
        edges.extend(to.map(|to| Edge { from: call.from, to, at: call.at }).take(MOST_EDGES));
        if edges.len() >= MOST_EDGES {
            return None;
        }
    }
    Some(edges)
}

/// Functions that call a symbol themselves, ascending.
fn callers(program: &Program, symbol: u32) -> Vec<Function> {
    let mut found: Vec<Function> = program.calls.iter().filter(|call| call.to == Target::Symbol(symbol)).map(|call| call.from).collect();
    found.dedup();
    found
}

/// By offset, the functions that any virtual table has there.
fn candidates(classes: &Classes) -> HashMap<u32, Vec<Function>> {
    let mut found: HashMap<u32, Vec<Function>> = HashMap::new();
    for table in &classes.tables {
        for (index, function) in table.slots.iter().enumerate() {
            found.entry(index as u32 * 8).or_default().extend(function);
        }
    }
    for all in found.values_mut() {
        all.sort_unstable();
        all.dedup();
    }
    found
}
