//! A runtime, opened as programs open it, and what the loader says of addresses.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use super::Way;

/// `hipGetProcAddress` is asked for what a program of this version would get.
const VERSION: c_int = 70_200_000;

/// An opened runtime; stays open until the process ends.
pub struct Library {
    handle: *mut c_void,
    way: Way,
}

impl Library {
    /// Opens it: for all of the process where entry points are to be found as a linked program finds them, privately otherwise.
    pub fn open(path: &str, way: Way) -> Result<Self, String> {
        let name = CString::new(path).map_err(|_| format!("{path}: a zero byte"))?;
        let scope = if way == Way::Default { libc::RTLD_GLOBAL } else { libc::RTLD_LOCAL };
        // SAFETY: a string that ends; constructors of the library run, as in every program that uses it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | scope) };
        if handle.is_null() {
            // SAFETY: the loader's own message, or null.
            let message = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text).to_string_lossy().into_owned()) };
            return Err(message.unwrap_or_else(|| format!("{path}: cannot be opened")));
        }
        Ok(Self { handle, way })
    }

    /// The address of an entry point by this library's way.
    pub fn find(&self, name: &str) -> Option<usize> {
        match self.way {
            Way::Default => symbol(libc::RTLD_DEFAULT, name),
            Way::Handle => symbol(self.handle, name),
            Way::ProcAddress => self.proc_address(name),
        }
    }

    fn proc_address(&self, name: &str) -> Option<usize> {
        let get = symbol(self.handle, "hipGetProcAddress")?;
        let text = CString::new(name).ok()?;
        let (mut found, mut result) = (0_usize, 0);
        // SAFETY: the signature that HIP's headers give it since 6.0, with places for both answers.
        let status = unsafe {
            let get: unsafe extern "C" fn(*const libc::c_char, *mut usize, c_int, u64, *mut c_int) -> c_int = std::mem::transmute(get);
            get(text.as_ptr(), &raw mut found, VERSION, 0, &raw mut result)
        };
        (status == 0 && found != 0).then_some(found)
    }
}

fn symbol(handle: *mut c_void, name: &str) -> Option<usize> {
    let text = CString::new(name).ok()?;
    // SAFETY: a handle of the loader and a string that ends.
    let found = unsafe { libc::dlsym(handle, text.as_ptr()) } as usize;
    (found != 0).then_some(found)
}

/// The file that the code at an address is mapped from.
pub fn owner(address: usize) -> Option<String> {
    // SAFETY: all zeros is a value of this structure, and dladdr fills it.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const c_void, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned())
    }
}

/// Files that are mapped into this process and whose path ends so.
pub fn mapped(end: &str) -> Vec<String> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let mut found: Vec<String> = maps
        .split(|&byte| byte == b'\n')
        .filter_map(|line| line.iter().position(|&byte| byte == b'/').map(|at| &line[at..]))
        .filter(|path| path.ends_with(std::ffi::OsStr::new(end).as_bytes()))
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect();
    found.dedup();
    found
}
