//! What hands out entry points: the runtime's own look-ups, and `dlsym`.
//!
//! An address that a runtime hands out is compared with the runtime's own functions, not its name: asked for
//! `hipGetDeviceProperties` a runtime answers with one of three, by the version that the caller names. What is ours comes back as
//! ours; everything else as it was.
//!
//! `dlsym` is taken over because a stand-in runtime has no HSA beneath that would hold the quota, and because capacity is only
//! reported above. It stays invisible: look-ups of all other names jump to the real one, which then sees the caller's own return
//! address (`RTLD_NEXT` goes by it), sets `dlerror` and gives what it gives. Our names are looked up for real first; what the
//! runtime lacks stays NULL.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::rows::{self, TABLE};
use super::runtimes::{self, Runtime};
use super::{Call, bypass};
use crate::sys::loaded;

type ProcAddress = unsafe extern "C" fn(*const c_char, *mut *mut c_void, i32, u64, *mut i32) -> i32;
type EntryPoint = unsafe extern "C" fn(*const c_char, *mut *mut c_void, u64, *mut i32) -> i32;

/// Our own export of each row, once it was asked for.
static OURS: [AtomicUsize; TABLE.len()] = [const { AtomicUsize::new(0) }; TABLE.len()];

/// The address of our own export of a row; `None` where this code is in no library that exports it (a test).
pub fn ours(row: usize) -> Option<usize> {
    let place = OURS.get(row)?;
    match place.load(Relaxed) {
        0 => {
            let found = loaded::find(TABLE.get(row)?.name.as_bytes(), None, runtimes::is_ours)?;
            place.store(found, Relaxed);
            Some(found)
        }
        known => Some(known),
    }
}

/// Our export in place of a function of a runtime, if it is one that a row has.
pub fn replacement(runtime: &Runtime, address: usize) -> Option<usize> {
    let row = TABLE.iter().enumerate().position(|(number, row)| row.family == runtime.family() && runtime.own(number) == Some(address))?;
    ours(row)
}

/// Puts ours in place of what a runtime has just handed out to `caller`.
///
/// # Safety
///
/// `place` is null, or holds a pointer that may be read and written.
unsafe fn replace(caller: usize, place: *mut *mut c_void) {
    // SAFETY: the caller's.
    let Some(place) = (unsafe { place.as_mut() }) else { return };
    let Some(runtime) = runtimes::containing(*place as usize) else { return };
    if let Some(ours) = replacement(runtime, *place as usize) {
        runtimes::give(caller, runtime);
        *place = ours as *mut c_void;
    }
}

/// `hipGetProcAddress`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn proc_address(
    call: &Call,
    real: ProcAddress,
    name: *const c_char,
    function: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut i32,
) -> i32 {
    // SAFETY: the caller's.
    let done = unsafe { real(name, function, version, flags, status) };
    if done == 0 {
        // SAFETY: the runtime has succeeded, so it has written its answer there.
        unsafe { replace(call.caller, function) };
    } else {
        call.failed();
    }
    done
}

/// `hipGetDriverEntryPoint`, and its variant for the per-thread default stream.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn driver_entry_point(
    call: &Call,
    real: EntryPoint,
    name: *const c_char,
    function: *mut *mut c_void,
    flags: u64,
    status: *mut i32,
) -> i32 {
    // SAFETY: the caller's.
    let done = unsafe { real(name, function, flags, status) };
    if done == 0 {
        // SAFETY: the runtime has succeeded, so it has written its answer there.
        unsafe { replace(call.caller, function) };
    } else {
        call.failed();
    }
    done
}

/// What the export of `dlsym` or `dlvsym` is to do.
#[repr(C)]
pub struct Verdict {
    /// 0: jump to `address`, with the arguments as they came. 1: return it.
    answer: usize,
    address: usize,
}

impl Verdict {
    fn answer(address: usize) -> Self {
        Self { answer: 1, address }
    }
}

const DEFAULT: usize = 0;
const NEXT: usize = usize::MAX;

static DLSYM: AtomicUsize = AtomicUsize::new(0);
static DLVSYM: AtomicUsize = AtomicUsize::new(0);

/// The next definition of a function of libdl behind this library, as `RTLD_NEXT` would give it.
fn next(name: &[u8], known: &AtomicUsize) -> Option<usize> {
    let cached = known.load(Relaxed);
    if cached != 0 {
        return Some(cached);
    }
    let mut behind = false;
    let mut found = None;
    loaded::each(|object| {
        if runtimes::is_ours(object) {
            behind = true;
        } else if behind {
            found = object.symbol(name, None);
        }
        found.is_some()
    });
    known.store(found?, Relaxed);
    found
}

