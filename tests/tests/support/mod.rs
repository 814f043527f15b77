//! The shim as it is shipped, and a driver under it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use vrocm_tests::driver::Driver;
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;

/// A mebibyte.
pub const MIB: u64 = 1 << 20;

/// Builds the library as it is shipped, once.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--release", "-q", "-p", "vrocm-preload", "--target-dir"])
            .arg(target)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace"))
            .status();
        assert!(status.is_ok_and(|status| status.success()), "the shim does not build");
        target.join("release/libvrocm.so")
    })
}

/// A driver under the shim, with that many MiB of every card. All that are given one mock share a ledger.
pub fn shimmed<'a>(runtime: &'a Runtime, mock: &'a Mock, quota: u64) -> Driver<'a> {
    Driver::new(runtime, mock)
        .preload(library())
        .env("VROCM_DEVICE_MEMORY_LIMIT", &quota)
        .env("VROCM_LEDGER_PATH", &mock.folder().join("ledger").display())
}
