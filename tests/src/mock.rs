//! The mock HSA of one run: a folder with its record and its shared file, and the knobs it is started with.
//!
//! Several processes that are given the same `Mock` share the cards. The record and the counters are the mock's own: nothing of what is tested takes part in
//! them. Knobs: `mock-hsa/README.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The folder that holds the mock's `libhsa-runtime64.so.1`.
pub fn library_folder() -> &'static Path {
    Path::new(concat!(env!("OUT_DIR"), "/mock"))
}

/// The folder that holds the stub of comgr, for runtimes whose real one is not in the corpus.
pub fn comgr_folder() -> &'static Path {
    Path::new(concat!(env!("OUT_DIR"), "/comgr"))
}

/// One run's mock.
pub struct Mock {
    folder: TempDir,
    knobs: BTreeMap<String, String>,
}

/// What living processes hold of one card, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Card {
    /// Asked for, in pages.
    pub asked: u64,
    /// Lost to the card: whole blocks, cached ones too.
    pub block: u64,
    /// The most that was asked for at one time, over all processes that lived then.
    pub highest_asked: u64,
    /// The most that the card lost at one time.
    pub highest_block: u64,
    /// Requests granted to processes that live.
    pub taken: u64,
    /// Requests given back by processes that live.
    pub given: u64,
    /// Processes that took something and live.
    pub processes: u32,
}

/// A line of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The process and the thread that called.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// `alloc`, `free`, `refuse` (no room, or a wrong argument), `fault` (injected), `map`, `import`, `managed`, …
    pub kind: String,
    /// The HSA function without `hsa_` and `hsa_amd_`.
    pub call: String,
    /// The card, `None` for host memory.
    pub card: Option<u32>,
    /// Bytes asked for.
    pub asked: u64,
    /// Bytes of blocks taken or given back.
    pub block: u64,
    /// Address or handle.
    pub key: u64,
    /// HSA's status.
    pub status: u32,
}

impl Default for Mock {
    fn default() -> Self {
        Self::new()
    }
}

impl Mock {
    /// One card of 16 GiB.
    ///
    /// # Panics
    ///
    /// When no temporary folder can be made.
    pub fn new() -> Self {
        let folder = TempDir::with_prefix("mock-hsa-").expect("a temporary folder");
        let knobs = BTreeMap::from(
            [("RECORD", "record"), ("SHARED", "shared")]
                .map(|(knob, file)| (knob.to_owned(), folder.path().join(file).to_string_lossy().into_owned())),
        );
        Self { folder, knobs }
    }

    /// Sets a knob by its name without `MOCKHSA_`.
    #[must_use]
    pub fn knob(mut self, name: &str, value: &(impl ToString + ?Sized)) -> Self {
        self.knobs.insert(name.to_owned(), value.to_string());
        self
    }

    /// This many cards.
    #[must_use]
    pub fn cards(self, count: u32) -> Self {
        self.knob("CARDS", &count)
    }

    /// What each card reports as its memory.
    #[must_use]
    pub fn vram_mib(self, mebibytes: u64) -> Self {
        self.knob("VRAM_MB", &mebibytes)
    }

    /// What each card really has: beyond it the driver is out of memory.
    #[must_use]
    pub fn limit_mib(self, mebibytes: u64) -> Self {
        self.knob("LIMIT_MB", &mebibytes)
    }

    /// What one card really has.
    #[must_use]
    pub fn limit_mib_of(self, card: u32, mebibytes: u64) -> Self {
        self.knob(&format!("LIMIT_MB_{card}"), &mebibytes)
    }

    /// A folder for whatever else a run writes; gone with the mock.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The environment of a process under this mock.
    pub fn environment(&self) -> impl Iterator<Item = (String, String)> {
        self.knobs.iter().map(|(name, value)| (format!("MOCKHSA_{name}"), value.clone()))
    }

    /// What happened so far.
    ///
    /// # Panics
    ///
    /// When a line is not what the mock writes.
    pub fn record(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(self.folder.path().join("record")).unwrap_or_default();
        text.lines().map(|line| parse(line).unwrap_or_else(|| panic!("the mock wrote {line:?}"))).collect()
    }

    /// What a card holds now, and held at most.
    ///
    /// # Panics
    ///
    /// When the mock's reader fails: nothing that a test measures would be true.
    pub fn card(&self, index: usize) -> Card {
        let shared = self.folder.path().join("shared");
        if !shared.exists() {
            return Card::default();
        }
        let output = Command::new(reader()).arg(&shared).output().expect("the mock's reader runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<u64> =
            text.lines().nth(index).expect("a line for each card").split(' ').map(|word| word.parse().expect("a number")).collect();
        let [_, asked, block, highest_asked, highest_block, taken, given, processes] = numbers[..] else { panic!("the reader printed {text}") };
        Card { asked, block, highest_asked, highest_block, taken, given, processes: processes as u32 }
    }
}

/// The program that prints the shared file.
fn reader() -> PathBuf {
    PathBuf::from(concat!(env!("OUT_DIR"), "/mockhsa-read"))
}

fn parse(line: &str) -> Option<Line> {
    let mut fields = line.split('\t');
    let mut next = || fields.next();
    Some(Line {
        pid: next()?.parse().ok()?,
        tid: next()?.parse().ok()?,
        kind: next()?.to_owned(),
        call: next()?.to_owned(),
        card: next()?.parse().ok(),
        asked: next()?.parse().ok()?,
        block: next()?.parse().ok()?,
        key: u64::from_str_radix(next()?, 16).ok()?,
        status: u32::from_str_radix(next()?, 16).ok()?,
    })
}
