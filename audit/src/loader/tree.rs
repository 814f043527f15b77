//! Paths inside a root file system: links are followed, and none leads out.

use std::cell::Cell;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::root::{below, inside};

/// Error numbers that decide whether a search goes on.
pub const ENOENT: i32 = 2;
/// No permission.
pub const EACCES: i32 = 13;
/// A component is no directory.
pub const ENOTDIR: i32 = 20;

/// A root file system and the working directory in it.
#[derive(Debug)]
pub struct Tree {
    /// `None` for `/`: there the kernel resolves.
    root: Option<PathBuf>,
    cwd: String,
    most_probes: u64,
    most_bytes: u64,
    probes: Cell<u64>,
}

impl Tree {
    /// A root and an absolute working directory in it.
    pub fn new(root: &Path, cwd: &str, most_probes: u64, most_bytes: u64) -> Self {
        let root = (root != Path::new("/")).then(|| root.to_path_buf());
        Self { root, cwd: cwd.to_string(), most_probes, most_bytes, probes: Cell::new(0) }
    }

    /// A path as an absolute one inside the root.
    pub fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_string() } else { format!("{}/{path}", self.cwd.trim_end_matches('/')) }
    }

    /// Where a path lies on this machine.
    pub fn file(&self, path: &str) -> io::Result<PathBuf> {
        let absolute = self.absolute(path);
        match &self.root {
            None => Ok(PathBuf::from(absolute)),
            Some(root) => inside(root, Path::new(&absolute)),
        }
    }

    /// A path without links, inside the root.
    pub fn canonical(&self, path: &str) -> io::Result<String> {
        let absolute = self.absolute(path);
        match &self.root {
            None => Ok(fs::canonicalize(absolute)?.to_string_lossy().into_owned()),
            Some(root) => Ok(format!("/{}", below(root, Path::new(&absolute))?.to_string_lossy())),
        }
    }

    /// What a path stands for, links followed.
    pub fn metadata(&self, path: &str) -> io::Result<Metadata> {
        self.probes.set(self.probes.get() + 1);
        fs::metadata(self.file(path)?)
    }

    /// True for an existing directory.
    pub fn is_directory(&self, path: &str) -> bool {
        self.metadata(path).is_ok_and(|metadata| metadata.is_dir())
    }

    /// A whole file, up to the bound.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = self.file(path)?;
        if !fs::metadata(&file)?.is_file() {
            return Err(io::Error::other("is no regular file"));
        }
        let mut bytes = Vec::new();
        fs::File::open(file)?.take(self.most_bytes + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > self.most_bytes {
            return Err(io::Error::other(format!("is larger than {} bytes", self.most_bytes)));
        }
        Ok(bytes)
    }

    /// True once more was asked for than the bound allows.
    pub fn exhausted(&self) -> bool {
        self.probes.get() > self.most_probes
    }
}

/// Device and inode: what makes two names one file.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Path without its last component, as the loader cuts it: `/` stays `/`.
pub fn folder(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) => "/",
        Some(end) => &path[..end],
        None => ".",
    }
}
