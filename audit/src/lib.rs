//! Static auditor for GPU interposers: which doors a shim leaves open, whether it loads everywhere, which GPUs a runtime knows.
//!
//! It reads ELF files as bytes; it never loads, links or runs what it audits.
//!
//! Reading order, from the ground up. Arrows point down only: an audit uses the floors below it and no other audit.
//!
//! 1. [`elf`]: facts of one file, no judgement.
//! 2. [`code`]: machine code of one file, no judgement.
//! 3. [`finding`]: the shape of what an audit says.
//! 4. [`gfx`]: which GPU targets a runtime knows.

pub mod code;
pub mod elf;
pub mod finding;
pub mod gfx;
