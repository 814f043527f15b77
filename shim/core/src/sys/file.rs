//! Descriptors that close themselves, and byte-range locks owned by the open file description.
//!
//! An open-file-description lock (`F_OFD_SETLK`, Linux 3.15) belongs to what `open` made, not to the process: closing another
//! descriptor of the same file does not drop it, a thread that opens the file anew is excluded like a stranger, and there is no
//! deadlock detection that could fail by mistake. The kernel drops it when the last user of the open file is gone: a
//! descriptor, or a mapping. A byte beyond the end of the file can be locked; it need not exist.

use core::ffi::CStr;

use super::raw::{self, Errno, Flock, Result, Stat};

/// An open file, closed when dropped.
#[derive(Debug)]
pub struct Fd(i32);

impl Fd {
    /// Opens `path` with `O_CLOEXEC`.
    pub fn open(path: &CStr, flags: i32) -> Result<Self> {
        Self::open_mode(path, flags, 0)
    }

    /// Opens `path` with `O_CLOEXEC`; a new file gets `mode`, less the umask.
    pub fn open_mode(path: &CStr, flags: i32, mode: u32) -> Result<Self> {
        loop {
            match raw::open(path, flags | raw::O_CLOEXEC | raw::O_NOCTTY, mode) {
                Err(Errno::INTR) => {}
                answer => return answer.map(Self),
            }
        }
    }

    /// The descriptor's number.
    pub fn number(&self) -> i32 {
        self.0
    }

    /// Hands the descriptor out: nobody closes it any more.
    pub fn keep(self) -> i32 {
        let number = self.0;
        core::mem::forget(self);
        number
    }

    /// The facts of the file.
    pub fn stat(&self) -> Result<Stat> {
        raw::fstat(self.0)
    }

    /// Reads at `offset` until the buffer is full or the file ends.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..)
            && !rest.is_empty()
        {
            match raw::pread(self.0, rest, offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Takes the lock on one byte, without waiting. `false`: somebody else has it.
    pub fn try_lock(&self, byte: u64) -> Result<bool> {
        let mut lock = Flock { kind: 1, whence: 0, start: byte as i64, length: 1, pid: 0 };
        loop {
            return match raw::fcntl_lock(self.0, raw::F_OFD_SETLK, &mut lock) {
                Ok(()) => Ok(true),
                Err(Errno::AGAIN | Errno::ACCES) => Ok(false),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Gives the lock on one byte back, also for a child that inherited this open file in between.
    pub fn unlock(&self, byte: u64) {
        let mut lock = Flock { kind: 2, whence: 0, start: byte as i64, length: 1, pid: 0 };
        let _ = raw::fcntl_lock(self.0, raw::F_OFD_SETLK, &mut lock);
    }

    /// True if another open file holds a lock on the byte.
    pub fn is_locked(&self, byte: u64) -> Result<bool> {
        let mut lock = Flock { kind: 1, whence: 0, start: byte as i64, length: 1, pid: 0 };
        raw::fcntl_lock(self.0, raw::F_OFD_GETLK, &mut lock)?;
        Ok(lock.kind != 2)
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        raw::close(self.0);
    }
}

/// Reads a small file of procfs; the part that fits.
pub fn read_small<'b>(path: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
    let fd = Fd::open(path, raw::O_RDONLY)?;
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..)
        && !rest.is_empty()
    {
        match raw::read(fd.number(), rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buffer.get(..done).unwrap_or_default())
}
