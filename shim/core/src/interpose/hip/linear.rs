//! Memory by address: hipMalloc and its kin.

use core::ffi::c_void;

use super::{charged, refunded, takes};
use crate::interpose::{Call, cards, keys};

type Malloc = unsafe extern "C" fn(*mut *mut c_void, usize) -> i32;
type Free = unsafe extern "C" fn(*mut c_void) -> i32;

/// `hipMalloc`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn malloc(call: &Call, real: Malloc, pointer: *mut *mut c_void, size: usize) -> i32 {
    let card = cards::current(call);
    let bytes = size as u64;
    charged(
        call,
        card.as_ref().map(|(_, card)| card),
        takes(call, bytes),
        // SAFETY: the caller's.
        || unsafe { real(pointer, size) },
        // SAFETY: the runtime has succeeded, so there was room for its answer.
        || Some((keys::hip(unsafe { *pointer }), bytes)),
    )
}

/// `hipFree`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn free(call: &Call, real: Free, pointer: *mut c_void) -> i32 {
    // SAFETY: the caller's.
    refunded(call, keys::hip(pointer), || unsafe { real(pointer) })
}
