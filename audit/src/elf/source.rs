//! Bytes of one file, read in windows by offset (`pread`): an answer that needs 140 kB of a 27 MB library reads 140 kB.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::error::{ElfError, Result};

/// No table that is read in one piece is larger; a sparse file could claim any size.
const MOST_AT_ONCE: u64 = 1 << 30;

/// A file opened for reading by offset, or bytes that are already in memory (an archive member, a fuzzer's input).
#[derive(Debug)]
pub struct Source {
    name: String,
    len: u64,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    File(File),
    Bytes(Vec<u8>),
}

impl Source {
    /// Opens `path` for reading. What is no regular file is refused by name: a directory, a dangling link, a device.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let fail = |problem: String| ElfError { file: name.clone(), field: "file".into(), offset: None, problem };
        // A FIFO would block in open(2) and a device may act on it, so what the name stands for is asked first.
        let metadata = std::fs::metadata(path).map_err(|error| fail(explain_open(path, &error)))?;
        if metadata.is_dir() {
            return Err(fail("is a directory, not a library (a bind mount of a missing host file makes one)".into()));
        }
        if !metadata.is_file() {
            return Err(fail("is a special file, not a library".into()));
        }
        let file = File::open(path).map_err(|error| fail(explain_open(path, &error)))?;
        // The length belongs to the file that was opened, should the name have moved on since.
        let len = file.metadata().map_err(|error| fail(error.to_string()))?.len();
        Ok(Self { name, len, backing: Backing::File(file) })
    }

    /// Opens what a directory lists as a regular file, without asking first what it is. Should it have become something else since: a link is not
    /// followed, and opening a FIFO does not wait for its other end.
    pub fn open_listed(path: &Path) -> Result<Self> {
        let fail = |problem: String| ElfError { file: path.display().to_string(), field: "file".into(), offset: None, problem };
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(path)
            .map_err(|error| fail(explain_open(path, &error)))?;
        let metadata = file.metadata().map_err(|error| fail(error.to_string()))?;
        if !metadata.is_file() {
            return Err(fail("is no longer the regular file that its directory listed".into()));
        }
        Ok(Self { name: path.display().to_string(), len: metadata.len(), backing: Backing::File(file) })
    }

    /// Wraps bytes in memory under a name for messages.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), len: bytes.len() as u64, backing: Backing::Bytes(bytes) }
    }

    /// The name given at opening, for messages and reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length of the file in bytes, when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for a file without a byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads exactly `len` bytes at `offset`. A range that leaves the file is an error naming `field`; nothing is allocated for it.
    pub fn read(&self, field: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        let end = offset.checked_add(len).filter(|&end| end <= self.len);
        let (Some(_), Ok(size), Ok(start)) = (end, usize::try_from(len), usize::try_from(offset)) else {
            let problem = format!("{len} bytes from {offset:#x} leave the file of {} bytes (cut short, or a wrong field)", self.len);
            return Err(self.error(field, Some(offset), problem));
        };
        if len > MOST_AT_ONCE {
            return Err(self.error(field, Some(offset), format!("{len} bytes, where no table has more than {MOST_AT_ONCE}")));
        }
        match &self.backing {
            Backing::Bytes(bytes) => Ok(bytes[start..start + size].to_vec()),
            Backing::File(file) => {
                let mut buffer = vec![0; size];
                file.read_exact_at(&mut buffer, offset)
                    .map_err(|error| self.error(field, Some(offset), format!("cannot read {len} bytes: {error}")))?;
                Ok(buffer)
            }
        }
    }

    /// Fills `buffer` from `offset` on: for passes over much of a file through one buffer. A range that leaves the file is an error naming `field`.
    pub fn read_into(&self, field: &str, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        let (true, Ok(start)) = (inside, usize::try_from(offset)) else {
            let problem = format!("{len} bytes from {offset:#x} leave the file of {} bytes (cut short, or a wrong field)", self.len);
            return Err(self.error(field, Some(offset), problem));
        };
        match &self.backing {
            Backing::Bytes(bytes) => buffer.copy_from_slice(&bytes[start..start + buffer.len()]),
            Backing::File(file) => {
                file.read_exact_at(buffer, offset).map_err(|error| self.error(field, Some(offset), format!("cannot read {len} bytes: {error}")))?;
            }
        }
        Ok(())
    }

    /// An error about this file.
    pub fn error(&self, field: &str, offset: Option<u64>, problem: impl Into<String>) -> ElfError {
        ElfError { file: self.name.clone(), field: field.into(), offset, problem: problem.into() }
    }
}

fn explain_open(path: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound
        && let Ok(target) = std::fs::read_link(path)
    {
        return format!("is a dangling link to {}", target.display());
    }
    match error.kind() {
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        _ => error.to_string(),
    }
}
