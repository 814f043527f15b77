//! This program run again with another mask, with an end to the waiting: a card that hangs must not hang the check.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::probe::Seen;
use crate::verdict::Variables;

/// First word of the line that a child answers with; libraries may print lines of their own.
pub const ANSWER: &str = "rocm-cumask-probe ";
/// The variables that decide.
pub const HSA: &str = "HSA_CU_MASK";
/// As above.
pub const GLOBAL: &str = "ROC_GLOBAL_CU_MASK";
/// As above.
pub const SKIP: &str = "HSA_CU_MASK_SKIP_INIT";

/// Looks at a card in a process with these variables.
pub fn look(device: u32, variables: &Variables, patience: Duration) -> Result<Seen, String> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--probe", "--device", &device.to_string()]);
    for (name, value) in [(HSA, variables.hsa.as_deref()), (GLOBAL, variables.global.as_deref()), (SKIP, variables.skip.then_some("1"))] {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(|error| format!("this program cannot be started again: {error}"))?;
    let mut stdout = child.stdout.take().ok_or("no pipe")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let end = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if Instant::now() >= end {
            return Err(format!("the kernel has not come back within {} s; the process {}", patience.as_secs(), end_of(child)));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = reader.join().unwrap_or_default();
    let answer = text
        .lines()
        .find_map(|line| line.strip_prefix(ANSWER))
        .ok_or_else(|| format!("the process under the mask ended without an answer ({status})"))?;
    serde_json::from_str::<Result<Seen, String>>(answer).map_err(|error| format!("its answer cannot be read: {error}"))?
}

/// Ends a child. One that sleeps in the driver may outlive the signal, and is not waited for: this program has to come back.
fn end_of(mut child: Child) -> &'static str {
    let _ = child.kill();
    for _ in 0..200 {
        if let Ok(Some(_)) = child.try_wait() {
            return "was ended";
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    "cannot be ended: the driver does not let it go"
}
