//! What the dynamic loader would do with these files, decided without running it.
//!
//! [`resolve`] is one bounded, blocking call: a command (or a program's path), its environment and a root file system go in, the program, its
//! interpreter and all objects in load order come out. What the loader's answer depends on and no file tells (the CPU's level, a directory that
//! cannot be read) is not guessed: the CPU makes [`Resolution::alternatives`], anything else an [`Unknown`] with a code from [`unknown`]. A
//! verdict needs all of [`Resolution::sets`] to agree. [`Resolution::search`] answers which file a `dlopen` from one of the objects would find.
//!
//! ```no_run
//! use vrocm_audit::loader::{self, Request};
//! let resolution = loader::resolve(&Request { command: "rocminfo".into(), ..Request::from_this_process() })?;
//! for object in &resolution.objects {
//!     println!("{} ({})", object.path, object.rule);
//! }
//! # Ok::<(), loader::Error>(())
//! ```
//!
//! The rules are those of glibc's `elf/dl-load.c`, `dl-deps.c`, `rtld.c`, `dl-cache.c` and `dl-hwcaps.c` (2.31 to 2.44), held against the real
//! loaders of 2.31, 2.36 and 2.44 by the tests.
//!
//! Reading order: [`tree`] (paths inside a root), [`command`] (command to program), [`interpreter`] (what is compiled into that very loader),
//! [`token`], [`hwcaps`], [`cache`], [`candidate`] (which files the loader passes over and which stop it), `search`, `closure`, [`fresh`] (does the
//! answer still hold). [`environment`] is what a supervisor gives a workload.
//! `secure` is what set-user-id programs do without, [`versions`] what one object asks of another and does not get.
//! [`binding`] is glibc's rule whether a definition satisfies a reference, [`scope`] applies it to all objects of a process; [`shim`] is what a
//! preloaded shim has under a name.

pub mod binding;
pub mod cache;
pub mod candidate;
mod closure;
pub mod command;
pub mod environment;
pub mod fresh;
pub mod hwcaps;
pub mod interpreter;
pub mod scope;
mod search;
mod secure;
pub mod shim;
pub mod token;
pub mod tree;
pub mod unknown;
pub mod versions;

use std::path::PathBuf;
use std::rc::Rc;

use serde::Serialize;

use crate::elf::Elf;

pub use command::Script;
pub use hwcaps::Cpu;
pub use interpreter::{Interpreter, Libc};
pub use search::{Found, How};
pub use unknown::{Code, Unknown};

/// A question: what would this command load?
#[derive(Debug, Clone)]
pub struct Request {
    /// Root file system: every absolute path, link and cache is looked up below it. `/` for this machine.
    pub root: PathBuf,
    /// The command word: with a `/` a path, without one a name for `PATH`.
    pub command: String,
    /// Its arguments; only a command like `env`, whose arguments name the program, looks at them.
    pub arguments: Vec<String>,
    /// The whole environment of the process.
    pub environment: Vec<(String, String)>,
    /// Working directory, absolute, inside the root.
    pub cwd: String,
    /// Further preloads, as `ld.so --preload` takes them: after `LD_PRELOAD`, before `/etc/ld.so.preload`.
    pub preloads: Vec<String>,
    /// The CPU, where it is known; otherwise every kind of CPU counts.
    pub cpu: Option<Cpu>,
    /// Loader that is given the file, as `ldd` does with a library: `ld.so FILE`. The command is then a path and is not executed itself.
    pub interpreter: Option<String>,
    /// Bounds of the work.
    pub limits: Limits,
}

impl Request {
    /// A question with environment and working directory of this process; the command is left to fill in.
    pub fn from_this_process() -> Self {
        let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
        Self {
            root: PathBuf::from("/"),
            command: String::new(),
            arguments: Vec::new(),
            environment: std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect(),
            cwd: std::env::current_dir().map_or_else(|_| "/".into(), |folder| text(folder.into_os_string())),
            preloads: Vec::new(),
            cpu: None,
            interpreter: None,
            limits: Limits::default(),
        }
    }

    /// A command as a supervisor is about to start it: in this process's environment with `delta` on top ([`environment::over`]).
    pub fn workload(words: &[String], delta: &[(String, String)]) -> Self {
        let own = Self::from_this_process();
        let (command, arguments) = words.split_first().map_or_else(Default::default, |(first, rest)| (first.clone(), rest.to_vec()));
        Self { command, arguments, environment: environment::over(&own.environment, delta), ..own }
    }

    /// The same about a library by itself, given to the usual loader of its machine; the error says why there is none.
    pub fn library(self, path: &str) -> Result<Self, Error> {
        let fail = |problem: String| Error { subject: path.to_string(), problem };
        let tree = tree::Tree::new(&self.root, &self.cwd, self.limits.probes, self.limits.bytes);
        let image =
            tree.file(path).map_err(|error| fail(error.to_string())).map(|file| Elf::open(&file).map_err(|error| fail(error.to_string())))??;
        let interpreter = interpreter::usual(&image.header).ok_or_else(|| fail("no loader is known for its machine".into()))?;
        Ok(Self { command: path.to_string(), interpreter: Some(interpreter.into()), ..self })
    }

