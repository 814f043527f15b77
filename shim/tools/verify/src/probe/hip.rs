//! Calls of HIP by name. Types are written out here: one program serves all releases, and layouts that differ are chosen by the version that the runtime
//! reports.

use std::ffi::{c_int, c_void};

use super::call::{call6, number, ptr};
use super::library::Library;
use super::{Answer, Status, module};

/// What a call may have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pointer,
    Async,
    Host,
    Registered,
    Array,
    Mipmap,
    Handle,
    Reserved,
    Mapped,
    Pool,
    Graph,
    Node,
    Executable,
    Stream,
    Module,
    Library,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    kind: Kind,
    pub(super) value: usize,
    size: usize,
}

/// What calls made, and the runtime that they go to.
pub struct State<'a> {
    library: &'a Library,
    objects: Vec<Object>,
    answer: Answer,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Extent {
    width: usize,
    height: usize,
    depth: usize,
}

#[repr(C)]
#[derive(Default)]
struct Pitched {
    pointer: usize,
    pitch: usize,
    width: usize,
    height: usize,
}

/// `hipMemPoolProps`: 88 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct PoolProps {
    kind: c_int,
    handle_types: c_int,
    location: [c_int; 2],
    security: usize,
    max_size: usize,
    reserved: [u8; 56],
}

/// `hipMemAllocNodeParams`: 120 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct AllocParams {
    props: PoolProps,
    access: usize,
    access_count: usize,
    bytes: usize,
    pointer: usize,
}

/// `hipGraphNodeParams`: 256 bytes.
#[repr(C)]
struct NodeParams {
    kind: c_int,
    reserved: [c_int; 3],
    alloc: AllocParams,
    rest: [u8; 120],
}

const DEVICE: c_int = 1;
const PINNED: c_int = 1;
const POSIX_FD: c_int = 1;
const FORMAT_FLOAT: c_int = 0x20;
const ALLOC_NODE: c_int = 10;
/// 32 bits of a float.
const CHANNEL: [c_int; 5] = [32, 0, 0, 0, 2];

impl<'a> State<'a> {
    /// Nothing made yet.
    pub fn new(library: &'a Library) -> Self {
        Self { library, objects: Vec::new(), answer: Answer::new("", Status::Unused) }
    }

    pub(super) fn say(&mut self, key: &str, value: usize) {
        self.answer.numbers.insert(key.to_owned(), value as u64);
    }

    pub(super) fn keep(&mut self, status: c_int, kind: Kind, value: usize, size: usize) -> Option<c_int> {
        if status == 0 {
            self.objects.push(Object { kind, value, size });
        }
        Some(status)
    }

    pub(super) fn newest(&self, kind: Kind) -> Option<Object> {
        self.objects.iter().rev().find(|object| object.kind == kind).copied()
    }

    fn forget(&mut self, object: Object) {
        if let Some(at) = self.objects.iter().rposition(|known| known.kind == object.kind && known.value == object.value) {
            self.objects.remove(at);
        }
    }

    fn stream(&self) -> usize {
        self.newest(Kind::Stream).map_or(0, |object| object.value)
    }

    fn device(&self) -> c_int {
        let mut device = 0;
        if let Some(get) = self.library.find("hipGetDevice") {
            call6(get, [ptr(&mut device), 0, 0, 0, 0, 0]);
        }
        device
    }

    fn version(&self) -> c_int {
        let mut version = 0;
        if let Some(get) = self.library.find("hipRuntimeGetVersion") {
            call6(get, [ptr(&mut version), 0, 0, 0, 0, 0]);
        }
        version
    }

    /// 5.2's allocation properties have no handle type before the location.
    fn allocation_properties(&self) -> [c_int; 8] {
        let mut words = [0; 8];
        words[0] = PINNED;
        let location = if self.version() < 50_300_000 { 1 } else { 2 };
        if location == 2 {
            words[1] = POSIX_FD;
        }
        words[location] = DEVICE;
        words[location + 1] = self.device();
        words
    }

