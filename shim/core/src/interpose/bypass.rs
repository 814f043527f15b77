//! What goes past this library for good, said once where it shows.
//!
//! No preload stands in another namespace of the loader (`dlmopen`), none holds who opens the kernel's device without a runtime,
//! and what constructors of an object opened with `RTLD_DEEPBIND` have called is past. Only what is certain is said: a runtime
//! found by what it exports, a descriptor of the device in a process that asked neither HIP nor HSA for anything here, a call
//! that was bound because it was made. Nothing of it is found in a process that ends by `_exit` or a signal first.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use super::rows::{Action, Family, TABLE};
use super::runtimes;
use crate::sys::loaded::{self, Object};
use crate::sys::log::{self, NOTICE, Said};
use crate::sys::raw::{self, Errno};
use crate::sys::text::Text;

/// Bytes of a path that a line has room for.
const PATH: usize = 256;

/// Objects are in other namespaces, too.
static ELSEWHERE: AtomicBool = AtomicBool::new(false);
/// The handle whose namespace was looked through last, since the loader's list has changed.
static LOOKED: AtomicUsize = AtomicUsize::new(0);
/// A runtime in another namespace was named, so that an open device is explained.
static NAMED: Said = Said::new();

/// The device of the kernel's driver, as the process found it when it started; 0: there is none.
static DEVICE: AtomicU64 = AtomicU64::new(0);

/// Descriptors that are looked at, and closed ones in a row that end the search: the kernel gives the lowest that is free.
const DESCRIPTORS: i32 = 1024;
const GAP: i32 = 8;

/// What the library's constructor does: asks whether there is a GPU. One system call.
pub fn start() {
    if log::enabled(NOTICE) {
        DEVICE.store(raw::device(c"/dev/kfd").ok().flatten().unwrap_or(0), Relaxed);
    }
}

/// What the library's destructor does.
pub fn end() {
    look_at_device();
}

/// What is done when the loader's list has changed. With a runtime here it is too soon to tell what the device is open for.
pub fn look_again(is_any_here: bool) {
    LOOKED.store(0, Relaxed);
    ELSEWHERE.store(log::enabled(NOTICE) && !NAMED.is_said() && loaded::are_elsewhere(), Relaxed);
    if !is_any_here {
        look_at_device();
    }
}

/// True if a handle may lead into another namespace, and that was not looked into.
#[inline]
pub fn is_to_be_looked_at(handle: usize) -> bool {
    ELSEWHERE.load(Relaxed) && LOOKED.swap(handle, Relaxed) != handle
}

/// Looks for a runtime in the namespace of a handle, unless it is the one that this library (at `own_base`) is in.
///
/// # Safety
///
/// A look-up has just succeeded with the handle, and it is none of the special ones.
pub unsafe fn look_beside(handle: usize, own_base: usize) {
    let (mut is_our_own, mut found) = (false, None);
    // SAFETY: the caller's.
    unsafe {
        loaded::each_beside(handle, |object| {
            is_our_own = object.base() == own_base;
            if found.is_none() && [Family::Hip, Family::Hsa].into_iter().any(|family| runtimes::is_runtime(object, family)) {
                found = Some(path(object));
            }
            is_our_own
        });
    }
    let Some(path) = found.filter(|_| !is_our_own && NAMED.first(1)) else { return };
    log::line(NOTICE, |text| {
        text.foreign(path.as_bytes()).str(" is in a namespace of its own (dlmopen), where no preload stands: what it takes of a card is not ");
        text.str("held to the quota. Open it with dlopen (docs/DOORS.md)");
    });
}

/// True if what a row's function takes counts.
pub fn is_taking(row: usize) -> bool {
    TABLE.get(row).is_some_and(|row| row.action == Action::Charge)
}

/// An object has called a runtime's own function before the call could be bound to ours.
#[cold]
pub fn has_called(object: &Object, name: &[u8]) {
    static CALLED: Said = Said::new();
    if !CALLED.first(1) {
        return;
    }
    log::line(NOTICE, |text| {
        text.foreign(path(object).as_bytes()).str(" was opened with RTLD_DEEPBIND and has called ").foreign(name);
        text.str(" before anything was asked of it: what that took is not held to the quota. Open it without the flag (docs/DOORS.md)");
    });
}

/// Looks for the device among the descriptors, where neither HIP nor HSA was asked for anything here.
fn look_at_device() {
    static OPEN: Said = Said::new();
    let device = DEVICE.load(Relaxed);
    if device == 0 || runtimes::was_any_asked() || NAMED.is_said() || OPEN.is_said() {
        return;
    }
    let Some(descriptor) = descriptor_of(device).filter(|_| OPEN.first(1)) else { return };
    log::line(NOTICE, |text| {
        text.str("/dev/kfd is open (descriptor ").dec(descriptor.unsigned_abs().into());
        text.str("), and neither HIP nor HSA was asked for anything here: what this process takes of a card is not held to the quota. ");
        text.str("Use HSA as a shared library (docs/DOORS.md)");
    });
}

/// A descriptor of the device that this process has opened itself: the driver refuses what came by `fork` or from a parent.
fn descriptor_of(device: u64) -> Option<i32> {
    let mut closed = 0;
    for descriptor in 0..DESCRIPTORS {
        match raw::open_device(descriptor) {
            Ok(found) if found == Some(device) && raw::ask_gpu_driver(descriptor) != Err(Errno::BADF) => return Some(descriptor),
            Ok(_) => closed = 0,
            Err(_) if closed == GAP => return None,
            Err(_) => closed += 1,
        }
    }
    None
}

/// The path of an object, as much as a line has room for: it may be gone when the line is written.
fn path(object: &Object) -> Text {
    let mut text = Text::new();
    let path = object.path();
    text.foreign(path.get(..PATH).unwrap_or(path));
    text
}
