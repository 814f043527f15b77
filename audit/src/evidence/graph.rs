//! Who reaches whom by direct calls, calls through the own PLT included, and by which way.

use std::collections::VecDeque;

use super::dispatch::Body;
use crate::code::program::{Call, Function, Program, Target};
use crate::elf::SymbolTable;

/// One edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The function it starts at.
    pub from: Function,
    /// The function it leads to.
    pub to: Function,
    /// The instruction.
    pub at: u64,
}

/// Edges by where they start and by where they lead.
#[derive(Debug)]
pub struct Graph {
    count: usize,
    forward: Vec<Edge>,
    backward: Vec<Edge>,
}

/// A set of functions.
pub type Set = Vec<bool>;

/// Functions close by at most; one that has more is no neighbour of anybody's.
const MOST_NEAR: usize = 4096;

/// For each function the first step of a shortest way to a goal.
#[derive(Debug, Default)]
pub struct Ways {
    /// Steps to the nearest goal; `None` where there is no way.
    pub hops: Vec<Option<u32>>,
    next: Vec<Option<Edge>>,
}

impl Graph {
    /// Takes the edges of a program. A call of an own export through the PLT leads to that export; a stub leads to what its slot holds.
    pub fn new(program: &Program, symbols: &SymbolTable<'_>, stubs: impl Iterator<Item = (Function, Body)>) -> Self {
        let mut forward: Vec<Edge> = program.calls.iter().filter_map(|call| edge(call, program, symbols)).collect();
        forward.extend(stubs.filter_map(|(from, body)| match body {
            Body::Slot(stub, to) => Some(Edge { from, to, at: stub.jump }),
            _ => None,
        }));
        Self::of(program.functions.len(), forward)
    }

    /// The same with more edges.
    #[must_use]
    pub fn with(&self, more: impl Iterator<Item = Edge>) -> Self {
        Self::of(self.count, self.forward.iter().copied().chain(more).collect())
    }

    fn of(count: usize, mut forward: Vec<Edge>) -> Self {
        forward.sort_unstable();
        forward.dedup_by_key(|edge| (edge.from, edge.to));
        let mut backward = forward.clone();
        backward.sort_unstable_by_key(|edge| (edge.to, edge.from));
        Self { count, forward, backward }
    }

    /// Edges that start at a function.
    pub fn from(&self, function: Function) -> &[Edge] {
        let from = self.forward.partition_point(|edge| edge.from < function);
        let to = from + self.forward[from..].partition_point(|edge| edge.from == function);
        &self.forward[from..to]
    }

    fn into(&self, function: Function) -> &[Edge] {
        let from = self.backward.partition_point(|edge| edge.to < function);
        let to = from + self.backward[from..].partition_point(|edge| edge.to == function);
        &self.backward[from..to]
    }

    /// A set with no function in it.
    pub fn none(&self) -> Set {
        vec![false; self.count]
    }

    /// Everything reached from some functions, themselves included, without passing through blocked ones.
    pub fn reach(&self, from: impl Iterator<Item = Function>, blocked: &Set) -> Set {
        let mut reached = self.none();
        let mut open: Vec<Function> = from.collect();
        while let Some(function) = open.pop() {
            if std::mem::replace(&mut reached[function as usize], true) {
                continue;
            }
            let onward = self.from(function).iter().map(|edge| edge.to);
            open.extend(onward.filter(|&to| !blocked[to as usize] && !reached[to as usize]));
        }
        reached
    }

    /// Functions at most so many calls away, with the number of calls, the one itself included, without passing through blocked ones.
    pub fn near(&self, from: Function, most: u32, blocked: &Set) -> Vec<(u32, Function)> {
        let mut found = vec![(0, from)];
        let mut at = 0;
        while let Some(&(hops, function)) = found.get(at) {
            at += 1;
            if hops == most {
                continue;
            }
            for edge in self.from(function) {
                if found.len() < MOST_NEAR && !blocked[edge.to as usize] && !found.iter().any(|&(_, known)| known == edge.to) {
                    found.push((hops + 1, edge.to));
                }
            }
        }
        found
    }

    /// Shortest ways from every function to a goal, without passing through blocked functions.
    pub fn ways(&self, goals: impl Iterator<Item = Function>, blocked: &Set) -> Ways {
        let mut ways = Ways { hops: vec![None; self.count], next: vec![None; self.count] };
        let mut open: VecDeque<Function> = VecDeque::new();
        for goal in goals {
            ways.hops[goal as usize] = Some(0);
            open.push_back(goal);
        }
        while let Some(function) = open.pop_front() {
            let hops = ways.hops[function as usize].unwrap_or(0);
            // A way may end in a blocked function but not lead through one.
            if blocked[function as usize] && hops > 0 {
                continue;
            }
            for edge in self.into(function) {
                let from = edge.from as usize;
                if ways.hops[from].is_none() {
                    ways.hops[from] = Some(hops + 1);
                    ways.next[from] = Some(*edge);
                    open.push_back(edge.from);
                }
            }
        }
        ways
    }
}

impl Ways {
    /// The steps from a function to its nearest goal.
    pub fn path(&self, mut from: Function) -> Vec<Edge> {
        let mut path = Vec::new();
        while let Some(edge) = self.next[from as usize] {
            path.push(edge);
            from = edge.to;
        }
        path
    }
}

/// Where a call of a program leads within it.
pub(super) fn edge(call: &Call, program: &Program, symbols: &SymbolTable<'_>) -> Option<Edge> {
    let to = match call.to {
        Target::Function(function) => function,
        Target::Symbol(index) => program.starting_at(symbols.get(index).filter(|symbol| symbol.is_export())?.value)?,
    };
    Some(Edge { from: call.from, to, at: call.at })
}
