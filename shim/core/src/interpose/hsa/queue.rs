//! Queues and sampling sessions, as far as their size is the caller's.
//!
//! What every queue takes besides (a page for the end of pipe, the save area) no caller chooses, and it is not charged.

use core::ffi::c_void;

use super::memory::{charged, pages, passed, refunded};
use crate::interpose::keys::{self, kind};
use crate::interpose::{Call, cards};

/// Lanes of a wave, and waves of a compute unit that ROCr keeps scratch for.
const LANES: u64 = 64;
const WAVES: u64 = 32;
/// Bytes of a packet.
const PACKET: u64 = 64;
/// What a trap buffer of PC sampling has at most, and how many there are.
const TRAP_BUFFER: u64 = 256 << 20;
const TRAP_BUFFERS: u64 = 2;

type Create = unsafe extern "C" fn(u64, u32, u32, *mut c_void, *mut c_void, u32, u32, *mut *mut c_void) -> u32;
type SoftCreate = unsafe extern "C" fn(u64, u32, u32, u32, u64, *mut *mut c_void) -> u32;
type Destroy = unsafe extern "C" fn(*mut c_void) -> u32;
type Sampling = unsafe extern "C" fn(u64, u32, u32, usize, usize, usize, *mut c_void, *mut c_void, *mut u64) -> u32;
type SamplingFromId = unsafe extern "C" fn(u32, u64, u32, u32, usize, usize, usize, *mut c_void, *mut c_void, *mut u64) -> u32;
type SamplingDestroy = unsafe extern "C" fn(u64) -> u32;

/// Scratch of a card whose compute units are all full of work-items that take that many bytes each. At least one unit is taken for granted.
pub fn scratch_of(bytes: u64, units: u32) -> u64 {
    pages(bytes.saturating_mul(LANES * WAVES).saturating_mul(units.max(1).into()))
}

/// `hsa_queue_create`: the scratch that the caller asks for each work-item. HIP asks for none here.
///
/// # Safety
///
/// As the runtime's own.
#[expect(clippy::too_many_arguments, reason = "the entry point has as many")]
pub unsafe fn create(
    call: &Call,
    real: Create,
    agent: u64,
    size: u32,
    kind: u32,
    callback: *mut c_void,
    data: *mut c_void,
    private: u32,
    group: u32,
    queue: *mut *mut c_void,
) -> u32 {
    // SAFETY: the caller's.
    let run = || unsafe { real(agent, size, kind, callback, data, private, group, queue) };
    let scratch = if private == u32::MAX { 0 } else { u64::from(private).next_multiple_of(16) };
    let Some(card) = cards::of_handle(call.runtime, agent).filter(|_| scratch != 0) else { return passed(call, run()) };
    let bytes = scratch_of(scratch, card.units());
    // SAFETY: the runtime has succeeded, so there was room for its answer.
    charged(call, card, bytes, kind::QUEUE, run, || keys::queue(unsafe { *queue }))
}

/// `hsa_soft_queue_create`: the ring lies in the region that the caller names.
///
/// # Safety
///
/// As the runtime's own.
#[expect(clippy::too_many_arguments, reason = "the entry point has as many")]
pub unsafe fn soft_create(
    call: &Call,
    real: SoftCreate,
    region: u64,
    size: u32,
    kind: u32,
    features: u32,
    doorbell: u64,
    queue: *mut *mut c_void,
) -> u32 {
    // SAFETY: the caller's.
    let run = || unsafe { real(region, size, kind, features, doorbell, queue) };
    let Some(card) = cards::of_handle(call.runtime, region) else { return passed(call, run()) };
    // The ring, and a page for the queue itself.
    let bytes = super::memory::rounded(u64::from(size) * PACKET) + super::memory::PAGE;
    // SAFETY: the runtime has succeeded, so there was room for its answer.
    charged(call, card, bytes, kind::QUEUE, run, || keys::queue(unsafe { *queue }))
}

/// `hsa_queue_destroy`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn destroy(call: &Call, real: Destroy, queue: *mut c_void) -> u32 {
    // SAFETY: the caller's.
    refunded(call, keys::queue(queue), || unsafe { real(queue) })
}

fn trap_buffers(buffer: usize) -> u64 {
    pages((buffer as u64).min(TRAP_BUFFERS * TRAP_BUFFER))
}

/// `hsa_ven_amd_pcs_create`: the trap handler's two buffers.
///
/// # Safety
///
/// As the runtime's own.
#[expect(clippy::too_many_arguments, reason = "the entry point has as many")]
pub unsafe fn sampling_create(
    call: &Call,
    real: Sampling,
    agent: u64,
    method: u32,
    units: u32,
    interval: usize,
    latency: usize,
    buffer: usize,
    ready: *mut c_void,
    data: *mut c_void,
    session: *mut u64,
) -> u32 {
    // SAFETY: the caller's.
    let run = || unsafe { real(agent, method, units, interval, latency, buffer, ready, data, session) };
    let Some(card) = cards::of_handle(call.runtime, agent) else { return passed(call, run()) };
    // SAFETY: the runtime has succeeded, so there was room for its answer.
    charged(call, card, trap_buffers(buffer), kind::QUEUE, run, || keys::sampling(unsafe { *session }))
}

/// `hsa_ven_amd_pcs_create_from_id`
///
/// # Safety
///
/// As the runtime's own.
#[expect(clippy::too_many_arguments, reason = "the entry point has as many")]
pub unsafe fn sampling_create_from_id(
    call: &Call,
    real: SamplingFromId,
    id: u32,
    agent: u64,
    method: u32,
    units: u32,
    interval: usize,
    latency: usize,
    buffer: usize,
    ready: *mut c_void,
    data: *mut c_void,
    session: *mut u64,
) -> u32 {
    // SAFETY: the caller's.
    let run = || unsafe { real(id, agent, method, units, interval, latency, buffer, ready, data, session) };
    let Some(card) = cards::of_handle(call.runtime, agent) else { return passed(call, run()) };
    // SAFETY: the runtime has succeeded, so there was room for its answer.
    charged(call, card, trap_buffers(buffer), kind::QUEUE, run, || keys::sampling(unsafe { *session }))
}

/// `hsa_ven_amd_pcs_destroy`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn sampling_destroy(call: &Call, real: SamplingDestroy, session: u64) -> u32 {
    // SAFETY: the caller's.
    refunded(call, keys::sampling(session), || unsafe { real(session) })
}
