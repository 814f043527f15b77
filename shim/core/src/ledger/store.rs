//! The file on disk: found, checked, made, grown. Nothing here is on the way of an allocation.
//!
//! A file that is not a ledger of this version is never written to: its kind is looked at before it is opened, it is opened for
//! reading only, its first line is compared, and only then is it opened for writing. A new ledger is made whole under another
//! name and then linked to its own, so nobody ever sees half of one, and of several makers one wins.

use core::ffi::CStr;

use super::layout::{BASE, BLOCKS, Block, Constants, MAGIC, VERSION, size};
use super::trouble::Trouble;
use crate::sys::file::Fd;
use crate::sys::raw::{self, Errno, O_CREAT, O_EXCL, O_NONBLOCK, O_RDONLY, O_RDWR, Stat};
use crate::sys::text::Text;

/// Bytes of a block that stores may go to at any time: slots and cells. Counters are allocated with their slot.
const ALLOCATED: usize = core::mem::offset_of!(Block, counters);

/// An open ledger.
pub struct Store {
    /// Open for reading and writing.
    pub fd: Fd,
    /// Device and inode tell whether a path still leads here.
    pub stat: Stat,
}

/// Opens the ledger at `path`, making it where there is none.
pub fn open_or_create(path: &CStr) -> Result<Store, Trouble> {
    // Another process may make or replace the file between two steps: then look again.
    for _ in 0..8 {
        match open(path) {
            Ok(Some(store)) => return Ok(store),
            Ok(None) => {}
            Err(Trouble::Open(Errno::NOENT)) => create(path)?,
            Err(trouble) => return Err(trouble),
        }
    }
    Err(Trouble::Busy)
}

/// Opens the ledger at `path`. `None`: the path led to two different files while it was looked at.
fn open(path: &CStr) -> Result<Option<Store>, Trouble> {
    if !raw::stat(path).map_err(Trouble::Open)?.is_regular() {
        return Err(Trouble::NotAFile);
    }
    // O_NONBLOCK: should it have become a pipe meanwhile, nobody waits for its other end.
    let reader = Fd::open(path, O_RDONLY | O_NONBLOCK).map_err(Trouble::Open)?;
    let seen = check(&reader)?;
    let fd = Fd::open(path, O_RDWR | O_NONBLOCK).map_err(Trouble::Open)?;
    let stat = fd.stat().map_err(Trouble::Open)?;
    Ok((stat.inode == seen.inode && stat.device == seen.device).then_some(Store { fd, stat }))
}

/// Opens `path` again for its locks, if it still is the file with this device and inode.
pub fn open_again(path: &CStr, device: u64, inode: u64) -> Result<Option<Fd>, Errno> {
    let fd = Fd::open(path, O_RDWR | O_NONBLOCK)?;
    let stat = fd.stat()?;
    Ok((stat.inode == inode && stat.device == device).then_some(fd))
}

/// Compares an open file with what a ledger of this version looks like.
pub fn check(fd: &Fd) -> Result<Stat, Trouble> {
    let stat = fd.stat().map_err(Trouble::Open)?;
    if !stat.is_regular() {
        return Err(Trouble::NotAFile);
    }
    let mut bytes = [0_u8; 64];
    let count = fd.read_at(&mut bytes, 0).map_err(Trouble::Open)?;
    let constants = Constants::from_bytes(bytes);
    if count < 64 {
        return Err(Trouble::Short(stat.size));
    }
    if constants.magic != MAGIC {
        return Err(Trouble::Foreign);
    }
    if constants.version != VERSION {
        return Err(Trouble::Version(constants.version));
    }
    if constants != Constants::of_this_version() {
        return Err(Trouble::Damaged);
    }
    let mut counts = [0_u8; 8];
    if fd.read_at(&mut counts, 64).map_err(Trouble::Open)? < 8 {
        return Err(Trouble::Short(stat.size));
    }
    let [h0, h1, h2, h3, b0, b1, b2, b3] = counts;
    let (high, blocks) = (u32::from_le_bytes([h0, h1, h2, h3]) as usize, u32::from_le_bytes([b0, b1, b2, b3]) as usize);
    if blocks == 0 || blocks > BLOCKS || high > blocks * super::layout::SLOTS_PER_BLOCK {
        return Err(Trouble::Damaged);
    }
    // A store beyond the end of the file would end the process. Asked after the counts: it may be growing, and grows before they do.
    let stat = fd.stat().map_err(Trouble::Open)?;
    if stat.size < size(blocks) as u64 {
        return Err(Trouble::Short(stat.size));
    }
    Ok(stat)
}

