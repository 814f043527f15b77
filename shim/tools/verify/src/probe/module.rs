//! Code: modules, libraries, and what a compiler puts into a program (a fat binary with a managed variable and a kernel). Files are code objects that
//! [`super::soak`] compiled.

use std::ffi::c_int;

use super::call::{call6, call8, number, ptr};
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
        "__hipRegisterFatBinary" => register_binary(state, function, arguments.first()?, arguments.get(1)?),
        "__hipRegisterManagedVar" => {
            let (binary, size) = (state.newest(Kind::Binary)?, number(arguments, 0, 1 << 20));
            let (place, initial): (&mut usize, _) = (Box::leak(Box::new(0)), vec![0_u8; size].leak());
            call6(function, [binary.value, ptr(place), initial.as_ptr() as usize, c"managed_big".as_ptr() as usize, size, 1]);
            Some(0)
        }
        "__hipRegisterFunction" => {
            let (binary, name) = (state.newest(Kind::Binary)?, c"touch".as_ptr() as usize);
            // No limit of threads; nothing is asked back.
            call8(function, [binary.value, kernel(), name, name, usize::MAX, 0, 0, 0]);
            Some(0)
        }
        "hipFuncGetAttributes" => {
            let mut attributes = [0_u64; 32];
            Some(call6(function, [ptr(&mut attributes), kernel(), 0, 0, 0, 0]))
        }
        "__hipUnregisterFatBinary" => {
            let binary = state.newest(Kind::Binary)?;
            call6(function, [binary.value, 0, 0, 0, 0, 0]);
            state.forget(binary);
            Some(0)
        }
        _ => give_back(state, name, function, arguments),
    }
}

/// Stands for the program's own kernel: the runtime knows it by this address.
fn kernel() -> usize {
    static KERNEL: u8 = 0;
    std::ptr::from_ref(&KERNEL) as usize
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

/// What a program hands over at its start: a bundle with nothing for the host and a code object for the processor.
fn register_binary(state: &mut State, function: usize, file: &str, gfx: &str) -> Option<c_int> {
    const MAGIC: u64 = 0x4850_4946;
    let bundle = bundle(&std::fs::read(file).ok()?, gfx);
    // Magic and version in one word, the bundle, and a word that nobody uses.
    let wrapper: &mut [usize; 3] = Box::leak(Box::new([usize::try_from(MAGIC | 1 << 32).ok()?, bundle, 0]));
    let mut binary = 0_usize;
    // SAFETY: takes one pointer and answers one.
    unsafe {
        let function: unsafe extern "C" fn(usize) -> usize = std::mem::transmute(function);
        binary += function(ptr(wrapper));
    }
    state.keep(c_int::from(binary == 0), Kind::Binary, binary, 0)
}

/// The format of `clang-offload-bundler`: a count, then offset, size and triple of each entry, then the entries at whole pages. The address of a copy that stays.
fn bundle(code: &[u8], gfx: &str) -> usize {
    const PAGE: usize = 4096;
    let device = format!("hipv4-amdgcn-amd-amdhsa--{gfx}");
    let mut head = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    head.extend(2_u64.to_le_bytes());
    for (triple, size) in [("host-x86_64-unknown-linux--", 0), (device.as_str(), code.len())] {
        for number in [PAGE, size, triple.len()] {
            head.extend((number as u64).to_le_bytes());
        }
        head.extend(triple.bytes());
    }
    head.resize(PAGE, 0);
    head.extend(code);
    let pages = head.len().div_ceil(PAGE) + 1;
    // Loaders look at the code object in place, and expect it at a page.
    let room = vec![0_u8; pages * PAGE].leak();
    let start = room.as_ptr().align_offset(PAGE);
    room[start..start + head.len()].copy_from_slice(&head);
    room[start..].as_ptr() as usize
}
