//! The exports: each puts the address that called into the register behind its last argument and jumps to its row's entry.
//!
//! A jump, not a call: arguments on the stack stay where they are. Nothing is exported that is not a row of the table.

use core::arch::naked_asm;

use vrocm_core::interpose::{entry, lookup, registers};

macro_rules! export {
    ($($family:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty: $action:ident = $body:path;)*) => { $(
        /// The runtime's own function is called through the row of that name.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                ".if {registers} == 0",
                "mov rdi, qword ptr [rsp]",
                ".elseif {registers} == 1",
                "mov rsi, qword ptr [rsp]",
                ".elseif {registers} == 2",
                "mov rdx, qword ptr [rsp]",
                ".elseif {registers} == 3",
                "mov rcx, qword ptr [rsp]",
                ".elseif {registers} == 4",
                "mov r8, qword ptr [rsp]",
                ".elseif {registers} == 5",
                "mov r9, qword ptr [rsp]",
                ".endif",
                "jmp {entry}",
                registers = const registers::$name,
                entry = sym entry::$name,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                ".if {registers} < 8",
                "mov x{registers}, x30",
                ".endif",
                "b {entry}",
                registers = const registers::$name,
                entry = sym entry::$name,
            );
        }
    )* };
}

vrocm_core::rows!(export);

/// `dlsym` and `dlvsym`: the address that called goes along, the arguments are kept, and unless there is an answer the real
/// function is jumped to as if nothing had been in between.
#[cfg(target_arch = "x86_64")]
macro_rules! look_up {
    ($name:ident, $arguments:literal) => {
        #[doc = concat!("The loader's `", stringify!($name), "`, with our entry points in place of the runtime's.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                concat!("mov ", $arguments, ", qword ptr [rsp + 24]"),
                "call {decide}",
                "mov rcx, rdx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "test rax, rax",
                "jz 2f",
                "mov rax, rcx",
                "ret",
                "2:",
                "jmp rcx",
                decide = sym lookup::$name,
            );
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! look_up {
    ($name:ident, $arguments:literal) => {
        #[doc = concat!("The loader's `", stringify!($name), "`, with our entry points in place of the runtime's.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub extern "C" fn $name() {
            naked_asm!(
                "stp x0, x1, [sp, #-32]!",
                "stp x2, x30, [sp, #16]",
                concat!("mov ", $arguments, ", x30"),
                "bl {decide}",
                "mov x16, x1",
                "mov x17, x0",
                "ldp x2, x30, [sp, #16]",
                "ldp x0, x1, [sp], #32",
                "cbz x17, 2f",
                "mov x0, x16",
                "ret",
                "2:",
                "br x16",
                decide = sym lookup::$name,
            );
        }
    };
}

#[cfg(target_arch = "x86_64")]
look_up!(dlsym, "rdx");
#[cfg(target_arch = "x86_64")]
look_up!(dlvsym, "rcx");
#[cfg(target_arch = "aarch64")]
look_up!(dlsym, "x2");
#[cfg(target_arch = "aarch64")]
look_up!(dlvsym, "x3");