    fn pool_properties(&self) -> PoolProps {
        let location = [DEVICE, self.device()];
        PoolProps { kind: PINNED, handle_types: POSIX_FD, location, security: 0, max_size: 0, reserved: [0; 56] }
    }
}

/// Rows of 64 KiB, or one of what is less.
fn rows(size: usize) -> (usize, usize) {
    let width = size.clamp(1, 65536);
    (width, size / width)
}

/// Elements of four bytes, at most 16384 to a side.
fn elements(size: usize, depth: usize) -> Extent {
    let all = size / 4 / depth;
    let width = all.clamp(1, 16384);
    Extent { width, height: all / width, depth }
}

/// Calls the entry point of that name.
pub fn call(state: &mut State, name: &str, arguments: &[&str]) -> Answer {
    state.answer = Answer::new(name, Status::Absent);
    if let Some(function) = state.library.find(name) {
        let status = dispatch(state, name, function, arguments);
        state.answer.status = status.map_or(Status::Unused, Status::Code);
    }
    state.answer.clone()
}

fn dispatch(state: &mut State, name: &str, function: usize, arguments: &[&str]) -> Option<c_int> {
    match name {
        "hipMalloc" | "hipExtMallocWithFlags" | "hipMallocManaged" => {
            let (mut pointer, size) = (0, number(arguments, 0, 1 << 20));
            let flags = number(arguments, 1, usize::from(name == "hipMallocManaged"));
            let status = call6(function, [ptr(&mut pointer), size, flags, 0, 0, 0]);
            state.keep(status, Kind::Pointer, pointer, size)
        }
        "hipHostMalloc" | "hipHostAlloc" | "hipMallocHost" | "hipMemAllocHost" => {
            let (mut pointer, size) = (0, number(arguments, 0, 1 << 20));
            let status = call6(function, [ptr(&mut pointer), size, 0, 0, 0, 0]);
            state.keep(status, Kind::Host, pointer, size)
        }
        "hipHostRegister" => {
            let mut bytes = vec![0_u8; number(arguments, 0, 1 << 20)];
            let status = call6(function, [bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0, 0]);
            let bytes = bytes.leak();
            state.keep(status, Kind::Registered, bytes.as_ptr() as usize, bytes.len())
        }
        "hipMallocPitch" | "hipMemAllocPitch" => {
            let ((width, height), mut pointer, mut pitch) = (rows(number(arguments, 0, 1 << 20)), 0, 0_usize);
            let status = call6(function, [ptr(&mut pointer), ptr(&mut pitch), width, height, 16, 0]);
            state.keep(status, Kind::Pointer, pointer, pitch.saturating_mul(height))
        }
        "hipMalloc3D" => {
            let (width, height) = rows(number(arguments, 0, 1 << 20));
            let mut pitched = Pitched::default();
            // SAFETY: the headers' signature.
            let status = unsafe {
                let function: unsafe extern "C" fn(*mut Pitched, Extent) -> c_int = std::mem::transmute(function);
                function(&raw mut pitched, Extent { width, height, depth: 1 })
            };
            state.keep(status, Kind::Pointer, pitched.pointer, pitched.pitch.saturating_mul(height))
        }
        "hipMallocArray" | "hipArrayCreate" | "hipArray3DCreate" | "hipMalloc3DArray" | "hipMallocMipmappedArray" | "hipMipmappedArrayCreate" => {
            array(state, name, function, number(arguments, 0, 1 << 20))
        }
        "hipMallocAsync" | "hipMallocFromPoolAsync" => {
            let (mut pointer, size) = (0, number(arguments, 0, 1 << 20));
            let pool = state.newest(Kind::Pool).map_or(0, |object| object.value);
            let [third, fourth] = if name == "hipMallocAsync" { [state.stream(), 0] } else { [pool, state.stream()] };
            if name != "hipMallocAsync" && pool == 0 {
                return None;
            }
            let status = call6(function, [ptr(&mut pointer), size, third, fourth, 0, 0]);
            state.keep(status, Kind::Async, pointer, size)
        }
        "hipMemCreate" => {
            let (mut handle, size, mut properties) = (0, number(arguments, 0, 2 << 20), state.allocation_properties());
            let status = call6(function, [ptr(&mut handle), size, ptr(&mut properties), 0, 0, 0]);
            state.keep(status, Kind::Handle, handle, size)
        }
        "hipMemAddressReserve" => {
            let (mut pointer, size) = (0, number(arguments, 0, 2 << 20));
            let status = call6(function, [ptr(&mut pointer), size, 0, 0, 0, 0]);
            state.keep(status, Kind::Reserved, pointer, size)
        }
        "hipMemMap" => {
            let (place, handle) = (state.newest(Kind::Reserved)?, state.newest(Kind::Handle)?);
            let status = call6(function, [place.value, handle.size, 0, handle.value, 0, 0]);
            state.keep(status, Kind::Mapped, place.value, handle.size)
        }
        "hipMemRetainAllocationHandle" => {
            let (mapped, mut handle) = (state.newest(Kind::Mapped)?, 0);
            let status = call6(function, [ptr(&mut handle), mapped.value, 0, 0, 0, 0]);
            state.keep(status, Kind::Handle, handle, mapped.size)
        }
        "hipMemPoolCreate" => {
            let (mut pool, mut properties) = (0, state.pool_properties());
            let status = call6(function, [ptr(&mut pool), ptr(&mut properties), 0, 0, 0, 0]);
            state.keep(status, Kind::Pool, pool, 0)
        }
        "hipStreamCreate" => {
            let mut stream = 0;
            let status = call6(function, [ptr(&mut stream), 0, 0, 0, 0, 0]);
            state.keep(status, Kind::Stream, stream, 0)
        }
        "hipStreamBeginCapture" => Some(call6(function, [state.stream(), 2, 0, 0, 0, 0])),
        "hipStreamEndCapture" => {
            let mut graph = 0;
            let status = call6(function, [state.stream(), ptr(&mut graph), 0, 0, 0, 0]);
            state.keep(status, Kind::Graph, graph, 0)
        }
        "hipStreamSynchronize" => Some(call6(function, [state.stream(), 0, 0, 0, 0, 0])),
        _ if name.starts_with("hipGraph") => graph(state, name, function, arguments),
        "hipMemGetInfo" => {
            let (mut free, mut total) = (0_usize, 0_usize);
            let status = call6(function, [ptr(&mut free), ptr(&mut total), 0, 0, 0, 0]);
            state.say("free", free);
            state.say("total", total);
            Some(status)
        }
        "hipDeviceTotalMem" => {
            let (mut total, device) = (0_usize, state.device());
            let status = call6(function, [ptr(&mut total), usize::try_from(device).ok()?, 0, 0, 0, 0]);
            state.say("total", total);
            Some(status)
        }
        "hipGetDeviceProperties" | "hipGetDevicePropertiesR0600" | "hipGetDevicePropertiesR0000" => properties(state, name, function),
        "hipDeviceGetAttribute" => {
            let (mut value, device) = (0 as c_int, state.device());
            let attribute = number(arguments, 0, 84);
            let status = call6(function, [ptr(&mut value), attribute, usize::try_from(device).ok()?, 0, 0, 0]);
            state.say("total", usize::try_from(value).unwrap_or(0));
            Some(status)
        }
        "hipGetDeviceCount" => {
            let mut count = 0 as c_int;
            let status = call6(function, [ptr(&mut count), 0, 0, 0, 0, 0]);
            state.say("value", usize::try_from(count).unwrap_or(0));
            Some(status)
        }
        "hipRuntimeGetVersion" => {
            let version = state.version();
            state.say("value", usize::try_from(version).unwrap_or(0));
            Some(0)
        }
        "hipInit" | "hipSetDevice" | "hipDeviceGraphMemTrim" | "hipDeviceSynchronize" | "hipDeviceSetLimit" => {
            Some(call6(function, [number(arguments, 0, 0), number(arguments, 1, 0), 0, 0, 0, 0]))
        }
        _ if name.starts_with("hipModule") || name.starts_with("hipLibrary") => module::call(state, name, function, arguments),
        _ => give_back(state, name, function, arguments),
    }
}

