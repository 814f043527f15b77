//! System calls by number, on x86-64 and `AArch64`. Constants are those of the kernel's user-space headers.

use core::arch::asm;
use core::ffi::CStr;

/// An error number of the kernel, as a positive number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted: also what a seccomp filter usually answers.
    pub const PERM: Self = Self(1);
    /// No such file.
    pub const NOENT: Self = Self(2);
    /// No such descriptor; from an `ioctl` also: it is no descriptor of this process's own.
    pub const BADF: Self = Self(9);
    /// Interrupted by a signal.
    pub const INTR: Self = Self(4);
    /// Would block: another holds the lock.
    pub const AGAIN: Self = Self(11);
    /// Permission denied; from `F_OFD_SETLK` also: another holds the lock.
    pub const ACCES: Self = Self(13);
    /// The name is taken.
    pub const EXIST: Self = Self(17);
    /// Invalid argument: mostly a kernel too old for it.
    pub const INVAL: Self = Self(22);
    /// The process has no descriptor left.
    pub const MFILE: Self = Self(24);
    /// No such call.
    pub const NOSYS: Self = Self(38);
    /// Larger than this process may make a file.
    pub const FBIG: Self = Self(27);
    /// The file system cannot do it.
    pub const OPNOTSUPP: Self = Self(95);

    /// The usual name, for messages; `errno` where the number is a rare one.
    pub fn name(self) -> &'static str {
        match self.0 {
            1 => "EPERM",
            2 => "ENOENT",
            4 => "EINTR",
            6 => "ENXIO",
            9 => "EBADF",
            11 => "EAGAIN",
            12 => "ENOMEM",
            13 => "EACCES",
            17 => "EEXIST",
            20 => "ENOTDIR",
            21 => "EISDIR",
            22 => "EINVAL",
            23 => "ENFILE",
            24 => "EMFILE",
            27 => "EFBIG",
            28 => "ENOSPC",
            30 => "EROFS",
            36 => "ENAMETOOLONG",
            37 => "ENOLCK",
            38 => "ENOSYS",
            40 => "ELOOP",
            95 => "EOPNOTSUPP",
            122 => "EDQUOT",
            _ => "errno",
        }
    }
}

/// What a call answers.
pub type Result<T> = core::result::Result<T, Errno>;

#[cfg(target_arch = "x86_64")]
mod number {
    pub const WRITE: usize = 1;
    pub const READ: usize = 0;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const PREAD: usize = 17;
    pub const PWRITE: usize = 18;
    pub const SCHED_YIELD: usize = 24;
    pub const MADVISE: usize = 28;
    pub const NANOSLEEP: usize = 35;
    pub const IOCTL: usize = 16;
    pub const GETPID: usize = 39;
    pub const FCNTL: usize = 72;
    pub const FTRUNCATE: usize = 77;
    pub const FCHMOD: usize = 91;
    pub const GETUID: usize = 102;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const GETGID: usize = 104;
    pub const GETEUID: usize = 107;
    pub const GETEGID: usize = 108;
    pub const RT_SIGPENDING: usize = 127;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const NEWFSTATAT: usize = 262;
    pub const UNLINKAT: usize = 263;
    pub const LINKAT: usize = 265;
    pub const FALLOCATE: usize = 285;
    pub const PRLIMIT64: usize = 302;
    pub const RENAMEAT2: usize = 316;
    pub const STATX: usize = 332;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const FCNTL: usize = 25;
    pub const IOCTL: usize = 29;
    pub const UNLINKAT: usize = 35;
    pub const LINKAT: usize = 37;
    pub const FTRUNCATE: usize = 46;
    pub const FALLOCATE: usize = 47;
    pub const FCHMOD: usize = 52;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PREAD: usize = 67;
    pub const PWRITE: usize = 68;
    pub const NEWFSTATAT: usize = 79;
    pub const FSTAT: usize = 80;
    pub const EXIT_GROUP: usize = 94;
    pub const NANOSLEEP: usize = 101;
    pub const CLOCK_GETTIME: usize = 113;
    pub const SCHED_YIELD: usize = 124;
    pub const GETPID: usize = 172;
    pub const GETUID: usize = 174;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const RT_SIGPENDING: usize = 136;
    pub const RT_SIGTIMEDWAIT: usize = 137;
    pub const GETEUID: usize = 175;
    pub const GETGID: usize = 176;
    pub const GETEGID: usize = 177;
    pub const MPROTECT: usize = 226;
    pub const MUNMAP: usize = 215;
    pub const MMAP: usize = 222;
    pub const MADVISE: usize = 233;
    pub const PRLIMIT64: usize = 261;
    pub const RENAMEAT2: usize = 276;
    pub const STATX: usize = 291;
}

