//! A library of ROCm: found by the loader's search, else where AMD's packages have it.

use std::error::Error;
use std::ffi::CStr;

use libloading::{Library, Symbol};

/// Where AMD's packages put libraries without telling the loader.
const FOLDERS: &[&str] = &["", "/opt/rocm/lib/"];

/// Opens the first of `names` that is there. The library is never closed: ROCm's threads run on.
pub fn open(names: &[&str]) -> Result<&'static Library, String> {
    let mut first = None;
    for folder in FOLDERS {
        for name in names {
            // SAFETY: opening runs the library's constructors; these are ROCm's own, which any program that uses the card runs too.
            match unsafe { Library::new(format!("{folder}{name}")) } {
                Ok(library) => return Ok(Box::leak(Box::new(library))),
                Err(error) => _ = first.get_or_insert(error),
            }
        }
    }
    // The loader's own words are one level down.
    let why = first.map_or_else(String::new, |error| format!(" ({})", error.source().map_or_else(|| error.to_string(), ToString::to_string)));
    Err(format!("{} cannot be opened: is ROCm installed, and in LD_LIBRARY_PATH?{why}", names.join(" or ")))
}

/// A function of a library.
///
/// # Safety
///
/// `T` is the function's type.
pub unsafe fn function<T>(library: &'static Library, name: &CStr) -> Result<Symbol<'static, T>, String> {
    // SAFETY: the caller's.
    unsafe { library.get(name.to_bytes_with_nul()) }.map_err(|error| format!("{}: {error}", name.to_string_lossy()))
}
