//! State of this process that a forked child must not inherit.
//!
//! The state lives in memory marked `MADV_WIPEONFORK`: in the child it reads as zeros, so the child starts as a process that
//! has no ledger slot and no charges, without having to ask who it is (`getpid` costs 163 ns on the machine where this was
//! measured, a load from this page nothing). On a kernel that lacks the advice (before 4.14, some emulators) the process id
//! is compared instead.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use super::raw;

/// A type for which all-zero bytes are a valid value and its first state.
///
/// # Safety
///
/// Every field is an integer, an atomic or a pointer, or made of such.
pub unsafe trait Zeroed: Sync + 'static {}

/// One lazily made `T` per process; `static`, usable before any constructor has run.
pub struct Private<T: Zeroed> {
    page: AtomicPtr<Page<T>>,
}

#[repr(C)]
struct Page<T> {
    mark: AtomicU64,
    pid: AtomicU32,
    value: T,
}

/// The page is wiped in a child: the mark alone says whose it is.
const WIPED: u64 = 0x5652_4f43_4d50_4731;
/// The page is copied to a child: the process id says whose it is.
const COPIED: u64 = 0x5652_4f43_4d50_4732;

impl<T: Zeroed> Private<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { page: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// This process's own `T`, made on the first call; `None` if the kernel has no memory.
    ///
    /// In a child after `fork` this is a fresh one. The reference stays good for the life of the process.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        let page = self.page.load(Ordering::Acquire);
        // SAFETY: a page that was published is never unmapped; in a child it is still mapped, wiped or copied.
        if let Some(page) = unsafe { page.as_ref() }
            && page.mark.load(Ordering::Relaxed) == WIPED
        {
            return Some(&page.value);
        }
        self.get_slow(page)
    }

    #[cold]
    fn get_slow(&self, seen: *mut Page<T>) -> Option<&'static T> {
        // SAFETY: as above.
        if let Some(page) = unsafe { seen.as_ref() }
            && page.mark.load(Ordering::Relaxed) == COPIED
            && page.pid.load(Ordering::Relaxed) == raw::getpid()
        {
            return Some(&page.value);
        }
        let size = size_of::<Page<T>>();
        let fresh: *mut Page<T> = raw::map_private(size).ok()?.cast();
        let wiped = raw::madvise(fresh.cast(), size, raw::MADV_WIPEONFORK).is_ok();
        // SAFETY: fresh zeroed memory of the right size, page-aligned, seen by nobody else; zeros are a valid `T`.
        let page = unsafe { &*fresh };
        page.pid.store(raw::getpid(), Ordering::Relaxed);
        page.mark.store(if wiped { WIPED } else { COPIED }, Ordering::Relaxed);
        match self.page.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(&page.value),
            Err(winner) => {
                // SAFETY: this page was never published.
                unsafe { raw::unmap(fresh.cast(), size) };
                // SAFETY: a page that was published is never unmapped, and only non-null pointers are.
                unsafe { winner.as_ref() }.map(|page| &page.value)
            }
        }
    }
}

impl<T: Zeroed> Default for Private<T> {
    fn default() -> Self {
        Self::new()
    }
}
