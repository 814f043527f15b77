//! Every dynamic program of this machine, every symbol: the same definitions as `LD_DEBUG=bindings` names.
//!
//! `VROCM_LOADER_PATHS` (directories, separated by colons) replaces a part of /usr/bin; `scripts/loader-oracle.sh` gives it everything.

use std::path::{Path, PathBuf};

use vrocm_audit::elf::Elf;
use vrocm_audit::loader::Linking;

use crate::oracle::{differences, ours, resolve, this_cpu, traced};

/// Without `VROCM_LOADER_PATHS` every so many programs are taken.
const STEP: usize = 6;

fn programs(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.is_symlink() {
            programs(&path, found);
        } else if path.is_file() && !path.is_symlink() && Elf::open(&path).is_ok_and(|image| image.interpreter().is_ok_and(|path| path.is_some())) {
            found.push(path);
        }
    }
}

#[test]
fn the_programs_of_this_machine() {
    if this_cpu().is_none() {
        eprintln!("not compared: /proc/cpuinfo tells no x86-64 CPU");
        return;
    }
    let folders = std::env::var("VROCM_LOADER_PATHS");
    let step = if folders.is_ok() { 1 } else { STEP };
    let mut all = Vec::new();
    for folder in folders.as_deref().unwrap_or("/usr/bin").split(':') {
        programs(Path::new(folder), &mut all);
    }
    let environment: Vec<(String, String)> = std::env::vars().filter(|(name, _)| !name.starts_with("LD_")).collect();
    let (mut compared, mut bindings, mut unclear, mut skipped) = (0, 0, 0, Vec::new());
    let (mut different, mut which) = (Vec::new(), std::collections::BTreeSet::new());
    for file in all.iter().step_by(step) {
        let mut skip = |why: String| skipped.push(format!("{}: {why}", file.display()));
        let resolution = match resolve(file, &environment, Path::new("/")) {
            Ok(resolution) if resolution.linking == Linking::Glibc && resolution.unknowns.is_empty() => resolution,
            Ok(resolution) => {
                skip(format!("{:?}, {:?}", resolution.linking, resolution.unknowns.first()));
                continue;
            }
            Err(error) => {
                skip(error.to_string());
                continue;
            }
        };
        let Some(said) = traced(file, &environment).filter(|_| resolution.failures.is_empty()) else {
            skip("the loader lists nothing, or misses a library".into());
            continue;
        };
        let here = ours(&resolution, &environment).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        compared += 1;
        bindings += said.lines.len();
        unclear += here.unclear.len();
        which.extend(here.unclear.iter().map(|found| format!("{found:?}")));
        let found = differences(&said.lines, &here);
        if !found.is_empty() || said.unmet == here.unmet.is_empty() {
            let some = &found[..found.len().min(5)];
            different.push(format!("{} ({} lines, unmet {}):\n  {}", file.display(), found.len(), said.unmet, some.join("\n  ")));
        }
    }
    println!(
        "{compared} programs compared, {bindings} bindings, {unclear} unclear, {} programs differ, {} not compared",
        different.len(),
        skipped.len()
    );
    println!("unclear: {which:?}\nnot compared:\n{}", skipped.join("\n"));
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(compared > 20 && bindings > 1000, "only {compared} programs were compared, {bindings} bindings");
}
