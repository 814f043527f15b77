//! Every dynamic program and library of this machine: the same objects in the same order at the same paths as `LD_TRACE_LOADED_OBJECTS=1` prints,
//! or what `ldd` does with a library; and the same complaints about versions.
//!
//! `VROCM_LOADER_PATHS` (directories, separated by colons) replaces /usr/bin; `scripts/loader-oracle.sh` gives it everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use vrocm_audit::elf::Elf;
use vrocm_audit::loader::{self, Cpu, How, Linking, Request};

use crate::versions;

/// The CPU of this machine, without which its loader could not be compared.
pub fn this_cpu() -> Option<Cpu> {
    Cpu::from_cpuinfo(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// What the real loader lists: (name, path), the vdso and the interpreter left out; `None` where it lists nothing.
pub fn real(mut command: Command, interpreter: &str) -> Option<Vec<(String, String)>> {
    let done = command.env("LD_TRACE_LOADED_OBJECTS", "1").output().ok()?;
    let mut objects = traced(&done.stdout, interpreter);
    objects.retain(|(_, path)| path != interpreter);
    done.status.success().then_some(objects)
}

/// The lines of `LD_TRACE_LOADED_OBJECTS` as (name, path); the vdso and what is named as the interpreter are left out.
pub fn traced(output: &[u8], interpreter: &str) -> Vec<(String, String)> {
    let mut objects = Vec::new();
    for line in String::from_utf8_lossy(output).lines() {
        let line = line.trim();
        let line = line.rsplit_once(" (0x").map_or(line, |(before, _)| before);
        let (name, path) = line.split_once(" => ").unwrap_or((line, line));
        if !name.starts_with("linux-vdso") && name != "statically linked" && name != interpreter {
            objects.push((name.to_string(), path.to_string()));
        }
    }
    objects
}

/// The same from the resolver. A missing library is "not found", as there.
pub fn ours(resolution: &loader::Resolution) -> BTreeSet<(String, String)> {
    let objects = resolution.objects.iter().filter(|object| !matches!(object.how, How::Program | How::Interpreter));
    let mut all: BTreeSet<_> = objects.map(|object| (object.name.clone(), object.path.clone())).collect();
    all.extend(resolution.failures.iter().map(|failure| (failure.name.clone(), "not found".to_string())));
    all
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            files(&path, found);
        } else if path.is_file() && !path.is_symlink() {
            found.push(path);
        }
    }
}

/// What was compared, and what came of it.
struct Comparison {
    compared: usize,
    objects: usize,
    /// Why others were not, and how many of each.
    skipped: BTreeMap<&'static str, usize>,
    different: Vec<String>,
    largest: (usize, std::time::Duration),
}

impl Comparison {
    fn new() -> Self {
        Self { compared: 0, objects: 0, skipped: BTreeMap::new(), different: Vec::new(), largest: (0, std::time::Duration::ZERO) }
    }

    /// One file: what `request` comes to, and what the loader lists for `command`.
    fn compare(&mut self, file: &Path, mut request: Request, mut command: Command, interpreter: &str) {
        request.environment.retain(|(name, _)| !name.starts_with("LD_"));
        let started = std::time::Instant::now();
        let resolved = loader::resolve(&request);
        let took = started.elapsed();
        let resolution = match resolved {
            Err(_) => return self.skip("are not executable or damaged"),
            Ok(resolution) if resolution.linking != Linking::Glibc => return self.skip("are static or another loader's"),
            Ok(resolution) => resolution,
        };
        if let Some(unknown) = resolution.unknowns.first() {
            return self.skip(unknown.code);
        }
        command.env_clear().envs(request.environment.iter().cloned()).env("LD_TRACE_LOADED_OBJECTS", "1");
        let Some(done) = command.output().ok().filter(|done| done.status.success()) else {
            // It ends with a message, or is no program of this machine.
            return self.skip("the loader refuses");
        };
        let mut real = traced(&done.stdout, interpreter);
        real.retain(|(_, path)| path != interpreter);
        let mine = resolution.objects.iter().filter(|object| !matches!(object.how, How::Program | How::Interpreter));
        let order: Vec<_> = mine.map(|object| (object.name.clone(), object.path.clone())).collect();
        self.compared += 1;
        self.largest = self.largest.max((order.len(), took));
        self.objects += real.len();
        let known: Vec<_> = real.iter().filter(|(_, path)| path != "not found").cloned().collect();
        if order != known || ours(&resolution) != real.iter().cloned().collect() {
            self.different.push(format!("{}\n  the loader {real:?}\n  here       {order:?}", file.display()));
        }
        let (said, mine) = (versions::complaints(&done.stderr), versions::ours(&resolution));
        if said != mine {
            self.different.push(format!("{}\n  versions: the loader {said:?}\n  here {mine:?}", file.display()));
        }
    }

