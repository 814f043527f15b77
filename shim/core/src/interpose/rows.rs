//! The table of entry points.
//!
//! A line is: family, name, arguments, result, action, body. To interpose one more, write its line and its body. Functions whose
//! arguments fill all integer registers do not learn who called them.

use core::ffi::{c_char, c_void};

use super::{hip, hsa, lookup};

/// What a row does with the memory that its class is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reserves before, charges after.
    Charge,
    /// Gives a charge back.
    Refund,
    /// Reports the quota as the card.
    Report,
    /// Hands out our entry points for the runtime's.
    HandOut,
    /// Only counts.
    Pass,
}

impl Action {
    /// As `manifests/interposed.json` writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
            Self::Report => "report",
            Self::HandOut => "hand-out",
            Self::Pass => "pass",
        }
    }
}

/// Whose entry point it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// libamdhip64
    Hip,
    /// libhsa-runtime64
    Hsa,
}

/// What is known of an entry point without calling it.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub family: Family,
    /// What it does.
    pub action: Action,
}

/// Passes the table to a macro.
#[macro_export]
macro_rules! rows {
    ($callback:ident) => {
        $callback! {
            // HIP: memory by address
            Hip hipMalloc(pointer: *mut *mut c_void, size: usize) -> i32: Charge = hip::linear::malloc;
            Hip hipFree(pointer: *mut c_void) -> i32: Refund = hip::linear::free;

            // HSA: memory of pools and regions
            Hsa hsa_init() -> u32: Pass = hsa::system::init;
            Hsa hsa_amd_memory_pool_allocate(pool: u64, size: usize, flags: u32, pointer: *mut *mut c_void) -> u32: Charge = hsa::memory::pool_allocate;
            Hsa hsa_amd_memory_pool_free(pointer: *mut c_void) -> u32: Refund = hsa::memory::free;
            Hsa hsa_memory_allocate(region: u64, size: usize, pointer: *mut *mut c_void) -> u32: Charge = hsa::memory::region_allocate;
            Hsa hsa_memory_free(pointer: *mut c_void) -> u32: Refund = hsa::memory::free;
        }
    };
}

macro_rules! define {
    ($($family:ident $name:ident($($argument:ident: $type:ty),*) -> $result:ty: $action:ident = $body:path;)*) => {
        /// The number of each row.
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(usize)]
        enum Number { $($name,)* COUNT }

        /// The rows, in order.
        pub static TABLE: [Row; Number::COUNT as usize] =
            [$(Row { name: stringify!($name), family: Family::$family, action: Action::$action },)*];

        /// The number of each row, by its name.
        pub mod number {
            #![allow(non_upper_case_globals, missing_docs)]
            $(pub const $name: usize = super::Number::$name as usize;)*
        }

        /// How many registers the arguments of each entry point take: the address of the caller travels in the next one.
        pub mod registers {
            #![allow(non_upper_case_globals, missing_docs, unused_imports)]
            use super::*;
            $(pub const $name: usize = 0 $(+ of_argument(size_of::<$type>()))*;)*
        }

        /// What the exports jump to: one more argument than the entry point has, the address that called.
        pub mod entry {
            #![allow(non_snake_case, missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments)]
            use super::*;
            $(
                #[inline(never)]
                pub unsafe extern "C" fn $name($($argument: $type,)* caller: usize) -> $result {
                    let caller = if registers::$name < ARGUMENT_REGISTERS { caller } else { 0 };
                    let Some((call, real)) = super::super::Call::enter(number::$name, caller) else {
                        return super::super::call::Lacking::lacking();
                    };
                    // SAFETY: the function of that name in a runtime, which the headers of all versions declare like this.
                    unsafe {
                        let real: unsafe extern "C" fn($($type),*) -> $result = core::mem::transmute(real);
                        $body(&call, real, $($argument),*)
                    }
                }
            )*
        }
    };
}

/// Integer registers of the C calling convention.
#[cfg(target_arch = "x86_64")]
pub const ARGUMENT_REGISTERS: usize = 6;
/// Integer registers of the C calling convention.
#[cfg(target_arch = "aarch64")]
pub const ARGUMENT_REGISTERS: usize = 8;

/// Registers that an argument of that size takes; larger than 16 bytes it lies on the stack (`AArch64`: its address takes one).
const fn of_argument(size: usize) -> usize {
    match size {
        0..=16 => size.div_ceil(8),
        _ if cfg!(target_arch = "aarch64") => 1,
        _ => 0,
    }
}

rows!(define);

/// The address of our own export of each row, as the library that has the exports tells it.
pub type Exports = [usize; TABLE.len()];

/// Number of the row of that name.
pub fn find(name: &[u8]) -> Option<usize> {
    TABLE.iter().position(|row| row.name.as_bytes() == name)
}

const _: () = assert!(TABLE.len() <= crate::ledger::layout::ROWS);

#[allow(unused_imports, reason = "types that only some rows use")]
use {c_char as _, lookup as _};
