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
            Hip hipMemAllocPitch(pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize, element: u32) -> i32: Charge = hip::memory::mem_alloc_pitch;
            Hip hipMalloc3D(pointer: *mut PitchedPtr, extent: Extent) -> i32: Charge = hip::memory::malloc_3d;
            Hip hipHostAlloc(pointer: *mut *mut c_void, size: usize, flags: u32) -> i32: Charge = hip::host::alloc;
            Hip hipFree(pointer: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipFreeHost(pointer: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipHostFree(pointer: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipDeviceReset() -> i32: Refund = hip::memory::device_reset;

            // HIP: arrays
            Hip hipMallocArray(array: *mut *mut c_void, desc: *const ChannelDesc, width: usize, height: usize, flags: u32) -> i32: Charge = hip::array::malloc;
            Hip hipMalloc3DArray(array: *mut *mut c_void, desc: *const ChannelDesc, extent: Extent, flags: u32) -> i32: Charge = hip::array::malloc_3d;
            Hip hipArrayCreate(array: *mut *mut c_void, desc: *const ArrayDesc) -> i32: Charge = hip::array::create;
            Hip hipArray3DCreate(array: *mut *mut c_void, desc: *const Array3dDesc) -> i32: Charge = hip::array::create_3d;
            Hip hipMallocMipmappedArray(array: *mut *mut c_void, desc: *const ChannelDesc, extent: Extent, levels: u32, flags: u32) -> i32: Charge = hip::array::malloc_mipmapped;
            Hip hipMipmappedArrayCreate(array: *mut *mut c_void, desc: *mut Array3dDesc, levels: u32) -> i32: Charge = hip::array::create_mipmapped;
            Hip hipFreeArray(array: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipArrayDestroy(array: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipFreeMipmappedArray(array: *mut c_void) -> i32: Refund = hip::memory::free;
            Hip hipMipmappedArrayDestroy(array: *mut c_void) -> i32: Refund = hip::memory::free;

            // HIP: managed memory
            Hip hipMallocManaged(pointer: *mut *mut c_void, size: usize, flags: u32) -> i32: Charge = hip::managed::malloc;
            Hip __hipRegisterManagedVar(binary: *mut c_void, pointer: *mut *mut c_void, initial: *mut c_void, name: *const c_char, size: usize, align: u32) -> (): Charge = hip::managed::register_variable;
            Hip __hipUnregisterFatBinary(binary: *mut c_void) -> (): Refund = hip::managed::unregister_binary;

            // HIP: stream-ordered memory
            Hip hipMallocAsync(pointer: *mut *mut c_void, size: usize, stream: *mut c_void) -> i32: Charge = hip::pool::malloc;
            Hip hipMallocFromPoolAsync(pointer: *mut *mut c_void, size: usize, pool: *mut c_void, stream: *mut c_void) -> i32: Charge = hip::pool::malloc_from_pool;
            Hip hipFreeAsync(pointer: *mut c_void, stream: *mut c_void) -> i32: Refund = hip::pool::free;

            // HIP: physical memory
            Hip hipMemCreate(handle: *mut *mut c_void, size: usize, properties: *const c_void, flags: u64) -> i32: Charge = hip::vmm::create;
            Hip hipMemRelease(handle: *mut c_void) -> i32: Refund = hip::vmm::release;
            Hip hipMemRetainAllocationHandle(handle: *mut *mut c_void, address: *mut c_void) -> i32: Charge = hip::vmm::retain;
            Hip hipMemMap(address: *mut c_void, size: usize, offset: usize, handle: *mut c_void, flags: u64) -> i32: Charge = hip::vmm::map;
            Hip hipMemUnmap(address: *mut c_void, size: usize) -> i32: Refund = hip::vmm::unmap;

            // HIP: graphs
            Hip hipGraphAddMemAllocNode(node: *mut *mut c_void, graph: *mut c_void, dependencies: *const *mut c_void, count: usize, params: *mut AllocNodeParams) -> i32: Charge = hip::graph::add_alloc_node;
            Hip hipGraphAddNode(node: *mut *mut c_void, graph: *mut c_void, dependencies: *const *mut c_void, count: usize, params: *mut c_void) -> i32: Charge = hip::graph::add_node;
            Hip hipGraphInstantiate(executable: *mut *mut c_void, graph: *mut c_void, error_node: *mut *mut c_void, log: *mut c_char, size: usize) -> i32: Charge = hip::graph::instantiate;
            Hip hipGraphInstantiateWithFlags(executable: *mut *mut c_void, graph: *mut c_void, flags: u64) -> i32: Charge = hip::graph::instantiate_with_flags;
            Hip hipGraphInstantiateWithParams(executable: *mut *mut c_void, graph: *mut c_void, params: *mut c_void) -> i32: Charge = hip::graph::instantiate_with_params;
            Hip hipGraphExecUpdate(executable: *mut c_void, graph: *mut c_void, error_node: *mut *mut c_void, result: *mut u32) -> i32: Charge = hip::graph::update;
            Hip hipGraphLaunch(executable: *mut c_void, stream: *mut c_void) -> i32: Charge = hip::graph::launch;
            Hip hipGraphLaunch_spt(executable: *mut c_void, stream: *mut c_void) -> i32: Charge = hip::graph::launch;
            Hip hipGraphExecDestroy(executable: *mut c_void) -> i32: Refund = hip::graph::destroy_executable;
            Hip hipGraphDestroy(graph: *mut c_void) -> i32: Refund = hip::graph::destroy;

            // HIP: modules and libraries
            Hip hipModuleLoad(module: *mut *mut c_void, path: *const c_char) -> i32: Charge = hip::module::load;
            Hip hipModuleLoadData(module: *mut *mut c_void, image: *const c_void) -> i32: Charge = hip::module::load_data;
            Hip hipModuleLoadDataEx(module: *mut *mut c_void, image: *const c_void, count: u32, options: *mut u32, values: *mut *mut c_void) -> i32: Charge = hip::module::load_data_ex;
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
