//! The HIP layer: refuses early and with the runtime's own words, reserves what a call will take and hands it down, reports the
//! quota, and holds the quota by itself where there is no HSA beneath.
//!
//! A body that takes memory is [`charged`]; what it needs to say is how much, of which card, and under which key.

pub mod linear;

use super::cards::Known;
use super::{Call, credit, keys};
use crate::shim;
use crate::table::Key;

/// `hipErrorOutOfMemory`
pub const OUT_OF_MEMORY: i32 = 2;

/// Bytes that `asked` takes of a card in this runtime: whole pages and blocks of HSA where there is HSA beneath, else exact.
pub fn takes(call: &Call, asked: u64) -> u64 {
    if call.runtime.is_above_hsa() { super::hsa::memory::rounded(asked) } else { asked }
}

/// Calls `run`, which takes about `expected` bytes of `card`, if there is room for them.
///
/// `made` says after a success under which key the bytes go that nothing beneath has charged, and how many they are. It is asked
/// only where nothing beneath charges. Nested in another HIP call, `run` is called as it is.
pub fn charged(call: &Call, card: Option<&Known>, expected: u64, run: impl FnOnce() -> i32, made: impl FnOnce() -> Option<(Key, u64)>) -> i32 {
    let Some(outer) = credit::begin() else { return run() };
    let Some(card) = card else {
        // The runtime cannot say which device is current: it has none, and refuses by itself.
        let status = run();
        let _ = outer.end();
        return failed(call, status);
    };
    let Ok(reserved) = shim::reserve(&card.of(), expected, 0) else {
        let _ = outer.end();
        call.refused();
        return OUT_OF_MEMORY;
    };
    let kept = outer.grant(reserved);
    let status = run();
    let left = outer.end();
    // Either half may hold bytes, never both.
    let rest = kept.or(left.reserved);
    let beneath = left.fired || call.runtime.is_above_hsa();
    match rest {
        Some(rest) if status == 0 && !beneath => match made() {
            Some((key, bytes)) => rest.commit(key, keys::kind::HIP, bytes),
            None => rest.cancel(),
        },
        Some(rest) => rest.cancel(),
        None => {}
    }
    failed(call, status)
}

/// Calls `run`, which frees what was charged under `key`, if it was.
pub fn refunded(call: &Call, key: Key, run: impl FnOnce() -> i32) -> i32 {
    let claimed = shim::claim(key);
    let status = run();
    match claimed {
        Some(claimed) if status == 0 => claimed.release(),
        Some(claimed) => claimed.restore(),
        None => {}
    }
    failed(call, status)
}

fn failed(call: &Call, status: i32) -> i32 {
    if status != 0 {
        call.failed();
    }
    status
}
