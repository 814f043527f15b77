//! A real user of HSA alone, under the shim and over the mock: AMD's `OpenCL`. (rocminfo asks the kernel for its module first, and so cannot be run here.)

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use vrocm_tests::corpus;
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim;

const MIB: u64 = 1 << 20;

/// A package's file and the runtime that brings what it needs, or `None` where one is missing, which has been said.
fn with_runtime(package: corpus::Package, file: &str) -> Option<(PathBuf, &'static Runtime)> {
    let (found, runtime) = (corpus::package(package).map(|folder| folder.join(file)), Runtime::find("7.2.4"));
    if let (Some(file), Ok(runtime)) = (found, runtime) {
        return Some((file, runtime));
    }
    corpus::not_tested(&corpus::missing(package, &[package, "libamdhip64-7_7.2.4"]));
    None
}

fn command(runtime: &Runtime, program: &Path, mock: &Mock, quota: Option<u64>) -> Command {
    let mut command = runtime.command(program, quota.map(|_| shim::library()));
    command.envs(mock.environment());
    if let Some(quota) = quota {
        command.env("VROCM_DEVICE_MEMORY_LIMIT", quota.to_string()).env("VROCM_LEDGER_PATH", shim::ledger_path(mock));
    }
    command
}

struct Answers {
    lines: Vec<(String, i64)>,
    /// What the ledger held while the buffer lived, and after it was released.
    held: [Option<u64>; 2],
    code: Option<i32>,
}

impl Answers {
    fn of(&self, name: &str) -> Option<i64> {
        self.lines.iter().find(|(line, _)| line == name).map(|&(_, value)| value)
    }
}

fn opencl(library: &Path, runtime: &Runtime, mock: &Mock, quota: Option<u64>, mib: u64) -> Answers {
    let folder = TempDir::with_prefix("opencl-").expect("a temporary folder");
    let program = folder.path().join("opencl");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/probes/opencl.c");
    let status = Command::new("cc").args(["-D_GNU_SOURCE", "-O1", "-w", source, "-ldl", "-o"]).arg(&program).status().expect("a C compiler");
    assert!(status.success());
    let mut command = command(runtime, &program, mock, quota);
    let mut child = command.arg(library).arg(mib.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let (mut input, output) = (child.stdin.take().expect("a pipe"), BufReader::new(child.stdout.take().expect("a pipe")));
    let mut answers = Answers { lines: Vec::new(), held: [None; 2], code: None };
    for line in output.lines().map_while(Result::ok) {
        let (name, value) = line.split_once(' ').unwrap_or((&line, ""));
        answers.lines.push((name.to_owned(), value.parse().unwrap_or(i64::MIN)));
        if let Some(stop) = ["write", "release"].iter().position(|stop| *stop == name) {
            answers.held[stop] = shim::held(mock);
            let _ = input.write_all(b"\n");
        }
    }
    answers.code = child.wait().expect("it ends").code();
    answers
}

#[test]
fn opencl_has_the_quota_and_no_byte_more() {
    let Some((library, runtime)) = with_runtime("rocm-opencl-icd_7.2.4", "usr/lib/x86_64-linux-gnu/libamdocl64.so.2") else { return };
    let mock = Mock::new();
    let free = opencl(&library, runtime, &mock, None, 512);
    assert_eq!((free.of("buffer"), free.of("write"), free.code), (Some(0), Some(0), Some(0)), "without the shim: {:?}", free.lines);
    assert!(mock.card(0).highest_asked >= 512 * MIB, "without the shim it takes them");

    let mock = Mock::new();
    let refused = opencl(&library, runtime, &mock, Some(256), 512);
    assert_eq!(refused.of("global"), Some((256 * MIB).cast_signed()), "{:?}", refused.lines);
    assert!(refused.of("largest").is_some_and(|largest| largest <= (256 * MIB).cast_signed()), "{:?}", refused.lines);
    assert!(refused.of("buffer") != Some(0) || refused.of("write") != Some(0), "{:?}", refused.lines);
    assert_eq!(refused.code, Some(0), "{:?}", refused.lines);
    assert!(mock.card(0).highest_asked <= 256 * MIB, "{}", mock.card(0).highest_asked);

    let mock = Mock::new();
    let granted = opencl(&library, runtime, &mock, Some(1024), 128);
    assert_eq!((granted.of("write"), granted.of("release"), granted.code), (Some(0), Some(0), Some(0)), "{:?}", granted.lines);
    let [held, left] = granted.held.map(|held| held.expect("a ledger"));
    assert!((128 * MIB..1024 * MIB).contains(&held) && held - left >= 128 * MIB, "{held} bytes with the buffer, {left} without");
}
