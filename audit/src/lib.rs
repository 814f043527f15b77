//! Static auditor for GPU interposers: which doors a shim leaves open, whether it loads everywhere, which GPUs a runtime knows.
//!
//! It reads ELF files as bytes; it never loads, links or runs what it audits.
//!
//! Reading order, from the ground up. Arrows point down only: an audit uses the floors below it and no other audit.
//!
//! 0. [`parallel`]: work shared by all processors; [`root`]: paths inside a root file system; [`archive`]: files inside directories, packages, wheels, tarballs and images.
//! 1. [`elf`]: facts of one file, no judgement.
//! 2. [`code`]: machine code of one file, no judgement.
//! 3. [`manifest`]: the judgements of `manifests/`, typed and checked.
//! 4. [`loader`]: what the dynamic loader would do with the facts.
//! 5. [`finding`]: the shape of what an audit says.
//! 6. [`coverage`]: everything a runtime exports, minus what a shim interposes.
//! 7. [`gfx`]: which GPU targets a runtime knows.
//! 8. [`linkage`]: whether a shim loads everywhere, and what it imposes on every process.
//! 9. [`evidence`]: what a runtime's machine code says of its exports.
//! 10. [`consumers`]: which files reach a runtime, and whether the shim stands in their way.
//! 11. [`bindings`]: what one program loads, and which definition each of its references to a runtime gets.
//! 12. [`diff`]: what a newer runtime, shim or manifest adds and takes away.
//! 13. [`gate`]: all audits of one configuration as one table.
//! 14. [`report`]: the same findings for people and for programs.
//! 15. [`cli`] and [`commands`]: arguments, and what follows from them.

#![forbid(unsafe_code)]

pub mod archive;
pub mod bindings;
pub mod cli;
pub mod code;
pub mod commands;
pub mod consumers;
pub mod coverage;
pub mod diff;
pub mod elf;
pub mod evidence;
pub mod finding;
pub mod gate;
pub mod gfx;
pub mod linkage;
pub mod loader;
pub mod manifest;
pub mod parallel;
pub mod report;
pub mod root;
