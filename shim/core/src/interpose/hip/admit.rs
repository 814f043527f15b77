//! Admission: what every wrapper that takes or gives memory does around the runtime's own function.
//!
//! ```text
//! take:       which card → reserve → hand down → driver → charge what nothing beneath has charged, give the rest back
//! within:     no idea how much → driver → the layer beneath decides; its refusal becomes out of memory
//! give_back:  claim the key → driver → refund, or put the key back
//! ```
//!
//! A call that the runtime makes inside another one passes through. Nothing is held across a driver call but a number of bytes.

use core::ffi::c_void;

use super::abi::{OUT_OF_MEMORY, SUCCESS, Status};
use super::own;
use crate::interpose::cards::{self, Known};
use crate::interpose::credit::{self, Left};
use crate::interpose::keys::{self, kind};
use crate::interpose::{Call, hsa};
use crate::shim::{self, Refusal, Reserved};

/// Under what the bytes go that nothing beneath has charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Under what was made, if there is no layer beneath: where there is one, what it has not seen was not taken.
    Alone,
    /// Under what was made, in any case: managed memory, of which HSA sees only the beginning.
    Always,
    /// In any case, with what this handle has been charged already.
    AddTo(*mut c_void),
}

/// What a call is about to take.
#[derive(Debug, Clone, Copy)]
pub struct Want {
    /// The ordinal of the device; `None` for the current one.
    pub device: Option<i32>,
    /// Bytes at most; `None` for more than 64 bits can say.
    pub bytes: Option<u64>,
    /// Bytes if the runtime uses again what it already has; `None` where there is nothing to use again.
    pub least: Option<u64>,
    /// Under what they go.
    pub keep: Keep,
    /// The runtime may answer success although there was no room, with memory of the host.
    pub host_instead: bool,
}

impl Want {
    /// Memory of the current device.
    pub fn here(bytes: Option<u64>) -> Self {
        Self { device: None, bytes, least: None, keep: Keep::Alone, host_instead: false }
    }
}

/// True if the runtime itself called, inside another call.
pub fn is_nested() -> bool {
    credit::is_nested()
}

/// True if something was charged under this address or handle.
pub fn is_ours(address: *const c_void) -> bool {
    !address.is_null() && shim::find(keys::hip(address)).is_some()
}

/// Admits a call and charges what it takes. `valid`: the arguments are such that the runtime can succeed; else it is left to
/// refuse them in its own words. `made`: address or handle, and its bytes; asked after a success only.
pub fn take(call: &Call, want: Want, valid: bool, driver: impl FnOnce() -> Status, made: impl FnOnce() -> (*mut c_void, u64)) -> Status {
    if is_nested() {
        return driver();
    }
    if !valid || want.bytes == Some(0) {
        return failed(call, driver());
    }
    // Before the credit: what the runtime takes to find its devices is no part of this call.
    let Some(card) = card(call, want.device) else { return failed(call, driver()) };
    let Some(outer) = credit::begin() else { return driver() };
    let Some(reserved) = reserve(call, card, &want) else {
        let _ = outer.end();
        call.refused();
        return OUT_OF_MEMORY;
    };
    // Comes back where there is no room to note it; then the layer beneath charges by itself, and this is given back.
    let unnoted = outer.grant(reserved);
    if want.keep != Keep::Alone {
        outer.expect_managed();
    }
    let status = driver();
    let left = outer.end();
    if status == SUCCESS && unnoted.is_none() && left.is_settled() {
        return status;
    }
    end(call, &want, status, unnoted, &left, made)
}

/// What is left of a call when the driver has answered: charged here, or given back.
fn end(call: &Call, want: &Want, status: Status, unnoted: Option<Reserved>, left: &Left, made: impl FnOnce() -> (*mut c_void, u64)) -> Status {
    let (rest, managed, refused) = (unnoted.or_else(|| left.reserved()), left.managed(), left.refused);
    if status != SUCCESS {
        [rest, managed].into_iter().flatten().for_each(Reserved::cancel);
        return failed_beneath(call, status, refused);
    }
    let (address, bytes) = made();
    if refused && !want.host_instead && address.is_null() {
        // A success with nothing behind it.
        [rest, managed].into_iter().flatten().for_each(Reserved::cancel);
        call.refused();
        return OUT_OF_MEMORY;
    }
    settle(call, want.keep, address, bytes, rest, managed, left.fired);
    status
}

