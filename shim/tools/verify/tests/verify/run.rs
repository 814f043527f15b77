//! Starts the program and reads its report.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use vrocm_tests::mock::{self, Mock};
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim;

/// What a run said.
pub struct Outcome {
    /// Exit status.
    pub status: i32,
    /// case, check, verdict, detail
    pub rows: Vec<[String; 4]>,
    /// Standard output and error, for messages.
    pub text: String,
}

impl Outcome {
    /// The rows of a case with this verdict, as `check: detail`.
    pub fn of(&self, case: &str, verdict: &str) -> Vec<String> {
        self.rows.iter().filter(|row| row[0] == case && row[2] == verdict).map(|row| format!("{}: {}", row[1], row[3])).collect()
    }

    /// Rows with this verdict, whatever the case.
    pub fn all(&self, verdict: &str) -> Vec<String> {
        self.rows.iter().filter(|row| row[2] == verdict).map(|row| row[..].join(" | ")).collect()
    }
}

/// The program with these arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vrocm-verify"));
    command.args(arguments).env_remove("VROCM_SHIM").env_remove("ROCM_PATH");
    command
}

/// Runs it to its end.
pub fn finish(mut command: Command) -> Outcome {
    let output = command.arg("--json").output().expect("the program starts");
    let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let row = |row: &Value| ["case", "check", "verdict", "detail"].map(|key| row[key].as_str().expect("a text").to_owned());
    let rows = report["rows"].as_array().map(|rows| rows.iter().map(row).collect()).unwrap_or_default();
    let status = output.status.code().expect("it ends by itself");
    let verdict = report["verdict"].as_str().unwrap_or("none");
    assert_eq!(
        verdict,
        match status {
            0 => "pass",
            1 => "fail",
            _ => "none",
        },
        "{text}"
    );
    Outcome { status, rows, text }
}

/// Without a card, a runtime or a mock.
pub fn bare(shim: &Path, arguments: &[&str]) -> Outcome {
    let mut command = command(arguments);
    command.arg("--shim").arg(shim);
    finish(command)
}

/// Over the mock, under these releases, with the library as it is shipped or another in its place.
pub fn over_mock(runtimes: &[&Runtime], cards: u32, shim: &Path, arguments: &[&str]) -> Outcome {
    let mock = Mock::new().cards(cards);
    let mut command = command(arguments);
    command.arg("--shim").arg(shim).arg("--hsa").arg(mock::library_folder().join("libhsa-runtime64.so.1"));
    for runtime in runtimes {
        command.arg("--runtime").arg(runtime.folder.join(&runtime.soname));
        if !runtime.comgr {
            command.arg("--library-path").arg(mock::comgr_folder());
        }
    }
    command.envs(mock.environment());
    finish(command)
}

/// The library as it is shipped.
pub fn shipped() -> PathBuf {
    shim::library().to_owned()
}
