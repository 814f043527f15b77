//! Runtimes that come in Python packages: `torch/lib` of ROCm's wheels, and `_rocm_sdk_core` of TheRock's. Candidates only: whether a program
//! imports the package is not known.

use std::path::{Path, PathBuf};

use super::ask::{Runtime, named};
use crate::loader::Resolution;

/// Directory entries that are looked at in one folder.
const MOST_ENTRIES: usize = 4096;

/// Runtimes in the packages of the interpreter that would run; none for a program that is no Python.
pub(super) fn packages(resolution: &Resolution) -> Vec<Runtime> {
    let is_python = |path: &str| Path::new(path).file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
    if !is_python(&resolution.program) {
        return Vec::new();
    }
    let value = |name: &str| resolution.variable(name).filter(|value| !value.is_empty());
    let mut prefixes: Vec<PathBuf> = value("VIRTUAL_ENV").map(PathBuf::from).into_iter().collect();
    prefixes.extend(Path::new(&resolution.program).parent().and_then(Path::parent).map(Path::to_owned));
    prefixes.extend(value("HOME").map(|home| Path::new(home).join(".local")));
    prefixes.extend(["/usr", "/usr/local"].map(PathBuf::from));
    let mut roots: Vec<PathBuf> =
        value("PYTHONPATH").into_iter().flat_map(|list| list.split(':')).filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    for prefix in prefixes {
        for lib in ["lib", "lib64"] {
            for version in entries(resolution, &prefix.join(lib), |name| name.starts_with("python3")) {
                roots.extend(["site-packages", "dist-packages"].map(|folder| version.join(folder)));
            }
        }
    }
    let mut found = Vec::new();
    for root in roots {
        let mut folders = entries(resolution, &root, |name| name.starts_with("_rocm_sdk_core"));
        folders.push(root.join("torch"));
        for folder in folders {
            for path in entries(resolution, &folder.join("lib"), |name| named(name, None).is_some() && name.contains(".so")) {
                let path = path.to_string_lossy().into_owned();
                let Some(named) = named(&path, None) else { continue };
                let file = std::fs::canonicalize(resolution.file(&path)).unwrap_or_else(|_| resolution.file(&path));
                let (how, changeable) = (format!("if the program imports {}", folder.display()), resolution.changeable(&path));
                found.push(Runtime { how, path, file, linked: false, named, changeable });
            }
        }
    }
    found
}

/// Entries of a folder inside the root whose names fit, sorted.
fn entries(resolution: &Resolution, folder: &Path, fits: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(listing) = std::fs::read_dir(resolution.file(&folder.to_string_lossy())) else { return Vec::new() };
    let names = listing.take(MOST_ENTRIES).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<_> = names.filter(|name| fits(name)).map(|name| folder.join(name)).collect();
    found.sort();
    found
}
