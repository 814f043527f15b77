//! The child: opens one runtime, takes commands from standard input, and answers each with one line of JSON.
//!
//! `name[,argument…]` calls the entry point of that name ([`hip`]); what a call makes is kept, and the next that needs such a thing takes the newest. Other
//! commands: `mapped,TEXT` (objects whose path ends in TEXT), `owner,NAME` (the object that an entry point is in). Answers go to the pipe that was
//! standard output; whatever a runtime prints there goes to standard error.

mod hip;
pub mod library;

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
}

impl Status {
    /// `hipErrorOutOfMemory`, as the library's own refusals look.
    pub const OUT_OF_MEMORY: Self = Self::Code(2);
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
    let mut state = hip::State::new(&library);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let answer = obey(&line, &library, &mut state);
        let Ok(text) = serde_json::to_string(&answer) else { return ExitCode::from(4) };
        if writeln!(answers, "{text}").and_then(|()| answers.flush()).is_err() {
            return ExitCode::from(4);
        }
    }
    ExitCode::SUCCESS
}

fn obey(line: &str, library: &Library, state: &mut hip::State) -> Answer {
    let mut parts = line.split(',');
    let name = parts.next().unwrap_or_default();
    let arguments: Vec<&str> = parts.collect();
    match (name, arguments.first()) {
        ("mapped", Some(end)) => {
            let found = library::mapped(end);
            let mut answer = Answer::new(name, Status::Code(0));
            answer.numbers.insert("count".into(), found.len() as u64);
            answer.words.insert("object".into(), found.join(" "));
            answer
        }
        ("owner", Some(entry)) => match library.find(entry).and_then(library::owner) {
            Some(object) => {
                let mut answer = Answer::new(name, Status::Code(0));
                answer.words.insert("object".into(), object);
                answer
            }
            None => Answer::new(name, Status::Absent),
        },
        _ => hip::call(state, name, &arguments),
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
