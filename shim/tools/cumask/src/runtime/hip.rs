//! Kernels, run through HIP. The kernels of these tools have one shape: `(unsigned *words, unsigned turns)`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;

use super::library::{function, open};

/// libamdhip64, as the loader finds it.
pub const LIBRARIES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

type Pointer = *mut c_void;

/// HIP, on the card with a PCI address.
pub struct Hip {
    library: &'static Library,
}

/// A loaded kernel.
pub struct Kernel(Pointer);

/// A stream: HIP makes it a queue of its own, as far as the card has them.
pub struct Stream(Pointer);

impl Stream {
    /// The one that needs not be made.
    pub const NULL: Self = Self(null_mut());
}

/// Memory of the card, as words of 32 bits.
pub struct Words {
    pointer: Pointer,
    count: usize,
}

impl Words {
    fn bytes(&self) -> usize {
        self.count * 4
    }
}

/// Calls a function of HIP whose C arguments are of the types written, and turns its status into an error.
macro_rules! call {
    ($hip:expr, $name:literal, ($($type:ty),*), ($($argument:expr),*)) => {{
        // SAFETY: the types are those of the declaration in `hip/hip_runtime_api.h`, where a handle is a pointer and a status an enumeration of 32 bits;
        // pointers among the arguments point to locals of the types declared, or to memory of the size that is passed.
        let status: c_int = unsafe { function::<unsafe extern "C" fn($($type),*) -> c_int>($hip.library, $name)?($($argument),*) };
        if status == 0 { Ok(()) } else { Err(format!("{} answers {status}", $name.to_string_lossy())) }
    }};
}

impl Hip {
    /// Opens HIP, the first of `libraries` that is there, and chooses the card.
    pub fn open(libraries: &[&str], pci: &str) -> Result<Self, String> {
        let hip = Self { library: open(libraries)? };
        call!(hip, c"hipInit", (c_uint), (0))?;
        let mut count: c_int = 0;
        call!(hip, c"hipGetDeviceCount", (*mut c_int), (&raw mut count))?;
        for device in 0..count {
            let mut text = [0_u8; 64];
            call!(hip, c"hipDeviceGetPCIBusId", (*mut c_char, c_int, c_int), (text.as_mut_ptr().cast(), 63, device))?;
            let address = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
            if address.eq_ignore_ascii_case(pci) {
                call!(hip, c"hipSetDevice", (c_int), (device))?;
                return Ok(hip);
            }
        }
        Err(format!("HIP does not show the card {pci}, which ROCr has ({count} shown): check HIP_VISIBLE_DEVICES"))
    }

    /// Loads a code object and finds a kernel in it.
    pub fn load(&self, code: &[u8], entry: &str) -> Result<Kernel, String> {
        let (mut module, mut kernel) = (null_mut(), null_mut());
        call!(self, c"hipModuleLoadData", (*mut Pointer, *const c_void), (&raw mut module, code.as_ptr().cast()))?;
        let name = CString::new(entry).map_err(|error| error.to_string())?;
        call!(self, c"hipModuleGetFunction", (*mut Pointer, Pointer, *const c_char), (&raw mut kernel, module, name.as_ptr()))?;
        Ok(Kernel(kernel))
    }

    /// Makes a stream.
    pub fn stream(&self) -> Result<Stream, String> {
        let mut stream = null_mut();
        call!(self, c"hipStreamCreate", (*mut Pointer), (&raw mut stream))?;
        Ok(Stream(stream))
    }

    /// Takes memory of the card.
    pub fn words(&self, count: usize) -> Result<Words, String> {
        let mut pointer = null_mut();
        call!(self, c"hipMalloc", (*mut Pointer, usize), (&raw mut pointer, count * 4))?;
        Ok(Words { pointer, count })
    }

    /// Sets all words to 0, and waits for it.
    pub fn clear(&self, words: &Words) -> Result<(), String> {
        call!(self, c"hipMemset", (Pointer, c_int, usize), (words.pointer, 0, words.bytes()))?;
        self.wait()
    }

    /// Starts a kernel that keeps to `words`.
    pub fn launch(&self, kernel: &Kernel, blocks: u32, threads: u32, stream: &Stream, words: &Words, turns: u32) -> Result<(), String> {
        let (mut pointer, mut turns) = (words.pointer, turns);
        let mut arguments: [Pointer; 2] = [(&raw mut pointer).cast(), (&raw mut turns).cast()];
        call!(
            self,
            c"hipModuleLaunchKernel",
            (Pointer, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Pointer, *mut Pointer, *const Pointer),
            (kernel.0, blocks, 1, 1, threads, 1, 1, 0, stream.0, arguments.as_mut_ptr(), null())
        )
    }

    /// Waits until the card has done everything.
    pub fn wait(&self) -> Result<(), String> {
        call!(self, c"hipDeviceSynchronize", (), ())
    }

    /// Copies the words to the host.
    pub fn read(&self, words: &Words) -> Result<Vec<u32>, String> {
        let mut copy = vec![0_u32; words.count];
        // 2: from the device to the host.
        let (to, from) = (copy.as_mut_ptr().cast(), words.pointer.cast_const());
        call!(self, c"hipMemcpy", (Pointer, *const c_void, usize, c_int), (to, from, words.bytes(), 2))?;
        Ok(copy)
    }

    /// Gives memory back.
    #[expect(clippy::needless_pass_by_value, reason = "nobody may use it afterwards")]
    pub fn free(&self, words: Words) -> Result<(), String> {
        call!(self, c"hipFree", (Pointer), (words.pointer))
    }
}
