//! Any bytes as a package, a wheel, a tarball or an image: refused or read, without a panic, a hang or much memory.

#![no_main]

use std::sync::LazyLock;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("a folder in memory"));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    vrocm_tests::walk::archives(bytes, FOLDER.path());
});
