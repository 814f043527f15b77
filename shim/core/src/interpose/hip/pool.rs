//! Stream-ordered memory.
//!
//! A pool takes memory from beneath only where it has none that fits, and then in steps of its own: 7.x grows its default pool by
//! chunks of 32 MiB, the others take what is asked for. So a call is first admitted with what it takes at most; where that has no
//! room, with what the pool lacks by its own count. Memory that was freed into the pool is then used again at the quota's edge.
//! 7.x does not survive a refusal in the middle of its growth (it ends the process at exit), which the first admission prevents.

use core::ffi::c_void;
use core::sync::atomic::Ordering::Relaxed;

use super::abi::{SUCCESS, Status};
use super::admit::{self, Want};
use super::{own, sizes};
use crate::interpose::Call;

type MallocAsync = unsafe extern "C" fn(*mut *mut c_void, usize, *mut c_void) -> Status;
type MallocFromPool = unsafe extern "C" fn(*mut *mut c_void, usize, *mut c_void, *mut c_void) -> Status;

/// What the first queue of a device loads of code, at most; it may be loaded in the middle of a call.
const CODE: u64 = 64 << 10;

/// `hipMallocAsync`
pub unsafe fn malloc(call: &Call, real: MallocAsync, pointer: *mut *mut c_void, size: usize, stream: *mut c_void) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { take(call, pointer, size, None, stream, || real(pointer, size, stream)) }
}

/// `hipMallocFromPoolAsync`
pub unsafe fn malloc_from_pool(
    call: &Call,
    real: MallocFromPool,
    pointer: *mut *mut c_void,
    size: usize,
    pool: *mut c_void,
    stream: *mut c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { take(call, pointer, size, Some(pool), stream, || real(pointer, size, pool, stream)) }
}

/// `hipFreeAsync`: refunded when it is issued. A captured one frees nothing yet.
pub unsafe fn free(call: &Call, real: unsafe extern "C" fn(*mut c_void, *mut c_void) -> Status, pointer: *mut c_void, stream: *mut c_void) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(pointer, stream) };
    if admit::is_ours(pointer) && own::is_capturing(call, stream) {
        return driver();
    }
    admit::give_back(call, pointer, driver)
}

/// `pool`: `None` for the current one of the stream's device.
unsafe fn take(
    call: &Call,
    pointer: *mut *mut c_void,
    size: usize,
    pool: Option<*mut c_void>,
    stream: *mut c_void,
    driver: impl FnOnce() -> Status,
) -> Status {
    if pointer.is_null() || size == 0 || admit::is_nested() {
        return driver();
    }
    let device = own::stream_device(call, stream);
    let (major, above_hsa) = (own::major(call), call.runtime.is_above_hsa());
    if above_hsa && major >= 6 && own::is_capturing(call, stream) {
        // It becomes a node; the memory is taken when the graph is launched. 5.x takes it here.
        return admit::within(call, driver);
    }
    let mut want = Want { device, ..Want::here(Some(size as u64)) };
    let pool = pool.or_else(|| own::current_pool(call, device?));
    let chunked = above_hsa && major >= 7 && pool.is_some() && pool == device.and_then(|device| own::default_pool(call, device));
    let bit = device.map_or(0, |device| 1_u64 << (device & 63));
    let state = pool.and_then(|pool| own::pool_state(call, pool));
    if chunked {
        let whole = (size as u64).checked_add(sizes::CHUNK_MARGIN);
        // Where the pool has been used, the code is loaded.
        let code = if call.runtime.pools.load(Relaxed) & bit == 0 { CODE } else { 0 };
        want.bytes = whole.and_then(|whole| sizes::round_up(whole, sizes::CHUNK)?.checked_add(code));
        want.least = whole.zip(state).and_then(|(whole, state)| sizes::round_up(whole.saturating_sub(state.idle()), sizes::CHUNK)?.checked_add(code));
    } else {
        want.least = state.map(|state| if state.idle() >= size as u64 { 0 } else { size as u64 });
    }
    // SAFETY: on success the runtime has written there.
    let status = admit::take(call, want, true, driver, || unsafe { (*pointer, size as u64) });
    if chunked && status == SUCCESS {
        call.runtime.pools.fetch_or(bit, Relaxed);
    }
    status
}
