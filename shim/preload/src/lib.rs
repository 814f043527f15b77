//! `libvrocm.so`: what is loaded into every process of the container. Exports, constructor, panic handler, nothing else.
//!
//! This code runs before `main` of every program, `sh` and `ls` included, and in programs that never touch a GPU. Therefore:
//! - It needs `libc.so.6` only, in the oldest version there is, and of that two names ([build.rs] lets the linker prove it).
//! - It exports nothing by accident: whatever a preload exports it imposes on every process.
//! - It has no thread-locals, no executable stack, no text relocations.
//! - The constructor reads the environment and asks whether there is a GPU; the destructor does nothing below level 2 where there
//!   is none.
//! - No panic is left in a release build, and the linker proves that too ([`panic`]).
//!
//! What the exports do is in `vrocm_core`.
#![no_std]

mod exports;
mod memory;

use vrocm_core::interpose::{bypass, call};
use vrocm_core::shim;

/// What `strings` finds, and whoever looks at the file: an export of its own every process would get.
#[used]
static MARKER: [u8; 16] = *b"libvrocm 0.1.0\0\0";

/// The loader calls it before `main`, with arguments on glibc and without any on musl: it uses none.
extern "C" fn constructor() {
    shim::start();
    bypass::start();
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

/// The loader calls it when the process ends by itself.
extern "C" fn destructor() {
    bypass::end();
    call::dump();
}

#[used]
#[unsafe(link_section = ".fini_array")]
static DESTRUCTOR: extern "C" fn() = destructor;

/// In a release build this must be unreachable: the call to a function that nobody defines fails the link if it is not.
#[cfg(not(debug_assertions))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe extern "C" {
        fn a_panic_is_reachable_in_libvrocm() -> !;
    }
    // SAFETY: never linked, so never called.
    unsafe { a_panic_is_reachable_in_libvrocm() }
}

// The core library of a debug build is linked with its unwinding tables, which name this function. Nothing unwinds.
#[cfg(debug_assertions)]
core::arch::global_asm!(".hidden rust_eh_personality", ".globl rust_eh_personality", "rust_eh_personality:", "ud2");

/// In a debug build arithmetic is checked, and a panic ends the process with a line.
#[cfg(debug_assertions)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    let _ = vrocm_core::sys::raw::write(2, b"libvrocm: panic\n");
    vrocm_core::sys::raw::exit_group(134)
}
