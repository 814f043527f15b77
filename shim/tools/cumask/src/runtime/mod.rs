//! The libraries of ROCm, opened at run time: the program is built without them and starts without them.
//!
//! 1. [`library`]: opening one, and finding its functions.
//! 2. [`hsa`]: what cards there are. [`rtc`]: the kernel, compiled. [`hip`]: the kernel, run.
//! 3. [`probe`]: all of it in one process, whose environment decides what mask it is under. [`child`]: such a process, started and waited for.

pub mod child;
pub mod hip;
pub mod hsa;
pub mod library;
pub mod probe;
pub mod rtc;
