//! What the dynamic loader would do with these files, decided without running it.
//!
//! [`binding`]: whether a definition satisfies a reference, as glibc's look-up decides it. [`shim`]: what a preloaded shim has under a name.

pub mod binding;
pub mod shim;
