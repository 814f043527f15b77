//! Containers of files as streams: which ELF files and Python sources are in a directory, a `.deb`, a wheel, a tarball, an image, without unpacking to disk.
//!
//! A file inside is named `container!/path` and handed over as bytes in memory. Nothing in here is trusted: names are text, links are never followed out
//! of a container, and [`Limits`] bound members, bytes and how far a few bytes may unpack. What cannot be read is an [`ArchiveError`] naming
//! container, member and offset, and the rest goes on where it can.
//!
//! Reading order: [`walk`] (directories and roots), [`compress`] (gzip, xz, zstd), [`tarball`], [`deb`], [`wheel`], [`image`].

pub mod compress;
pub mod deb;
pub mod image;
pub mod tarball;
pub mod walk;
pub mod wheel;

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// How an ELF file begins.
pub const ELF_MAGIC: &[u8; 4] = b"\x7fELF";

/// What a container may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one member; an ELF file is kept in memory while it is looked at.
    pub member: u64,
    /// Bytes that one container unpacks to.
    pub unpacked: u64,
    /// Members of one container.
    pub entries: u64,
    /// Unpacked bytes per packed byte, once [`Limits::RATIO_FROM`] bytes are unpacked.
    pub ratio: u64,
}

impl Limits {
    /// A ratio of small files says nothing.
    pub const RATIO_FROM: u64 = 64 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self { member: 1 << 30, unpacked: 64 << 30, entries: 2_000_000, ratio: 1000 }
    }
}

/// Why a container, or a member of one, could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ArchiveError {
    /// The container as the caller named it.
    pub container: String,
    /// The member, where it is about one.
    pub member: Option<String>,
    /// Offset in the unpacked container, in bytes, where one is known.
    pub offset: Option<u64>,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.container)?;
        if let Some(member) = &self.member {
            write!(f, "!/{member}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ": at {offset:#x}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// Result of every reader in this module.
pub type Result<T> = std::result::Result<T, ArchiveError>;

/// An ELF file or a Python source found in a container.
#[derive(Debug)]
pub struct Member {
    /// `container!/path`.
    pub name: String,
    /// The whole file.
    pub bytes: Vec<u8>,
}

/// Takes what a container holds, and what could not be read of it.
pub type See<'a> = dyn FnMut(Result<Member>) + 'a;

/// One container being read: its name, its limits, and what it has cost so far.
#[derive(Debug)]
pub(crate) struct Budget {
    container: String,
    limits: Limits,
    entries: Cell<u64>,
    unpacked: Cell<u64>,
}

impl Budget {
    fn new(container: String, limits: Limits) -> Self {
        Self { container, limits, entries: Cell::new(0), unpacked: Cell::new(0) }
    }

    fn error(&self, member: Option<&str>, offset: Option<u64>, problem: impl Into<String>) -> ArchiveError {
        ArchiveError { container: self.container.clone(), member: member.map(Into::into), offset, problem: problem.into() }
    }

    /// Counts one more member.
    fn entry(&self, offset: Option<u64>) -> Result<()> {
        self.entries.set(self.entries.get() + 1);
        if self.entries.get() > self.limits.entries {
            return Err(self.error(None, offset, format!("holds more than {} members", self.limits.entries)));
        }
        Ok(())
    }

    /// Counts bytes that came out, from `packed` bytes that went in.
    fn unpack(&self, bytes: u64, from: u64, to: u64) -> io::Result<()> {
        self.unpacked.set(self.unpacked.get().saturating_add(bytes));
        if self.unpacked.get() > self.limits.unpacked {
            return Err(io::Error::other(format!("unpacks to more than {} bytes", self.limits.unpacked)));
        }
        if to > Limits::RATIO_FROM && to / self.limits.ratio > from {
            return Err(io::Error::other(format!("unpacks to more than {} times its size: {from} bytes became {to}", self.limits.ratio)));
        }
        Ok(())
    }

    /// The member's bytes if it is an ELF file or called like a Python source; `None`, after four bytes, if it is neither.
    fn wanted(&self, member: &str, offset: Option<u64>, reader: &mut dyn Read) -> Result<Option<Member>> {
        let fail = |error: io::Error| self.error(Some(member), offset, error.to_string());
        let mut bytes = Vec::new();
        reader.take(4).read_to_end(&mut bytes).map_err(fail)?;
        if bytes != ELF_MAGIC && !is_python(Path::new(member)) {
            return Ok(None);
        }
        reader.take(self.limits.member).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > self.limits.member {
            return Err(self.error(Some(member), offset, format!("is larger than {} bytes, the most that is kept in memory", self.limits.member)));
        }
        Ok(Some(Member { name: format!("{}!/{member}", self.container), bytes }))
    }

    /// All of a small member, such as an image's manifest.
    fn small(&self, member: &str, reader: &mut dyn Read) -> Result<Vec<u8>> {
        const MOST: u64 = 16 << 20;
        let mut bytes = Vec::new();
        reader.take(MOST + 1).read_to_end(&mut bytes).map_err(|error| self.error(Some(member), None, error.to_string()))?;
        if bytes.len() as u64 > MOST {
            return Err(self.error(Some(member), None, format!("is larger than {MOST} bytes")));
        }
        Ok(bytes)
    }
}

/// What a file is, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// An ELF file.
    Elf,
    /// A Debian package: `ar` with `debian-binary` first.
    Deb,
    /// A zip archive, such as a wheel.
    Zip,
    /// A tarball, compressed or not; perhaps an image.
    Tar,
    /// Anything else.
    Other,
}

/// Tells by the first bytes.
pub fn what(head: &[u8]) -> What {
    let starts = |magic: &[u8]| head.starts_with(magic);
    match () {
        () if starts(ELF_MAGIC) => What::Elf,
        () if starts(b"!<arch>\ndebian-binary") => What::Deb,
        () if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") => What::Zip,
        () if compress::is_compressed(head) || head.get(257..262) == Some(b"ustar") => What::Tar,
        () => What::Other,
    }
}

/// True for what is called as a Python source is.
pub fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// True for a file that packs others, by its first bytes.
pub fn is_package(path: &Path) -> bool {
    head(path).is_ok_and(|head| matches!(what(&head), What::Deb | What::Zip | What::Tar))
}

/// As many first bytes as [`what`] looks at.
pub const HEAD: u64 = 300;

/// The first [`HEAD`] bytes. What is no regular file has none, and is not even opened.
pub fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD as usize);
    if std::fs::metadata(path)?.is_file() {
        File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    }
    Ok(head)
}

