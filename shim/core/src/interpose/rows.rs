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

            // HIP: look-ups
            Hip hipGetProcAddress(name: *const c_char, function: *mut *mut c_void, version: i32, flags: u64, status: *mut i32) -> i32: HandOut = lookup::proc_address;
            Hip hipGetDriverEntryPoint(name: *const c_char, function: *mut *mut c_void, flags: u64, status: *mut i32) -> i32: HandOut = lookup::driver_entry_point;
            Hip hipGetDriverEntryPoint_spt(name: *const c_char, function: *mut *mut c_void, flags: u64, status: *mut i32) -> i32: HandOut = lookup::driver_entry_point;

            // HSA: start, end, capacity, tables of functions
            Hsa hsa_init() -> u32: Pass = hsa::system::init;
            Hsa hsa_shut_down() -> u32: Refund = hsa::system::shut_down;
            Hsa hsa_agent_get_info(agent: u64, attribute: u32, value: *mut c_void) -> u32: Report = hsa::system::agent_info;
            Hsa hsa_amd_memory_pool_get_info(pool: u64, attribute: u32, value: *mut c_void) -> u32: Report = hsa::system::pool_info;
            Hsa hsa_region_get_info(region: u64, attribute: u32, value: *mut c_void) -> u32: Report = hsa::system::region_info;
            Hsa hsa_system_get_extension_table(extension: u16, major: u16, minor: u16, table: *mut usize) -> u32: HandOut = hsa::tables::extension_table;
            Hsa hsa_system_get_major_extension_table(extension: u16, major: u16, bytes: usize, table: *mut usize) -> u32: HandOut = hsa::tables::major_extension_table;

            // HSA: memory of pools and regions
            Hsa hsa_amd_memory_pool_allocate(pool: u64, size: usize, flags: u32, pointer: *mut *mut c_void) -> u32: Charge = hsa::memory::pool_allocate;
            Hsa hsa_amd_memory_pool_free(pointer: *mut c_void) -> u32: Refund = hsa::memory::free;
            Hsa hsa_memory_allocate(region: u64, size: usize, pointer: *mut *mut c_void) -> u32: Charge = hsa::memory::region_allocate;
            Hsa hsa_memory_free(pointer: *mut c_void) -> u32: Refund = hsa::memory::free;

            // HSA: physical memory, managed memory
            Hsa hsa_amd_vmem_handle_create(pool: u64, size: usize, kind: u32, flags: u64, handle: *mut u64) -> u32: Charge = hsa::vmem::create;
            Hsa hsa_amd_vmem_handle_release(handle: u64) -> u32: Refund = hsa::vmem::release;
            Hsa hsa_amd_vmem_map(address: *mut c_void, size: usize, offset: usize, handle: u64, flags: u64) -> u32: Charge = hsa::vmem::map;
            Hsa hsa_amd_vmem_unmap(address: *mut c_void, size: usize) -> u32: Refund = hsa::vmem::unmap;
            Hsa hsa_amd_vmem_retain_alloc_handle(handle: *mut u64, address: *mut c_void) -> u32: Charge = hsa::vmem::retain;
            Hsa hsa_amd_vmem_import_shareable_handle(fd: i32, handle: *mut u64) -> u32: Charge = hsa::vmem::import;
            Hsa hsa_amd_vmem_address_free(address: *mut c_void, size: usize) -> u32: Refund = hsa::vmem::address_free;
            Hsa hsa_amd_svm_attributes_set(address: *mut c_void, size: usize, attributes: *mut hsa::managed::Attribute, count: usize) -> u32: Charge = hsa::managed::set;

            // HSA: images, queues, sampling
            Hsa hsa_code_object_reader_create_from_memory(start: *const c_void, size: usize, reader: *mut u64) -> u32: Pass = hsa::image::reader_from_memory;
            Hsa hsa_code_object_reader_create_from_file(fd: i32, reader: *mut u64) -> u32: Pass = hsa::image::reader_from_file;
            Hsa hsa_code_object_reader_destroy(reader: u64) -> u32: Pass = hsa::image::reader_destroy;
            Hsa hsa_executable_load_agent_code_object(executable: u64, agent: u64, reader: u64, options: *const c_char, loaded: *mut u64) -> u32: Charge = hsa::image::load_agent_code_object;
            Hsa hsa_executable_load_code_object(executable: u64, agent: u64, object: u64, options: *const c_char) -> u32: Charge = hsa::image::load_code_object;
            Hsa hsa_executable_destroy(executable: u64) -> u32: Refund = hsa::image::destroy;
            Hsa hsa_queue_create(agent: u64, size: u32, kind: u32, callback: *mut c_void, data: *mut c_void, private: u32, group: u32, queue: *mut *mut c_void) -> u32: Charge = hsa::queue::create;
            Hsa hsa_soft_queue_create(region: u64, size: u32, kind: u32, features: u32, doorbell: u64, queue: *mut *mut c_void) -> u32: Charge = hsa::queue::soft_create;
            Hsa hsa_queue_destroy(queue: *mut c_void) -> u32: Refund = hsa::queue::destroy;
            Hsa hsa_ven_amd_pcs_create(agent: u64, method: u32, units: u32, interval: usize, latency: usize, buffer: usize, ready: *mut c_void, data: *mut c_void, session: *mut u64) -> u32: Charge = hsa::queue::sampling_create;
            Hsa hsa_ven_amd_pcs_create_from_id(id: u32, agent: u64, method: u32, units: u32, interval: usize, latency: usize, buffer: usize, ready: *mut c_void, data: *mut c_void, session: *mut u64) -> u32: Charge = hsa::queue::sampling_create_from_id;
            Hsa hsa_ven_amd_pcs_destroy(session: u64) -> u32: Refund = hsa::queue::sampling_destroy;
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

/// Number of the row of that name.
pub fn find(name: &[u8]) -> Option<usize> {
    TABLE.iter().position(|row| row.name.as_bytes() == name)
}

const _: () = assert!(TABLE.len() <= crate::ledger::layout::ROWS);
