//! Which card a call is about: identities of HSA's agents and pools, and of HIP's devices, asked once.
//!
//! The address of a card is HSA's (domain, bus, device, function, partition). HIP's own answer has neither function nor
//! partition, so a HIP device is looked up among HSA's agents where there are any; only a runtime without HSA is taken at its
//! word. A table is made without a lock, by whoever needs it, and published whole; one that was published is never freed.

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{AcqRel, Acquire};

use super::Call;
use super::runtimes::{self, Helper, Runtime};
use crate::card::CardId;
use crate::ledger::layout::CARDS;
use crate::shim::{CardOf, Memo};
use crate::sys::private::Zeroed;
use crate::sys::raw;

/// A card and what is known of it.
#[derive(Debug)]
pub struct Known {
    memo: Memo,
    ids: [CardId; 2],
    count: u8,
    /// One more than its position in the container; 0: not known.
    position: u8,
    /// Compute units; 0 where HSA was not asked.
    units: u32,
}

impl Known {
    const fn at(position: u8) -> Self {
        Self { memo: Memo::new(), ids: [CardId::NONE; 2], count: 0, position, units: 0 }
    }

    /// The same card, of which nothing is remembered.
    fn again(&self) -> Self {
        Self { ids: self.ids, count: self.count, units: self.units, ..Self::at(self.position) }
    }

    fn add(&mut self, id: CardId) {
        if let Some(room) = self.ids.get_mut(usize::from(self.count)) {
            *room = id;
            self.count += 1;
        }
    }

    /// As quota and ledger take it.
    #[inline]
    pub fn of(&self) -> CardOf<'_> {
        let ids = self.ids.get(..usize::from(self.count)).unwrap_or_default();
        CardOf { ids, position: usize::from(self.position).checked_sub(1), memo: &self.memo }
    }

    /// Compute units, by HSA; 0 for a card that only HIP has told of.
    pub fn units(&self) -> u32 {
        self.units
    }

    fn first(&self) -> CardId {
        self.ids[0]
    }
}

/// Room for the handles of one HSA runtime: agents, pools and regions.
const HANDLES: usize = 2048;
/// In place of a card's number: memory of the host.
const HOST: u8 = 0xff;
/// In place of a card's number: no handle.
const NO_HANDLE: u8 = 0;

/// What one HSA runtime has.
#[repr(C)]
pub struct Agents {
    cards: [Known; CARDS],
    card_count: usize,
    /// A handle, and one more than the number of its card, each as near as there was room to where its number leads.
    handles: [(u64, u8); HANDLES],
}

/// What one HIP runtime has, by its ordinals.
#[repr(C)]
pub struct Devices {
    cards: [Known; CARDS],
    count: usize,
}

// SAFETY: integers only; all zeros is an empty table.
unsafe impl Zeroed for Agents {}
// SAFETY: as above.
unsafe impl Zeroed for Devices {}

const DEVICE_TYPE: u32 = 17;
const BDFID: u32 = 0xA006;
const DOMAIN: u32 = 0xA00F;
const UUID: u32 = 0xA011;
const COMPUTE_UNITS: u32 = 0xA002;
const SEGMENT: u32 = 0;

type Visit = unsafe extern "C" fn(u64, *mut c_void) -> u32;
type Iterate = unsafe extern "C" fn(u64, Visit, *mut c_void) -> u32;
type Info = unsafe extern "C" fn(u64, u32, *mut c_void) -> u32;

/// What making a table needs at hand.
struct Making<'a> {
    agents: &'a mut Agents,
    agent_info: Info,
    pool_info: Info,
    pools: Iterate,
    regions: Option<Iterate>,
    /// Of the agent whose pools are being visited.
    what: u8,
}

