//! A driver under the shim.

use vrocm_tests::driver::Driver;
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;

/// A mebibyte.
pub const MIB: u64 = 1 << 20;

/// A driver under the shim, with that many MiB of every card. All that are given one mock share a ledger.
pub fn shimmed<'a>(runtime: &'a Runtime, mock: &'a Mock, quota: u64) -> Driver<'a> {
    Driver::new(runtime, mock).shim(mock, quota)
}
