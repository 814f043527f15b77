//! What the shim asks of the kernel and of the loader, without libc.
//!
//! A preload that imports `fstat` or `open64` ties itself to a glibc version and to the calls that another preload may have
//! hooked. System calls by number do neither, set no `errno` and are safe between `fork` and `exec`.
//!
//! 1. [`raw`]: the calls, one function each.
//! 2. [`file`]: descriptors that close themselves, the facts of a file, byte-range locks.
//! 3. [`private`]: memory that a forked child sees empty.
//! 4. [`thread`]: who is calling, without thread-locals; waiting with a bound.
//! 5. [`text`], [`log`]: lines on standard error, without allocation.
//! 6. [`loaded`]: symbols of the objects that are in the process, however they were opened.

pub mod file;
pub mod loaded;
pub mod log;
pub mod private;
pub mod raw;
pub mod text;
pub mod thread;
