//! What the end-to-end tests share: the real HIP runtimes, run over a mock HSA, and a driver that calls them.
//!
//! Reading order:
//!
//! 1. [`corpus`]: where the real libraries are, and what is missing.
//! 2. [`mock`]: one run's mock HSA: its knobs, and its record of what really happened.
//! 3. [`runtime`]: a HIP runtime that can be run, put together from the corpus.
//! 4. [`driver`]: calls in a process of its own, and what they answered.
//! 5. [`hashcat`]: a real program on top.

pub mod corpus;
pub mod driver;
pub mod hashcat;
pub mod mock;
pub mod runtime;
