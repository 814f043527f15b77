//! The HSA layer: the truth of bytes, whoever asked and however the pointer was found.
//!
//! A byte is charged here unless nothing of HSA is beneath the caller. What a HIP call above has reserved is taken first, so that
//! nothing is charged twice.

pub mod image;
pub mod managed;
pub mod memory;
pub mod queue;
pub mod system;
pub mod tables;
pub mod vmem;

/// `HSA_STATUS_SUCCESS`
pub const OK: u32 = 0;
/// `HSA_STATUS_ERROR_OUT_OF_RESOURCES`
pub const OUT_OF_RESOURCES: u32 = 0x1008;