fn array(state: &mut State, name: &str, function: usize, size: usize) -> Option<c_int> {
    let (flat, deep) = (elements(size, 1), elements(size, 8));
    let (mut made, mut channel) = (0_usize, CHANNEL);
    let formats = [i64::from(FORMAT_FLOAT) | 1 << 32, 0];
    let plane = Extent { depth: 0, ..flat };
    let mut kind = Kind::Array;
    let status = match name {
        "hipMallocArray" => call6(function, [ptr(&mut made), ptr(&mut channel), flat.width, flat.height, 0, 0]),
        "hipArrayCreate" => {
            let mut desc = (flat.width, flat.height, formats[0]);
            call6(function, [ptr(&mut made), ptr(&mut desc), 0, 0, 0, 0])
        }
        "hipArray3DCreate" => {
            let mut desc = Array3d { extent: deep, formats };
            call6(function, [ptr(&mut made), ptr(&mut desc), 0, 0, 0, 0])
        }
        "hipMipmappedArrayCreate" => {
            kind = Kind::Mipmap;
            let mut desc = Array3d { extent: plane, formats };
            call6(function, [ptr(&mut made), ptr(&mut desc), 4, 0, 0, 0])
        }
        "hipMalloc3DArray" => {
            // SAFETY: the headers' signature.
            unsafe {
                let function: unsafe extern "C" fn(*mut usize, *mut c_void, Extent, u32) -> c_int = std::mem::transmute(function);
                function(&raw mut made, (&raw mut channel).cast(), deep, 0)
            }
        }
        _ => {
            kind = Kind::Mipmap;
            // SAFETY: the headers' signature.
            unsafe {
                let function: unsafe extern "C" fn(*mut usize, *mut c_void, Extent, u32, u32) -> c_int = std::mem::transmute(function);
                function(&raw mut made, (&raw mut channel).cast(), plane, 4, 0)
            }
        }
    };
    state.keep(status, kind, made, size)
}

