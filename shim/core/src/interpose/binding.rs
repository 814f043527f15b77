//! Calls that were bound past this library: `RTLD_DEEPBIND`.
//!
//! An object that is opened so looks names up in what it brought along before it looks at the preload, and then calls the runtime
//! directly; brought along, the runtime itself calls HSA directly, and `dlsym` is libc's. Nothing tells a preload so. But whoever opens an object then
//! asks for something in it, and `dlsym` is ours: objects that have come since then are looked through, and where one refers to an
//! entry point of ours and has a runtime's function in its place, ours is put there, as the loader does without the flag. What the
//! object's own constructors have called before is past; where its calls are bound when they are made, it shows, and is said.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::rows;
use super::{bypass, lookup, runtimes};
use crate::sys::loaded::{self, Object};
use crate::sys::log::{self, NOTICE, TRACE};
use crate::sys::raw;

/// Objects that were looked through; one whose place another took is looked through again.
static SEEN: [AtomicU64; 2048] = [const { AtomicU64::new(0) }; 2048];

const PAGE: usize = 4096;

/// Looks through what is new, if there is a runtime at all; answers whether there is.
pub fn repair() -> bool {
    let mut any = false;
    loaded::each(|object| {
        any = !runtimes::is_ours(object) && (object.defines(b"hipMalloc") || object.defines(b"hsa_init"));
        any
    });
    if any {
        loaded::each(|object| {
            if !runtimes::is_ours(object) && is_new(object) {
                repair_object(object);
            }
            false
        });
    }
    any
}

fn is_new(object: &Object) -> bool {
    let number = (object.base() as u64 ^ (object.mark() as u64).rotate_left(24)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    SEEN.get((number >> 53) as usize).is_some_and(|place| place.swap(number, Relaxed) != number)
}

fn repair_object(object: &Object) {
    let (mut done, mut failed) = (0_u64, 0_u64);
    // Calls are bound when they are made, and what was made of those that take memory.
    let (mut is_lazy, mut called) = (false, None);
    object.each_reference(|name, place, is_call| {
        let now = place.load(Relaxed);
        // A call that was not made yet and is bound when it is: bound now.
        let later = || object.contains(now) && !object.defines(name);
        is_lazy = is_lazy || is_call && later();
        let row = rows::is_candidate(name).then(|| rows::find(name)).flatten();
        let ours = match (row, lookup::ours_of_libdl(name)) {
            (Some(row), _) => lookup::ours(row).filter(|_| is_a_runtimes(row, now) || later()),
            (None, Some((ours, real))) => Some(ours).filter(|_| now == real || later()),
            (None, None) => None,
        };
        let Some(ours) = ours.filter(|&ours| ours != now && is_first(name)) else { return };
        let is_made = is_call && called.is_none() && !object.contains(now);
        if is_made && row.is_some_and(|row| bypass::is_taking(row) && is_a_runtimes(row, now)) {
            called = Some(name);
        }
        let address = core::ptr::from_ref(place) as usize;
        let locked = object.is_read_only(address);
        let page = address / PAGE * PAGE;
        // SAFETY: the page holds addresses that the loader has put there; nobody writes to it but the loader.
        if locked && unsafe { raw::protect(page, PAGE, true) }.is_err() {
            failed += 1;
            return;
        }
        place.store(ours, Relaxed);
        if locked {
            // SAFETY: as above; back to what it was.
            let _ = unsafe { raw::protect(page, PAGE, false) };
        }
        done += 1;
    });
    if done + failed != 0 {
        log::line(if failed == 0 { TRACE } else { NOTICE }, |text| {
            text.foreign(object.path()).str(" was opened with RTLD_DEEPBIND: ").dec(done).str(" of its calls bound anew, ");
            text.dec(failed).str(" go past the quota");
        });
    }
    if let Some(called) = called.filter(|_| is_lazy) {
        bypass::has_called(object, called);
    }
}

/// True if the address lies in a runtime of the row's family.
fn is_a_runtimes(row: usize, address: usize) -> bool {
    let family = rows::TABLE.get(row).map(|row| row.family);
    runtimes::containing(address).map(runtimes::Runtime::family).is_some_and(|found| Some(found) == family)
}

/// True if this library is the first to define the name, as the loader goes without the flag.
fn is_first(name: &[u8]) -> bool {
    let mut first = false;
    loaded::each(|object| {
        first = runtimes::is_ours(object);
        first || object.defines(name)
    });
    first
}