/// One system call with up to six arguments.
///
/// # Safety
///
/// The kernel reads and writes what the arguments point to; the caller answers for that memory, as with the C function.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: usize, a: [usize; 6]) -> Result<usize> {
    let answer: isize;
    // SAFETY: the kernel's calling convention; it changes rax, rcx and r11 and keeps the stack.
    unsafe {
        asm!("syscall", inlateout("rax") number => answer, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if answer < 0 { Err(Errno(-answer as i32)) } else { Ok(answer as usize) }
}

/// One system call with up to six arguments.
///
/// # Safety
///
/// The kernel reads and writes what the arguments point to; the caller answers for that memory, as with the C function.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: usize, a: [usize; 6]) -> Result<usize> {
    let answer: isize;
    // SAFETY: the kernel's calling convention; it changes x0 and keeps the stack.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a[0] => answer, in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack));
    }
    if answer < 0 { Err(Errno(-answer as i32)) } else { Ok(answer as usize) }
}

/// Relative paths start at the working directory.
const AT_FDCWD: usize = -100_isize as usize;

/// Open for reading.
pub const O_RDONLY: i32 = 0;
/// Open for reading and writing.
pub const O_RDWR: i32 = 2;
/// Create if missing.
pub const O_CREAT: i32 = 0o100;
/// Only create.
pub const O_EXCL: i32 = 0o200;
/// Do not wait, as opening a pipe would.
pub const O_NONBLOCK: i32 = 0o4000;
/// Gone after `exec`.
pub const O_CLOEXEC: i32 = 0o2_000_000;
/// A terminal does not become ours.
pub const O_NOCTTY: i32 = 0o400;

/// Opens `path`; a new file gets `mode` (less the umask).
pub fn open(path: &CStr, flags: i32, mode: u32) -> Result<i32> {
    // SAFETY: the path ends with NUL and is only read.
    unsafe { call(number::OPENAT, [AT_FDCWD, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0]) }.map(|fd| fd as i32)
}

