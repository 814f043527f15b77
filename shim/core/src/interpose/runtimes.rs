//! Which runtime a caller means, and its own functions.
//!
//! A preload stands in front of every runtime of the process at once, so a call says only by where it comes from whose function
//! it wants. In this order: what `dlsym` or a look-up of the runtime gave the calling object; the calling object itself, when it
//! is a runtime; what the calling object needs (`DT_NEEDED`); the first runtime in load order. A runtime is recognised by what it
//! exports, not by its file name, and found however it was opened, also after the first call.
//!
//! What was found is remembered for each place that calls. Only `dlsym` gives a pointer to something new, so it forgets all
//! places when the loader's list has changed ([`refresh`]).

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

use super::cards::{Agents, Devices};
use super::rows::{Family, TABLE};
use crate::sys::loaded::{self, Object};

/// Runtimes of one process, those that were unloaded included until their place is needed.
const RUNTIMES: usize = 16;
/// Calling places that are remembered, for each family.
const SITES: usize = 512;
/// Objects for which it is remembered whose functions they were given.
const GIVEN: usize = 64;

const FREE: u32 = 0;
const FILLING: u32 = 1;
const READY: u32 = 2;

/// A function that the runtime does not have.
const ABSENT: usize = 1;

/// Functions of a runtime that bodies call and that no row interposes.
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
pub enum Helper {
    /// `hipGetDevice`
    GetDevice,
    /// `hipRuntimeGetVersion`
    RuntimeGetVersion,
    /// `hipStreamIsCapturing`
    StreamIsCapturing,
    /// `hipStreamGetDevice`
    StreamGetDevice,
    /// `hipDeviceGetMemPool`
    DeviceGetMemPool,
    /// `hipDeviceGetDefaultMemPool`
    DeviceGetDefaultMemPool,
    /// `hipMemPoolGetAttribute`
    MemPoolGetAttribute,
    /// `hipDeviceGetGraphMemAttribute`
    DeviceGetGraphMemAttribute,
    /// `hipGraphGetNodes`
    GraphGetNodes,
    /// `hipGraphNodeGetType`
    GraphNodeGetType,
    /// `hipGraphMemAllocNodeGetParams`
    GraphMemAllocNodeGetParams,
    /// `hipGraphChildGraphNodeGetGraph`
    GraphChildGraphNodeGetGraph,
}

const HELPERS: [&[u8]; 12] = [
    b"hipGetDevice",
    b"hipRuntimeGetVersion",
    b"hipStreamIsCapturing",
    b"hipStreamGetDevice",
    b"hipDeviceGetMemPool",
    b"hipDeviceGetDefaultMemPool",
    b"hipMemPoolGetAttribute",
    b"hipDeviceGetGraphMemAttribute",
    b"hipGraphGetNodes",
    b"hipGraphNodeGetType",
    b"hipGraphMemAllocNodeGetParams",
    b"hipGraphChildGraphNodeGetGraph",
];

/// A runtime that is loaded, or was.
pub struct Runtime {
    state: AtomicU32,
    hip: AtomicBool,
    base: AtomicUsize,
    low: AtomicUsize,
    high: AtomicUsize,
    /// Tells another file at the same place.
    mark: AtomicUsize,
    /// A HIP runtime: it has entered our HSA functions.
    above_hsa: AtomicBool,
    functions: [AtomicUsize; TABLE.len()],
    helpers: [AtomicUsize; HELPERS.len()],
    /// A HIP runtime: one more than the version it answers.
    version: AtomicU32,
    /// A HIP runtime: a bit for each device whose default pool has been used.
    pub(super) pools: AtomicU64,
    /// An HSA runtime: its agents and pools.
    pub(super) agents: AtomicPtr<Agents>,
    /// A HIP runtime: its devices.
    pub(super) devices: AtomicPtr<Devices>,
    /// An HSA runtime: how often it was initialised.
    pub(super) inits: AtomicU32,
}

static LIST: [Runtime; RUNTIMES] = [const { Runtime::new() }; RUNTIMES];

