//! What a wrapper asks of the runtime that it stands before: its own functions, each only where it has one.

use core::ffi::c_void;

use super::abi::{AllocNodeParams, CAPTURE_NONE, GRAPH_RESERVED, GRAPH_USED, POOL_RESERVED, POOL_USED, SUCCESS, Status};
use crate::interpose::Call;
use crate::interpose::cards;
use crate::interpose::runtimes::Helper;

/// What a pool has taken from beneath, and what of that is handed out.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolState {
    reserved: u64,
    used: u64,
}

impl PoolState {
    /// Bytes that it can hand out without taking more, if they lie well.
    pub(super) fn idle(self) -> u64 {
        self.reserved.saturating_sub(self.used)
    }
}

/// A function of the runtime with arguments `A` that answers a status.
macro_rules! own {
    ($call:expr, $helper:ident, fn($($type:ty),*)) => {
        // SAFETY: the runtime's function of that name, as the headers of all versions that have it declare it.
        $call.runtime.helper(Helper::$helper).map(|address| unsafe {
            core::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> Status>(address)
        })
    };
}

/// Calls a function that writes one answer; `None` where it fails or does not exist.
fn answer<T: Copy>(start: T, ask: impl FnOnce(*mut T) -> Status) -> Option<T> {
    let mut value = start;
    (ask(&raw mut value) == SUCCESS).then_some(value)
}

/// The current device of the calling thread. Where there is only one, it is that.
#[inline]
pub(super) fn current_device(call: &Call) -> Option<i32> {
    if cards::is_alone(call) { Some(0) } else { ask_current_device(call) }
}

fn ask_current_device(call: &Call) -> Option<i32> {
    let get = own!(call, GetDevice, fn(*mut i32))?;
    // SAFETY: it writes one number.
    answer(0, |place| unsafe { get(place) })
}

/// The release of the runtime: 5, 6, 7; 0 where it does not say.
pub(super) fn major(call: &Call) -> u32 {
    version(call) / 10_000_000
}

/// True for 5.2 and older, whose allocation properties are laid out otherwise.
pub(super) fn is_5_2(call: &Call) -> bool {
    (1..50_300_000).contains(&version(call))
}

/// As `hipRuntimeGetVersion` answers: major × 10⁷ + minor × 10⁵ + patch; 0 where it does not.
fn version(call: &Call) -> u32 {
    call.runtime.version(|| {
        let get = own!(call, RuntimeGetVersion, fn(*mut i32))?;
        // SAFETY: it writes one number.
        answer(0, |place| unsafe { get(place) }).and_then(|version| u32::try_from(version).ok())
    })
}

/// True if a stream is being captured. The null stream cannot be.
pub(super) fn is_capturing(call: &Call, stream: *mut c_void) -> bool {
    if stream.is_null() {
        return false;
    }
    let Some(ask) = own!(call, StreamIsCapturing, fn(*mut c_void, *mut i32)) else { return false };
    // SAFETY: it writes one number.
    answer(CAPTURE_NONE, |place| unsafe { ask(stream, place) }).is_some_and(|status| status != CAPTURE_NONE)
}

/// The device of a stream: that of the thread for the null stream, and where the runtime cannot say.
pub(super) fn stream_device(call: &Call, stream: *mut c_void) -> Option<i32> {
    // The streams 1 and 2 are the null stream and that of the thread.
    if stream as usize > 2
        && let Some(get) = own!(call, StreamGetDevice, fn(*mut c_void, *mut i32))
        // SAFETY: it writes one number.
        && let Some(device) = answer(0, |place| unsafe { get(stream, place) })
    {
        return Some(device);
    }
    current_device(call)
}

/// The pool that a device takes stream-ordered memory from.
pub(super) fn current_pool(call: &Call, device: i32) -> Option<*mut c_void> {
    let get = own!(call, DeviceGetMemPool, fn(*mut *mut c_void, i32))?;
    // SAFETY: it writes one address.
    answer(core::ptr::null_mut(), |place| unsafe { get(place, device) })
}

/// The pool that a device has from the start.
pub(super) fn default_pool(call: &Call, device: i32) -> Option<*mut c_void> {
    let get = own!(call, DeviceGetDefaultMemPool, fn(*mut *mut c_void, i32))?;
    // SAFETY: it writes one address.
    answer(core::ptr::null_mut(), |place| unsafe { get(place, device) })
}

/// What a pool holds.
pub(super) fn pool_state(call: &Call, pool: *mut c_void) -> Option<PoolState> {
    let get = own!(call, MemPoolGetAttribute, fn(*mut c_void, i32, *mut u64))?;
    // SAFETY: it writes one number of 64 bits for these attributes.
    let number = |attribute| answer(0_u64, |place| unsafe { get(pool, attribute, place) });
    Some(PoolState { reserved: number(POOL_RESERVED)?, used: number(POOL_USED)? })
}

/// What the graphs of a device hold.
pub(super) fn graph_state(call: &Call, device: i32) -> Option<PoolState> {
    let get = own!(call, DeviceGetGraphMemAttribute, fn(i32, i32, *mut u64))?;
    // SAFETY: it writes one number of 64 bits.
    let number = |attribute| answer(0_u64, |place| unsafe { get(device, attribute, place) });
    Some(PoolState { reserved: number(GRAPH_RESERVED)?, used: number(GRAPH_USED)? })
}

/// How many nodes a graph has.
pub(super) fn node_count(call: &Call, graph: *mut c_void) -> Option<usize> {
    let get = own!(call, GraphGetNodes, fn(*mut c_void, *mut *mut c_void, *mut usize))?;
    // SAFETY: without a place for nodes it writes their number.
    answer(0_usize, |place| unsafe { get(graph, core::ptr::null_mut(), place) })
}

/// Writes the nodes of a graph; answers how many it wrote.
pub(super) fn nodes(call: &Call, graph: *mut c_void, room: &mut [*mut c_void]) -> usize {
    let Some(get) = own!(call, GraphGetNodes, fn(*mut c_void, *mut *mut c_void, *mut usize)) else { return 0 };
    // SAFETY: it writes at most as many as the number says.
    answer(room.len(), |place| unsafe { get(graph, room.as_mut_ptr(), place) }).unwrap_or(0).min(room.len())
}

/// What a node is.
pub(super) fn node_type(call: &Call, node: *mut c_void) -> Option<i32> {
    let get = own!(call, GraphNodeGetType, fn(*mut c_void, *mut i32))?;
    // SAFETY: it writes one number.
    answer(-1, |place| unsafe { get(node, place) })
}

/// True if graphs of this runtime can allocate. 5.2's cannot, and it numbers the kinds of nodes otherwise.
pub(super) fn has_alloc_nodes(call: &Call) -> bool {
    call.runtime.helper(Helper::GraphMemAllocNodeGetParams).is_some()
}

/// The parameters of an alloc node.
pub(super) fn alloc_node(call: &Call, node: *mut c_void) -> Option<AllocNodeParams> {
    let get = own!(call, GraphMemAllocNodeGetParams, fn(*mut c_void, *mut AllocNodeParams))?;
    // SAFETY: it writes one structure.
    answer(AllocNodeParams::EMPTY, |place| unsafe { get(node, place) })
}

/// The graph of a child node.
pub(super) fn child_graph(call: &Call, node: *mut c_void) -> Option<*mut c_void> {
    let get = own!(call, GraphChildGraphNodeGetGraph, fn(*mut c_void, *mut *mut c_void))?;
    // SAFETY: it writes one address.
    answer(core::ptr::null_mut(), |place| unsafe { get(node, place) })
}
