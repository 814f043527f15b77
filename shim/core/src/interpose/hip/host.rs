//! Host memory is no part of the card and passes. One entry point bears the wrong name in some releases.

use core::ffi::c_void;

use super::abi::{FLAG_HOST_5, Status};
use super::admit::{self, Want};
use super::own;
use crate::interpose::Call;

/// `hipHostAlloc`: 5.x hands its flags to the common allocator, and none of HIP's own flags means host memory there.
pub unsafe fn alloc(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> Status,
    pointer: *mut *mut c_void,
    size: usize,
    flags: u32,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(pointer, size, flags) };
    let of_the_card = own::major(call) == 5 && flags & FLAG_HOST_5 == 0;
    let bytes = if of_the_card { size as u64 } else { 0 };
    // SAFETY: on success the runtime has written there.
    admit::take(call, Want::here(Some(bytes)), !pointer.is_null(), driver, || unsafe { (*pointer, bytes) })
}
