//! The exports: each puts the address that called into the register behind its last argument and jumps to its row's entry.
//!
//! A jump, not a call: arguments on the stack stay where they are. Nothing is exported that is not a row of the table.

use core::arch::naked_asm;

use vrocm_core::interpose::{entry, registers};

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
