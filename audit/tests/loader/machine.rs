//! Every dynamic program of this machine: the same objects in the same order at the same paths as `LD_TRACE_LOADED_OBJECTS=1` prints.
//!
//! `VROCM_LOADER_PATHS` (directories, separated by colons) replaces /usr/bin; `scripts/loader-oracle.sh` gives it everything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use vrocm_audit::elf::Elf;
use vrocm_audit::loader::{self, Cpu, How, Linking, Request};

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

#[test]
fn the_programs_of_this_machine() {
    let Some(cpu) = this_cpu() else {
        eprintln!("not compared: /proc/cpuinfo tells no x86-64 CPU");
        return;
    };
    let folders = std::env::var("VROCM_LOADER_PATHS").unwrap_or_else(|_| "/usr/bin".into());
    let mut all = Vec::new();
    for folder in folders.split(':') {
        files(Path::new(folder), &mut all);
    }
    let (mut compared, mut objects, mut different) = (0, 0, Vec::new());
    let mut skipped = 0;
    let mut largest = (0, std::time::Duration::ZERO);
    for file in all {
        let Ok(image) = Elf::open(&file) else { continue };
        // A library is asked through the loader itself, as `ldd` does; that makes it the program.
        let Ok(Some(interpreter)) = image.interpreter() else { continue };
        let path = file.display().to_string();
        let mut request = Request { command: path.clone(), cpu: Some(cpu), ..Request::from_this_process() };
        request.environment.retain(|(name, _)| !name.starts_with("LD_"));
        let started = std::time::Instant::now();
        let resolved = loader::resolve(&request);
        let took = started.elapsed();
        let Ok(resolution) = resolved else {
            skipped += 1;
            continue;
        };
        if resolution.linking != Linking::Glibc || !resolution.unknowns.is_empty() {
            skipped += 1;
            continue;
        }
        let mut command = Command::new(&file);
        command.env_clear().envs(request.environment.iter().cloned());
        let Some(real) = real(command, &interpreter) else {
            skipped += 1;
            continue;
        };
        let mine = resolution.objects.iter().filter(|object| !matches!(object.how, How::Program | How::Interpreter));
        let order: Vec<_> = mine.map(|object| (object.name.clone(), object.path.clone())).collect();
        compared += 1;
        largest = largest.max((order.len(), took));
        objects += real.len();
        let known: Vec<_> = real.iter().filter(|(_, path)| path != "not found").cloned().collect();
        if order != known || ours(&resolution) != real.iter().cloned().collect() {
            different.push(format!("{path}\n  the loader {real:?}\n  here       {order:?}"));
        }
    }
    println!(
        "{compared} programs compared, {objects} objects, {} different, {skipped} not compared (static, unknown or not started)",
        different.len()
    );
    println!("the largest has {} objects, resolved in {:?} by this build", largest.0, largest.1);
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(compared > 50, "only {compared} programs were compared");
}