/// Makes a new ledger. Success also if somebody else was quicker.
fn create(path: &CStr) -> Result<(), Trouble> {
    let mut name = Text::new();
    for &byte in path.to_bytes() {
        name.byte(byte);
    }
    name.str(".new.").dec(raw::getpid().into()).str(".").hex(raw::now_ns(), 1).byte(0);
    // A path too long for the buffer loses its final NUL there.
    let fresh = CStr::from_bytes_with_nul(name.as_bytes()).map_err(|_| Trouble::NoPath)?;
    let fd = Fd::open_mode(fresh, O_RDWR | O_CREAT | O_EXCL, 0o600).map_err(Trouble::Create)?;
    let made = fill(&fd).and_then(|()| publish(fresh, path));
    let _ = raw::unlink(fresh);
    made.map_err(Trouble::Create)
}

fn fill(fd: &Fd) -> Result<(), Errno> {
    within_limit(size(1))?;
    allocate(fd, 0, BASE)?;
    grow(fd, 0)?;
    let mut head = [0_u8; 72];
    for (room, byte) in head.iter_mut().zip(Constants::of_this_version().to_bytes().into_iter().chain([0, 0, 0, 0, 1, 0, 0, 0])) {
        *room = byte;
    }
    raw::pwrite(fd.number(), &head, 0)?;
    // Not subject to the umask: the other users of the container go by the same ledger.
    raw::fchmod(fd.number(), 0o666)
}

/// Gives the file its name, unless the name is taken.
fn publish(fresh: &CStr, path: &CStr) -> Result<(), Errno> {
    let linked = match raw::link(fresh, path) {
        Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP) => raw::rename_new(fresh, path),
        linked => linked,
    };
    match linked {
        Err(Errno::EXIST) => Ok(()),
        linked => linked,
    }
}

/// Gives the file a block more than `blocks`, allocated where stores go. The caller then raises the count. Repeating it does no harm.
pub fn grow(fd: &Fd, blocks: usize) -> Result<(), Errno> {
    within_limit(size(blocks + 1))?;
    if fd.stat()?.size < size(blocks + 1) as u64 {
        raw::ftruncate(fd.number(), size(blocks + 1) as u64)?;
    }
    allocate(fd, size(blocks), ALLOCATED)
}

fn within_limit(bytes: usize) -> Result<(), Errno> {
    if raw::file_size_limit() < bytes as u64 { Err(Errno::FBIG) } else { Ok(()) }
}

/// Makes sure that storing to these bytes cannot fail for want of space. Nobody else uses them yet.
fn allocate(fd: &Fd, offset: usize, bytes: usize) -> Result<(), Errno> {
    match raw::fallocate(fd.number(), offset as u64, bytes as u64) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::PERM) => {}
        done => return done,
    }
    write_zeros(fd, offset, bytes)
}

/// Overwrites bytes that only the caller uses: allocates them, and clears them.
pub fn write_zeros(fd: &Fd, offset: usize, bytes: usize) -> Result<(), Errno> {
    static ZEROS: [u8; 4096] = [0; 4096];
    within_limit(offset + bytes)?;
    let mut done = 0;
    while done < bytes {
        let part = ZEROS.get(..(bytes - done).min(4096)).unwrap_or(&ZEROS);
        done += raw::pwrite(fd.number(), part, (offset + done) as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use super::publish;

    #[test]
    fn a_ledger_that_another_made_meanwhile_stays() {
        let folder = std::env::temp_dir().join(format!("vrocm-publish-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| CString::new(folder.join(name).to_str().unwrap()).unwrap();
        std::fs::write(folder.join("fresh"), "second").unwrap();
        std::fs::write(folder.join("ledger"), "first").unwrap();
        assert_eq!(publish(&path("fresh"), &path("ledger")), Ok(()));
        assert_eq!(std::fs::read(folder.join("ledger")).unwrap(), b"first");
        std::fs::remove_file(folder.join("ledger")).unwrap();
        assert_eq!(publish(&path("fresh"), &path("ledger")), Ok(()));
        assert_eq!(std::fs::read(folder.join("ledger")).unwrap(), b"second");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
