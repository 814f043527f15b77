//! The child: opens one runtime, takes commands from standard input, and answers each with one line of JSON.
//!
//! `name[,argument…]` calls the entry point of that name ([`hip`], [`hsa`]); what a call makes is kept, and the next that needs such a thing takes the newest. Other
//! commands: `mapped,TEXT` (objects whose path ends in TEXT), `owner,NAME` (the object that an entry point is in), and those of [`soak`]. Answers go to the pipe that
//! was standard output; whatever a runtime prints there goes to standard error.

mod call;
mod hip;
mod hsa;
pub mod library;
mod module;
mod soak;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::FromRawFd;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use library::Library;

/// How a probe comes by an entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// `dlsym(RTLD_DEFAULT)`: what the loader binds for a program that is linked with the runtime.
    Default,
    /// `dlsym` on a handle that was opened `RTLD_LOCAL`: ctypes, hashcat, Blender.
    Handle,
    /// `hipGetProcAddress`, found by `dlsym` on such a handle.
    ProcAddress,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Default, Self::Handle, Self::ProcAddress];

    /// The word that rows and the probe's environment use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Default => "linked",
            Self::Handle => "dlsym",
            Self::ProcAddress => "hipGetProcAddress",
        }
    }
}

/// The variables that make a program a probe.
pub const RUNTIME: &str = "VROCM_VERIFY_RUNTIME";
/// [`Way::word`].
pub const WAY: &str = "VROCM_VERIFY_WAY";

/// The library of HSA, which the loader finds beside a runtime.
pub const HSA: &str = "libhsa-runtime64.so.1";

/// What a probe is to do.
#[derive(Debug)]
pub struct Order {
    runtime: String,
    way: Way,
}

impl Order {
    /// `None`: this process is no probe.
    pub fn from_environment() -> Option<Self> {
        let runtime = std::env::var(RUNTIME).ok()?;
        let word = std::env::var(WAY).ok()?;
        Some(Self { runtime, way: Way::ALL.into_iter().find(|way| way.word() == word)? })
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// HIP's own status.
    Code(i32),
    /// The way does not lead to the name: this release has no such entry point.
    Absent,
    /// It needs something that no command made.
    Unused,
    /// It failed, for the reason that the word `why` is.
    Failed,
}

impl Status {
    /// `hipErrorOutOfMemory`, as the library's own refusals look.
    pub const OUT_OF_MEMORY: Self = Self::Code(2);
    /// `HSA_STATUS_ERROR_OUT_OF_RESOURCES`, as they look beneath.
    pub const OUT_OF_RESOURCES: Self = Self::Code(0x1008);
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The command's name.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Numbers that it said: `total`, `free`, `value`, …
    #[serde(default)]
    pub numbers: BTreeMap<String, u64>,
    /// Words that it said: `object`, …
    #[serde(default)]
    pub words: BTreeMap<String, String>,
}

impl Answer {
    fn new(name: &str, status: Status) -> Self {
        Self { name: name.to_owned(), status, numbers: BTreeMap::new(), words: BTreeMap::new() }
    }

    /// A number that it said, 0 if it said none.
    pub fn number(&self, key: &str) -> u64 {
        self.numbers.get(key).copied().unwrap_or(0)
    }

    /// A word that it said.
    pub fn word(&self, key: &str) -> &str {
        self.words.get(key).map_or("", String::as_str)
    }
}

/// Runs as a probe until standard input ends. Exit status 3: the runtime cannot be opened.
pub fn run(order: &Order) -> ExitCode {
    let Some(mut answers) = private_output() else { return ExitCode::from(4) };
    let library = match Library::open(&order.runtime, order.way) {
        Ok(library) => library,
        Err(error) => {
            eprintln!("probe: {error}");
            return ExitCode::from(3);
        }
    };
    let (mut hip, mut hsa, mut tenant) = (hip::State::new(&library), hsa::State::new(&library), None);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut parts = line.split(',');
        let name = parts.next().unwrap_or_default();
        let arguments: Vec<&str> = parts.collect();
        let answer = about_the_process(&library, name, &arguments)
            .or_else(|| soak::obey(&order.runtime, &mut tenant, name, &arguments))
            .or_else(|| hsa::call(&mut hsa, name, &arguments))
            .unwrap_or_else(|| hip::call(&mut hip, name, &arguments));
        let Ok(text) = serde_json::to_string(&answer) else { return ExitCode::from(4) };
        if writeln!(answers, "{text}").and_then(|()| answers.flush()).is_err() {
            return ExitCode::from(4);
        }
    }
    ExitCode::SUCCESS
}

fn about_the_process(library: &Library, name: &str, arguments: &[&str]) -> Option<Answer> {
    match (name, arguments) {
        ("mapped", [end]) => {
            let found = library::mapped(end);
            let mut answer = Answer::new(name, Status::Code(0));
            answer.numbers.insert("count".into(), found.len() as u64);
            answer.words.insert("object".into(), found.join(" "));
            Some(answer)
        }
        ("owner", [entry]) => {
            let object = library.find(entry).and_then(library::owner);
            let mut answer = Answer::new(name, if object.is_some() { Status::Code(0) } else { Status::Absent });
            answer.words.extend(object.map(|object| ("object".into(), object)));
            Some(answer)
        }
        _ => None,
    }
}

/// Standard output as it was, for answers alone; what is written there from now on goes to standard error.
fn private_output() -> Option<File> {
    // SAFETY: descriptors that this process was started with; the copy is owned by the file.
    unsafe {
        let copy = libc::fcntl(1, libc::F_DUPFD_CLOEXEC, 3);
        if copy < 0 || libc::dup2(2, 1) < 0 {
            return None;
        }
        Some(File::from_raw_fd(copy))
    }
}