impl Agents {
    /// The place of a handle, or the one that it would have.
    #[inline]
    fn place(&self, handle: u64) -> Option<usize> {
        let first = (handle.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
        (first..first + HANDLES)
            .map(|index| index % HANDLES)
            .find(|&index| self.handles.get(index).is_some_and(|(known, what)| *what == NO_HANDLE || *known == handle))
    }

    /// What a handle belongs to: one more than the number of a card, or [`HOST`].
    #[inline]
    fn what(&self, handle: u64) -> Option<u8> {
        self.handles.get(self.place(handle)?).map(|(_, what)| *what).filter(|&what| what != NO_HANDLE)
    }

    /// The card of that name; none for memory of the host.
    #[inline]
    fn card(&'static self, what: u8) -> Option<&'static Known> {
        self.cards.get(usize::from(what).checked_sub(1)?).filter(|_| what != HOST)
    }

    fn put(&mut self, handle: u64, what: u8) {
        if let Some(room) = self.place(handle).and_then(|place| self.handles.get_mut(place))
            && room.1 == NO_HANDLE
        {
            *room = (handle, what);
        }
    }
}

unsafe extern "C" fn visit_agent(agent: u64, data: *mut c_void) -> u32 {
    // SAFETY: `data` is the table that is being made, by this thread alone.
    let making = unsafe { &mut *data.cast::<Making>() };
    let mut kind = 0_u32;
    // SAFETY: the agent is the runtime's own, the answer has four bytes.
    if unsafe { (making.agent_info)(agent, DEVICE_TYPE, (&raw mut kind).cast()) } != 0 {
        return 0;
    }
    making.what = HOST;
    let index = making.agents.card_count;
    if kind == 1 && index < making.agents.cards.len() {
        let known = identity(making.agent_info, agent, index);
        if let Some(room) = making.agents.cards.get_mut(index) {
            *room = known;
        }
        making.agents.card_count += 1;
        making.what = index as u8 + 1;
    }
    making.agents.put(agent, making.what);
    // SAFETY: callbacks with the same data; they end before this call does.
    unsafe { (making.pools)(agent, visit_pool, data) };
    if making.what == HOST
        && let Some(regions) = making.regions
    {
        // What a region of the host is must be known: an agent of a card shows them as well. A card's own are its pools.
        // SAFETY: as above.
        unsafe { regions(agent, visit_pool, data) };
    }
    0
}

unsafe extern "C" fn visit_pool(pool: u64, data: *mut c_void) -> u32 {
    // SAFETY: `data` is the table that is being made, by this thread alone.
    let making = unsafe { &mut *data.cast::<Making>() };
    let mut segment = 0_u32;
    // SAFETY: the pool is the runtime's own, the answer has four bytes.
    let status = unsafe { (making.pool_info)(pool, SEGMENT, (&raw mut segment).cast()) };
    // Other segments than the global one are no memory of a card.
    making.agents.put(pool, if status == 0 && segment != 0 { HOST } else { making.what });
    0
}

fn identity(info: Info, agent: u64, position: usize) -> Known {
    let mut known = Known::at(position as u8 + 1);
    let (mut bdfid, mut domain, mut uuid) = (0_u32, 0_u32, [0_u8; 64]);
    // SAFETY: the agent is the runtime's own; three answers of four bytes, and a string of at most 21.
    unsafe {
        if info(agent, COMPUTE_UNITS, (&raw mut known.units).cast()) != 0 {
            known.units = 0;
        }
        if info(agent, BDFID, (&raw mut bdfid).cast()) == 0 {
            // Runtimes before 3.9 do not know the domain: 0.
            let _ = info(agent, DOMAIN, (&raw mut domain).cast());
            known.add(CardId::from_bdfid(domain, bdfid));
        }
        if info(agent, UUID, uuid.as_mut_ptr().cast()) == 0
            && let Ok(text) = CStr::from_bytes_until_nul(&uuid)
            && let Some(id) = CardId::parse(text.to_bytes())
        {
            known.add(id);
        }
    }
    if known.count == 0 {
        known.add(CardId::position(position as u32));
    }
    known
}

/// Zeroed memory for a table.
fn fresh<T: Zeroed>() -> Option<&'static mut T> {
    let memory = raw::map_private(size_of::<T>()).ok()?;
    // SAFETY: fresh zeroed memory of the right size, page-aligned, seen by nobody else.
    Some(unsafe { &mut *memory.cast::<T>() })
}

fn discard<T>(table: &'static mut T) {
    // SAFETY: it was never published.
    unsafe { raw::unmap(core::ptr::from_mut(table).cast(), size_of::<T>()) };
}

fn published<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: a table that was published is never freed.
    unsafe { place.load(Acquire).as_ref() }
}

