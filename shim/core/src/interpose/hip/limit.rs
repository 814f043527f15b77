//! `hipDeviceSetLimit`: what it allows is taken later, by a kernel, where nobody can answer.
//!
//! The heap of kernels is taken through HSA and charged there; what has no room is refused here already. Stack and scratch are taken by
//! ROCr itself, which shows nowhere: a raise is charged when it is made, with the most that one queue can take for it, and stays
//! charged until the process ends, as ROCr keeps scratch. What the runtime starts with is not charged.

use super::abi::{LIMIT_HEAP, LIMIT_SCRATCH, LIMIT_STACK, OUT_OF_MEMORY, STACK_AT_START, SUCCESS, Status};
use super::admit::{self, Want};
use super::own;
use crate::interpose::cards::{self, Known};
use crate::interpose::keys::{self, kind};
use crate::interpose::rows::number;
use crate::interpose::{Call, hsa};
use crate::shim;

type Set = unsafe extern "C" fn(i32, usize) -> Status;
type Get = unsafe extern "C" fn(*mut usize, i32) -> Status;

/// `hipDeviceSetLimit`
pub unsafe fn set(call: &Call, real: Set, limit: i32, value: usize) -> Status {
    // SAFETY: the caller's own arguments, to the function they were meant for.
    let driver = || unsafe { real(limit, value) };
    if limit == LIMIT_HEAP {
        let nothing_yet = || (core::ptr::null_mut(), 0);
        return admit::take(call, Want::here(Some(value as u64)), true, driver, nothing_yet);
    }
    match own::current_device(call).and_then(|device| cards::device(call, device)) {
        Some(card) if !admit::is_nested() => raise(call, card, limit, scratch(call, card, limit, value as u64), driver),
        _ => driver(),
    }
}

/// What a limit allows beyond what the runtime has allowed itself.
fn scratch(call: &Call, card: &Known, limit: i32, value: u64) -> u64 {
    match limit {
        LIMIT_STACK if value > STACK_AT_START => hsa::queue::scratch_of(value - STACK_AT_START, card.units()),
        LIMIT_SCRATCH if current(call, limit).is_none_or(|current| value > current) => hsa::memory::pages(value),
        _ => 0,
    }
}

/// What a limit is now.
fn current(call: &Call, limit: i32) -> Option<u64> {
    let get = call.sibling(number::hipDeviceGetLimit)?;
    let mut value = 0_usize;
    // SAFETY: the runtime's own function, as the headers of all versions declare it, with room for its answer.
    let status = unsafe { core::mem::transmute::<usize, Get>(get)(&raw mut value, limit) };
    (status == SUCCESS).then_some(value as u64)
}

/// Charges what is more than was charged for this limit before. Two threads that raise it at once charge too much, never too little.
fn raise(call: &Call, card: &Known, limit: i32, bytes: u64, driver: impl FnOnce() -> Status) -> Status {
    let finish = |status| {
        if status != SUCCESS {
            call.failed();
        }
        status
    };
    if bytes == 0 {
        return finish(driver());
    }
    let key = |index| keys::limit(limit, call.runtime.index(), index);
    let before = shim::index(&card.of()).and_then(|index| shim::find(key(index))).map_or(0, |entry| entry.bytes);
    let Some(more) = bytes.checked_sub(before).filter(|more| *more != 0) else { return finish(driver()) };
    let Ok(reserved) = shim::reserve(&card.of(), more, 0) else {
        call.refused();
        return OUT_OF_MEMORY;
    };
    let status = driver();
    if status == SUCCESS {
        let key = key(reserved.card());
        reserved.add(key, kind::SCRATCH);
    } else {
        reserved.cancel();
    }
    finish(status)
}