    /// Value of a variable of the environment; the last one counts.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Bounds of one resolution.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Objects of one process.
    pub objects: usize,
    /// Files and directories asked for, all names together.
    pub probes: u64,
    /// Bytes of one file that is read whole (cache, interpreter, `ld.so.preload`).
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { objects: 512, probes: 1 << 17, bytes: 16 << 20 }
    }
}

/// Why there is no answer at all: no such command, not executable, not ELF.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {problem}")]
pub struct Error {
    /// The command or file.
    pub subject: String,
    /// What is wrong with it.
    pub problem: String,
}

/// How a program finds its libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Linking {
    /// By glibc's loader.
    Glibc,
    /// By musl's.
    Musl,
    /// By a loader that is not known.
    Other,
    /// Not at all: no `PT_INTERP`, so no loader, no preload.
    Static,
}

/// One object of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Object {
    /// Path as the loader forms it, inside the root; what `ldd` prints.
    pub path: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// Which rule found it.
    pub how: How,
    /// The rule in words: `RUNPATH $ORIGIN/lib of bin/app`.
    pub rule: String,
    /// Index of the object that asked for it first; `None` for the program.
    pub needed_by: Option<usize>,
    /// The name that was asked for.
    pub name: String,
    /// Where the file lies on this machine.
    #[serde(skip)]
    pub file: PathBuf,
    /// The file as it was read.
    #[serde(skip)]
    pub stamp: fresh::Stamp,
}

/// Something that stops the loader: the process would not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The name that was asked for.
    pub name: String,
    /// Path of the object that asked.
    pub needed_by: String,
    /// The file that is no library, if one was found.
    pub file: Option<String>,
    /// What the loader says.
    pub problem: String,
}

/// What the command would load on other CPUs, where that differs.
#[derive(Debug, Clone)]
pub struct Alternative {
    /// The CPUs it holds for, in words.
    pub cpus: Vec<Cpu>,
    /// Objects in load order.
    pub objects: Vec<Object>,
    /// What stops the loader.
    pub failures: Vec<Failure>,
    state: Rc<closure::State>,
}

/// The answer.
#[derive(Debug)]
pub struct Resolution {
    /// Path of the program that runs, inside the root.
    pub program: String,
    /// Scripts on the way to it, outermost first.
    pub scripts: Vec<Script>,
    /// Arguments that the program gets.
    pub arguments: Vec<String>,
    /// The environment that the program gets: that of the request, with what an `env` on the way changes.
    pub environment: Vec<(String, String)>,
    /// How it finds libraries.
    pub linking: Linking,
    /// Its loader; `None` for a static program.
    pub interpreter: Option<Interpreter>,
    /// Objects in load order: the program, preloads, needed ones breadth first. The interpreter stands where somebody needs it.
    pub objects: Vec<Object>,
    /// What stops the loader. It goes on past a missing library here, as `ldd` does.
    pub failures: Vec<Failure>,
    /// Preloads that the loader drops with a message on standard error.
    pub dropped: Vec<Failure>,
    /// What the answer leaves open.
    pub unknowns: Vec<Unknown>,
    /// Other answers, for other CPUs; empty where all CPUs load the same.
    pub alternatives: Vec<Alternative>,
    loader: Rc<closure::Loader>,
    state: Rc<closure::State>,
}

impl Resolution {
    /// Value of a variable of the program's environment; the last one counts.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Every set of objects that the process could have.
    pub fn sets(&self) -> impl Iterator<Item = &[Object]> {
        std::iter::once(self.objects.as_slice()).chain(self.alternatives.iter().map(|other| other.objects.as_slice()))
    }

    /// Which file `dlopen(name)` from the object with index `from` would find, or which loaded object it would be given: one answer per set.
    pub fn search(&self, name: &str, from: usize) -> Vec<Found> {
        let mut found = vec![self.loader.search_again(&self.state, name, from)];
        for other in &self.alternatives {
            let answer = self.loader.search_again(&other.state, name, from.min(other.objects.len().saturating_sub(1)));
            if !found.contains(&answer) {
                found.push(answer);
            }
        }
        found
    }

    /// Versions that one object asks of another and does not get, over all sets, and what could not be read of them. Any that is not weak keeps the
    /// process from starting, or ends it.
    pub fn unmet_versions(&self) -> (Vec<versions::Unmet>, Vec<Unknown>) {
        let (mut unmet, mut unknowns) = self.state.unmet();
        for other in &self.alternatives {
            let (more, unread) = other.state.unmet();
            unmet.extend(more.into_iter().filter(|one| !unmet.contains(one)).collect::<Vec<_>>());
            unknowns.extend(unread.into_iter().filter(|one| !unknowns.contains(one)).collect::<Vec<_>>());
        }
        (unmet, unknowns)
    }

    /// Files that are not what they were when they were read: the answer is about what was there before.
    pub fn changed(&self) -> Vec<Unknown> {
        self.loader.changed(self.sets().flatten())
    }

    /// The part of a path that somebody else than root and the user who asks may change, in words; `None` where nobody may.
    pub fn changeable(&self, path: &str) -> Option<String> {
        fresh::changeable(&self.loader.tree, path)
    }

    /// The file of an answer of [`Resolution::search`] on this machine.
    pub fn file(&self, path: &str) -> PathBuf {
        self.loader.tree.file(path).unwrap_or_else(|_| PathBuf::from(path))
    }
}

/// Resolves a command.
pub fn resolve(request: &Request) -> Result<Resolution, Error> {
    closure::resolve(request)
}
