//! The shim under the real HIP runtimes: no way past the quota, by any of the ways that a user of HIP has.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use vrocm_tests::driver::{Driver, End, Status, Way};
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;

const MIB: u64 = 1 << 20;
const OUT_OF_MEMORY: Status = Status::Code(2);

/// Builds the library as it is shipped, once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let status = Command::new(env!("CARGO"))
            .args(["build", "--release", "-q", "-p", "vrocm-preload", "--target-dir"])
            .arg(target)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
            .status()
            .unwrap();
        assert!(status.success());
        target.join("release/libvrocm.so")
    })
}

/// A driver under the shim, with that many MiB of every card.
fn shimmed<'a>(runtime: &'a Runtime, mock: &'a Mock, quota: u64) -> Driver<'a> {
    Driver::new(runtime, mock)
        .preload(library())
        .env("VROCM_DEVICE_MEMORY_LIMIT", &quota)
        .env("VROCM_LEDGER_PATH", mock.folder().join("ledger").to_str().unwrap())
}

#[test]
fn nothing_above_the_quota_by_any_way() {
    for runtime in Runtime::present() {
        for way in Way::COMMON {
            if !way.exists_in(runtime) {
                continue;
            }
            let mock = Mock::new();
            let outcome = shimmed(runtime, &mock, 64).way(way).run(&["hipMalloc,512M", "hipMalloc,48M", "hipFree", "hipMalloc,60M"]);
            let context = format!("{} {way:?}: {outcome:?}", runtime.version);
            let answers: Vec<Status> = outcome.of("hipMalloc").map(|answer| answer.status).collect();
            assert_eq!(answers, [OUT_OF_MEMORY, Status::Code(0), Status::Code(0)], "{context}");
            assert_eq!(outcome.end, End::Exit(0), "{context}");
            assert!(mock.card(0).highest_block <= 64 * MIB, "{context}");
        }
    }
}
