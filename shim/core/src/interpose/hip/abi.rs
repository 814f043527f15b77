//! HIP's own types and numbers, as far as the wrappers read them. `tests/` compares each with the headers of the four releases.
//!
//! A layout that differs between releases is a pair of constants, never a guess: who writes the wrong one damages the caller's memory.

use core::ffi::c_void;

/// `hipError_t`.
pub type Status = i32;
/// `hipSuccess`
pub const SUCCESS: Status = 0;
/// `hipErrorOutOfMemory`
pub const OUT_OF_MEMORY: Status = 2;

/// `hipExtent`: width in bytes or elements, height in rows, depth in slices.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes for pitched memory, elements for arrays.
    pub width: usize,
    /// Rows; 0 for an array of one dimension.
    pub height: usize,
    /// Slices or layers; 0 for an array of fewer dimensions.
    pub depth: usize,
}

/// `hipPitchedPtr`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PitchedPtr {
    /// The memory.
    pub ptr: *mut c_void,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Width asked for, in bytes.
    pub xsize: usize,
    /// Height asked for.
    pub ysize: usize,
}

/// `hipChannelFormatDesc`: bits of each channel.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ChannelDesc {
    /// Bits of the channels x, y, z and w.
    pub bits: [i32; 4],
    /// `hipChannelFormatKind`.
    pub kind: i32,
}

/// `HIP_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ArrayDesc {
    /// Elements.
    pub width: usize,
    /// Rows, 0 for one dimension.
    pub height: usize,
    /// `hipArray_Format`.
    pub format: u32,
    /// Channels of an element: 1, 2 or 4.
    pub channels: u32,
}

/// `HIP_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Array3dDesc {
    /// Elements.
    pub width: usize,
    /// Rows, 0 for one dimension.
    pub height: usize,
    /// Slices or layers, 0 for fewer than three dimensions.
    pub depth: usize,
    /// `hipArray_Format`.
    pub format: u32,
    /// Channels of an element: 1, 2 or 4.
    pub channels: u32,
    /// `hipArrayLayered` and the like.
    pub flags: u32,
}

/// `hipMemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// [`LOCATION_DEVICE`], or a host location in newer releases.
    pub kind: i32,
    /// The device's ordinal.
    pub id: i32,
}
/// `hipMemLocationTypeDevice`
pub const LOCATION_DEVICE: i32 = 1;

/// Where `hipMemAllocationProp` holds its location, from 5.3 on.
pub const PROP_LOCATION: usize = 8;
/// Where 5.2 holds it: a byte of compression type comes first there, and the allocation type behind it.
pub const PROP_LOCATION_5_2: usize = 4;

/// `hipMemAllocNodeParams`: 120 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AllocNodeParams {
    /// `poolProps.allocType` and `poolProps.handleTypes`.
    pub kinds: [i32; 2],
    /// `poolProps.location`: the device that the memory is taken from.
    pub location: Location,
    /// The rest of `poolProps`, and the access descriptions.
    pub rest: [u64; 11],
    /// Bytes asked for.
    pub bytes: usize,
    /// What the node will give.
    pub ptr: *mut c_void,
}

impl AllocNodeParams {
    /// Nothing yet.
    pub const EMPTY: Self = Self { kinds: [0; 2], location: Location { kind: 0, id: 0 }, rest: [0; 11], bytes: 0, ptr: core::ptr::null_mut() };
}

/// Where `hipGraphNodeParams` (6.4 on) holds the parameters of an alloc node; its type is its first word.
pub const NODE_PARAMS_ALLOC: usize = 16;
/// `hipGraphNodeTypeGraph`: a child graph. Another number in 5.2, which has no alloc nodes.
pub const NODE_CHILD: i32 = 4;
/// `hipGraphNodeTypeMemAlloc`
pub const NODE_ALLOC: i32 = 10;

/// `totalGlobalMem` in the properties of `hipGetDeviceProperties` and `…R0000` (792 bytes).
pub const TOTAL_R0000: usize = 256;
/// `totalGlobalMem` in the properties of `hipGetDevicePropertiesR0600` (1472 bytes).
pub const TOTAL_R0600: usize = 288;
/// `hipDeviceAttributeTotalGlobalMem`
pub const ATTRIBUTE_TOTAL: i32 = 84;
/// `hipLimitStackSize`: bytes for each lane of a wave.
pub const LIMIT_STACK: i32 = 0;
/// What a runtime starts with there: measured on 5.7.1, 6.4.3 and 7.2.4.
pub const STACK_AT_START: u64 = 1024;
/// `hipExtLimitScratchCurrent`, from 7 on: bytes of scratch that a card keeps.
pub const LIMIT_SCRATCH: i32 = 0x1002;
/// `hipLimitMallocHeapSize`: 5.x answers it with the size of the card.
pub const LIMIT_HEAP: i32 = 2;
/// `hipMemPoolAttrReservedMemCurrent`
pub const POOL_RESERVED: i32 = 5;
/// `hipMemPoolAttrUsedMemCurrent`
pub const POOL_USED: i32 = 7;
/// `hipGraphMemAttrUsedMemCurrent`
pub const GRAPH_USED: i32 = 0;
/// `hipGraphMemAttrReservedMemCurrent`
pub const GRAPH_RESERVED: i32 = 2;
/// `hipStreamCaptureStatusNone`
pub const CAPTURE_NONE: i32 = 0;
/// The flag of the common allocator of 5.x that means host memory (`CL_MEM_SVM_FINE_GRAIN_BUFFER`).
pub const FLAG_HOST_5: u32 = 1 << 10;
