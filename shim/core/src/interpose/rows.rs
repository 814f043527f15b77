//! The table of entry points.
//!
//! A line is: family, name, arguments, result, action, body. To interpose one more, write its line and its body. Functions whose
//! arguments fill all integer registers do not learn who called them.

use core::ffi::{c_char, c_void};

use super::hip::abi::{AllocNodeParams, Array3dDesc, ArrayDesc, ChannelDesc, Extent, PitchedPtr};
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
            Hip hipMalloc(pointer: *mut *mut c_void, size: usize) -> i32: Charge = hip::memory::malloc;
            Hip hipExtMallocWithFlags(pointer: *mut *mut c_void, size: usize, flags: u32) -> i32: Charge = hip::memory::malloc_with_flags;
            Hip hipMallocPitch(pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) -> i32: Charge = hip::memory::malloc_pitch;
            Hip hipMemAllocPitch(
                pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize, element: u32
            ) -> i32: Charge = hip::memory::mem_alloc_pitch;
            Hip hipMalloc3D(pointer: *mut PitchedPtr, extent: Extent) -> i32: Charge = hip::memory::malloc_3d;
            Hip hipHostAlloc(pointer: *mut *mut c_void, size: usize, flags: u32) -> i32: Charge = hip::host::alloc;
            Hip hipFree(pointer: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipFreeHost(pointer: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipHostFree(pointer: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipDeviceReset() -> i32: Refund = hip::memory::device_reset;

            // HIP: arrays
            Hip hipMallocArray(
                array: *mut *mut c_void, desc: *const ChannelDesc, width: usize, height: usize, flags: u32
            ) -> i32: Charge = hip::array::malloc;
            Hip hipMalloc3DArray(
                array: *mut *mut c_void, desc: *const ChannelDesc, extent: Extent, flags: u32
            ) -> i32: Charge = hip::array::malloc_3d;
            Hip hipArrayCreate(array: *mut *mut c_void, desc: *const ArrayDesc) -> i32: Charge = hip::array::create;
            Hip hipArray3DCreate(array: *mut *mut c_void, desc: *const Array3dDesc) -> i32: Charge = hip::array::create_3d;
            Hip hipMallocMipmappedArray(
                array: *mut *mut c_void, desc: *const ChannelDesc, extent: Extent, levels: u32, flags: u32
            ) -> i32: Charge = hip::array::malloc_mipmapped;
            Hip hipMipmappedArrayCreate(array: *mut *mut c_void, desc: *mut Array3dDesc, levels: u32) -> i32: Charge = hip::array::create_mipmapped;
            Hip hipFreeArray(array: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipArrayDestroy(array: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipFreeMipmappedArray(array: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipMipmappedArrayDestroy(array: *mut c_void) -> i32: Refund = hip::memory::free;

            // HIP: managed memory
            Hip hipMallocManaged(pointer: *mut *mut c_void, size: usize, flags: u32) -> i32: Charge = hip::managed::malloc;
            Hip __hipRegisterManagedVar(
                binary: *mut c_void, pointer: *mut *mut c_void, initial: *mut c_void, name: *const c_char, size: usize, align: u32
            ) -> (): Charge = hip::managed::register_variable;
            Hip __hipUnregisterFatBinary(binary: *mut c_void) -> (): Refund = hip::managed::unregister_binary;

            // HIP: stream-ordered memory
            Hip hipMallocAsync(pointer: *mut *mut c_void, size: usize, stream: *mut c_void) -> i32: Charge = hip::pool::malloc;
            Hip hipMallocFromPoolAsync(
                pointer: *mut *mut c_void, size: usize, pool: *mut c_void, stream: *mut c_void
            ) -> i32: Charge = hip::pool::malloc_from_pool;
            Hip hipFreeAsync(pointer: *mut c_void, stream: *mut c_void) -> i32: Refund = hip::pool::free;

            // HIP: physical memory
            Hip hipMemCreate(handle: *mut *mut c_void, size: usize, properties: *const c_void, flags: u64) -> i32: Charge = hip::vmm::create;
            Hip hipMemRelease(handle: *mut c_void) -> i32: Refund = hip::vmm::release;
            Hip hipMemRetainAllocationHandle(handle: *mut *mut c_void, address: *mut c_void) -> i32: Charge = hip::vmm::retain;
            Hip hipMemMap(address: *mut c_void, size: usize, offset: usize, handle: *mut c_void, flags: u64) -> i32: Charge = hip::vmm::map;
            Hip hipMemUnmap(address: *mut c_void, size: usize) -> i32: Refund = hip::vmm::unmap;

            // HIP: graphs
            Hip hipGraphAddMemAllocNode(
                node: *mut *mut c_void, graph: *mut c_void, dependencies: *const *mut c_void, count: usize, params: *mut AllocNodeParams
            ) -> i32: Charge = hip::graph::add_alloc_node;
            Hip hipGraphAddNode(
                node: *mut *mut c_void, graph: *mut c_void, dependencies: *const *mut c_void, count: usize, params: *mut c_void
            ) -> i32: Charge = hip::graph::add_node;
            Hip hipGraphInstantiate(
                executable: *mut *mut c_void, graph: *mut c_void, error_node: *mut *mut c_void, log: *mut c_char, size: usize
            ) -> i32: Charge = hip::graph::instantiate;
            Hip hipGraphInstantiateWithFlags(
                executable: *mut *mut c_void, graph: *mut c_void, flags: u64
            ) -> i32: Charge = hip::graph::instantiate_with_flags;
            Hip hipGraphInstantiateWithParams(
                executable: *mut *mut c_void, graph: *mut c_void, params: *mut c_void
            ) -> i32: Charge = hip::graph::instantiate_with_params;
            Hip hipGraphExecUpdate(
                executable: *mut c_void, graph: *mut c_void, error_node: *mut *mut c_void, result: *mut u32
            ) -> i32: Charge = hip::graph::update;
            Hip hipGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> i32: Charge = hip::graph::launch;
            Hip hipGraphLaunch_spt(executable: *mut c_void, stream: *mut c_void) -> i32: Charge = hip::graph::launch;
            Hip hipGraphExecDestroy(executable: *mut c_void) -> i32: Refund = hip::graph::destroy_executable;
            Hip hipGraphDestroy(graph: *mut c_void) -> i32: Refund = hip::graph::destroy;

            // HIP: modules and libraries
            Hip hipModuleLoad(module: *mut *mut c_void, path: *const c_char) -> i32: Charge = hip::module::load;
            Hip hipModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> i32: Charge = hip::module::load_data;
            Hip hipModuleLoadDataEx(
                module: *mut *mut c_void, image: *const c_void, count: u32, options: *mut u32, values: *mut *mut c_void
            ) -> i32: Charge = hip::module::load_data_ex;
            Hip hipModuleLoadFatBinary(module: *mut *mut c_void, image: *const c_void) -> i32: Charge = hip::module::load_data;
            Hip hipModuleUnload(module: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipLibraryGetKernel(kernel: *mut *mut c_void, library: *mut c_void, name: *const c_char) -> i32: Charge = hip::module::library_kernel;
            Hip hipLibraryGetKernelCount(count: *mut u32, library: *mut c_void) -> i32: Charge = hip::module::library_kernel_count;
            Hip hipLibraryEnumerateKernels(kernels: *mut *mut c_void, count: u32, library: *mut c_void) -> i32: Charge = hip::module::library_kernels;
            Hip hipLibraryUnload(library: *mut c_void) -> i32: Refund = hip::memory::free;

            // HIP: what a card has
            Hip hipMemGetInfo(free: *mut usize, total: *mut usize) -> i32: Report = hip::capacity::info;
            Hip hipDeviceTotalMem(bytes: *mut usize, device: i32) -> i32: Report = hip::capacity::total;
            Hip hipGetDeviceProperties(properties: *mut c_void, device: i32) -> i32: Report = hip::capacity::properties;
            Hip hipGetDevicePropertiesR0000(properties: *mut c_void, device: i32) -> i32: Report = hip::capacity::properties;
            Hip hipGetDevicePropertiesR0600(properties: *mut c_void, device: i32) -> i32: Report = hip::capacity::properties_0600;
            Hip hipDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) -> i32: Report = hip::capacity::attribute;
            Hip hipDeviceGetLimit(value: *mut usize, limit: i32) -> i32: Report = hip::capacity::limit;
            Hip hipDeviceSetLimit(limit: i32, value: usize) -> i32: Charge = hip::limit::set;

            // HIP: look-ups
            Hip hipGetProcAddress(
                name: *const c_char, function: *mut *mut c_void, version: i32, flags: u64, status: *mut i32
            ) -> i32: HandOut = lookup::proc_address;
            Hip hipGetDriverEntryPoint(
                name: *const c_char, function: *mut *mut c_void, flags: u64, status: *mut i32
            ) -> i32: HandOut = lookup::driver_entry_point;
            Hip hipGetDriverEntryPoint_spt(
                name: *const c_char, function: *mut *mut c_void, flags: u64, status: *mut i32
            ) -> i32: HandOut = lookup::driver_entry_point;

            // HSA: start, end, capacity, tables of functions
            Hsa hsa_init() -> u32: Pass = hsa::system::init;
            Hsa hsa_shut_down() -> u32: Refund = hsa::system::shut_down;
            Hsa hsa_agent_get_info(agent: u64, attribute: u32, value: *mut c_void) -> u32: Report = hsa::system::agent_info;
            Hsa hsa_amd_memory_pool_get_info(pool: u64, attribute: u32, value: *mut c_void) -> u32: Report = hsa::system::pool_info;
            Hsa hsa_region_get_info(region: u64, attribute: u32, value: *mut c_void) -> u32: Report = hsa::system::region_info;
            Hsa hsa_system_get_extension_table(
                extension: u16, major: u16, minor: u16, table: *mut usize
            ) -> u32: HandOut = hsa::tables::extension_table;
            Hsa hsa_system_get_major_extension_table(
                extension: u16, major: u16, bytes: usize, table: *mut usize
            ) -> u32: HandOut = hsa::tables::major_extension_table;

            // HSA: memory of pools and regions
            Hsa hsa_amd_memory_pool_allocate(
                pool: u64, size: usize, flags: u32, pointer: *mut *mut c_void
            ) -> u32: Charge = hsa::memory::pool_allocate;
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
            Hsa hsa_amd_svm_attributes_set(
                address: *mut c_void, size: usize, attributes: *mut hsa::managed::Attribute, count: usize
            ) -> u32: Charge = hsa::managed::set;

            // HSA: images, queues, sampling
            Hsa hsa_code_object_reader_create_from_memory(
                start: *const c_void, size: usize, reader: *mut u64
            ) -> u32: Pass = hsa::image::reader_from_memory;
            Hsa hsa_code_object_reader_create_from_file(fd: i32, reader: *mut u64) -> u32: Pass = hsa::image::reader_from_file;
            Hsa hsa_code_object_reader_destroy(reader: u64) -> u32: Pass = hsa::image::reader_destroy;
            Hsa hsa_executable_load_agent_code_object(
                executable: u64, agent: u64, reader: u64, options: *const c_char, loaded: *mut u64
            ) -> u32: Charge = hsa::image::load_agent_code_object;
            Hsa hsa_executable_load_code_object(
                executable: u64, agent: u64, object: u64, options: *const c_char
            ) -> u32: Charge = hsa::image::load_code_object;
            Hsa hsa_executable_destroy(executable: u64) -> u32: Refund = hsa::image::destroy;
            Hsa hsa_queue_create(
                agent: u64, size: u32, kind: u32, callback: *mut c_void, data: *mut c_void, private: u32, group: u32, queue: *mut *mut c_void
            ) -> u32: Charge = hsa::queue::create;
            Hsa hsa_soft_queue_create(
                region: u64, size: u32, kind: u32, features: u32, doorbell: u64, queue: *mut *mut c_void
            ) -> u32: Charge = hsa::queue::soft_create;
            Hsa hsa_queue_destroy(queue: *mut c_void) -> u32: Refund = hsa::queue::destroy;
            Hsa hsa_ven_amd_pcs_create(
                agent: u64, method: u32, units: u32, interval: usize, latency: usize, buffer: usize,
                ready: *mut c_void, data: *mut c_void, session: *mut u64
            ) -> u32: Charge = hsa::queue::sampling_create;
            Hsa hsa_ven_amd_pcs_create_from_id(
                id: u32, agent: u64, method: u32, units: u32, interval: usize, latency: usize, buffer: usize,
                ready: *mut c_void, data: *mut c_void, session: *mut u64
            ) -> u32: Charge = hsa::queue::sampling_create_from_id;
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
                    let Some((call, real)) = super::super::Call::enter(number::$name, Family::$family, caller) else {
                        return super::super::call::Lacking::lacking();
                    };
                    // SAFETY: the function of that name in a runtime, which the headers of all versions declare like this.
                    unsafe {
                        let real: unsafe extern "C" fn($($type),*) -> $result = core::mem::transmute(real);
                        #[cfg(vrocm_mutants)]
                        if super::left_out::is(stringify!($name)) {
                            return real($($argument),*);
                        }
                        $body(&call, real, $($argument),*)
                    }
                }
            )*
        }
    };
}

/// Which row's body is left out, in a library that is built with `--cfg vrocm_mutants` and by nobody else: `scripts/mutate-shim.py`
/// writes a name into a copy of the file.
#[cfg(vrocm_mutants)]
mod left_out {
    const MARK: &[u8] = b"left out:";

    #[used]
    static ROW: [u8; 80] = {
        let mut row = [0; 80];
        let mut at = 0;
        while at < MARK.len() {
            row[at] = MARK[at];
            at += 1;
        }
        row
    };

    /// True for the row that is left out.
    pub fn is(name: &str) -> bool {
        // SAFETY: a static; volatile because the compiler does not know what is in the copy.
        let row = unsafe { core::ptr::read_volatile(&raw const ROW) };
        let written = row.get(MARK.len()..).unwrap_or_default();
        written.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }
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

/// True if the name could be a row's: most names are not, and this is soon told.
pub fn is_candidate(name: &[u8]) -> bool {
    matches!(name, [b'h', b'i', b'p', ..] | [b'h', b's', b'a', b'_', ..] | [b'_', b'_', b'h', b'i', b'p', ..])
}

/// Number of the row of that name.
pub fn find(name: &[u8]) -> Option<usize> {
    TABLE.iter().position(|row| row.name.as_bytes() == name)
}

const _: () = assert!(TABLE.len() <= crate::ledger::layout::ROWS);
