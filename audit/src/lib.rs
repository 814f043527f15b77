//! Static auditor for GPU interposers: which doors a shim leaves open, whether it loads everywhere, which GPUs a runtime knows.
//!
//! It reads ELF files as bytes; it never loads, links or runs what it audits.
//!
//! Reading order, from the ground up. Arrows point down only: an audit uses the floors below it and no other audit.
//!
//! 1. [`elf`]: facts of one file, no judgement.
//! 2. [`manifest`]: the judgements of `manifests/`, typed and checked.
//! 3. [`loader`]: what the dynamic loader would do with the facts.
//! 4. [`finding`]: the shape of what an audit says.
//! 5. [`coverage`]: everything a runtime exports, minus what a shim interposes.
//! 6. [`report`]: the same findings for people and for programs.
//! 7. [`cli`] and [`commands`]: arguments, and what follows from them.

#![forbid(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod coverage;
pub mod elf;
pub mod finding;
pub mod loader;
pub mod manifest;
pub mod report;
