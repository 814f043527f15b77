//! Modules and libraries. What their images take shows beneath and is charged there; their managed variables are charged here, to
//! the module. Where there was no room the runtime answers that the image is invalid or finds no code: the answer is put right.

use core::ffi::{c_char, c_void};

use super::abi::Status;
use super::admit;
use crate::interpose::Call;

/// `hipModuleLoad`
pub unsafe fn load(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *const c_char) -> Status,
    module: *mut *mut c_void,
    path: *const c_char,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { loaded(call, module, || real(module, path)) }
}

/// `hipModuleLoadData`, `hipModuleLoadFatBinary`
pub unsafe fn load_data(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> Status,
    module: *mut *mut c_void,
    image: *const c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { loaded(call, module, || real(module, image)) }
}

type LoadDataEx = unsafe extern "C" fn(*mut *mut c_void, *const c_void, u32, *mut u32, *mut *mut c_void) -> Status;

/// `hipModuleLoadDataEx`
pub unsafe fn load_data_ex(
    call: &Call,
    real: LoadDataEx,
    module: *mut *mut c_void,
    image: *const c_void,
    count: u32,
    options: *mut u32,
    values: *mut *mut c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { loaded(call, module, || real(module, image, count, options, values)) }
}

unsafe fn loaded(call: &Call, module: *mut *mut c_void, driver: impl FnOnce() -> Status) -> Status {
    admit::within_owned(call, driver, || {
        // SAFETY: on success the runtime has written there.
        if module.is_null() { core::ptr::null_mut() } else { unsafe { *module } }
    })
}

/// `hipLibraryGetKernel`: the first such call loads the library.
pub unsafe fn library_kernel(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> Status,
    kernel: *mut *mut c_void,
    library: *mut c_void,
    name: *const c_char,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    admit::within_owned(call, || unsafe { real(kernel, library, name) }, || library)
}

/// `hipLibraryGetKernelCount`
pub unsafe fn library_kernel_count(
    call: &Call,
    real: unsafe extern "C" fn(*mut u32, *mut c_void) -> Status,
    count: *mut u32,
    library: *mut c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    admit::within_owned(call, || unsafe { real(count, library) }, || library)
}

/// `hipLibraryEnumerateKernels`
pub unsafe fn library_kernels(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, u32, *mut c_void) -> Status,
    kernels: *mut *mut c_void,
    count: u32,
    library: *mut c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    admit::within_owned(call, || unsafe { real(kernels, count, library) }, || library)
}
