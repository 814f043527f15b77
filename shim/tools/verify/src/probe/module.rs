//! Code: modules and libraries. Files are code objects that [`super::soak`] compiled.

use std::ffi::c_int;

use super::call::{call6, call8, ptr};
use super::hip::{Kind, State, give_back};

/// Calls the entry point of that name.
pub fn call(state: &mut State, name: &str, function: usize, arguments: &[&str]) -> Option<c_int> {
    match name {
        "hipModuleLoad" | "hipModuleLoadData" | "hipModuleLoadDataEx" | "hipModuleLoadFatBinary" | "hipLibraryLoadData" => {
            load(state, name, function, arguments.first()?)
        }
        "hipLibraryGetKernelCount" => {
            let (library, mut count) = (state.newest(Kind::Library)?, 0_u64);
            Some(call6(function, [ptr(&mut count), library.value, 0, 0, 0, 0]))
        }
        "hipLibraryEnumerateKernels" => {
            let (library, mut kernel) = (state.newest(Kind::Library)?, 0_usize);
            Some(call6(function, [ptr(&mut kernel), 1, library.value, 0, 0, 0]))
        }
        "hipLibraryGetKernel" => {
            let (library, mut kernel) = (state.newest(Kind::Library)?, 0_usize);
            Some(call6(function, [ptr(&mut kernel), library.value, c"touch".as_ptr() as usize, 0, 0, 0]))
        }
        _ => give_back(state, name, function, arguments),
    }
}

fn load(state: &mut State, name: &str, function: usize, file: &str) -> Option<c_int> {
    let mut made = 0_usize;
    if name == "hipModuleLoad" {
        let path = std::ffi::CString::new(file).ok()?;
        let status = call6(function, [ptr(&mut made), path.as_ptr() as usize, 0, 0, 0, 0]);
        return state.keep(status, Kind::Module, made, 0);
    }
    // Some releases read the image again later.
    let image = std::fs::read(file).ok()?.leak().as_ptr() as usize;
    let kind = if name == "hipLibraryLoadData" { Kind::Library } else { Kind::Module };
    let status = call8(function, [ptr(&mut made), image, 0, 0, 0, 0, 0, 0]);
    state.keep(status, kind, made, 0)
}
