//! The cheap alarm: exports that share a function with the seeds close by.
//!
//! It needs no type information and no virtual tables, so it speaks where the core cannot be named; and it names no function that allocates. On the four
//! builds it finds every allocator that the core finds (docs/measurements/evidence.md), among half as many again that are none.

use super::graph::{Graph, Set};
use crate::code::program::Function;

/// Calls between a body and the shared function at most.
const NEAR: u32 = 2;
/// The same for exports whose business is another one.
const LESS_NEAR: u32 = 3;
/// A function that more than one of so many exports have close by is bookkeeping.
const FEW: usize = 5;
/// In a library of few exports: these share a function before it counts as bookkeeping.
const AT_LEAST: usize = 3;

/// `others` are bodies of exports that allocate nothing for certain, or whose business is another one. For each body the shared function that is nearest to it, the one at the lowest address where several are; none without seeds.
pub fn raised(graph: &Graph, blocked: &Set, bodies: &[Option<Function>], seeds: &[Function], others: &[Function]) -> Vec<Option<Function>> {
    let near: Vec<Vec<(u32, Function)>> = bodies.iter().map(|body| body.map_or(Vec::new(), |body| graph.near(body, NEAR, blocked))).collect();
    let mut users = vec![0_usize; graph.none().len()];
    near.iter().flatten().for_each(|&(_, function)| users[function as usize] += 1);
    let mut telling = graph.none();
    for (of, most, tells) in [(seeds, NEAR, true), (others, LESS_NEAR, false)] {
        let close = of.iter().flat_map(|&body| graph.near(body, most, blocked));
        close.for_each(|(_, function)| telling[function as usize] = tells);
    }
    let most = (bodies.len() / FEW).max(AT_LEAST);
    let tells = |function: Function| telling[function as usize] && users[function as usize] <= most;
    near.into_iter().map(|near| near.into_iter().filter(|&(_, function)| tells(function)).min().map(|(_, function)| function)).collect()
}
