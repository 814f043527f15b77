//! Arrays and mipmapped arrays. Where HSA refuses one, CLR answers success with host memory: no byte of the card is taken then.

use core::ffi::c_void;

use super::abi::{Array3dDesc, ArrayDesc, ChannelDesc, Extent, Status};
use super::admit::{self, Want};
use super::sizes;
use crate::interpose::Call;

/// `hipArrayLayered`
const LAYERED: u32 = 1;

type MallocArray = unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, usize, usize, u32) -> Status;
type Malloc3dArray = unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, Extent, u32) -> Status;
type MallocMipmapped = unsafe extern "C" fn(*mut *mut c_void, *const ChannelDesc, Extent, u32, u32) -> Status;

/// `hipMallocArray`
pub unsafe fn malloc(
    call: &Call,
    real: MallocArray,
    array: *mut *mut c_void,
    desc: *const ChannelDesc,
    width: usize,
    height: usize,
    flags: u32,
) -> Status {
    // SAFETY: the caller's own argument; null is allowed for.
    let size = unsafe { desc.as_ref() }.map_or(Some(0), |desc| sizes::array(desc, Extent { width, height, depth: 0 }));
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { take(call, array, size, || real(array, desc, width, height, flags)) }
}

/// `hipMalloc3DArray`
pub unsafe fn malloc_3d(call: &Call, real: Malloc3dArray, array: *mut *mut c_void, desc: *const ChannelDesc, extent: Extent, flags: u32) -> Status {
    // SAFETY: the caller's own argument; null is allowed for.
    let size = unsafe { desc.as_ref() }.map_or(Some(0), |desc| sizes::array(desc, extent));
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { take(call, array, size, || real(array, desc, extent, flags)) }
}

/// `hipArrayCreate`
pub unsafe fn create(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *const ArrayDesc) -> Status,
    array: *mut *mut c_void,
    desc: *const ArrayDesc,
) -> Status {
    // SAFETY: the caller's own argument; null is allowed for.
    let size = unsafe { desc.as_ref() }.map_or(Some(0), sizes::array_of);
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { take(call, array, size, || real(array, desc)) }
}

/// `hipArray3DCreate`
pub unsafe fn create_3d(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *const Array3dDesc) -> Status,
    array: *mut *mut c_void,
    desc: *const Array3dDesc,
) -> Status {
    // SAFETY: the caller's own argument; null is allowed for.
    let size = unsafe { desc.as_ref() }.map_or(Some(0), sizes::array_of_3d);
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { take(call, array, size, || real(array, desc)) }
}

/// `hipMallocMipmappedArray`
pub unsafe fn malloc_mipmapped(
    call: &Call,
    real: MallocMipmapped,
    array: *mut *mut c_void,
    desc: *const ChannelDesc,
    extent: Extent,
    levels: u32,
    flags: u32,
) -> Status {
    // SAFETY: the caller's own argument; null is allowed for.
    let size = unsafe { desc.as_ref() }.map_or(Some(0), |desc| sizes::mipmap(sizes::channel_bytes(desc), extent, levels, flags & LAYERED != 0));
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { take(call, array, size, || real(array, desc, extent, levels, flags)) }
}

/// `hipMipmappedArrayCreate`
pub unsafe fn create_mipmapped(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *mut Array3dDesc, u32) -> Status,
    array: *mut *mut c_void,
    desc: *mut Array3dDesc,
    levels: u32,
) -> Status {
    // SAFETY: the caller's own argument; null is allowed for.
    let size = unsafe { desc.as_ref() }.map_or(Some(0), |desc| {
        let extent = Extent { width: desc.width, height: desc.height, depth: desc.depth };
        sizes::mipmap(sizes::element(desc.format, desc.channels)?, extent, levels, desc.flags & LAYERED != 0)
    });
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { take(call, array, size, || real(array, desc, levels)) }
}

/// `size`: `None` for more than 64 bits can say; 0 where there is no description, which the runtime is left to refuse.
unsafe fn take(call: &Call, array: *mut *mut c_void, size: Option<u64>, driver: impl FnOnce() -> Status) -> Status {
    let want = Want { host_instead: true, ..Want::here(size) };
    // SAFETY: on success the runtime has written there.
    admit::take(call, want, !array.is_null(), driver, || unsafe { (*array, size.unwrap_or(u64::MAX)) })
}
