//! Which file a name leads to: the rules of `_dl_map_new_object`, in its order.

use std::os::unix::fs::MetadataExt;

use serde::Serialize;

use super::cache::Cached;
use super::candidate::{self, Library, Outcome};
use super::closure::{Loader, Node, Run, State};
use super::secure;
use super::token::{self, Values};
use super::tree::folder;
use super::unknown::{self, Unknown};
use crate::elf::constants as elf;

/// The rule that found an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The program itself.
    Program,
    /// Preloaded: `LD_PRELOAD`, `--preload` or `/etc/ld.so.preload`.
    Preload,
    /// The program's interpreter.
    Interpreter,
    /// The name has a slash: that file.
    Path,
    /// `DT_RPATH` of the object, of one that led to it, or of the program.
    Rpath,
    /// `LD_LIBRARY_PATH`.
    LibraryPath,
    /// `DT_RUNPATH` of the object.
    Runpath,
    /// `/etc/ld.so.cache`.
    Cache,
    /// A default directory of the interpreter.
    Default,
}

/// What a search comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Found {
    /// An object of the process has this name already: its index.
    Loaded(usize),
    /// A file.
    File {
        /// Path as the loader forms it.
        path: String,
        /// Which rule.
        how: How,
        /// The rule in words.
        rule: String,
        /// Its `DT_SONAME`.
        soname: Option<String>,
    },
    /// None.
    Missing,
    /// The loader stops at this file.
    Fatal {
        /// The file.
        path: String,
        /// What it says.
        problem: String,
    },
    /// Not known; the reasons.
    Unknown(Vec<Unknown>),
}

/// A file that will be mapped.
pub(super) struct Hit {
    pub path: String,
    pub how: How,
    pub rule: String,
    pub library: Box<Library>,
}

/// Result of a search inside the loader.
pub(super) enum Looked {
    Hit(Hit),
    Missing,
    Fatal { path: String, problem: String },
}

enum Step {
    Done(Looked),
    Next,
}