/// `caller << 8 | index + 1`
static PLACES: [[AtomicU64; SITES]; 2] = [const { [const { AtomicU64::new(0) }; SITES] }; 2];

/// Base of an object, base of the runtime whose functions it was given.
static GIVEN_TO: [[AtomicUsize; 2]; GIVEN] = [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; GIVEN];
static GIVEN_NEXT: AtomicUsize = AtomicUsize::new(0);

/// Some runtime was put on the list, once.
static ASKED: AtomicBool = AtomicBool::new(false);

/// What the loader's list was when the places were remembered.
static GENERATION: AtomicU64 = AtomicU64::new(0);

impl Runtime {
    const fn new() -> Self {
        Self {
            state: AtomicU32::new(FREE),
            hip: AtomicBool::new(false),
            base: AtomicUsize::new(0),
            low: AtomicUsize::new(0),
            high: AtomicUsize::new(0),
            mark: AtomicUsize::new(0),
            above_hsa: AtomicBool::new(false),
            functions: [const { AtomicUsize::new(0) }; TABLE.len()],
            helpers: [const { AtomicUsize::new(0) }; HELPERS.len()],
            version: AtomicU32::new(0),
            pools: AtomicU64::new(0),
            agents: AtomicPtr::new(core::ptr::null_mut()),
            devices: AtomicPtr::new(core::ptr::null_mut()),
            inits: AtomicU32::new(0),
        }
    }

    /// Whose it is.
    pub fn family(&self) -> Family {
        if self.hip.load(Relaxed) { Family::Hip } else { Family::Hsa }
    }

    /// True if `address` lies in its file's segments.
    pub fn contains(&self, address: usize) -> bool {
        address != 0 && (self.low.load(Relaxed)..self.high.load(Relaxed)).contains(&address)
    }

    /// The address of its own function for a row.
    #[inline]
    pub fn own(&self, row: usize) -> Option<usize> {
        match self.functions.get(row)?.load(Relaxed) {
            0 => self.own_slow(row),
            ABSENT => None,
            address => Some(address),
        }
    }

    #[cold]
    fn own_slow(&self, row: usize) -> Option<usize> {
        let found = self.symbol(TABLE.get(row)?.name.as_bytes());
        self.functions.get(row)?.store(found.unwrap_or(ABSENT), Relaxed);
        found
    }

    /// The address of a function that no row has.
    #[inline]
    pub fn helper(&self, helper: Helper) -> Option<usize> {
        let place = self.helpers.get(helper as usize)?;
        match place.load(Relaxed) {
            0 => {
                let found = self.symbol(HELPERS.get(helper as usize)?);
                place.store(found.unwrap_or(ABSENT), Relaxed);
                found
            }
            ABSENT => None,
            address => Some(address),
        }
    }

    /// Its place among the runtimes of the process, below 16.
    pub fn index(&self) -> u8 {
        LIST.iter().position(|runtime| core::ptr::eq(runtime, self)).unwrap_or(0) as u8
    }

    /// The version that it answers; 0 where it answers none. Asked once.
    pub fn version(&self, ask: impl FnOnce() -> Option<u32>) -> u32 {
        let known = self.version.load(Relaxed);
        if known != 0 {
            return known - 1;
        }
        let version = ask().unwrap_or(0);
        self.version.store(version.saturating_add(1), Relaxed);
        version
    }

    /// The address of any function that it exports; looked up each time.
    pub fn symbol(&self, name: &[u8]) -> Option<usize> {
        let base = self.base.load(Relaxed);
        loaded::find(name, None, |object| object.base() == base)
    }

    /// A HIP runtime: true if it has entered our HSA functions, so that what it takes of a card shows there.
    pub fn is_above_hsa(&self) -> bool {
        self.above_hsa.load(Relaxed)
    }

    fn set_above_hsa(&self) {
        if !self.above_hsa.load(Relaxed) {
            self.above_hsa.store(true, Relaxed);
        }
    }
}

