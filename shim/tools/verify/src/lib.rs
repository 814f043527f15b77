//! `vrocm-verify`: proves on the host at hand that `libvrocm.so` holds every process to its quota.
//!
//! The program never calls HIP itself. It starts itself again as a probe, with the library preloaded or without it, and judges what the probe answers: a
//! probe that dies or hangs is a FAIL row, never the end of the run.
//!
//! Reading order:
//! 1. [`row`]: verdicts, rows, and the exit status that follows from them.
//! 2. [`host`]: what the host offers.
//! 3. [`probe`]: the child: one runtime, opened, and its entry points by name.
//! 4. [`child`]: the parent's side of it: commands, answers, time limits.
//! 5. [`counters`]: what the library says it did, read from its dump.
//! 6. [`paths`]: the ways to take memory, as data. [`kernels`]: what runs on a card, as sources.
//! 7. [`compute`]: what measured figures say.
//! 8. [`bench`]: what a run works with.
//! 9. [`cases`]: the registry, one file per area.
//! 10. [`report`], [`cli`]: rows for people and programs; arguments.

pub mod bench;
pub mod cases;
pub mod child;
pub mod cli;
pub mod compute;
pub mod counters;
pub mod host;
pub mod kernels;
pub mod paths;
pub mod probe;
pub mod report;
pub mod row;