#[repr(C)]
struct Array3d {
    extent: Extent,
    /// Format, channels, flags.
    formats: [i64; 2],
}

fn graph(state: &mut State, name: &str, function: usize, arguments: &[&str]) -> Option<c_int> {
    let mut made = 0_usize;
    match name {
        "hipGraphCreate" => {
            let status = call6(function, [ptr(&mut made), 0, 0, 0, 0, 0]);
            state.keep(status, Kind::Graph, made, 0)
        }
        "hipGraphAddMemAllocNode" | "hipGraphAddNode" => {
            let (graph, size) = (state.newest(Kind::Graph)?, number(arguments, 0, 1 << 20));
            let alloc = AllocParams { props: state.pool_properties(), access: 0, access_count: 0, bytes: size, pointer: 0 };
            let mut any = NodeParams { kind: ALLOC_NODE, reserved: [0; 3], alloc, rest: [0; 120] };
            let params = if name == "hipGraphAddNode" { ptr(&mut any) } else { ptr(&mut any.alloc) };
            let status = call6(function, [ptr(&mut made), graph.value, 0, 0, params, 0]);
            state.keep(status, Kind::Node, any.alloc.pointer, size)
        }
        "hipGraphAddMemFreeNode" => {
            let (graph, pointer) = (state.newest(Kind::Graph)?, state.newest(Kind::Node)?);
            let (mut nodes, mut count) = ([0_usize; 64], 64_usize);
            let get = state.library.find("hipGraphGetNodes")?;
            if call6(get, [graph.value, ptr(&mut nodes), ptr(&mut count), 0, 0, 0]) != 0 {
                count = 0;
            }
            let status = call6(function, [ptr(&mut made), graph.value, ptr(&mut nodes), count, pointer.value, 0]);
            if status == 0 {
                state.forget(pointer);
            }
            Some(status)
        }
        "hipGraphInstantiate" | "hipGraphInstantiateWithFlags" => {
            let graph = state.newest(Kind::Graph)?;
            let status = call6(function, [ptr(&mut made), graph.value, 0, 0, 0, 0]);
            state.keep(status, Kind::Executable, made, 0)
        }
        "hipGraphInstantiateWithParams" => {
            let graph = state.newest(Kind::Graph)?;
            // Error node, flags, result, stream to upload on.
            let mut params = [0, 0, 0, state.stream()];
            let status = call6(function, [ptr(&mut made), graph.value, ptr(&mut params), 0, 0, 0]);
            state.keep(status, Kind::Executable, made, 0)
        }
        "hipGraphLaunch" | "hipGraphLaunch_spt" => Some(call6(function, [state.newest(Kind::Executable)?.value, state.stream(), 0, 0, 0, 0])),
        _ => give_back(state, name, function, arguments),
    }
}