/// The runtime that `caller` means, and its own function for a row.
#[inline(always)]
#[allow(clippy::inline_always)]
pub fn real(row: usize, family: Family, caller: usize) -> Option<(&'static Runtime, usize)> {
    let place = place(family, caller)?;
    let known = place.load(Relaxed);
    if known >> 8 == caller as u64 & KEPT && known & 0xff != 0 {
        let runtime = LIST.get((known & 0xff) as usize - 1)?;
        if let Some(address) = runtime.own(row) {
            return Some((runtime, address));
        }
    }
    real_slow(row, family, caller, place)
}

/// Bits of an address that a place keeps: user space has at most 56.
const KEPT: u64 = (1 << 56) - 1;

#[inline]
fn place(family: Family, caller: usize) -> Option<&'static AtomicU64> {
    let hash = (caller as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    PLACES.get(family as usize)?.get(hash as usize % SITES)
}

#[cold]
fn real_slow(row: usize, family: Family, caller: usize, place: &AtomicU64) -> Option<(&'static Runtime, usize)> {
    let name = TABLE.get(row)?.name.as_bytes();
    let object = choose(name, family, caller)?;
    let (index, runtime) = register(&object, family)?;
    let address = runtime.own(row)?;
    place.store((caller as u64 & KEPT) << 8 | (index as u64 + 1), Relaxed);
    Some((runtime, address))
}

/// The object whose function of that name `caller` means.
fn choose(name: &[u8], family: Family, caller: usize) -> Option<Object> {
    let mut from = None;
    loaded::each(|object| {
        if caller != 0 && object.contains(caller) {
            from = Some(*object);
        }
        from.is_some()
    });
    let given = from.as_ref().map_or(0, |from| given_to(from.base(), family));
    let mut best: Option<(u8, Object)> = None;
    loaded::each(|object| {
        if is_ours(object) || !object.defines(name) {
            return false;
        }
        let rank = match &from {
            _ if given == object.base() && given != 0 => 5,
            Some(from) if from.base() == object.base() => 4,
            Some(from) if from.needs(object.soname()) => 3,
            _ if is_runtime(object, family) => 2,
            _ => 1,
        };
        if best.as_ref().is_none_or(|(highest, _)| rank > *highest) {
            best = Some((rank, *object));
        }
        false
    });
    best.map(|(_, object)| object)
}

/// True for the object that this code is in.
pub fn is_ours(object: &Object) -> bool {
    object.contains(is_ours as fn(&Object) -> bool as usize)
}

/// True if the object exports what makes a runtime of that family.
pub fn is_runtime(object: &Object, family: Family) -> bool {
    let anchors: [&[u8]; 3] = match family {
        Family::Hip => [b"hipMalloc", b"hipFree", b"hipGetDeviceCount"],
        Family::Hsa => [b"hsa_init", b"hsa_iterate_agents", b"hsa_amd_memory_pool_allocate"],
    };
    !is_ours(object) && anchors.iter().all(|anchor| object.defines(anchor))
}

/// The runtime whose file holds `address`, if it is one.
pub fn containing(address: usize) -> Option<&'static Runtime> {
    if address == 0 {
        return None;
    }
    if let Some(known) = LIST.iter().find(|runtime| runtime.state.load(Acquire) == READY && runtime.contains(address)) {
        return Some(known);
    }
    let mut found = None;
    loaded::each(|object| {
        if object.contains(address) {
            found = [Family::Hip, Family::Hsa].into_iter().find(|&family| is_runtime(object, family)).map(|family| (*object, family));
            return true;
        }
        false
    });
    let (object, family) = found?;
    register(&object, family).map(|(_, runtime)| runtime)
}

/// Remembers that a HIP runtime, if `caller` lies in one, has entered an HSA function of ours.
pub fn note_above_hsa(caller: usize) {
    if let Some(runtime) = containing(caller).filter(|runtime| runtime.family() == Family::Hip) {
        runtime.set_above_hsa();
    }
}

/// An HSA runtime that is known to have been initialised, for those who do not call it themselves.
pub fn initialised_hsa() -> Option<&'static Runtime> {
    LIST.iter().find(|runtime| runtime.state.load(Acquire) == READY && runtime.family() == Family::Hsa && runtime.inits.load(Relaxed) != 0)
}

