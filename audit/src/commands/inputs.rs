//! From what the user named to files: a file stands for itself, a directory for every such library in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::{Result, is_own_shim};
use crate::loader::Request;
use crate::manifest::{Acceptances, InterposedList};

/// Expands directories. In one, a library counts if its name begins with one of `prefixes` and is followed by nothing or a version; links
/// to the same file count once, under the real file's name. A directory without any such library is an error, not an empty audit.
pub fn expand(named: &[PathBuf], prefixes: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            files.extend(libraries_in(path, prefixes)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn libraries_in(folder: &Path, prefixes: &[&str]) -> Result<Vec<PathBuf>> {
    collect(folder, |name| is_library(name, prefixes), &library_named(prefixes))
}

/// True for a file name that is one of `prefixes`, alone or with a version after it.
pub fn is_library(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

/// What a folder or a package had to hold, in words.
pub fn library_named(prefixes: &[&str]) -> String {
    format!("library named {}*", prefixes.join("* or "))
}

/// Files of a directory whose names fit, by what they really are, shown under the real file's name where that lies in the directory too.
fn collect(folder: &Path, fits: impl Fn(&str) -> bool, what: &str) -> Result<Vec<PathBuf>> {
    let mut by_file = BTreeMap::new();
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        if !path.file_name().and_then(|name| name.to_str()).is_some_and(&fits) {
            continue;
        }
        // A link that leads nowhere is kept: the reader will say so.
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if real.is_dir() {
            continue;
        }
        let beside = real.parent() == std::fs::canonicalize(folder).ok().as_deref();
        let shown = if beside { folder.join(real.file_name().unwrap_or_default()) } else { path };
        by_file.insert(real, shown);
    }
    if by_file.is_empty() {
        bail!("{}: holds no {what}", folder.display());
    }
    Ok(by_file.into_values().collect())
}

/// Every file called `*.so` or `*.so.*` in a directory; links to the same file count once. None at all is an error.
pub fn shared_libraries_in(folder: &Path) -> Result<Vec<PathBuf>> {
    collect(folder, is_shared, "shared library")
}

/// True for a file name as shared libraries have.
pub(super) fn is_shared(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "so") || name.contains(".so.")
}

/// What a shim's rows do: the list the user gives, or for our own shim the one inside the program.
pub(super) fn interposed(list: Option<&Path>, shim: Option<&Path>) -> Result<Option<InterposedList>> {
    Ok(match list {
        Some(path) => Some(InterposedList::read(&path.display().to_string(), &read_text(path)?)?),
        None if shim.is_some_and(is_own_shim) => Some(InterposedList::own()?),
        None => None,
    })
}

/// Doors left open on purpose: those the user gives, or for our own shim those inside the program.
pub(super) fn acceptances(file: Option<&Path>, shim: Option<&Path>) -> Result<Acceptances> {
    Ok(match file {
        Some(path) => Acceptances::read(&path.display().to_string(), &read_text(path)?)?,
        None if shim.is_some_and(is_own_shim) => Acceptances::embedded()?,
        None => Acceptances::default(),
    })
}

/// A question to the loader: this process's environment, or none, with the variables that the user sets; a root's working directory is its top.
pub(super) fn request(command: &str, arguments: &[String], variables: &[String], clear: bool, root: Option<&Path>) -> Result<Request> {
    let mut request = Request { command: command.into(), arguments: arguments.to_vec(), ..Request::from_this_process() };
    if let Some(root) = root {
        request.root = std::fs::canonicalize(root).with_context(|| root.display().to_string())?;
        request.cwd = "/".into();
    }
    if clear {
        request.environment.clear();
    }
    for variable in variables {
        let Some((name, value)) = variable.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            bail!("--env {variable}: not of the form K=V")
        };
        request.environment.retain(|(known, _)| known != name);
        request.environment.push((name.into(), value.into()));
    }
    Ok(request)
}

/// Reads a text file; the error names it.
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}