    fn skip(&mut self, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
    }

    fn settle(self, what: &str, fewest: usize) {
        println!("{} {what} compared, {} objects, {} different; not compared: {:?}", self.compared, self.objects, self.different.len(), self.skipped);
        println!("the largest has {} objects, resolved in {:?} by this build", self.largest.0, self.largest.1);
        assert!(self.different.is_empty(), "{}", self.different.join("\n"));
        assert!(self.compared > fewest, "only {} {what} were compared", self.compared);
    }
}

/// Files below the folders of `VROCM_LOADER_PATHS`, or below `otherwise`.
fn of_this_machine(otherwise: &str) -> Vec<PathBuf> {
    let folders = std::env::var("VROCM_LOADER_PATHS").unwrap_or_else(|_| otherwise.into());
    let mut all = Vec::new();
    for folder in folders.split(':') {
        files(Path::new(folder), &mut all);
    }
    all.sort();
    all
}

/// Libraries in a plain run of the tests.
const SAMPLE: usize = 120;

#[test]
fn the_libraries_of_this_machine() {
    let Some(cpu) = this_cpu() else {
        println!("not compared: /proc/cpuinfo tells no x86-64 CPU");
        return;
    };
    let all = of_this_machine("/usr/lib/x86_64-linux-gnu");
    let mut libraries: Vec<PathBuf> = all.into_iter().filter(|file| is_library(file)).collect();
    if std::env::var_os("VROCM_LOADER_PATHS").is_none() {
        libraries = libraries.iter().step_by((libraries.len() / SAMPLE).max(1)).cloned().collect();
    }
    let mut comparison = Comparison::new();
    for file in libraries {
        let path = file.display().to_string();
        let Ok(request) = (Request { cpu: Some(cpu), ..Request::from_this_process() }).library(&path) else {
            comparison.skip("are another machine's");
            continue;
        };
        let interpreter = request.interpreter.clone().expect("of a library");
        let mut command = Command::new(&interpreter);
        // As `ldd` has it; with --list the loader ends at the first library that is missing.
        command.arg(&file);
        comparison.compare(&file, request, command, &interpreter);
    }
    comparison.settle("libraries", 10);
}

/// A library is what is dynamic and names no loader itself, libc.so.6 aside.
fn is_library(file: &Path) -> bool {
    Elf::open(file).is_ok_and(|image| {
        let program = image.interpreter().is_ok_and(|path| path.is_some()) && !file.to_string_lossy().contains(".so");
        image.header.file_type == 3 && !image.dynamic.is_empty() && !program
    })
}

#[test]
fn the_programs_of_this_machine() {
    let Some(cpu) = this_cpu() else {
        eprintln!("not compared: /proc/cpuinfo tells no x86-64 CPU");
        return;
    };
    let mut comparison = Comparison::new();
    for file in of_this_machine("/usr/bin") {
        let Ok(image) = Elf::open(&file) else { continue };
        let Ok(Some(interpreter)) = image.interpreter() else { continue };
        let request = Request { command: file.display().to_string(), cpu: Some(cpu), ..Request::from_this_process() };
        comparison.compare(&file, request, Command::new(&file), &interpreter);
    }
    comparison.settle("programs", 50);
}

/// The interpreter is in the process before any preload: naming it changes nothing, its place in the search order neither.
#[test]
fn the_interpreter_as_a_preload_keeps_its_place() {
    for preload in ["/lib64/ld-linux-x86-64.so.2", "ld-linux-x86-64.so.2"] {
        let environment = vec![("LD_PRELOAD".to_string(), preload.to_string()), ("PATH".into(), "/usr/bin:/bin".into())];
        let mut command = Command::new("/bin/sh");
        let done = command.env_clear().envs(environment.iter().cloned()).env("LD_TRACE_LOADED_OBJECTS", "1").output().expect("it runs");
        let real: Vec<String> = traced(&done.stdout, "").into_iter().map(|(_, path)| path).collect();
        if !real.iter().any(|path| path == "/lib64/ld-linux-x86-64.so.2") {
            println!("not tested: the shell here has another loader");
            return;
        }
        let request = Request { command: "/bin/sh".into(), environment, cpu: this_cpu(), ..Request::from_this_process() };
        let found = loader::resolve(&request).expect("resolved");
        assert_eq!(found.objects[1..].iter().map(|object| object.path.clone()).collect::<Vec<_>>(), real, "{preload}");
    }
}
