//! The kernel, run through HIP: on the null stream and on one of its own, so that more than one queue is made under the mask.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

use libloading::Library;

use super::library::{function, open};
use crate::kernel::{ENTRY, THREADS, TURNS};

type Pointer = *mut c_void;

/// HIP, on the card with a PCI address.
pub struct Hip {
    library: &'static Library,
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
    /// Opens HIP and chooses the card.
    pub fn open(pci: &str) -> Result<Self, String> {
        let hip = Self { library: open(&["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"])? };
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

    /// Runs the kernel and answers two words of each block, once for each launch.
    pub fn run(&self, code: &[u8], blocks: u32, launches: u32) -> Result<Vec<Vec<[u32; 2]>>, String> {
        let (mut module, mut entry, mut stream, mut memory) = (null_mut(), null_mut(), null_mut(), null_mut());
        call!(self, c"hipModuleLoadData", (*mut Pointer, *const c_void), (&raw mut module, code.as_ptr().cast()))?;
        let name = CString::new(ENTRY).map_err(|error| error.to_string())?;
        call!(self, c"hipModuleGetFunction", (*mut Pointer, Pointer, *const c_char), (&raw mut entry, module, name.as_ptr()))?;
        call!(self, c"hipStreamCreate", (*mut Pointer), (&raw mut stream))?;
        let bytes = blocks as usize * 8;
        call!(self, c"hipMalloc", (*mut Pointer, usize), (&raw mut memory, bytes))?;
        let mut all = Vec::new();
        for launch in 0..launches {
            call!(self, c"hipMemset", (Pointer, c_int, usize), (memory, 0, bytes))?;
            call!(self, c"hipDeviceSynchronize", (), ())?;
            let queue = if launch % 2 == 0 { null_mut() } else { stream };
            let mut turns = TURNS;
            let mut arguments: [Pointer; 2] = [(&raw mut memory).cast(), (&raw mut turns).cast()];
            call!(
                self,
                c"hipModuleLaunchKernel",
                (Pointer, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Pointer, *mut Pointer, *const Pointer),
                (entry, blocks, 1, 1, THREADS, 1, 1, 0, queue, arguments.as_mut_ptr(), null())
            )?;
            call!(self, c"hipDeviceSynchronize", (), ())?;
            let mut words = vec![[0_u32; 2]; blocks as usize];
            // 2: from the device to the host.
            call!(self, c"hipMemcpy", (Pointer, *const c_void, usize, c_int), (words.as_mut_ptr().cast(), memory.cast_const(), bytes, 2))?;
            all.push(words);
        }
        call!(self, c"hipFree", (Pointer), (memory))?;
        Ok(all)
    }
}