fn list_agents(runtime: &Runtime) -> Option<&'static mut Agents> {
    let (agent_info, pool_info) = (runtime.symbol(b"hsa_agent_get_info")?, runtime.symbol(b"hsa_amd_memory_pool_get_info")?);
    let (pools, iterate) = (runtime.symbol(b"hsa_amd_agent_iterate_memory_pools")?, runtime.symbol(b"hsa_iterate_agents")?);
    let regions = runtime.symbol(b"hsa_agent_iterate_regions");
    let agents = fresh::<Agents>()?;
    // SAFETY: functions of one HSA runtime, as hsa.h and hsa_ext_amd.h of all versions declare them.
    let status = unsafe {
        let mut making = Making {
            agents,
            agent_info: core::mem::transmute::<usize, Info>(agent_info),
            pool_info: core::mem::transmute::<usize, Info>(pool_info),
            pools: core::mem::transmute::<usize, Iterate>(pools),
            regions: regions.map(|regions| core::mem::transmute::<usize, Iterate>(regions)),
            what: HOST,
        };
        let iterate: unsafe extern "C" fn(Visit, *mut c_void) -> u32 = core::mem::transmute(iterate);
        iterate(visit_agent, (&raw mut making).cast())
    };
    if status != 0 {
        discard(agents);
        return None;
    }
    Some(agents)
}

/// Forgets the agents of a runtime: it was shut down, and its handles mean nothing any more.
pub fn forget_agents(runtime: &Runtime) {
    runtime.agents.store(core::ptr::null_mut(), core::sync::atomic::Ordering::Release);
}

/// What an agent, pool or region belongs to. `None`: to no card, or the runtime does not know it.
#[inline]
pub fn of_handle(runtime: &Runtime, handle: u64) -> Option<&'static Known> {
    match published(&runtime.agents).and_then(|agents| Some((agents, agents.what(handle)?))) {
        Some((agents, what)) => agents.card(what),
        None => of_new_handle(runtime, handle),
    }
}

#[cold]
fn of_new_handle(runtime: &Runtime, handle: u64) -> Option<&'static Known> {
    let seen = runtime.agents.load(Acquire);
    let agents = list_agents(runtime)?;
    let what = agents.what(handle);
    if what.is_none() && !seen.is_null() {
        discard(agents);
        return None;
    }
    let agents: &Agents = agents;
    // Who comes second keeps a table of its own: it is needed for this call, and somebody may hold on to a card of it.
    let _ = runtime.agents.compare_exchange(seen, core::ptr::from_ref(agents).cast_mut(), AcqRel, Acquire);
    agents.card(what?)
}

/// The cards of an initialised HSA runtime, in its order.
fn cards_of(runtime: &Runtime) -> &'static [Known] {
    if published(&runtime.agents).is_none()
        && let Some(agents) = list_agents(runtime)
        && runtime.agents.compare_exchange(core::ptr::null_mut(), agents, AcqRel, Acquire).is_err()
    {
        discard(agents);
    }
    published(&runtime.agents).and_then(|agents| agents.cards.get(..agents.card_count)).unwrap_or_default()
}

/// The calling thread's current device in a HIP runtime: its ordinal and its card.
pub fn current(call: &Call) -> Option<(i32, &'static Known)> {
    let get = call.runtime.helper(Helper::GetDevice)?;
    let mut ordinal = -1_i32;
    // SAFETY: the runtime's own function, as the headers of all versions declare it.
    let status = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*mut i32) -> i32>(get)(&raw mut ordinal) };
    if status != 0 {
        return None;
    }
    Some((ordinal, device(call, ordinal)?))
}

/// The card of a HIP runtime's device.
#[inline]
pub fn device(call: &Call, ordinal: i32) -> Option<&'static Known> {
    let index = usize::try_from(ordinal).ok()?;
    match published(&call.runtime.devices).and_then(|devices| devices.card(index)) {
        Some(card) => Some(card),
        None => new_device(call.runtime, index),
    }
}

/// True if the HIP runtime has been asked for its devices, and has one.
#[inline]
pub fn is_alone(call: &Call) -> bool {
    published(&call.runtime.devices).is_some_and(|devices| devices.count == 1)
}

impl Devices {
    #[inline]
    fn card(&'static self, index: usize) -> Option<&'static Known> {
        self.cards.get(..self.count)?.get(index)
    }
}

#[cold]
fn new_device(runtime: &Runtime, index: usize) -> Option<&'static Known> {
    let seen = runtime.devices.load(Acquire);
    let devices = list_devices(runtime)?;
    if index >= devices.count {
        discard(devices);
        return None;
    }
    let devices: &Devices = devices;
    // As above.
    let _ = runtime.devices.compare_exchange(seen, core::ptr::from_ref(devices).cast_mut(), AcqRel, Acquire);
    devices.card(index)
}

