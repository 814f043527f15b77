//! Runtimes in wheels and packages: scanned where they lie, nothing is unpacked to disk.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use zip::write::SimpleFileOptions;

use crate::stand_in::{StandIn, TARGETS, array, ids};

fn wheel(path: &Path, files: &[(&str, &[u8])]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).expect("created"));
    for (name, bytes) in files {
        archive.start_file(*name, SimpleFileOptions::default()).expect("begun");
        archive.write_all(bytes).expect("written");
    }
    archive.finish().expect("finished");
}

fn scan(wheel: &Path, target: &str) -> (Option<i32>, serde_json::Value, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_gfx-scan")).arg(wheel).args(["--target", target, "--format", "json"]).output().expect("runs");
    (done.status.code(), serde_json::from_slice(&done.stdout).unwrap_or_default(), String::from_utf8_lossy(&done.stderr).into_owned())
}

#[test]
fn the_runtimes_of_a_wheel_are_scanned_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = |targets: &[&str]| std::fs::read(&StandIn::rocr(&array("table", &ids(targets))).path).expect("built");
    let (all, fewer) = (bytes(&TARGETS), bytes(&TARGETS[..30]));
    let one = folder.path().join("torch.whl");
    wheel(
        &one,
        &[("torch/__init__.py", b"import ctypes"), ("torch/lib/libhsa-runtime64-1a2b3c4d.so.1.14.0", &all), ("torch/lib/libother.so", &fewer)],
    );
    for (target, status) in [("gfx1201", 0), ("gfx1250", 1)] {
        let (exit, report, said) = scan(&one, target);
        assert_eq!((exit, said.as_str()), (Some(status), ""), "{target}");
        assert_eq!(report["subjects"].as_array().map(Vec::len), Some(1), "{report}");
        let file = report["subjects"][0]["file"].as_str().expect("a file");
        assert!(file.ends_with("torch.whl!/torch/lib/libhsa-runtime64-1a2b3c4d.so.1.14.0"), "{file}");
    }
    // Two that do not agree.
    let two = folder.path().join("two.whl");
    wheel(&two, &[("torch/lib/libhsa-runtime64.so", &all), ("_rocm_sdk_core/lib/libhsa-runtime64.so.1", &fewer)]);
    assert_eq!((scan(&two, "gfx1201").0, scan(&two, "gfx942").0), (Some(3), Some(0)));
    let none = folder.path().join("none.whl");
    wheel(&none, &[("numpy/lib/libother.so", &all)]);
    let (exit, _, said) = scan(&none, "gfx942");
    assert!(exit == Some(2) && said.contains("holds no library named libhsa-runtime64.so*"), "{said}");
}
