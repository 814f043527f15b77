//! Memory of pools and regions, by address.

use core::ffi::c_void;

use super::{OK, OUT_OF_RESOURCES};
use crate::interpose::cards::{self, Known};
use crate::interpose::keys::{self, kind};
use crate::interpose::{Call, credit};
use crate::shim::{self, Reserved};
use crate::table::Key;

/// ROCr cuts requests of up to this from blocks of this size, and gives larger ones whole blocks.
pub const BLOCK: u64 = 2 << 20;
/// The granule of every pool of a card.
pub const PAGE: u64 = 4096;

/// Bytes that a request to a card takes: pages, above the size of a block whole blocks.
pub fn rounded(asked: u64) -> u64 {
    let unit = if asked > BLOCK { BLOCK } else { PAGE };
    asked.checked_next_multiple_of(unit).unwrap_or(u64::MAX)
}

/// Bytes as [`rounded`], where only pages count.
pub fn pages(asked: u64) -> u64 {
    asked.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

/// What an HSA call has to itself until the driver has answered: bytes of the HIP call above it, and bytes of its own.
#[must_use = "held until the process ends"]
pub struct Held {
    card: u8,
    above: Option<Reserved>,
    own: Option<Reserved>,
}

impl Held {
    /// Reserves `bytes`: those that the HIP call above has reserved first, then of the card. `None`: there is no room.
    #[inline]
    pub fn reserve(call: &Call, card: &Known, bytes: u64) -> Option<Self> {
        match shim::index(&card.of()).and_then(|index| credit::take(index, bytes)) {
            Some(above) if above.bytes() == bytes => Some(Self { card: above.card(), above: Some(above), own: None }),
            above => Self::reserve_own(call, card, bytes, above),
        }
    }

    fn reserve_own(call: &Call, card: &Known, bytes: u64, above: Option<Reserved>) -> Option<Self> {
        let (taken, mine) = above.as_ref().map_or((0, 0), |above| (above.bytes(), above.bytes() + credit::in_flight(above.card())));
        if let Ok(own) = shim::reserve(&card.of(), bytes.saturating_sub(taken), mine) {
            return Some(Self { card: own.card(), above, own: Some(own) });
        }
        if let Some(above) = above {
            credit::give_back(above);
        }
        credit::refuse();
        call.refused();
        None
    }

    /// All of it as one reservation.
    fn joined(self) -> Option<Reserved> {
        match (self.above, self.own) {
            (Some(mut above), Some(own)) => {
                above.join(own);
                Some(above)
            }
            (above, own) => above.or(own),
        }
    }

    /// The driver has given what was asked for.
    #[inline]
    pub fn commit(self, key: Key, kind: u8) {
        if let Some(all) = self.joined() {
            let bytes = all.bytes();
            all.commit(key, kind, bytes);
        }
    }

    /// As [`Held::commit`], on top of what is charged under the key already.
    pub fn add(self, key: Key, kind: u8) {
        if let Some(all) = self.joined() {
            all.add(key, kind);
        }
    }

    /// The ledger's number of the card.
    pub fn card(&self) -> u8 {
        self.card
    }

    /// The driver has given nothing.
    pub fn cancel(self) {
        if let Some(above) = self.above {
            credit::give_back(above);
        }
        if let Some(own) = self.own {
            own.cancel();
        }
    }
}

/// Calls `run`, which takes `bytes` of a card, if there is room for them; `key` is asked after a success.
pub fn charged(call: &Call, card: &Known, bytes: u64, kind: u8, run: impl FnOnce() -> u32, key: impl FnOnce() -> Key) -> u32 {
    let Some(held) = Held::reserve(call, card, bytes) else { return OUT_OF_RESOURCES };
    let status = run();
    if status == OK {
        held.commit(key(), kind);
    } else {
        held.cancel();
        call.failed();
    }
    status
}

/// Calls `run`, which gives back what was charged under `key`, if it was.
pub fn refunded(call: &Call, key: Key, run: impl FnOnce() -> u32) -> u32 {
    let claimed = shim::claim(key);
    let status = run();
    match claimed {
        Some(claimed) if status == OK => claimed.release(),
        Some(claimed) => claimed.restore(),
        None => {}
    }
    passed(call, status)
}

/// Counts a failure of the driver.
pub fn passed(call: &Call, status: u32) -> u32 {
    if status != OK {
        call.failed();
    }
    status
}

type PoolAllocate = unsafe extern "C" fn(u64, usize, u32, *mut *mut c_void) -> u32;
type RegionAllocate = unsafe extern "C" fn(u64, usize, *mut *mut c_void) -> u32;
type Free = unsafe extern "C" fn(*mut c_void) -> u32;

/// `hsa_amd_memory_pool_allocate`; a pool of a CPU agent is free of charge.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn pool_allocate(call: &Call, real: PoolAllocate, pool: u64, size: usize, flags: u32, pointer: *mut *mut c_void) -> u32 {
    // SAFETY: the caller's.
    let run = || unsafe { real(pool, size, flags, pointer) };
    let Some(card) = cards::of_handle(call.runtime, pool) else { return passed(call, run()) };
    // ROCr cuts nothing from blocks that has flags.
    let bytes = if flags == 0 { rounded(size as u64) } else { pages(size as u64) };
    // SAFETY: the runtime has succeeded, so there was room for its answer.
    charged(call, card, bytes, kind::POOL, run, || keys::pointer(unsafe { *pointer }))
}

/// `hsa_memory_allocate`; a region of a card is one of its pools.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn region_allocate(call: &Call, real: RegionAllocate, region: u64, size: usize, pointer: *mut *mut c_void) -> u32 {
    // SAFETY: the caller's.
    let run = || unsafe { real(region, size, pointer) };
    let Some(card) = cards::of_handle(call.runtime, region) else { return passed(call, run()) };
    // SAFETY: the runtime has succeeded, so there was room for its answer.
    charged(call, card, rounded(size as u64), kind::POOL, run, || keys::pointer(unsafe { *pointer }))
}

/// `hsa_amd_memory_pool_free`, `hsa_memory_free`: either frees what either gave.
///
/// # Safety
///
/// As the runtime's own.
pub unsafe fn free(call: &Call, real: Free, pointer: *mut c_void) -> u32 {
    // SAFETY: the caller's.
    refunded(call, keys::pointer(pointer), || unsafe { real(pointer) })
}