/// Closes a descriptor; there is nothing to do about an error.
pub fn close(fd: i32) {
    // SAFETY: no memory is passed. Whoever calls owns the descriptor.
    let _ = unsafe { call(number::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Reads at the descriptor's own position (files of procfs).
pub fn read(fd: i32, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the buffer is ours for its whole length.
    unsafe { call(number::READ, [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) }
}

/// Reads at `offset`; fewer bytes than asked at the end of the file.
pub fn pread(fd: i32, buffer: &mut [u8], offset: u64) -> Result<usize> {
    // SAFETY: the buffer is ours for its whole length.
    unsafe { call(number::PREAD, [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), offset as usize, 0, 0]) }
}

/// Writes at `offset`.
pub fn pwrite(fd: i32, bytes: &[u8], offset: u64) -> Result<usize> {
    // SAFETY: the bytes are only read.
    unsafe { call(number::PWRITE, [fd as usize, bytes.as_ptr() as usize, bytes.len(), offset as usize, 0, 0]) }
}

/// Writes at the descriptor's own position (standard error).
pub fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the bytes are only read.
    unsafe { call(number::WRITE, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// `struct stat` of both architectures: 144 and 128 bytes, the fields we read in the same or in neighbouring places.
#[repr(C, align(8))]
struct RawStat([u64; 18]);

/// The facts of a file that we go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Device of the file system.
    pub device: u64,
    /// Inode on it.
    pub inode: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
}

impl Stat {
    /// A regular file, no directory, pipe or device.
    pub fn is_regular(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    fn from(raw: &RawStat) -> Self {
        #[cfg(target_arch = "x86_64")]
        let mode = raw.0[3] as u32;
        #[cfg(target_arch = "aarch64")]
        let mode = raw.0[2] as u32;
        Self { device: raw.0[0], inode: raw.0[1], mode, size: raw.0[6] }
    }
}

/// The facts of an open file.
pub fn fstat(fd: i32) -> Result<Stat> {
    let mut raw = RawStat([0; 18]);
    // SAFETY: the kernel fills one `struct stat`, at most 144 bytes.
    unsafe { call(number::FSTAT, [fd as usize, &raw mut raw as usize, 0, 0, 0, 0]) }?;
    Ok(Stat::from(&raw))
}

/// The facts of the file that `path` leads to.
pub fn stat(path: &CStr) -> Result<Stat> {
    let mut raw = RawStat([0; 18]);
    // SAFETY: the path ends with NUL; the kernel fills one `struct stat`, at most 144 bytes.
    unsafe { call(number::NEWFSTATAT, [AT_FDCWD, path.as_ptr() as usize, &raw mut raw as usize, 0, 0, 0]) }?;
    Ok(Stat::from(&raw))
}

/// The character device that `path` leads to: a number, never 0.
pub fn device(path: &CStr) -> Result<Option<u64>> {
    statx_device(AT_FDCWD, path)
}

/// The character device that is open. Linux 4.11.
pub fn open_device(fd: i32) -> Result<Option<u64>> {
    statx_device(fd as usize, c"")
}

/// As little as can be asked: a file on another machine, or of a process that stands still, is not waited for.
fn statx_device(at: usize, path: &CStr) -> Result<Option<u64>> {
    const AT_EMPTY_PATH: usize = 0x1000;
    const AT_STATX_DONT_SYNC: usize = 0x4000;
    const STATX_TYPE: usize = 1;
    let mut raw = [0_u32; 64];
    // SAFETY: the path ends with NUL; the kernel fills one `struct statx` of 256 bytes.
    unsafe { call(number::STATX, [at, path.as_ptr() as usize, AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, raw.as_mut_ptr() as usize, 0]) }?;
    let (mode, major, minor) = (raw[7], raw[32], raw[33]);
    Ok((mode & 0o170_000 == 0o020_000).then_some(u64::from(major) << 32 | u64::from(minor)))
}

/// Asks the kernel's GPU driver for its version, which it tells the process alone that has opened the device.
pub fn ask_gpu_driver(fd: i32) -> Result<()> {
    /// `AMDKFD_IOC_GET_VERSION`, which fills two 32-bit numbers.
    const GET_VERSION: usize = 0x8008_4b01;
    let mut version = [0_u32; 2];
    // SAFETY: the numbers are ours to be filled.
    unsafe { call(number::IOCTL, [fd as usize, GET_VERSION, version.as_mut_ptr() as usize, 0, 0, 0]) }.map(drop)
}

/// Sets the length of a file.
pub fn ftruncate(fd: i32, size: u64) -> Result<()> {
    // SAFETY: no memory is passed.
    unsafe { call(number::FTRUNCATE, [fd as usize, size as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Gives a stretch of a file real blocks, growing the file where needed; bytes that are there stay.
pub fn fallocate(fd: i32, offset: u64, size: u64) -> Result<()> {
    // SAFETY: no memory is passed.
    unsafe { call(number::FALLOCATE, [fd as usize, 0, offset as usize, size as usize, 0, 0]) }.map(drop)
}

/// How large this process may make a file (`RLIMIT_FSIZE`). Writing beyond it would not only fail: `SIGXFSZ` ends the process.
pub fn file_size_limit() -> u64 {
    let mut limits = [u64::MAX; 2];
    // SAFETY: a `struct rlimit64`, filled by the kernel.
    let _ = unsafe { call(number::PRLIMIT64, [0, 1, 0, limits.as_mut_ptr() as usize, 0, 0]) };
    limits[0]
}

/// Sets permissions, which the umask does not touch.
pub fn fchmod(fd: i32, mode: u32) -> Result<()> {
    // SAFETY: no memory is passed.
    unsafe { call(number::FCHMOD, [fd as usize, mode as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Gives the file `from` the further name `to`; fails if that is taken.
pub fn link(from: &CStr, to: &CStr) -> Result<()> {
    // SAFETY: both paths end with NUL and are only read.
    unsafe { call(number::LINKAT, [AT_FDCWD, from.as_ptr() as usize, AT_FDCWD, to.as_ptr() as usize, 0, 0]) }.map(drop)
}

/// Renames, and fails if the name `to` is taken (`RENAME_NOREPLACE`): for file systems without links.
pub fn rename_new(from: &CStr, to: &CStr) -> Result<()> {
    // SAFETY: both paths end with NUL and are only read.
    unsafe { call(number::RENAMEAT2, [AT_FDCWD, from.as_ptr() as usize, AT_FDCWD, to.as_ptr() as usize, 1, 0]) }.map(drop)
}

/// Removes a name.
pub fn unlink(path: &CStr) -> Result<()> {
    // SAFETY: the path ends with NUL and is only read.
    unsafe { call(number::UNLINKAT, [AT_FDCWD, path.as_ptr() as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Lock owned by the open file description, exclusive, without waiting.
pub const F_OFD_SETLK: i32 = 37;
/// Who holds a lock.
pub const F_OFD_GETLK: i32 = 36;
/// A copy of a descriptor, at or above a number, gone after `exec`.
pub const F_DUPFD_CLOEXEC: i32 = 1030;

/// `struct flock`, the same on both architectures.
#[repr(C)]
pub struct Flock {
    /// 0 read, 1 write, 2 none.
    pub kind: i16,
    /// 0: `start` counts from the beginning of the file.
    pub whence: i16,
    /// First byte.
    pub start: i64,
    /// Number of bytes.
    pub length: i64,
    /// 0 in a request for an open file description's lock.
    pub pid: i32,
}

/// `fcntl` with a lock.
pub fn fcntl_lock(fd: i32, command: i32, lock: &mut Flock) -> Result<()> {
    // SAFETY: the structure is the kernel's `struct flock`, ours to read and write.
    unsafe { call(number::FCNTL, [fd as usize, command as usize, core::ptr::from_mut(lock) as usize, 0, 0, 0]) }.map(drop)
}

/// `fcntl` with a number.
pub fn fcntl(fd: i32, command: i32, argument: usize) -> Result<usize> {
    // SAFETY: no memory is passed.
    unsafe { call(number::FCNTL, [fd as usize, command as usize, argument, 0, 0, 0]) }
}

/// Memory of a file, shared with everybody who maps it: `size` bytes from the start, readable and writable.
pub fn map_shared(fd: i32, size: usize, writable: bool) -> Result<*mut u8> {
    let protection = if writable { 3 } else { 1 };
    // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
    unsafe { call(number::MMAP, [0, size, protection, 0x01, fd as usize, 0]) }.map(|address| address as *mut u8)
}

/// Fresh zeroed memory of this process alone (`MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE`).
pub fn map_private(size: usize) -> Result<*mut u8> {
    // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
    unsafe { call(number::MMAP, [0, size, 3, 0x4022, usize::MAX, 0]) }.map(|address| address as *mut u8)
}

/// Makes whole pages readable, and writable or not.
///
/// # Safety
///
/// The pages are the caller's to change, and hold no code.
pub unsafe fn protect(page: usize, size: usize, writable: bool) -> Result<()> {
    let protection = if writable { 3 } else { 1 };
    // SAFETY: the caller's.
    unsafe { call(number::MPROTECT, [page, size, protection, 0, 0, 0]) }.map(drop)
}

/// Gives a mapping back.
///
/// # Safety
///
/// Nobody uses the memory any more, in any thread.
pub unsafe fn unmap(address: *mut u8, size: usize) {
    // SAFETY: the caller's.
    let _ = unsafe { call(number::MUNMAP, [address as usize, size, 0, 0, 0, 0]) };
}

/// A forked child does not get the mapping.
pub const MADV_DONTFORK: i32 = 10;
/// A core dump leaves it out.
pub const MADV_DONTDUMP: i32 = 16;
/// A forked child gets it, empty. Linux 4.14, private anonymous memory only.
pub const MADV_WIPEONFORK: i32 = 18;

/// Says how a mapping is to be treated; the three kinds above change no byte of it here.
pub fn madvise(address: *mut u8, size: usize, advice: i32) -> Result<()> {
    // SAFETY: the three advices above leave the memory of this process as it is.
    unsafe { call(number::MADVISE, [address as usize, size, advice as usize, 0, 0, 0]) }.map(drop)
}

/// This process, in its own pid namespace.
pub fn getpid() -> u32 {
    // SAFETY: no memory is passed. The call cannot fail.
    unsafe { call(number::GETPID, [0; 6]) }.unwrap_or(0) as u32
}

/// The real user.
pub fn getuid() -> u32 {
    // SAFETY: no memory is passed. The call cannot fail.
    unsafe { call(number::GETUID, [0; 6]) }.unwrap_or(0) as u32
}

/// True if the effective user or group is not the real one.
pub fn ids_differ() -> bool {
    // SAFETY: no memory is passed.
    let id = |number| unsafe { call(number, [0; 6]) };
    id(number::GETUID) != id(number::GETEUID) || id(number::GETGID) != id(number::GETEGID)
}

/// Writes to standard error, and survives when nobody reads it any more: the `SIGPIPE` of this write, and no other, is taken back.
pub fn write_error(bytes: &[u8]) {
    const SIGPIPE: u64 = 1 << (13 - 1);
    const EPIPE: Errno = Errno(32);
    let (block, mut before, mut pending, now) = (SIGPIPE, 0_u64, 0_u64, [0_u64; 2]);
    let address = |place: &mut u64| core::ptr::from_mut(place) as usize;
    // SAFETY: signal sets of the kernel's 8 bytes and a `struct timespec`, on this stack. The mask is put back below.
    unsafe {
        let blocked = call(number::RT_SIGPROCMASK, [0, &raw const block as usize, address(&mut before), 8, 0, 0]).is_ok();
        let _ = call(number::RT_SIGPENDING, [address(&mut pending), 8, 0, 0, 0, 0]);
        if blocked && write(2, bytes) == Err(EPIPE) && pending & SIGPIPE == 0 {
            let _ = call(number::RT_SIGTIMEDWAIT, [&raw const block as usize, 0, now.as_ptr() as usize, 8, 0, 0]);
        }
        let _ = call(number::RT_SIGPROCMASK, [2, address(&mut before), 0, 8, 0, 0]);
    }
}

/// Lets others run.
pub fn sched_yield() {
    // SAFETY: no memory is passed.
    let _ = unsafe { call(number::SCHED_YIELD, [0; 6]) };
}

/// Sleeps, or less when a signal comes.
pub fn sleep_ns(nanoseconds: u64) {
    let time = [nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000];
    // SAFETY: a `struct timespec` of two 64-bit numbers, only read.
    let _ = unsafe { call(number::NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now_ns() -> u64 {
    let mut time = [0_u64; 2];
    // SAFETY: a `struct timespec` of two 64-bit numbers, filled by the kernel.
    let _ = unsafe { call(number::CLOCK_GETTIME, [1, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0].wrapping_mul(1_000_000_000).wrapping_add(time[1])
}

/// Ends the process at once. Only the panic handler of the preload library may call it.
pub fn exit_group(status: i32) -> ! {
    loop {
        // SAFETY: no memory is passed; the call does not come back.
        let _ = unsafe { call(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// The thread pointer: the same for every call of one thread, different for any two threads that live at the same time, never 0.
#[cfg(target_arch = "x86_64")]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the x86-64 ABI keeps the thread control block's own address at fs:0.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags, pure)) };
    pointer
}

/// The thread pointer: the same for every call of one thread, different for any two threads that live at the same time, never 0.
#[cfg(target_arch = "aarch64")]
pub fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the AArch64 ABI keeps the thread pointer in TPIDR_EL0.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags, pure)) };
    pointer
}