impl Run<'_> {
    /// Looks for a name on behalf of an object.
    pub(super) fn look(&self, state: &State, name: &str, from: usize) -> Looked {
        let asker = &state.nodes[from];
        if name.contains('/') {
            let Some(path) = self.expand(asker, name) else { return Looked::Missing };
            return match self.try_file(&path, How::Path, || format!("path in {}", asker.object.path)) {
                Step::Done(looked) => looked,
                Step::Next => Looked::Missing,
            };
        }
        let rules = [Self::by_rpath, Self::by_library_path, Self::by_runpath, Self::by_cache, Self::by_default];
        for rule in rules {
            if let Step::Done(looked) = rule(self, state, name, from) {
                return looked;
            }
        }
        Looked::Missing
    }

    /// `DT_RPATH` of the asker, of who asked for it, and so on up; then the program's. Nothing of it if the asker has `DT_RUNPATH`.
    fn by_rpath(&self, state: &State, name: &str, from: usize) -> Step {
        if state.nodes[from].runpath.is_some() {
            return Step::Next;
        }
        let mut chain = vec![from];
        while let Some(next) = state.nodes[chain[chain.len() - 1]].object.needed_by {
            chain.push(next);
        }
        if !chain.contains(&0) {
            chain.push(0);
        }
        for index in chain {
            let node = &state.nodes[index];
            // Where an object has both, its DT_RPATH does not exist.
            if node.runpath.is_some() {
                continue;
            }
            let Some(list) = node.rpath.as_deref() else { continue };
            let step = self.in_list(node, list, &[':'], name, How::Rpath, &|element| format!("RPATH {element} of {}", node.object.path));
            if let Step::Done(_) = step {
                return step;
            }
        }
        Step::Next
    }

    /// Both separators; an empty variable is none, an empty element the working directory.
    fn by_library_path(&self, state: &State, name: &str, _from: usize) -> Step {
        let Some(list) = self.loader.library_path.as_deref().filter(|list| !list.is_empty()) else { return Step::Next };
        let program = &state.nodes[0];
        self.in_list(program, list, &[':', ';'], name, How::LibraryPath, &|element| {
            format!("LD_LIBRARY_PATH {}", if element.is_empty() { "(empty element: the working directory)" } else { element })
        })
    }

    fn by_runpath(&self, state: &State, name: &str, from: usize) -> Step {
        let node = &state.nodes[from];
        let Some(list) = node.runpath.as_deref() else { return Step::Next };
        self.in_list(node, list, &[':'], name, How::Runpath, &|element| format!("RUNPATH {element} of {}", node.object.path))
    }

    fn by_cache(&self, state: &State, name: &str, from: usize) -> Step {
        let Some(cache) = self.loader.cache.as_ref().filter(|_| !self.only_set_id.get()) else { return Step::Next };
        if self.loader.interpreter.named_hwcaps() && cache.depends_on_cpu(name) {
            self.cpu_matters.set(true);
        }
        let path = match cache.find(name, self.cpu, self.loader.interpreter.named_hwcaps()) {
            Cached::Nothing => return Step::Next,
            Cached::Path(path) => path,
            Cached::Unclear(path) => {
                self.unknown(&unknown::CACHE, &path, "an entry of this name stands for a legacy capability");
                path
            }
        };
        let avoids = state.nodes[from].flags_1 & elf::DF_1_NODEFLIB.0 != 0;
        if avoids && self.loader.interpreter.directories.iter().any(|folder| path.starts_with(folder)) {
            return Step::Next;
        }
        self.try_file(&path, How::Cache, || "ld.so.cache".into())
    }

    fn by_default(&self, state: &State, name: &str, from: usize) -> Step {
        if state.nodes[from].flags_1 & elf::DF_1_NODEFLIB.0 != 0 {
            return Step::Next;
        }
        let folders = &self.loader.interpreter.directories;
        if folders.is_empty() {
            self.unknown(&unknown::DEFAULT_DIRECTORIES, &self.loader.interpreter.path, "no constant of directories was found in it");
        }
        for folder in folders {
            if let Some(step) = self.in_folder(folder, name, How::Default, &|| format!("default directory {folder}")) {
                return step;
            }
        }
        Step::Next
    }

    fn in_list(&self, node: &Node, list: &str, separators: &[char], name: &str, how: How, rule: &dyn Fn(&str) -> String) -> Step {
        if list.is_empty() {
            return Step::Next;
        }
        for element in list.split(separators) {
            let folder = if element.is_empty() {
                String::new()
            } else {
                let Some(expanded) = self.expand_folder(node, element) else { continue };
                expanded
            };
            if let Some(step) = self.in_folder(&folder, name, how, &|| rule(element)) {
                return step;
            }
        }
        Step::Next
    }

    /// A directory of a list, with one slash at its end; `None` where the loader discards it.
    fn expand_folder(&self, node: &Node, element: &str) -> Option<String> {
        let expanded = self.expand(node, element).filter(|text| !text.is_empty())?;
        let trimmed = expanded.trim_end_matches('/');
        Some(format!("{trimmed}/"))
    }

    /// A text of an object with its tokens expanded; `None` where the loader discards it.
    pub(super) fn expand(&self, node: &Node, text: &str) -> Option<String> {
        let guarded = self.loader.secure && token::mentions(text, "ORIGIN");
        if guarded && !secure::origin_is_first(text) {
            return None;
        }
        let expanded = token::expand(text, &self.values(node, text))?;
        let program = node.object.how == How::Program;
        (!(guarded && program) || secure::is_trusted(&expanded, &self.loader.interpreter.directories)).then_some(expanded)
    }

    /// One directory with its capability subdirectories; `None`: the next directory.
    fn in_folder(&self, folder: &str, name: &str, how: How, rule: &dyn Fn() -> String) -> Option<Step> {
        for subdirectory in self.subdirectories(folder, name) {
            let path = format!("{folder}{subdirectory}{name}");
            match self.judge(&path) {
                // The error of the last attempt in a directory, the plain one, is what ends the list.
                Outcome::ListEnds if subdirectory.is_empty() => return Some(Step::Next),
                Outcome::Passed | Outcome::ListEnds => {}
                Outcome::Taken(_) if self.only_set_id.get() && !self.loader.is_set_id(&path) => {}
                outcome => match self.settle(&path, outcome, how, rule) {
                    Step::Done(looked) => return Some(Step::Done(looked)),
                    Step::Next => {}
                },
            }
        }
        None
    }

    fn subdirectories(&self, folder: &str, name: &str) -> Vec<String> {
        let interpreter = &self.loader.interpreter;
        let present = self.loader.capability_folders(folder);
        if !present {
            return vec![String::new()];
        }
        let (named, legacy) = (interpreter.named_hwcaps(), interpreter.legacy_hwcaps());
        if self.loader.is_x86_64() {
            let any = super::Cpu::all().flat_map(|cpu| cpu.subdirectories(named, legacy)).filter(|subdirectory| !subdirectory.is_empty());
            let mut seen: Vec<String> = any.collect();
            seen.sort_unstable();
            seen.dedup();
            if seen.iter().any(|subdirectory| self.loader.tree.metadata(&format!("{folder}{subdirectory}{name}")).is_ok()) {
                self.cpu_matters.set(true);
            }
            return self.cpu.subdirectories(named, legacy);
        }
        self.unknown(&unknown::MACHINE, folder, "holds a directory that may be one for a capability of the CPU");
        vec![String::new()]
    }

    fn try_file(&self, path: &str, how: How, rule: impl Fn() -> String) -> Step {
        let outcome = self.judge(path);
        self.settle(path, outcome, how, &rule)
    }

    fn judge(&self, path: &str) -> Outcome {
        self.loader.judge(path)
    }

    fn settle(&self, path: &str, outcome: Outcome, how: How, rule: &dyn Fn() -> String) -> Step {
        match outcome {
            Outcome::Taken(library) => Step::Done(Looked::Hit(Hit { path: path.to_string(), how, rule: rule(), library })),
            Outcome::Passed | Outcome::ListEnds => Step::Next,
            Outcome::Unreadable(problem) => {
                self.unknown(&unknown::UNREADABLE, path, &problem);
                Step::Next
            }
            Outcome::Doubtful(problem) => {
                self.unknown(&unknown::DAMAGED, path, &problem);
                Step::Done(Looked::Fatal { path: path.to_string(), problem })
            }
            Outcome::Fatal(problem) => Step::Done(Looked::Fatal { path: path.to_string(), problem }),
        }
    }

    /// What the tokens in a string of this object stand for.
    pub(super) fn values<'n>(&'n self, node: &'n Node, text: &str) -> Values<'n> {
        if !text.contains('$') {
            return Values { origin: None, lib: None, platform: None };
        }
        if token::mentions(text, "PLATFORM") {
            self.cpu_matters.set(true);
            if !self.loader.is_x86_64() {
                self.unknown(&unknown::DEFAULT_DIRECTORIES, text, "the value of $PLATFORM is not known for this machine");
            }
        }
        if token::mentions(text, "LIB") && self.loader.interpreter.lib.is_none() {
            self.unknown(&unknown::DEFAULT_DIRECTORIES, text, "the value of $LIB was not found in the interpreter");
        }
        let platform = self.loader.is_x86_64().then_some(self.cpu.platform);
        Values { origin: Some(&node.origin), lib: self.loader.interpreter.lib.as_deref(), platform }
    }
}

