//! Graphs whose nodes allocate.
//!
//! 5.7 takes the memory when the node is added; 6.4 and 7.x take it when the graph is launched, and what CLR does when HSA
//! refuses it then is to crash, or to answer success with nothing behind the addresses. So the alloc nodes are added up when a
//! graph is made executable, captured ones too, and each launch is admitted with the sum. Where there is no HSA beneath, a node is
//! charged when it is added and refunded with its graph.
//!
//! A graph whose alloc nodes lie on several cards is admitted for the card of the first; the others are held beneath.

use core::ffi::{c_char, c_void};

use super::abi::{AllocNodeParams, NODE_ALLOC, NODE_CHILD, NODE_PARAMS_ALLOC, SUCCESS, Status};
use super::admit::{self, Keep, Want};
use super::own;
use crate::interpose::{Call, keys};
use crate::shim;
use crate::sys::raw;

/// How deep child graphs are followed; deeper ones are held beneath.
const DEPTH: u32 = 8;
/// Nodes that a walk keeps on the stack; more get memory of their own.
const NODES: usize = 64;

/// What the alloc nodes of a graph take, and of which device.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    device: Option<i32>,
    bytes: u64,
}

impl Sum {
    /// As one number, to be noted: the device in the highest 16 bits.
    fn packed(self) -> u64 {
        u64::from(self.device.unwrap_or(0) as u16) << 48 | self.bytes.min((1 << 48) - 1)
    }

    fn unpacked(number: u64) -> Self {
        Self { device: Some((number >> 48) as i32), bytes: number & ((1 << 48) - 1) }
    }
}

type AddAlloc = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const *mut c_void, usize, *mut AllocNodeParams) -> Status;
type AddNode = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const *mut c_void, usize, *mut c_void) -> Status;

/// `hipGraphAddMemAllocNode`
pub unsafe fn add_alloc_node(
    call: &Call,
    real: AddAlloc,
    node: *mut *mut c_void,
    graph: *mut c_void,
    dependencies: *const *mut c_void,
    count: usize,
    params: *mut AllocNodeParams,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { added(call, node, graph, params, || real(node, graph, dependencies, count, params)) }
}

/// `hipGraphAddNode`
pub unsafe fn add_node(
    call: &Call,
    real: AddNode,
    node: *mut *mut c_void,
    graph: *mut c_void,
    dependencies: *const *mut c_void,
    count: usize,
    params: *mut c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for; the first word of the parameters is their type.
    unsafe {
        let allocates = !params.is_null() && params.cast::<i32>().read() == NODE_ALLOC;
        let alloc = if allocates { params.byte_add(NODE_PARAMS_ALLOC).cast() } else { core::ptr::null_mut() };
        added(call, node, graph, alloc, || real(node, graph, dependencies, count, params))
    }
}

unsafe fn added(call: &Call, node: *mut *mut c_void, graph: *mut c_void, params: *mut AllocNodeParams, driver: impl FnOnce() -> Status) -> Status {
    // SAFETY: the caller's own argument; null is allowed for.
    let Some(asked) = (unsafe { params.as_ref() }) else { return admit::within(call, driver) };
    let (bytes, device) = (asked.bytes as u64, asked.location.id);
    let above_hsa = call.runtime.is_above_hsa();
    if above_hsa && own::major(call) >= 6 {
        return admit::within(call, driver);
    }
    // 5.x takes the memory now; a runtime without HSA is charged as if it did, as nothing shows when it does.
    let keep = if above_hsa { Keep::Alone } else { Keep::AddTo(graph) };
    let want = Want { device: Some(device), keep, ..Want::here(Some(bytes)) };
    // SAFETY: on success the runtime has written there.
    admit::take(call, want, !node.is_null(), driver, || unsafe { (*node, bytes) })
}

/// `hipGraphInstantiate`
pub unsafe fn instantiate(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *mut *mut c_void, *mut c_char, usize) -> Status,
    executable: *mut *mut c_void,
    graph: *mut c_void,
    error_node: *mut *mut c_void,
    log: *mut c_char,
    size: usize,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { instantiated(call, executable, graph, || real(executable, graph, error_node, log, size)) }
}

/// `hipGraphInstantiateWithFlags`
pub unsafe fn instantiate_with_flags(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, u64) -> Status,
    executable: *mut *mut c_void,
    graph: *mut c_void,
    flags: u64,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { instantiated(call, executable, graph, || real(executable, graph, flags)) }
}

/// `hipGraphInstantiateWithParams`
pub unsafe fn instantiate_with_params(
    call: &Call,
    real: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *mut c_void) -> Status,
    executable: *mut *mut c_void,
    graph: *mut c_void,
    params: *mut c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    unsafe { instantiated(call, executable, graph, || real(executable, graph, params)) }
}

