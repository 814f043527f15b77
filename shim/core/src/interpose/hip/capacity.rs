//! What a card has: the quota where it is less, and of that what can really still be had.

use core::ffi::c_void;

use super::abi::{ATTRIBUTE_TOTAL, LIMIT_HEAP, SUCCESS, Status, TOTAL_R0000, TOTAL_R0600};
use super::own;
use crate::interpose::{Call, cards};
use crate::shim;

/// `hipMemGetInfo`
pub unsafe fn info(call: &Call, real: unsafe extern "C" fn(*mut usize, *mut usize) -> Status, free: *mut usize, total: *mut usize) -> Status {
    let (mut driver_free, mut driver_total) = (0, 0);
    // SAFETY: where the caller has no place for a number the runtime is told so, and may refuse; else it gets ours.
    let status =
        unsafe { real(if free.is_null() { free } else { &raw mut driver_free }, if total.is_null() { total } else { &raw mut driver_total }) };
    if status != SUCCESS {
        call.failed();
        return status;
    }
    let (whole, left) = own::current_device(call)
        .map_or((driver_total as u64, driver_free as u64), |device| room(call, device, driver_total as u64, driver_free as u64));
    // SAFETY: the caller's own places, null allowed for.
    unsafe {
        if !total.is_null() {
            *total = whole as usize;
        }
        if !free.is_null() {
            *free = if total.is_null() { left } else { left.min(whole) } as usize;
        }
    }
    status
}

/// `hipDeviceTotalMem`
pub unsafe fn total(call: &Call, real: unsafe extern "C" fn(*mut usize, i32) -> Status, bytes: *mut usize, device: i32) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let status = unsafe { real(bytes, device) };
    // SAFETY: on success the runtime has written there.
    unsafe { clamp(call, status, device, bytes.cast()) }
}

/// `hipGetDeviceProperties`, `hipGetDevicePropertiesR0000`
pub unsafe fn properties(call: &Call, real: unsafe extern "C" fn(*mut c_void, i32) -> Status, properties: *mut c_void, device: i32) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for; on success the structure of that layout is filled.
    unsafe {
        let status = real(properties, device);
        clamp(call, status, device, field(properties, TOTAL_R0000))
    }
}

/// `hipGetDevicePropertiesR0600`
pub unsafe fn properties_0600(call: &Call, real: unsafe extern "C" fn(*mut c_void, i32) -> Status, properties: *mut c_void, device: i32) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for; on success the structure of that layout is filled.
    unsafe {
        let status = real(properties, device);
        clamp(call, status, device, field(properties, TOTAL_R0600))
    }
}

/// `hipDeviceGetAttribute`: the total as an `int`, cut at its end as the runtime does.
pub unsafe fn attribute(
    call: &Call,
    real: unsafe extern "C" fn(*mut i32, i32, i32) -> Status,
    value: *mut i32,
    attribute: i32,
    device: i32,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let status = unsafe { real(value, attribute, device) };
    if attribute != ATTRIBUTE_TOTAL {
        return status;
    }
    // SAFETY: the caller's own place; null is allowed for, and the runtime has written there on success.
    let Some(value) = (unsafe { value.as_mut() }) else { return status };
    let mut total = u64::from(value.unsigned_abs());
    // SAFETY: a number of our own.
    let status = unsafe { clamp(call, status, device, &raw mut total) };
    if status == SUCCESS {
        *value = i32::try_from(total).unwrap_or(i32::MAX);
    }
    status
}

/// `hipDeviceGetLimit`: 5.x answers the size of the card as the limit of the heap.
pub unsafe fn limit(call: &Call, real: unsafe extern "C" fn(*mut usize, i32) -> Status, value: *mut usize, limit: i32) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let status = unsafe { real(value, limit) };
    if limit != LIMIT_HEAP {
        return status;
    }
    match own::current_device(call) {
        // SAFETY: on success the runtime has written there.
        Some(device) => unsafe { clamp(call, status, device, value.cast()) },
        None => status,
    }
}

unsafe fn field(structure: *mut c_void, offset: usize) -> *mut u64 {
    if structure.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: the caller of the runtime's function has room for a whole structure of that layout.
    unsafe { structure.cast::<u8>().add(offset).cast() }
}

/// Lowers a total that the runtime has written to the quota of its card.
unsafe fn clamp(call: &Call, status: Status, device: i32, total: *mut u64) -> Status {
    if status != SUCCESS {
        call.failed();
    } else if !total.is_null() {
        // SAFETY: the runtime has written there; the structures are the caller's, of no particular alignment.
        unsafe { total.write_unaligned(room(call, device, total.read_unaligned(), 0).0) };
    }
    status
}

fn room(call: &Call, device: i32, total: u64, free: u64) -> (u64, u64) {
    match cards::device(call, device) {
        Some(card) => shim::room(&card.of(), total, free),
        None => (total, 0),
    }
}