/// Our own `dlsym` or `dlvsym` and the real one, if the name is one of them.
pub fn ours_of_libdl(name: &[u8]) -> Option<(usize, usize)> {
    let known = match name {
        b"dlsym" => &DLSYM,
        b"dlvsym" => &DLVSYM,
        _ => return None,
    };
    Some((loaded::find(name, None, runtimes::is_ours)?, next(name, known)?))
}

/// Decides about `dlsym(handle, name)` for the code at `caller`.
///
/// # Safety
///
/// `name` is null or a C string, `handle` what the loader takes.
pub unsafe extern "C" fn dlsym(handle: usize, name: *const c_char, caller: usize) -> Verdict {
    // In a process without libdl nobody can look anything up.
    let Some(real) = next(b"dlsym", &DLSYM) else { return Verdict::answer(0) };
    // SAFETY: the real function. Called from here it answers for this library, which is first in line.
    let look = |handle: usize| unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(usize, *const c_char) -> usize>(real)(handle, name) };
    // SAFETY: the caller's.
    unsafe { decide(handle, name, caller, look) }.unwrap_or(Verdict { answer: 0, address: real })
}

/// Decides about `dlvsym(handle, name, version)` for the code at `caller`.
///
/// # Safety
///
/// As for [`dlsym`].
pub unsafe extern "C" fn dlvsym(handle: usize, name: *const c_char, version: *const c_char, caller: usize) -> Verdict {
    let Some(real) = next(b"dlvsym", &DLVSYM) else { return Verdict::answer(0) };
    // SAFETY: as above.
    let look = |handle: usize| unsafe {
        core::mem::transmute::<usize, unsafe extern "C" fn(usize, *const c_char, *const c_char) -> usize>(real)(handle, name, version)
    };
    // SAFETY: the caller's.
    unsafe { decide(handle, name, caller, look) }.unwrap_or(Verdict { answer: 0, address: real })
}

/// `None`: the real function is to answer the caller itself.
unsafe fn decide(handle: usize, name: *const c_char, caller: usize, look: impl Fn(usize) -> usize) -> Option<Verdict> {
    if name.is_null() {
        return None;
    }
    runtimes::refresh();
    if handle != DEFAULT && handle != NEXT && bypass::is_to_be_looked_at(handle) && look(handle) != 0 {
        // SAFETY: a look-up has succeeded with it.
        unsafe { bypass::look_beside(handle, own_base()) };
    }
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if !rows::is_candidate(name) {
        return None;
    }
    let row = rows::find(name)?;
    let ours = ours(row)?;
    if handle == NEXT {
        if let Some(runtime) = behind(name, row, caller) {
            runtimes::give(caller, runtime);
            return Some(Verdict::answer(ours));
        }
        return if is_anywhere(name) { None } else { Some(Verdict::answer(look(NEXT))) };
    }
    let found = look(handle);
    if found == ours {
        // SAFETY: a handle that a look-up succeeded with is the loader's own record, which begins with the base.
        let is_own_handle = handle != DEFAULT && unsafe { *(handle as *const usize) } == own_base();
        if is_own_handle || is_anywhere(name) {
            return Some(Verdict::answer(ours));
        }
        // Without this library there would be nothing: NULL, with the reason of a look-up that does not see it.
        return Some(Verdict::answer(look(NEXT)));
    }
    if found == 0 {
        // What is only in the caller's own scope, the real function finds for the caller.
        return if handle == DEFAULT { None } else { Some(Verdict::answer(0)) };
    }
    if let Some(runtime) = runtimes::containing(found).filter(|runtime| TABLE.get(row).is_some_and(|row| row.family == runtime.family())) {
        runtimes::give(caller, runtime);
        return Some(Verdict::answer(ours));
    }
    Some(Verdict::answer(found))
}

/// The runtime that `RTLD_NEXT` would find for code that lies behind this library. `None`: the real function is to answer.
fn behind(name: &[u8], row: usize, caller: usize) -> Option<&'static Runtime> {
    let family = TABLE.get(row)?.family;
    let (mut ours, mut from, mut found) = (false, false, None);
    loaded::each(|object| {
        if runtimes::is_ours(object) {
            ours = true;
        } else if from && object.defines(name) && runtimes::is_runtime(object, family) {
            found = object.symbol(name, None);
        } else if ours && object.contains(caller) {
            from = true;
        }
        found.is_some()
    });
    runtimes::containing(found?)
}

/// True if an object other than this library defines the name.
fn is_anywhere(name: &[u8]) -> bool {
    loaded::find(name, None, |object| !runtimes::is_ours(object)).is_some()
}

fn own_base() -> usize {
    let mut base = usize::MAX;
    loaded::each(|object| {
        if runtimes::is_ours(object) {
            base = object.base();
            return true;
        }
        false
    });
    base
}
