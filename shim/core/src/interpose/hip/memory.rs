//! Memory by address: linear, pitched, and every way to give it back.

use core::ffi::c_void;

use super::abi::{Extent, PitchedPtr, Status};
use super::admit::{self, Want};
use super::sizes;
use crate::interpose::Call;

type Malloc = unsafe extern "C" fn(*mut *mut c_void, usize) -> Status;
type MallocFlags = unsafe extern "C" fn(*mut *mut c_void, usize, u32) -> Status;
type Pitch = unsafe extern "C" fn(*mut *mut c_void, *mut usize, usize, usize) -> Status;
type PitchOf = unsafe extern "C" fn(*mut *mut c_void, *mut usize, usize, usize, u32) -> Status;
type Malloc3d = unsafe extern "C" fn(*mut PitchedPtr, Extent) -> Status;
type Free = unsafe extern "C" fn(*mut c_void) -> Status;

/// `hipMalloc`
pub unsafe fn malloc(call: &Call, real: Malloc, pointer: *mut *mut c_void, size: usize) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(pointer, size) };
    // SAFETY: on success the runtime has written there.
    admit::take(call, Want::here(Some(size as u64)), !pointer.is_null(), driver, || unsafe { (*pointer, size as u64) })
}

/// `hipExtMallocWithFlags`: fine-grained and uncached memory of the card; signals are small.
pub unsafe fn malloc_with_flags(call: &Call, real: MallocFlags, pointer: *mut *mut c_void, size: usize, flags: u32) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(pointer, size, flags) };
    // SAFETY: on success the runtime has written there.
    admit::take(call, Want::here(Some(size as u64)), !pointer.is_null(), driver, || unsafe { (*pointer, size as u64) })
}

/// `hipMallocPitch`
pub unsafe fn malloc_pitch(call: &Call, real: Pitch, pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) -> Status {
    let want = Want::here(sizes::pitched(width, height, 1));
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(pointer, pitch, width, height) };
    // SAFETY: on success the runtime has written to both.
    admit::take(call, want, !pointer.is_null() && !pitch.is_null(), driver, || unsafe { (*pointer, rows(*pitch, height, 1)) })
}

/// `hipMemAllocPitch`
pub unsafe fn mem_alloc_pitch(
    call: &Call,
    real: PitchOf,
    pointer: *mut *mut c_void,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> Status {
    let want = Want::here(sizes::pitched(width, height, 1));
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(pointer, pitch, width, height, element) };
    // SAFETY: on success the runtime has written to both.
    admit::take(call, want, !pointer.is_null() && !pitch.is_null(), driver, || unsafe { (*pointer, rows(*pitch, height, 1)) })
}

/// `hipMalloc3D`
pub unsafe fn malloc_3d(call: &Call, real: Malloc3d, pointer: *mut PitchedPtr, extent: Extent) -> Status {
    let want = Want::here(sizes::pitched(extent.width, extent.height, extent.depth));
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(pointer, extent) };
    admit::take(call, want, !pointer.is_null(), driver, || {
        // SAFETY: on success the runtime has written there.
        let made = unsafe { *pointer };
        (made.ptr, rows(made.pitch, extent.height, extent.depth))
    })
}

/// What pitched memory takes once the pitch is known. The runtime has multiplied the same numbers without an overflow.
fn rows(pitch: usize, height: usize, depth: usize) -> u64 {
    sizes::settled(pitch as u64, height, depth).unwrap_or(u64::MAX)
}

/// `hipFree`, `hipFreeArray`, `hipArrayDestroy`, `hipFreeMipmappedArray`, `hipMipmappedArrayDestroy`, `hipHostFree`, `hipFreeHost`,
/// and whatever else gives back by address or handle alone: memory goes by what it is, not by the family it came from.
pub unsafe fn free(call: &Call, real: Free, pointer: *mut c_void) -> Status {
    // SAFETY: the caller's own argument, to the function it was meant for.
    admit::give_back(call, pointer, || unsafe { real(pointer) })
}

/// `hipDeviceReset`: the runtime drops everything that it holds of the current card.
pub unsafe fn device_reset(call: &Call, real: unsafe extern "C" fn() -> Status) -> Status {
    let device = super::own::current_device(call);
    // SAFETY: the function takes nothing.
    let status = unsafe { real() };
    if status != super::abi::SUCCESS {
        call.failed();
    } else if let Some(device) = device {
        admit::give_back_all(call, device);
    }
    status
}
