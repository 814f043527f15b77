//! Kernels, compiled by hiprtc for the card that is there. No header and no compiler has to be installed beside the runtime.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::library::{function, open};

/// Where hiprtc is. Releases before 7 have it inside libamdhip64 as well.
pub const LIBRARIES: [&str; 5] = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so", "libamdhip64.so.6", "libamdhip64.so.5"];

/// hiprtc of the same release as a runtime (`/opt/rocm/lib/libamdhip64.so.6`): what another release compiles it need not be able to load.
pub fn of_runtime(runtime: &str) -> Vec<String> {
    let (folder, name) = runtime.rsplit_once('/').map_or((String::new(), runtime), |(folder, name)| (format!("{folder}/"), name));
    let suffix = name.split_once(".so").map_or("", |(_, suffix)| suffix);
    vec![format!("{folder}libhiprtc.so{suffix}"), format!("libhiprtc.so{suffix}"), runtime.to_owned()]
}

type Create = unsafe extern "C" fn(*mut *mut c_void, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
type Bytes = unsafe extern "C" fn(*mut c_void, *mut c_char) -> c_int;

/// The code object of a source for a processor (`gfx942`), by the first of `libraries` that is there.
pub fn compile(source: &str, gfx: &str, libraries: &[&str]) -> Result<Vec<u8>, String> {
    let source = CString::new(source).map_err(|error| error.to_string())?;
    let library = open(libraries)?;
    // SAFETY: the types are those of `hip/hiprtc.h`: a program is a pointer, a result an enumeration of 32 bits.
    let (create, compile, log_size, log, code_size, code) = unsafe {
        (
            function::<Create>(library, c"hiprtcCreateProgram")?,
            function::<Compile>(library, c"hiprtcCompileProgram")?,
            function::<Size>(library, c"hiprtcGetProgramLogSize")?,
            function::<Bytes>(library, c"hiprtcGetProgramLog")?,
            function::<Size>(library, c"hiprtcGetCodeSize")?,
            function::<Bytes>(library, c"hiprtcGetCode")?,
        )
    };
    let mut program = std::ptr::null_mut();
    // SAFETY: the texts live until the call returns, and the runtime copies them; there are no headers.
    let status = unsafe { create(&raw mut program, source.as_ptr(), c"kernel.hip".as_ptr(), 0, std::ptr::null(), std::ptr::null()) };
    if status != 0 {
        return Err(format!("hiprtcCreateProgram answers {status}"));
    }
    let architecture = CString::new(format!("--offload-arch={gfx}")).map_err(|error| error.to_string())?;
    let options = [architecture.as_ptr(), c"-O2".as_ptr()];
    // SAFETY: two options, alive during the call.
    let status = unsafe { compile(program, 2, options.as_ptr()) };
    if status != 0 {
        let text = read(program, &log_size, &log).unwrap_or_default();
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        return Err(format!("hiprtc cannot compile the kernel for {gfx} (status {status}): {}", text.trim()));
    }
    read(program, &code_size, &code)
}

fn read(program: *mut c_void, size: &Size, bytes: &Bytes) -> Result<Vec<u8>, String> {
    let mut length = 0;
    // SAFETY: a program that was made and compiled.
    let status = unsafe { size(program, &raw mut length) };
    if status != 0 || length == 0 || length > 64 << 20 {
        return Err(format!("hiprtc answers {status} and a size of {length}"));
    }
    let mut buffer = vec![0_u8; length];
    // SAFETY: there is room for as many bytes as the runtime said.
    let status = unsafe { bytes(program, buffer.as_mut_ptr().cast()) };
    if status == 0 { Ok(buffer) } else { Err(format!("hiprtc answers {status} instead of the code")) }
}

#[cfg(test)]
mod tests {
    use super::of_runtime;

    #[test]
    fn the_compiler_is_of_the_runtimes_release() {
        let wanted = ["/opt/rocm-6/lib/libhiprtc.so.6", "libhiprtc.so.6", "/opt/rocm-6/lib/libamdhip64.so.6"];
        assert_eq!(of_runtime("/opt/rocm-6/lib/libamdhip64.so.6"), wanted);
        assert_eq!(of_runtime("libamdhip64.so")[0], "libhiprtc.so");
    }
}