/// True if any runtime was ever asked for something here.
pub fn was_any_asked() -> bool {
    ASKED.load(Relaxed)
}

/// The place of an object in the list; made where there is none.
fn register(object: &Object, family: Family) -> Option<(usize, &'static Runtime)> {
    let mark = object.mark();
    for (index, runtime) in LIST.iter().enumerate() {
        if runtime.state.load(Acquire) == READY && runtime.base.load(Relaxed) == object.base() && runtime.mark.load(Relaxed) == mark {
            return Some((index, runtime));
        }
    }
    for (index, runtime) in LIST.iter().enumerate() {
        let state = runtime.state.load(Acquire);
        let gone = state == READY && (runtime.base.load(Relaxed) == object.base() || !is_loaded(runtime));
        if (state == FREE || gone) && runtime.state.compare_exchange(state, FILLING, AcqRel, Acquire).is_ok() {
            let (low, high) = object.range();
            runtime.hip.store(family == Family::Hip, Relaxed);
            runtime.base.store(object.base(), Relaxed);
            runtime.low.store(low, Relaxed);
            runtime.high.store(high, Relaxed);
            runtime.mark.store(mark, Relaxed);
            runtime.above_hsa.store(false, Relaxed);
            runtime.version.store(0, Relaxed);
            runtime.pools.store(0, Relaxed);
            runtime.helpers.iter().for_each(|function| function.store(0, Relaxed));
            runtime.functions.iter().for_each(|function| function.store(0, Relaxed));
            runtime.agents.store(core::ptr::null_mut(), Relaxed);
            runtime.devices.store(core::ptr::null_mut(), Relaxed);
            runtime.inits.store(0, Relaxed);
            runtime.state.store(READY, Release);
            ASKED.store(true, Relaxed);
            return Some((index, runtime));
        }
    }
    None
}

fn is_loaded(runtime: &Runtime) -> bool {
    let (base, mark) = (runtime.base.load(Relaxed), runtime.mark.load(Relaxed));
    let mut found = false;
    loaded::each(|object| {
        found = object.base() == base && object.mark() == mark;
        found
    });
    found
}

/// Remembers whose function the object that holds `caller` was given.
pub fn give(caller: usize, runtime: &Runtime) {
    let mut from = 0;
    loaded::each(|object| {
        if object.contains(caller) {
            from = object.base().max(1);
        }
        from != 0
    });
    let (base, hip) = (runtime.base.load(Relaxed), runtime.hip.load(Relaxed));
    // Bases are page-aligned: the lowest bits tell the family.
    let key = from & !1 | usize::from(hip);
    if from == 0 || GIVEN_TO.iter().any(|[object, given]| object.load(Relaxed) == key && given.load(Relaxed) == base) {
        return;
    }
    let room = GIVEN_TO.iter().find(|[object, _]| object.load(Relaxed) == key);
    let next = GIVEN_NEXT.fetch_add(usize::from(room.is_none()), Relaxed) % GIVEN;
    if let Some([object, given]) = room.or(GIVEN_TO.get(next)) {
        given.store(base, Relaxed);
        object.store(key, Relaxed);
    }
    forget_places();
}

fn given_to(object: usize, family: Family) -> usize {
    let key = object & !1 | usize::from(family == Family::Hip);
    GIVEN_TO.iter().find(|[known, _]| known.load(Relaxed) == key).map_or(0, |[_, given]| given.load(Relaxed))
}

/// Forgets which place means which runtime, if the loader's list has changed.
pub fn refresh() {
    let now = loaded::generation();
    if GENERATION.swap(now, Relaxed) != now {
        forget_places();
        let is_any_here = super::binding::repair();
        super::bypass::look_again(is_any_here);
    }
}

fn forget_places() {
    PLACES.iter().flatten().for_each(|place| place.store(0, Relaxed));
}

/// The family of an entry point is used as an index.
const _: () = assert!(Family::Hip as usize == 0 && Family::Hsa as usize == 1);
