//! Physical memory and its mappings.
//!
//! Memory goes when nobody refers to its handle and nothing maps it; giving the handle back alone frees nothing. Where there is
//! HSA beneath, HSA counts; the counts here are for a runtime without.

use core::ffi::c_void;

use super::abi::{LOCATION_DEVICE, Location, PROP_LOCATION, PROP_LOCATION_5_2, SUCCESS, Status};
use super::admit::{self, Want};
use super::own;
use crate::interpose::{Call, keys};
use crate::shim::{self, Count};

/// `hipMemCreate`: charged to the card that the properties name. Memory of the host passes.
pub unsafe fn create(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, usize, *const c_void, u64) -> Status,
    handle: *mut *mut c_void,
    size: usize,
    properties: *const c_void,
    flags: u64,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(handle, size, properties, flags) };
    if properties.is_null() {
        return driver();
    }
    let offset = if own::is_5_2(call) { PROP_LOCATION_5_2 } else { PROP_LOCATION };
    // SAFETY: the structure has 32 bytes in all releases, with the location there.
    let location: Location = unsafe { properties.byte_add(offset).cast::<Location>().read_unaligned() };
    let bytes = if location.kind == LOCATION_DEVICE { size as u64 } else { 0 };
    let want = Want { device: Some(location.id), ..Want::here(Some(bytes)) };
    // SAFETY: on success the runtime has written there.
    admit::take(call, want, !handle.is_null(), driver, || unsafe { (*handle, bytes) })
}

/// `hipMemRelease`
pub unsafe fn release(call: &Call, real: unsafe extern "C" fn(*mut c_void) -> Status, handle: *mut c_void) -> Status {
    let key = keys::hip(handle);
    let counted = shim::count(key, -1, 0);
    // SAFETY: the caller's own argument, to the function it was meant for.
    let status = unsafe { real(handle) };
    if status == SUCCESS {
        shim::drop_claim(counted);
    } else {
        shim::uncount(counted, key, -1, 0);
        call.failed();
    }
    status
}

/// `hipMemRetainAllocationHandle`
pub unsafe fn retain(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *mut c_void) -> Status,
    handle: *mut *mut c_void,
    address: *mut c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let status = unsafe { real(handle, address) };
    if status != SUCCESS {
        call.failed();
    } else if !handle.is_null() {
        // SAFETY: on success the runtime has written there.
        let _ = shim::count(keys::hip(unsafe { *handle }), 1, 0);
    }
    status
}

/// `hipMemMap`: the mapping keeps the memory, whatever becomes of the handle.
pub unsafe fn map(
    call: &Call,
    real: unsafe extern "C" fn(*mut c_void, usize, usize, *mut c_void, u64) -> Status,
    address: *mut c_void,
    size: usize,
    offset: usize,
    handle: *mut c_void,
    flags: u64,
) -> Status {
    let key = keys::hip(handle);
    // Before the driver: another thread may give the handle back meanwhile.
    let counted = shim::count(key, 0, 1);
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let status = unsafe { real(address, size, offset, handle, flags) };
    if status != SUCCESS {
        shim::uncount(counted, key, 0, 1);
        call.failed();
    } else if matches!(counted, Count::Kept) {
        shim::note(keys::mapping(address), handle as u64);
    }
    status
}

/// `hipMemUnmap`
pub unsafe fn unmap(call: &Call, real: unsafe extern "C" fn(*mut c_void, usize) -> Status, address: *mut c_void, size: usize) -> Status {
    // Where there is HSA beneath, the note is that layer's.
    let noted = if call.runtime.is_above_hsa() { None } else { shim::take_note(keys::mapping(address)) };
    let key = noted.map(|handle| keys::hip(handle as *const c_void));
    let counted = key.map_or(Count::Unknown, |key| shim::count(key, 0, -1));
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let status = unsafe { real(address, size) };
    if status == SUCCESS {
        shim::drop_claim(counted);
        return status;
    }
    if let Some((handle, key)) = noted.zip(key) {
        shim::uncount(counted, key, 0, -1);
        shim::note(keys::mapping(address), handle);
    }
    call.failed();
    status
}