/// Room for more than any release's structure, the size of the memory at its place in it, and units where R0600 has them.
fn properties(state: &mut State, name: &str, function: usize) -> Option<c_int> {
    let mut bytes = [0_u64; 512];
    let device = usize::try_from(state.device()).ok()?;
    let status = call6(function, [bytes.as_mut_ptr() as usize, device, 0, 0, 0, 0]);
    let is_new = name.ends_with("R0600");
    state.say("total", usize::try_from(bytes[if is_new { 36 } else { 32 }]).ok()?);
    if is_new {
        state.say("units", usize::try_from(bytes[48] >> 32).ok()?);
    }
    Some(status)
}

/// What each free takes, and what goes after the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    Stream,
    Size,
}

const FREES: [(&str, Kind, After); 18] = [
    ("hipFree", Kind::Pointer, After::Nothing),
    ("hipFreeAsync", Kind::Async, After::Stream),
    ("hipHostFree", Kind::Host, After::Nothing),
    ("hipFreeHost", Kind::Host, After::Nothing),
    ("hipHostUnregister", Kind::Registered, After::Nothing),
    ("hipFreeArray", Kind::Array, After::Nothing),
    ("hipArrayDestroy", Kind::Array, After::Nothing),
    ("hipFreeMipmappedArray", Kind::Mipmap, After::Nothing),
    ("hipMipmappedArrayDestroy", Kind::Mipmap, After::Nothing),
    ("hipMemRelease", Kind::Handle, After::Nothing),
    ("hipMemUnmap", Kind::Mapped, After::Size),
    ("hipMemAddressFree", Kind::Reserved, After::Size),
    ("hipMemPoolDestroy", Kind::Pool, After::Nothing),
    ("hipGraphDestroy", Kind::Graph, After::Nothing),
    ("hipGraphExecDestroy", Kind::Executable, After::Nothing),
    ("hipStreamDestroy", Kind::Stream, After::Nothing),
    ("hipModuleUnload", Kind::Module, After::Nothing),
    ("hipLibraryUnload", Kind::Library, After::Nothing),
];

/// Gives the newest object of its kind back; `hipFree,node` what a graph gave, `hipFree,async` what `hipMallocAsync` gave.
pub(super) fn give_back(state: &mut State, name: &str, function: usize, arguments: &[&str]) -> Option<c_int> {
    let &(_, kind, after) = FREES.iter().find(|(known, ..)| *known == name)?;
    let kind = match arguments.first() {
        Some(&"node") => Kind::Node,
        Some(&"async") => Kind::Async,
        _ => kind,
    };
    let object = state.newest(kind)?;
    let second = match after {
        After::Nothing => 0,
        After::Stream => state.stream(),
        After::Size => object.size,
    };
    let status = call6(function, [object.value, second, 0, 0, 0, 0]);
    if status == 0 {
        state.forget(object);
    }
    Some(status)
}