fn list_devices(runtime: &Runtime) -> Option<&'static mut Devices> {
    let count_of = runtime.symbol(b"hipGetDeviceCount")?;
    let mut count = 0_i32;
    // SAFETY: the runtime's own function, as the headers of all versions declare it.
    let status = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*mut i32) -> i32>(count_of)(&raw mut count) };
    if status != 0 {
        return None;
    }
    let hsa = runtimes::initialised_hsa().filter(|_| runtime.is_above_hsa()).map(cards_of).unwrap_or_default();
    let devices = fresh::<Devices>()?;
    for index in 0..usize::try_from(count).unwrap_or(0).min(devices.cards.len()) {
        let own = identity_of_device(runtime, index);
        // Partitions of a card have one address in HIP: they come in HSA's order.
        let twins = devices.cards.get(..index).unwrap_or_default().iter().filter(|twin| twin.first().same_slot(own.first())).count();
        let known = match_agent(hsa, &own, twins).unwrap_or(own);
        if let Some(room) = devices.cards.get_mut(index) {
            *room = known;
            devices.count = index + 1;
        }
    }
    Some(devices)
}

/// The agent that a HIP device is: by its UUID if only one has it, else the one at its address, of several the one whose turn it is.
fn match_agent(agents: &[Known], own: &Known, turn: usize) -> Option<Known> {
    let of_slot = |agent: &&Known| agent.first().same_slot(own.first());
    if let Some(uuid) = own.ids.get(1).filter(|_| own.count == 2) {
        let mut same = agents.iter().filter(of_slot).filter(|agent| agent.of().ids.contains(uuid));
        if let (Some(agent), None) = (same.next(), same.next()) {
            return Some(agent.again());
        }
    }
    agents.iter().filter(of_slot).nth(turn).map(Known::again)
}

/// What a HIP runtime says of its device.
fn identity_of_device(runtime: &Runtime, index: usize) -> Known {
    let mut known = Known::at(position_of(index));
    let ordinal = index as i32;
    let (mut address, mut uuid) = ([0_u8; 64], [0_u8; 16]);
    // SAFETY: the runtime's own functions, as the headers of all versions declare them, with room for their answers.
    unsafe {
        if let Some(bus_id) = runtime.symbol(b"hipDeviceGetPCIBusId") {
            let bus_id: unsafe extern "C" fn(*mut c_char, i32, i32) -> i32 = core::mem::transmute(bus_id);
            if bus_id(address.as_mut_ptr().cast(), address.len() as i32 - 1, ordinal) == 0
                && let Ok(text) = CStr::from_bytes_until_nul(&address)
                && let Some(id) = CardId::parse(text.to_bytes())
            {
                known.add(id);
            }
        }
        if let Some(get_uuid) = runtime.symbol(b"hipDeviceGetUuid") {
            let get_uuid: unsafe extern "C" fn(*mut u8, i32) -> i32 = core::mem::transmute(get_uuid);
            if get_uuid(uuid.as_mut_ptr(), ordinal) == 0
                && let Some(id) = CardId::from_hex(&uuid)
            {
                known.add(id);
            }
        }
    }
    if known.count == 0 {
        known.add(CardId::position(u32::from(known.position).wrapping_sub(1)));
    }
    known
}

/// One more than the position of an ordinal in the container, where the runtime has no HSA that would tell: as
/// `HIP_VISIBLE_DEVICES` puts it. 0: not known.
fn position_of(index: usize) -> u8 {
    let position = match crate::shim::environment(b"HIP_VISIBLE_DEVICES").or_else(|| crate::shim::environment(b"CUDA_VISIBLE_DEVICES")) {
        None => Some(index),
        Some(list) => list.split(|&byte| byte == b',').nth(index).and_then(number),
    };
    position.filter(|&position| position < CARDS).map_or(0, |position| position as u8 + 1)
}

fn number(digits: &[u8]) -> Option<usize> {
    let digits = digits.trim_ascii();
    if digits.is_empty() || digits.len() > 4 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |value, digit| value * 10 + usize::from(digit - b'0')))
}
