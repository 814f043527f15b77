//! What the end-to-end tests share.
//!
//! For the readers: [`files`] finds the ELF files of the machine and the unpacked real libraries, [`facts`] holds what two readers are compared
//! by, [`readelf`] fills it from the output of binutils, [`walk`] calls every reader on any bytes.
//!
//! For the shim, the real HIP runtimes over a mock HSA, in reading order:
//!
//! 1. [`corpus`]: where the real libraries are, and what is missing.
//! 2. [`mock`]: one run's mock HSA: its knobs, and its record of what really happened.
//! 3. [`runtime`]: a HIP runtime that can be run, put together from the corpus.
//! 4. [`driver`]: calls in a process of its own, and what they answered.
//! 5. [`paths`]: every way to take memory and to give it back.
//! 6. [`shim`]: the library under test, and its ledger beside the record.
//! 7. [`hashcat`]: a real program on top.

pub mod corpus;
pub mod driver;
pub mod facts;
pub mod files;
pub mod hashcat;
pub mod mock;
pub mod paths;
pub mod readelf;
pub mod runtime;
pub mod shim;
pub mod walk;
