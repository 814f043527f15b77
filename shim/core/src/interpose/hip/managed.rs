//! Managed memory. Beneath it shows when it is made and never when it is given back, so it is charged and refunded here.
//!
//! It is charged whole to the card that is current when it is made, though its pages may live in the host's memory: which of
//! them are on the card is the driver's decision from moment to moment, and nobody can be asked.

use core::ffi::{c_char, c_void};

use super::abi::Status;
use super::admit::{self, Want};
use crate::interpose::Call;

/// `hipMallocManaged`
pub unsafe fn malloc(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> Status,
    pointer: *mut *mut c_void,
    size: usize,
    flags: u32,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(pointer, size, flags) };
    let want = Want { keep: admit::Keep::Always, ..Want::here(Some(size as u64)) };
    // SAFETY: on success the runtime has written there.
    admit::take(call, want, !pointer.is_null(), driver, || unsafe { (*pointer, size as u64) })
}

type RegisterVar = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void, *const c_char, usize, u32);

/// `__hipRegisterManagedVar`: up to 6.4 the variable's memory is taken now, from 7 on when it is first used.
///
/// There is no way to answer that there is no room. The runtime ends the process when it gets none itself; so the variable is
/// not registered then, its address stays null, and what uses it fails like any null pointer. The refusal has been said.
#[allow(clippy::too_many_arguments, reason = "the runtime's own")]
pub unsafe fn register_variable(
    call: &Call,
    real: RegisterVar,
    binary: *mut c_void,
    pointer: *mut *mut c_void,
    initial: *mut c_void,
    name: *const c_char,
    size: usize,
    align: u32,
) {
    let want = Want { keep: admit::Keep::AddTo(binary), ..Want::here(Some(size as u64)) };
    admit::take(
        call,
        want,
        true,
        || {
            // SAFETY: the caller's own arguments, to the function they were meant for.
            unsafe { real(binary, pointer, initial, name, size, align) };
            super::abi::SUCCESS
        },
        || (binary, size as u64),
    );
}

/// `__hipUnregisterFatBinary`
pub unsafe fn unregister_binary(call: &Call, real: unsafe extern "C" fn(*mut c_void), binary: *mut c_void) {
    admit::give_back(call, binary, || {
        // SAFETY: the caller's own argument, to the function it was meant for.
        unsafe { real(binary) };
        super::abi::SUCCESS
    });
}
