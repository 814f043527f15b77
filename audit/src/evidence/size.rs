//! Which exports allocate what their caller asks for: something that the caller passes flows into the call that allocates.

use std::collections::HashSet;

use super::core::{Core, Why};
use super::graph::{self, Graph, Set};
use super::subject::{Export, Verdict};
use crate::code::flow::{self, Arguments, Flow};
use crate::code::program::{Function, Program};
use crate::elf::SymbolTable;

/// The first argument: of a virtual call, the object.
const FIRST: Arguments = 1;
/// Functions that are followed for one export at most, each with another set of arguments.
const MOST: usize = 2_000;

/// Marks every export that reaches the core.
pub fn mark(
    program: &Program,
    graph: &Graph,
    blocked: &Set,
    symbols: &SymbolTable<'_>,
    core: &Core,
    bodies: impl Iterator<Item = Option<Function>>,
    exports: &mut [Export],
) {
    let mut search = Search { program, graph, blocked, symbols, core, flow: Flow::new(program) };
    for (export, body) in exports.iter_mut().zip(bodies) {
        let Some(body) = body.filter(|_| export.verdict == Verdict::Allocates) else { continue };
        let flows = search.flows(body);
        export.caller_sized = Some(flows);
        if flows {
            export.says += "; what the caller passes flows into the allocation";
        }
    }
}

struct Search<'a> {
    program: &'a Program,
    graph: &'a Graph,
    blocked: &'a Set,
    symbols: &'a SymbolTable<'a>,
    core: &'a Core,
    flow: Flow<'a>,
}

impl Search<'_> {
    /// True if something that enters a function reaches the call of the core that allocates.
    fn flows(&mut self, body: Function) -> bool {
        let mut open = vec![(body, flow::ALL)];
        let mut seen = HashSet::new();
        while let Some((function, arguments)) = open.pop() {
            if seen.len() == MOST || !seen.insert((function, arguments)) {
                continue;
            }
            let member = self.core.members.iter().find(|&&(member, _)| member == function).map(|&(_, why)| why);
            let leaving = self.flow.of(function, arguments).to_vec();
            let allocates = match member {
                // Which of its arguments is the object and which a measure is not known: the first is the object.
                Some(Why::Makes(_)) => arguments & !FIRST != 0,
                Some(Why::CallsSlot(at, _)) => leaving.iter().any(|leaving| leaving.at == at && leaving.arguments & !FIRST != 0),
                None => false,
            };
            if allocates {
                return true;
            }
            for leaving in leaving {
                let direct = self.program.calls_of(function).iter().filter(|call| call.at == leaving.at);
                let direct = direct.filter_map(|call| graph::edge(call, self.program, self.symbols));
                let stubs = self.graph.from(function).iter().filter(|edge| edge.at == leaving.at).copied();
                let reaches = |to: Function| self.core.ways.hops[to as usize].is_some() && !self.blocked[to as usize];
                open.extend(direct.chain(stubs).filter(|edge| reaches(edge.to)).map(|edge| (edge.to, leaving.arguments)));
            }
        }
        false
    }
}
