//! Start, end, and what the runtime says of its cards.
//!
//! A HIP runtime gets the driver's own figures: what it passes on passes through the HIP layer, and of a small size it would make
//! a cap on single requests, for all cards of the process. Everybody else is told the quota here.

use core::ffi::c_void;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::OK;
use super::memory::passed;
use crate::interpose::keys::kind;
use crate::interpose::{Call, cards, runtimes};
use crate::shim;

type Init = unsafe extern "C" fn() -> u32;
type Info = unsafe extern "C" fn(u64, u32, *mut c_void) -> u32;

/// Of a pool and of a region.
const SIZE: u32 = 2;
const REGION_ALLOC_MAX_SIZE: u32 = 4;
const POOL_ALLOC_MAX_SIZE: u32 = 16;
const MEMORY_AVAIL: u32 = 0xA015;

/// `hsa_init`: from here on what a HIP runtime takes is seen.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn init(call: &Call, real: Init) -> u32 {
    runtimes::note_above_hsa(call.caller);
    // SAFETY: the caller's.
    let status = unsafe { real() };
    if status == OK {
        call.runtime.inits.fetch_add(1, Relaxed);
    }
    passed(call, status)
}

/// `hsa_shut_down`: with the last of its users the images of all executables go. What was allocated and never freed may stay
/// with the driver, and stays charged until the process ends.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn shut_down(call: &Call, real: Init) -> u32 {
    // SAFETY: the caller's.
    let status = unsafe { real() };
    if status == OK {
        let before = call.runtime.inits.fetch_update(AcqRel, Acquire, |inits| inits.checked_sub(1));
        if before == Ok(1) {
            cards::forget_agents(call.runtime);
            shim::release_all(|entry| entry.kind == kind::IMAGE);
        }
    }
    passed(call, status)
}

/// `hsa_agent_get_info`: the memory that is to be had.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn agent_info(call: &Call, real: Info, agent: u64, attribute: u32, value: *mut c_void) -> u32 {
    // SAFETY: the caller's.
    let status = unsafe { real(agent, attribute, value) };
    if status == OK && attribute == MEMORY_AVAIL {
        // SAFETY: eight bytes, which the runtime has just written.
        unsafe { report(call, agent, value.cast(), |card, free| shim::room(card, u64::MAX, free).1) };
    }
    passed(call, status)
}

/// `hsa_amd_memory_pool_get_info`: the size.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn pool_info(call: &Call, real: Info, pool: u64, attribute: u32, value: *mut c_void) -> u32 {
    // SAFETY: the caller's.
    let status = unsafe { real(pool, attribute, value) };
    if status == OK && matches!(attribute, SIZE | POOL_ALLOC_MAX_SIZE) {
        // SAFETY: eight bytes, which the runtime has just written.
        unsafe { report(call, pool, value.cast(), |card, total| shim::room(card, total, 0).0) };
    }
    passed(call, status)
}

/// `hsa_region_get_info`: the size.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn region_info(call: &Call, real: Info, region: u64, attribute: u32, value: *mut c_void) -> u32 {
    // SAFETY: the caller's.
    let status = unsafe { real(region, attribute, value) };
    if status == OK && matches!(attribute, SIZE | REGION_ALLOC_MAX_SIZE) {
        // SAFETY: eight bytes, which the runtime has just written.
        unsafe { report(call, region, value.cast(), |card, total| shim::room(card, total, 0).0) };
    }
    passed(call, status)
}

/// Puts a figure right, if it is a card's and the caller has no layer of ours above it.
unsafe fn report(call: &Call, handle: u64, value: *mut u64, figure: impl FnOnce(&shim::CardOf, u64) -> u64) {
    if call.is_from_hip() {
        return;
    }
    if let Some(card) = cards::of_handle(call.runtime, handle) {
        // SAFETY: the caller's. Nobody says that it is aligned.
        unsafe { value.write_unaligned(figure(&card.of(), value.read_unaligned())) };
    }
}
