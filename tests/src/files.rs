//! Files to test on: what the machine has, and the real libraries in `VROCM_CORPUS`.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The folder with unpacked packages, one subfolder each: `$VROCM_CORPUS`, or `.corpus` in the checkout.
///
/// # Panics
///
/// If it is no folder: a test on real libraries must not pass without them.
pub fn corpus() -> PathBuf {
    let folder = std::env::var_os("VROCM_CORPUS").map_or_else(|| repository(".corpus"), PathBuf::from);
    assert!(folder.is_dir(), "{} is no folder; `scripts/corpus.sh` fetches the real libraries", folder.display());
    folder
}

/// A folder of the repository, by its path from the root.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Every ELF file under some folders, sorted: no link is followed, a file with several names counts once.
pub fn elf_files<P: AsRef<Path>>(folders: &[P]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| folder.as_ref().to_path_buf()).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() && seen.insert((metadata.dev(), metadata.ino())) && is_elf(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// Runs `work` on every item, one thread per core, and returns the results in the order of the items.
///
/// # Panics
///
/// If `work` panics.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else { return done };
                done.push((index, work(item)));
            }
        };
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker panicked")).collect()
    });
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}
