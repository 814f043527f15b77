//! Reads the ledger of libvrocm.so (`docs/LEDGER.md`) for people and for programs that collect figures.
//!
//! The ledger is shared memory that other processes change while it is read. What this library must not do: take a lock (a sweeper
//! that finds it would take a dead process for alive), create, write or map the file (a file cut short under a mapping ends the reader).
//!
//! Reading order:
//! 1. [`raw`]: the words of the file, read twice until both readings agree.
//! 2. [`snapshot`]: what they mean: cards, processes, who is alive.
//! 3. [`text`], [`prometheus`]: two ways to print it; JSON is the snapshot itself.
//! 4. [`watch`]: what changed between two snapshots.
#![forbid(unsafe_code)]

pub mod prometheus;
pub mod raw;
pub mod snapshot;
pub mod text;
pub mod watch;
