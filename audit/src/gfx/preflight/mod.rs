//! Before a workload starts: which devices it will be shown, which runtime it would load, and whether that one knows them.
//!
//! A supervisor calls [`ask::ask`] off its event loop, or [`ask::Memory`] where many processes start alike, and prints [`ask::Answer::notice`]:
//! `audit/examples/supervisor.rs`.
//!
//! Reading order: [`dialect`], [`simulator`], [`topology`] (where a target comes from), [`device`] (what the thunk makes of it), `python`
//! (runtimes in packages), `replaced` (who answers in a runtime's place), [`ask`] (the probe), [`decide`] (the verdict, and whether to speak), [`reasons`] (why there is none).

pub mod ask;
pub mod decide;
pub mod device;
pub mod dialect;
mod python;
pub mod reasons;
mod replaced;
pub mod simulator;
pub mod topology;
