//! The shim in a run: the library as it is shipped, its environment, and its ledger compared with the mock's record.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use vrocm_core::ledger::view::View;

use crate::driver::Driver;
use crate::mock::{Line, Mock};

/// `libvrocm.so` as it is shipped, built on first use, or the file that `VROCM_SHIM_UNDER_TEST` names (`scripts/mutate-shim.py`).
///
/// # Panics
///
/// When it cannot be built.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if let Some(other) = std::env::var_os("VROCM_SHIM_UNDER_TEST") {
            return other.into();
        }
        // A test program lies in <target>/<profile>/deps.
        let program = std::env::current_exe().expect("a program knows its path");
        let target = program.ancestors().nth(3).expect("a test program lies in a target directory").to_owned();
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--release", "-q", "-p", "vrocm-preload", "--target-dir"])
            .arg(&target)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "libvrocm.so cannot be built");
        target.join("release/libvrocm.so")
    })
}

impl<'a> Driver<'a> {
    /// Under the shim, with a quota of so many MiB of every card, and a ledger in the mock's folder.
    #[must_use]
    pub fn shim(self, mock: &'a Mock, quota_mib: u64) -> Self {
        self.preload(library()).env("VROCM_DEVICE_MEMORY_LIMIT", &quota_mib).env("VROCM_LEDGER_PATH", &ledger_path(mock).to_string_lossy())
    }
}

/// What an entry point's counter says at the end of a run at level 2: calls, refusals by the shim, failures of the driver. Zeros where there is no such line.
///
/// # Panics
///
/// When the line is not of that form.
pub fn counter(stderr: &str, name: &str) -> [u64; 3] {
    let Some((_, said)) = stderr.lines().find_map(|line| line.split_once(&format!("counter {name} "))) else { return [0; 3] };
    ["calls=", "refused=", "failed="].map(|key| {
        let number = said.split_once(key).map(|(_, rest)| rest.split(' ').next().unwrap_or_default());
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number for {key} of {name}: {said}"))
    })
}

/// Where the ledger of a run is.
pub fn ledger_path(mock: &Mock) -> PathBuf {
    mock.folder().join("ledger")
}

/// Bytes that living processes hold of all cards, as the ledger has it; `None` where there is no ledger yet.
///
/// # Panics
///
/// When the file is no ledger.
pub fn held(mock: &Mock) -> Option<u64> {
    let path = ledger_path(mock);
    if !path.exists() {
        return None;
    }
    let path = CString::new(path.as_os_str().as_bytes()).expect("a path");
    let view = View::open(&path).unwrap_or_else(|trouble| panic!("the ledger: {trouble:?}"));
    let slots: Vec<usize> = view.slots().filter(|slot| slot.alive).map(|slot| slot.slot).collect();
    Some(view.cards().flat_map(|card| slots.iter().map(move |&slot| (card.index, slot))).map(|(card, slot)| view.cell(card, slot).held).sum())
}

/// Bytes that the ledger should hold, by the mock's own record: what was asked for in pages, whole blocks where it is more than one.
pub fn recorded(mock: &Mock) -> u64 {
    recorded_where(mock, |_| true)
}

/// The same of processes that live and are no zombies.
pub fn recorded_of_living(mock: &Mock) -> u64 {
    recorded_where(mock, |pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next()).is_some_and(|state| !matches!(state, 'Z' | 'X'))
    })
}

fn recorded_where(mock: &Mock, counts: impl Fn(u32) -> bool) -> u64 {
    const BLOCK: u64 = 2 << 20;
    let mut alive: HashMap<(u32, u64), u64> = HashMap::new();
    for Line { pid, kind, card, asked, block, key, .. } in mock.record() {
        if card.is_none() {
            continue;
        }
        match kind.as_str() {
            "alloc" => _ = alive.insert((pid, key), if asked > BLOCK { block } else { asked }.next_multiple_of(4096)),
            "free" => _ = alive.remove(&(pid, key)),
            _ => {}
        }
    }
    alive.into_iter().filter(|((pid, _), _)| counts(*pid)).map(|(_, bytes)| bytes).sum()
}