unsafe fn instantiated(call: &Call, executable: *mut *mut c_void, graph: *mut c_void, driver: impl FnOnce() -> Status) -> Status {
    let mut sum = Sum::default();
    add_up(call, graph, DEPTH, &mut sum);
    let status = admit::within(call, driver);
    if status == SUCCESS && !executable.is_null() && sum.bytes != 0 {
        // SAFETY: on success the runtime has written there.
        let executable = unsafe { *executable };
        shim::note(keys::graph(executable), sum.packed());
    }
    status
}

/// `hipGraphExecUpdate`: the executable graph keeps the alloc nodes it was made with, whatever sizes the other graph's have (measured on 6.4.3 and 7.2.4),
/// so what is noted of it stays.
pub unsafe fn update(
    call: &Call,
    real: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_void, *mut u32) -> Status,
    executable: *mut c_void,
    graph: *mut c_void,
    error_node: *mut *mut c_void,
    result: *mut u32,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    admit::within(call, || unsafe { real(executable, graph, error_node, result) })
}

/// `hipGraphLaunch`, `hipGraphLaunch_spt`
pub unsafe fn launch(
    call: &Call,
    real: unsafe extern "C" fn(*mut c_void, *mut c_void) -> Status,
    executable: *mut c_void,
    stream: *mut c_void,
) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(executable, stream) };
    let noted = shim::read_note(keys::graph(executable)).map(Sum::unpacked).filter(|_| own::major(call) >= 6 && call.runtime.is_above_hsa());
    let Some(Sum { bytes, device: Some(device) }) = noted else { return admit::within(call, driver) };
    let idle = own::graph_state(call, device).map(own::PoolState::idle);
    let least = idle.map(|idle| if idle >= bytes { 0 } else { bytes });
    let want = Want { device: Some(device), least, ..Want::here(Some(bytes)) };
    admit::take(call, want, true, driver, || (core::ptr::null_mut(), 0))
}

/// `hipGraphExecDestroy`
pub unsafe fn destroy_executable(call: &Call, real: unsafe extern "C" fn(*mut c_void) -> Status, executable: *mut c_void) -> Status {
    // Before the runtime gives the address to another one.
    shim::take_note(keys::graph(executable));
    // SAFETY: the caller's own argument, to the function it was meant for.
    let status = unsafe { real(executable) };
    if status != SUCCESS {
        call.failed();
    }
    status
}

/// `hipGraphDestroy`: what its nodes were charged with where the runtime has no HSA beneath.
pub unsafe fn destroy(call: &Call, real: unsafe extern "C" fn(*mut c_void) -> Status, graph: *mut c_void) -> Status {
    // SAFETY: the caller's own argument, to the function it was meant for.
    admit::give_back(call, graph, || unsafe { real(graph) })
}

/// Adds up the alloc nodes of a graph and of its children.
fn add_up(call: &Call, graph: *mut c_void, depth: u32, sum: &mut Sum) {
    if graph.is_null() || depth == 0 || !own::has_alloc_nodes(call) {
        return;
    }
    each_node(call, graph, |node| match own::node_type(call, node) {
        Some(NODE_ALLOC) => {
            let Some(params) = own::alloc_node(call, node) else { return };
            let device = *sum.device.get_or_insert(params.location.id);
            if device == params.location.id {
                sum.bytes = sum.bytes.saturating_add(params.bytes as u64);
            }
        }
        Some(NODE_CHILD) => {
            if let Some(child) = own::child_graph(call, node) {
                add_up(call, child, depth - 1, sum);
            }
        }
        _ => {}
    });
}

/// Visits the nodes of a graph.
fn each_node(call: &Call, graph: *mut c_void, mut visit: impl FnMut(*mut c_void)) {
    let Some(count) = own::node_count(call, graph) else { return };
    if count <= NODES {
        let mut nodes = [core::ptr::null_mut(); NODES];
        let count = own::nodes(call, graph, &mut nodes);
        nodes.iter().take(count).for_each(|&node| visit(node));
        return;
    }
    let Some(bytes) = count.checked_mul(size_of::<*mut c_void>()) else { return };
    let Ok(memory) = raw::map_private(bytes) else { return };
    #[allow(clippy::cast_ptr_alignment, reason = "a mapping begins at a page")]
    // SAFETY: fresh zeroed memory of that size, which nobody else has.
    let nodes = unsafe { core::slice::from_raw_parts_mut(memory.cast::<*mut c_void>(), count) };
    let count = own::nodes(call, graph, nodes);
    nodes.iter().take(count).for_each(|&node| visit(node));
    // SAFETY: no reference to it is left.
    unsafe { raw::unmap(memory, bytes) };
}
