//! Managed memory: host addresses that were made usable by cards.
//!
//! HIP's managed memory is charged by the HIP layer, which sees it end; here it is only admitted. Whoever calls HSA directly is charged here, from the call
//! that gives a card access, until access is taken away, the range is set anew, or its address is given back; that the program
//! unmaps its own memory shows nowhere.

use core::ffi::c_void;

use super::memory::{Held, pages, passed};
use super::{OK, OUT_OF_RESOURCES};
use crate::interpose::cards::Known;
use crate::interpose::keys::{self, kind};
use crate::interpose::{Call, cards, credit};
use crate::shim;

/// `hsa_amd_svm_attribute_pair_t`
#[repr(C)]
pub struct Attribute {
    attribute: u64,
    value: u64,
}

const PREFERRED_LOCATION: u64 = 4;
const ACCESSIBLE: u64 = 0x200;
const ACCESSIBLE_IN_PLACE: u64 = 0x201;
const NO_ACCESS: u64 = 0x202;

type Set = unsafe extern "C" fn(*mut c_void, usize, *mut Attribute, usize) -> u32;

/// `hsa_amd_svm_attributes_set`
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn set(call: &Call, real: Set, address: *mut c_void, size: usize, attributes: *mut Attribute, count: usize) -> u32 {
    // SAFETY: the caller's.
    let run = || unsafe { real(address, size, attributes, count) };
    if attributes.is_null() {
        return passed(call, run());
    }
    // SAFETY: the caller gives that many.
    let attributes = unsafe { core::slice::from_raw_parts(attributes, count) };
    let card =
        |wanted: fn(u64) -> bool| attributes.iter().filter(|pair| wanted(pair.attribute)).find_map(|pair| cards::of_handle(call.runtime, pair.value));
    let gives = card(|attribute| matches!(attribute, PREFERRED_LOCATION | ACCESSIBLE | ACCESSIBLE_IN_PLACE));
    let bytes = pages(size as u64);
    if call.is_from_hip() {
        return gives.map_or_else(|| passed(call, run()), |card| under_hip(call, card, bytes, run));
    }
    let key = keys::managed(address);
    let Some(card) = gives else {
        if card(|attribute| attribute == NO_ACCESS).is_some() {
            return super::memory::refunded(call, key, run);
        }
        return passed(call, run());
    };
    if shim::find(key).is_some_and(|entry| entry.bytes >= bytes) {
        return passed(call, run());
    }
    let before = shim::claim(key);
    let Some(held) = Held::reserve(call, card, bytes - before.as_ref().map_or(0, |claimed| claimed.entry.bytes)) else {
        if let Some(before) = before {
            before.restore();
        }
        return OUT_OF_RESOURCES;
    };
    let status = run();
    if let Some(before) = before {
        before.restore();
    }
    if status == OK {
        held.add(key, kind::MANAGED);
    } else {
        held.cancel();
    }
    passed(call, status)
}

/// Inside a HIP call that makes managed memory: it charges the bytes, and what it has not reserved is reserved here. Any other
/// call of a HIP runtime is about memory that is charged already.
fn under_hip(call: &Call, card: &Known, bytes: u64, run: impl FnOnce() -> u32) -> u32 {
    let missing = shim::index(&card.of()).and_then(|index| credit::manage(index, bytes));
    let Some(missing) = missing else { return passed(call, run()) };
    let Ok(reserved) = shim::reserve(&card.of(), missing, bytes - missing) else {
        credit::unmanage(bytes - missing);
        credit::refuse();
        call.refused();
        return OUT_OF_RESOURCES;
    };
    credit::manage_more(reserved);
    let status = run();
    if status != OK {
        credit::unmanage(bytes);
    }
    passed(call, status)
}
