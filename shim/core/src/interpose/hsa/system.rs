//! Start, end, and what the runtime says of itself.

use core::sync::atomic::Ordering::Relaxed;

use crate::interpose::{Call, runtimes};

type Init = unsafe extern "C" fn() -> u32;

/// `hsa_init`: from here on what a HIP runtime takes is seen.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn init(call: &Call, real: Init) -> u32 {
    runtimes::note_above_hsa(call.caller);
    // SAFETY: the caller's.
    let status = unsafe { real() };
    if status == 0 {
        call.runtime.inits.fetch_add(1, Relaxed);
    } else {
        call.failed();
    }
    status
}
