//! The HIP layer: refuses early and in the runtime's own words, reserves what a call will take and hands it down, charges what HSA
//! does not show, reports the quota, and holds it by itself where there is no HSA beneath.
//!
//! Reading order:
//! 1. [`abi`], [`sizes`], [`own`]: HIP's types, what a request takes, what can be asked of the runtime.
//! 2. [`admit`]: what every wrapper does.
//! 3. [`memory`], [`array`], [`managed`], [`pool`], [`vmm`], [`graph`], [`module`], [`host`], [`limit`]: the wrappers by area of the API.
//! 4. [`capacity`]: what is reported.
//!
//! # Safety
//!
//! Each wrapper takes the arguments of the runtime's function of its name and has that function's demands on them, no others.
#![allow(clippy::missing_safety_doc)]

pub mod abi;
pub mod admit;
pub mod array;
pub mod capacity;
pub mod graph;
pub mod host;
pub mod limit;
pub mod managed;
pub mod memory;
pub mod module;
pub mod own;
pub mod pool;
pub mod sizes;
pub mod vmm;
