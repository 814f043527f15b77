//! What a key of the table stands for, and what a charge is for.

use core::ffi::c_void;

use crate::table::Key;

const POINTER: u8 = 1;
const HIP: u8 = 2;
const HANDLE: u8 = 3;
const MAPPING: u8 = 4;
const EXECUTABLE: u8 = 5;
const READER: u8 = 6;
const QUEUE: u8 = 7;
const SAMPLING: u8 = 8;
const MANAGED: u8 = 9;
const GRAPH: u8 = 10;
const LIMIT: u8 = 11;

/// Memory of a pool or region, by its address, charged beneath.
pub fn pointer(address: *const c_void) -> Key {
    Key::new(POINTER, address as u64)
}

/// Memory that only HIP shows, by its address or handle.
pub fn hip(address: *const c_void) -> Key {
    Key::new(HIP, address as u64)
}

/// Physical memory, by its HSA handle.
pub fn handle(handle: u64) -> Key {
    Key::new(HANDLE, handle)
}

/// A mapping of physical memory, by its address; a note that leads to the handle.
pub fn mapping(address: *const c_void) -> Key {
    Key::new(MAPPING, address as u64)
}

/// What an executable has loaded on one card (`index`: the card's in the ledger).
pub fn executable(handle: u64, index: u8) -> Key {
    Key::new(EXECUTABLE, handle ^ u64::from(index) << 48)
}

/// A reader of a code object; a note of what loading it takes.
pub fn reader(handle: u64) -> Key {
    Key::new(READER, handle)
}

/// A queue, by its address.
pub fn queue(address: *const c_void) -> Key {
    Key::new(QUEUE, address as u64)
}

/// A session of PC sampling.
pub fn sampling(handle: u64) -> Key {
    Key::new(SAMPLING, handle)
}

/// A range that was made to live on a card, by its address.
pub fn managed(address: *const c_void) -> Key {
    Key::new(MANAGED, address as u64)
}

/// An executable graph; a note of what its alloc nodes take.
pub fn graph(executable: *const c_void) -> Key {
    Key::new(GRAPH, executable as u64)
}

/// What a raised limit of a runtime may make HSA take on one card (`index`: the card's in the ledger).
pub fn limit(limit: i32, runtime: u8, index: u8) -> Key {
    Key::new(LIMIT, u64::from(limit as u16) << 16 | u64::from(runtime) << 8 | u64::from(index))
}

/// What a charge is for.
pub mod kind {
    /// Memory of a pool or region.
    pub const POOL: u8 = 1;
    /// Physical memory without an address.
    pub const PHYSICAL: u8 = 2;
    /// Managed memory of who calls HSA directly.
    pub const MANAGED: u8 = 3;
    /// Images of modules with their variables.
    pub const IMAGE: u8 = 4;
    /// Queues.
    pub const QUEUE: u8 = 5;
    /// What the HIP layer charges: managed memory, and all memory of a runtime without HSA. The upper half is the runtime's number.
    pub const HIP: u8 = 6;
    /// Scratch that a raised limit allows.
    pub const SCRATCH: u8 = 7;
}
