//! Physical memory without an address: handles, and mappings that keep them.
//!
//! The driver frees a handle when it has neither references nor mappings, so both are followed. Counts change before the driver's
//! do: the number of a freed handle may be somebody else's new one at once.

use core::ffi::c_void;

use super::OK;
use super::memory::{charged, pages, passed};
use crate::interpose::keys::{self, kind};
use crate::interpose::{Call, cards};
use crate::shim::{self, Count};

type Create = unsafe extern "C" fn(u64, usize, u32, u64, *mut u64) -> u32;
type Release = unsafe extern "C" fn(u64) -> u32;
type Map = unsafe extern "C" fn(*mut c_void, usize, usize, u64, u64) -> u32;
type Unmap = unsafe extern "C" fn(*mut c_void, usize) -> u32;
type Retain = unsafe extern "C" fn(*mut u64, *mut c_void) -> u32;
type Import = unsafe extern "C" fn(i32, *mut u64) -> u32;
type AddressFree = unsafe extern "C" fn(*mut c_void, usize) -> u32;

/// `hsa_amd_vmem_handle_create`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn create(call: &Call, real: Create, pool: u64, size: usize, kind: u32, flags: u64, handle: *mut u64) -> u32 {
    // SAFETY: the caller's.
    let run = || unsafe { real(pool, size, kind, flags, handle) };
    let Some(card) = cards::of_handle(call.runtime, pool) else { return passed(call, run()) };
    // SAFETY: the runtime has succeeded, so there was room for its answer.
    charged(call, card, pages(size as u64), kind::PHYSICAL, run, || keys::handle(unsafe { *handle }))
}

/// `hsa_amd_vmem_handle_release`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn release(call: &Call, real: Release, handle: u64) -> u32 {
    let key = keys::handle(handle);
    // Without a reference the driver refuses, and nothing changes.
    let held = shim::find(key).is_some_and(|entry| entry.refs != 0);
    let counted = if held { shim::count(key, -1, 0) } else { Count::Unknown };
    // SAFETY: the caller's.
    let status = unsafe { real(handle) };
    if status == OK {
        shim::drop_claim(counted);
    } else {
        shim::uncount(counted, key, -1, 0);
    }
    passed(call, status)
}

/// `hsa_amd_vmem_map`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn map(call: &Call, real: Map, address: *mut c_void, size: usize, offset: usize, handle: u64, flags: u64) -> u32 {
    let key = keys::handle(handle);
    let counted = shim::count(key, 0, 1);
    // SAFETY: the caller's.
    let status = unsafe { real(address, size, offset, handle, flags) };
    match counted {
        Count::Kept if status == OK => shim::note(keys::mapping(address), handle),
        // The last reference may have gone meanwhile.
        Count::Kept => shim::drop_claim(shim::count(key, 0, -1)),
        // Somebody else's memory, or the host's.
        Count::Gone(_) | Count::Unknown => {}
    }
    passed(call, status)
}

/// `hsa_amd_vmem_unmap`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn unmap(call: &Call, real: Unmap, address: *mut c_void, size: usize) -> u32 {
    let noted = shim::take_note(keys::mapping(address));
    let counted = noted.map_or(Count::Unknown, |handle| shim::count(keys::handle(handle), 0, -1));
    // SAFETY: the caller's.
    let status = unsafe { real(address, size) };
    if status == OK {
        shim::drop_claim(counted);
    } else if let Some(handle) = noted {
        shim::uncount(counted, keys::handle(handle), 0, -1);
        shim::note(keys::mapping(address), handle);
    }
    passed(call, status)
}

/// `hsa_amd_vmem_retain_alloc_handle`: one more reference to what is mapped there.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn retain(call: &Call, real: Retain, handle: *mut u64, address: *mut c_void) -> u32 {
    // SAFETY: the caller's.
    let status = unsafe { real(handle, address) };
    if status == OK {
        // SAFETY: the runtime has succeeded, so there was room for its answer.
        let _ = shim::count(keys::handle(unsafe { *handle }), 1, 0);
    }
    passed(call, status)
}

/// `hsa_amd_vmem_import_shareable_handle`: memory of this process gets one more reference; memory of another is paid for there.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn import(call: &Call, real: Import, fd: i32, handle: *mut u64) -> u32 {
    // SAFETY: the caller's.
    let status = unsafe { real(fd, handle) };
    if status == OK {
        // SAFETY: the runtime has succeeded, so there was room for its answer.
        let _ = shim::count(keys::handle(unsafe { *handle }), 1, 0);
    }
    passed(call, status)
}

/// `hsa_amd_vmem_address_free`: managed memory at the address goes with it.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn address_free(call: &Call, real: AddressFree, address: *mut c_void, size: usize) -> u32 {
    // SAFETY: the caller's.
    super::memory::refunded(call, keys::managed(address), || unsafe { real(address, size) })
}
