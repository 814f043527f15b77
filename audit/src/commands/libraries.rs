//! Libraries that the user named: as files, by their folder, or inside a package.

use std::path::{Path, PathBuf};

use super::{Result, inputs};
use crate::archive::{self, Limits};
use crate::elf::Elf;

/// A library to be read.
pub(super) enum Library {
    File(PathBuf),
    /// `package!/path`, and its bytes.
    Member(String, Vec<u8>),
}

impl Library {
    /// Where it lies, or is called inside its package.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Member(name, _) => Path::new(name),
        }
    }

    pub(super) fn open(&self) -> Result<Elf> {
        Ok(match self {
            Self::File(path) => Elf::open(path)?,
            Self::Member(name, bytes) => Elf::from_bytes(name.as_str(), bytes.clone())?,
        })
    }
}

/// Runtimes among what is named, known by their file names in folders and packages. A folder that holds none is no audit, and does not end the others.
pub(super) fn runtimes(named: &[PathBuf], prefixes: &[&str], unread: &mut Vec<String>) -> Vec<Library> {
    let mut files = Vec::new();
    for path in named {
        if archive::is_package(path) {
            let found = members(path, &|file| inputs::is_library(file, prefixes), unread);
            if found.is_empty() {
                unread.push(format!("{}: holds no {}", path.display(), inputs::library_named(prefixes)));
            }
            files.extend(found);
            continue;
        }
        match inputs::expand(std::slice::from_ref(path), prefixes) {
            Ok(found) => files.extend(found.into_iter().map(Library::File)),
            Err(error) => unread.push(format!("{error:#}")),
        }
    }
    files
}

/// ELF files of a package whose names, without their folders, fit.
pub(super) fn members(package: &Path, fits: &dyn Fn(&str) -> bool, unread: &mut Vec<String>) -> Vec<Library> {
    let mut found = Vec::new();
    archive::read(package, &package.display().to_string(), Limits::default(), &mut |member| match member {
        Ok(member) if fits(member.name.rsplit('/').next().unwrap_or_default()) => found.push(Library::Member(member.name, member.bytes)),
        Ok(_) => {}
        Err(error) => unread.push(error.to_string()),
    });
    found
}