/// Hands every ELF file and every Python source of a container to `see`; `name` is how messages call it. A directory is read as the image layout that it holds.
pub fn read(path: &Path, name: &str, limits: Limits, see: &mut See<'_>) {
    let budget = Budget::new(name.into(), limits);
    let head = if path.is_dir() { Ok(Vec::new()) } else { head(path) };
    let done = match head.map(|head| what(&head)) {
        Err(error) => Err(budget.error(None, None, error.to_string())),
        Ok(_) if path.is_dir() => image::read_folder(path, &budget, see),
        Ok(What::Deb) => deb::read(path, &budget, see),
        Ok(What::Zip) => wheel::read(path, &budget, see),
        Ok(What::Tar) => image::read_tar(path, &budget, see),
        Ok(What::Elf | What::Other) => Err(budget.error(None, None, "is neither a package, a wheel, a tarball nor an image")),
    };
    if let Err(error) = done {
        see(Err(error));
    }
}

#[cfg(test)]
mod tests {
    use super::{What, what};

    #[test]
    fn files_are_known_by_their_first_bytes() {
        assert_eq!(what(b"\x7fELF\x02"), What::Elf);
        assert_eq!(what(b"!<arch>\ndebian-binary   1"), What::Deb);
        assert_eq!(what(b"!<arch>\ncrt1.o/"), What::Other);
        assert_eq!(what(b"PK\x03\x04"), What::Zip);
        assert_eq!(what(b"\xfd7zXZ\0"), What::Tar);
        assert_eq!(what(b""), What::Other);
    }
}