fn settle(call: &Call, keep: Keep, address: *mut c_void, bytes: u64, rest: Option<Reserved>, managed: Option<Reserved>, fired: bool) {
    let here = match keep {
        Keep::Always | Keep::AddTo(_) => true,
        Keep::Alone => !fired && !call.runtime.is_above_hsa(),
    };
    let joined = match (rest, managed) {
        (Some(mut rest), Some(managed)) if here => {
            rest.join(managed);
            Some((rest, bytes))
        }
        (rest, Some(managed)) => {
            rest.into_iter().for_each(Reserved::cancel);
            let bytes = managed.bytes();
            Some((managed, bytes))
        }
        (Some(rest), None) if here => Some((rest, bytes)),
        (rest, None) => {
            rest.into_iter().for_each(Reserved::cancel);
            None
        }
    };
    let Some((reserved, bytes)) = joined else { return };
    // What the layer beneath has charged already is not charged here.
    let bytes = if fired { bytes.min(reserved.bytes()) } else { bytes };
    let address = if let Keep::AddTo(handle) = keep { handle } else { address };
    if address.is_null() {
        reserved.cancel();
    } else if matches!(keep, Keep::AddTo(_)) {
        reserved.add(keys::hip(address), kind_of(call));
    } else {
        reserved.commit(keys::hip(address), kind_of(call), bytes);
    }
}

/// Calls `driver` whose size nobody knows before: the layer beneath admits, and a failure after its refusal is out of memory.
pub fn within(call: &Call, driver: impl FnOnce() -> Status) -> Status {
    let Some(outer) = credit::begin() else { return driver() };
    let status = driver();
    let left = outer.end();
    left.reserved().into_iter().for_each(Reserved::cancel);
    if status == SUCCESS { status } else { failed_beneath(call, status, left.refused) }
}

/// As [`within`]; managed memory that shows beneath meanwhile is charged to `owner`, which gives it back.
pub fn within_owned(call: &Call, driver: impl FnOnce() -> Status, owner: impl FnOnce() -> *mut c_void) -> Status {
    let Some(outer) = credit::begin() else { return driver() };
    outer.expect_managed();
    let status = driver();
    let left = outer.end();
    let managed = left.managed();
    left.reserved().into_iter().for_each(Reserved::cancel);
    if status == SUCCESS {
        let owner = owner();
        if let Some(managed) = managed {
            if owner.is_null() { managed.cancel() } else { managed.add(keys::hip(owner), kind_of(call)) }
        }
        return status;
    }
    managed.into_iter().for_each(Reserved::cancel);
    failed_beneath(call, status, left.refused)
}

/// Frees what was charged under an address or handle, if anything was.
pub fn give_back(call: &Call, address: *const c_void, driver: impl FnOnce() -> Status) -> Status {
    let claimed = if address.is_null() { None } else { shim::claim(keys::hip(address)) };
    let status = driver();
    match claimed {
        Some(claimed) if status == SUCCESS => claimed.release(),
        Some(claimed) => claimed.restore(),
        None => {}
    }
    failed(call, status)
}

/// Refunds all that this layer has charged on a device through the same runtime, which has dropped it.
pub fn give_back_all(call: &Call, device: i32) {
    let Some(index) = cards::device(call, device).and_then(|card| shim::index(&card.of())) else { return };
    shim::release_all(|entry| entry.card == index && entry.kind == kind_of(call));
}

/// The kind of this layer's charges: which runtime holds the memory.
fn kind_of(call: &Call) -> u8 {
    kind::HIP | call.runtime.index() << 4
}

fn card(call: &Call, device: Option<i32>) -> Option<&'static Known> {
    match device {
        Some(device) => cards::device(call, device),
        None => own::current_device(call).and_then(|device| cards::device(call, device)),
    }
}

/// Reserves what the call takes at most, or, where that has no room, at least.
fn reserve(call: &Call, card: &Known, want: &Want) -> Option<Reserved> {
    let cost = |bytes| if call.runtime.is_above_hsa() { hsa::memory::rounded(bytes) } else { bytes };
    let refusal = match want.bytes.map(|bytes| shim::try_reserve(&card.of(), cost(bytes), 0)) {
        Some(Ok(reserved)) => return Some(reserved),
        Some(Err(refusal)) => refusal,
        None => Refusal::NoSuchSize,
    };
    if matches!(refusal, Refusal::Full { .. })
        && let Some(least) = want.least.filter(|least| want.bytes.is_some_and(|bytes| *least < bytes))
        && let Ok(reserved) = shim::try_reserve(&card.of(), cost(least), 0)
    {
        return Some(reserved);
    }
    shim::say_refusal(&card.of(), want.bytes.unwrap_or(u64::MAX), &refusal);
    None
}

fn failed(call: &Call, status: Status) -> Status {
    if status != SUCCESS {
        call.failed();
    }
    status
}

/// A failure: was it the shim beneath that refused?
fn failed_beneath(call: &Call, status: Status, refused: bool) -> Status {
    if refused {
        call.refused();
        return OUT_OF_MEMORY;
    }
    failed(call, status)
}
