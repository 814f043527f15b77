//! Whether a compute-unit mask took effect, judged by what the hardware says of the units that ran.
//!
//! The platform discards a mask that it dislikes without an error, a log line or a return code: the container then has the whole card. So
//! nothing here trusts a return code or a time: each wave of a kernel reads its own place out of a hardware register.
//!
//! Reading order:
//! 1. [`family`], [`topology`]: which rules a card follows, and what it has.
//! 2. [`grammar`]: what ROCr makes of the variable.
//! 3. [`place`]: which unit a bit is, and what the platform does with a mask.
//! 4. [`derive`]: a mask for a share of the card. [`measured`]: what cards did with masks.
//! 5. [`hwid`], [`kernel`]: how a wave tells where it runs.
//! 6. [`verdict`], [`picture`], [`report`]: rows, and how they are shown.
//! 7. [`runtime`]: the only part that calls a library; without a card nothing of it is needed.
#![deny(unsafe_code)]

pub mod derive;
pub mod family;
pub mod grammar;
pub mod hwid;
pub mod kernel;
pub mod measured;
pub mod picture;
pub mod place;
pub mod report;
#[allow(unsafe_code, reason = "libraries are opened at run time and called by address")]
pub mod runtime;
pub mod topology;
pub mod verdict;
