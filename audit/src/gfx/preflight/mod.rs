//! Before a workload starts: which devices it will be shown, and whether the runtime it loads knows them.
//!
//! Reading order: [`dialect`], [`simulator`], [`topology`] (where a target comes from), [`device`] (what the thunk makes of it).

pub mod device;
pub mod dialect;
pub mod simulator;
pub mod topology;
