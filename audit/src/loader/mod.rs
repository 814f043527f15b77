//! What the dynamic loader would do with these files, decided without running it.
//!
//! [`binding`]: whether a definition satisfies a reference, as glibc's look-up decides it.

pub mod binding;
