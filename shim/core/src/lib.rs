//! The shim without its exports: quota, ledger and key table, for a library that is loaded into every process of a container.
//!
//! What this code must not do: allocate, panic, use thread-locals, call libc, hold a lock while the driver runs, end or hang
//! the process. So there is no standard library here (the tests have one), every index is checked or cut, every wait has an end.
//!
//! Reading order:
//! 1. [`card`]: which card.
//! 2. [`quota`]: how much of it.
//! 3. [`ledger`]: who holds what, and who may have more.
//! 4. [`table`]: what each pointer of this process was charged.
//! 5. [`sys`]: the kernel and the loader, without libc.
//! 6. [`shim`]: the one instance of all this in a process.
//! 7. [`interpose`]: the entry points that are interposed, what each does, and whose function it calls.
#![cfg_attr(not(test), no_std)]

pub mod card;
pub mod interpose;
pub mod ledger;
pub mod quota;
pub mod shim;
pub mod sys;
pub mod table;