impl Loader {
    /// A search after the fact, as `dlopen` makes it.
    pub(super) fn search_again(&self, state: &State, name: &str, from: usize) -> Found {
        if let Some(index) = state.by_name(name) {
            return Found::Loaded(index);
        }
        if state.nodes.is_empty() {
            return Found::Missing;
        }
        let run = Run::new(self, state.cpu);
        let looked = run.look(state, name, from.min(state.nodes.len() - 1));
        let unknowns = run.unknowns.take();
        if !unknowns.is_empty() {
            return Found::Unknown(unknowns);
        }
        match looked {
            Looked::Hit(hit) => match state.by_file(hit.library.id) {
                Some(index) => Found::Loaded(index),
                None => Found::File { path: hit.path, how: hit.how, rule: hit.rule, soname: hit.library.names.soname.clone() },
            },
            Looked::Missing => Found::Missing,
            Looked::Fatal { path, problem } => Found::Fatal { path, problem },
        }
    }

    pub(super) fn judge(&self, path: &str) -> Outcome {
        if self.tree.exhausted() {
            return Outcome::Doubtful("the bound on files asked for is reached".into());
        }
        if let Some(outcome) = self.judged.borrow().get(path) {
            return outcome.clone();
        }
        let file = self.tree.file(path);
        let outcome = candidate::judge(
            file.as_deref()
                .map_err(|error| error.raw_os_error().map_or_else(|| std::io::Error::other(error.to_string()), std::io::Error::from_raw_os_error)),
            self.wanted,
        );
        self.judged.borrow_mut().insert(path.to_string(), outcome.clone());
        outcome
    }

    /// True for a library with the set-user-id bit, which a preload needs in secure mode.
    fn is_set_id(&self, path: &str) -> bool {
        self.tree.metadata(path).is_ok_and(|metadata| metadata.mode() & 0o4000 != 0)
    }

    /// True if the directory has subdirectories of names that some CPU's capabilities have.
    fn capability_folders(&self, folder: &str) -> bool {
        if let Some(&known) = self.capabilities.borrow().get(folder) {
            return known;
        }
        let named = self.interpreter.named_hwcaps().then_some("glibc-hwcaps");
        let legacy = super::hwcaps::LEGACY.iter().copied().filter(|_| self.interpreter.legacy_hwcaps());
        let present = named.into_iter().chain(legacy).any(|name| self.tree.is_directory(&format!("{folder}{name}")));
        self.capabilities.borrow_mut().insert(folder.to_string(), present);
        present
    }
}

/// Directory of a path the way the loader records it for `$ORIGIN`.
pub(super) fn origin(absolute: &str) -> String {
    folder(absolute).to_string()
}
