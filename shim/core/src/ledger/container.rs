//! Who this process is, and whether two processes live in the same container.
//!
//! One ledger is one container's. Two containers that share a path by mistake (host IPC, a shared `/dev/shm`) must not charge
//! each other, so the second one is refused with a reason. Refused and not kept apart: a process that was taken for a stranger
//! by mistake would get the whole quota once more.
//!
//! Pid namespaces say nothing: sandboxes inside a container make new ones, and containers of one pod may share theirs. Two
//! processes are of one container if they share
//! - the mount namespace: a container's own processes do, whatever cgroup they are moved to; or
//! - a cgroup namespace other than the host's: a sandbox that unshares mounts and pids keeps it; or
//! - the host's cgroup namespace and the same cgroups (cgroup v1, host cgroup namespaces).
//!
//! What cannot be read (no `/proc`) is not held against anybody. A sandbox that unshares mounts *and* cgroups is refused.

use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;

use super::layout::{FNV_PRIME, FNV_START, SlotRecord};
use crate::sys::file::read_small;
use crate::sys::raw;
use crate::sys::text::Text;

/// Inode of the cgroup namespace that the kernel boots with (`PROC_CGROUP_INIT_INO`).
const HOST_CGROUP_NS: u64 = 0xEFFF_FFFB;

/// The facts of a process that a slot records. 0 where unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Identity {
    /// Process id in its own namespace.
    pub pid: u32,
    /// Real user id.
    pub uid: u32,
    /// Inode of the pid namespace.
    pub pid_ns: u64,
    /// Start time, in ticks since boot.
    pub start: u64,
    /// Inode of the mount namespace.
    pub mount_ns: u64,
    /// Inode of the cgroup namespace.
    pub cgroup_ns: u64,
    /// Hash of the cgroups.
    pub cgroup: u64,
    /// The first 15 bytes of the program's name.
    pub name: [u8; 16],
}

impl Identity {
    /// Of this process. About 30 microseconds of procfs.
    pub fn here() -> Self {
        let inode = |path| raw::stat(path).map_or(0, |stat| stat.inode);
        let mut buffer = [0_u8; 4096];
        let cgroup = read_small(c"/proc/self/cgroup", &mut buffer).map_or(0, fnv);
        let (start, name) = stat_fields(c"/proc/self/stat").unwrap_or_default();
        Self {
            pid: raw::getpid(),
            uid: raw::getuid(),
            pid_ns: inode(c"/proc/self/ns/pid"),
            start,
            mount_ns: inode(c"/proc/self/ns/mnt"),
            cgroup_ns: inode(c"/proc/self/ns/cgroup"),
            cgroup,
            name,
        }
    }

    /// Of the process that wrote a slot's record.
    pub fn of(slot: &SlotRecord) -> Self {
        let mut name = [0; 16];
        for (word, part) in slot.name.iter().zip(name.chunks_exact_mut(8)) {
            part.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        Self {
            pid: slot.pid.load(Relaxed),
            uid: slot.uid.load(Relaxed),
            pid_ns: slot.pid_ns.load(Relaxed),
            start: slot.start.load(Relaxed),
            mount_ns: slot.mount_ns.load(Relaxed),
            cgroup_ns: slot.cgroup_ns.load(Relaxed),
            cgroup: slot.cgroup.load(Relaxed),
            name,
        }
    }

    /// Writes a slot's record, all but its state.
    pub fn record(&self, slot: &SlotRecord) {
        slot.pid.store(self.pid, Relaxed);
        slot.uid.store(self.uid, Relaxed);
        slot.pid_ns.store(self.pid_ns, Relaxed);
        slot.start.store(self.start, Relaxed);
        slot.mount_ns.store(self.mount_ns, Relaxed);
        slot.cgroup_ns.store(self.cgroup_ns, Relaxed);
        slot.cgroup.store(self.cgroup, Relaxed);
        for (word, part) in slot.name.iter().zip(self.name.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*part), Relaxed);
        }
    }

    /// True if both processes live in one container, see the head of this file.
    pub fn same_container(&self, other: &Self) -> bool {
        let known = |identity: &Self| identity.mount_ns != 0 && identity.cgroup_ns != 0;
        if !known(self) || !known(other) || self.mount_ns == other.mount_ns {
            return true;
        }
        self.cgroup_ns == other.cgroup_ns && (self.cgroup_ns != HOST_CGROUP_NS || self.cgroup == other.cgroup)
    }

    /// For a slot whose lock a descriptor keeps: `false` only if it is certain that its process is dead, because no process of
    /// this pid namespace has its id and start time.
    pub fn may_be_alive(&self) -> bool {
        let mine = raw::stat(c"/proc/self/ns/pid").map_or(0, |stat| stat.inode);
        if self.pid_ns == 0 || self.pid_ns != mine || self.start == 0 {
            return true;
        }
        let mut text = Text::new();
        text.str("/proc/").dec(self.pid.into()).str("/stat\0");
        let Ok(path) = CStr::from_bytes_until_nul(text.as_bytes()) else { return true };
        match stat_fields(path) {
            Some((start, _)) => start == self.start,
            // Gone, if this procfs is one of our own namespace: it must show ourselves.
            None => stat_fields(c"/proc/self/stat").is_none(),
        }
    }
}

/// Start time (field 22) and name (field 2, in parentheses) of a `stat` file of procfs.
fn stat_fields(path: &CStr) -> Option<(u64, [u8; 16])> {
    let mut buffer = [0_u8; 1024];
    parse_stat(read_small(path, &mut buffer).ok()?)
}

fn parse_stat(bytes: &[u8]) -> Option<(u64, [u8; 16])> {
    let from = bytes.iter().position(|&byte| byte == b'(')? + 1;
    // A name may contain parentheses and blanks; nothing behind it does.
    let to = bytes.iter().rposition(|&byte| byte == b')')?;
    let mut name = [0_u8; 16];
    for (room, &byte) in name.iter_mut().zip(bytes.get(from..to)?).take(15) {
        *room = byte;
    }
    let field = bytes.get(to + 1..)?.split(|&byte| byte == b' ').nth(20)?;
    let mut start = 0_u64;
    for &digit in field {
        start = start.wrapping_mul(10).wrapping_add(u64::from((digit as char).to_digit(10)?));
    }
    Some((start, name))
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(FNV_START, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::{HOST_CGROUP_NS, Identity, parse_stat};

    fn identity(mount_ns: u64, cgroup_ns: u64, cgroup: u64) -> Identity {
        Identity { mount_ns, cgroup_ns, cgroup, ..Identity::default() }
    }

    #[test]
    fn what_makes_one_container() {
        let first = identity(1, 11, 21);
        assert!(first.same_container(&identity(1, 12, 22)), "moved to another cgroup");
        assert!(first.same_container(&identity(2, 11, 22)), "a sandbox with mounts of its own");
        assert!(!first.same_container(&identity(2, 12, 21)), "two containers, each sees its cgroup as the root");
        let host = identity(1, HOST_CGROUP_NS, 21);
        assert!(host.same_container(&identity(2, HOST_CGROUP_NS, 21)));
        assert!(!host.same_container(&identity(2, HOST_CGROUP_NS, 22)), "two containers in the host's cgroup namespace");
        assert!(identity(0, 0, 0).same_container(&first), "what is not known is not held against anybody");
    }

    #[test]
    fn this_process_is_itself_and_alive() {
        let here = Identity::here();
        assert!(
            here.pid == std::process::id() && here.pid_ns != 0 && here.mount_ns != 0 && here.cgroup_ns != 0 && here.cgroup != 0 && here.start != 0
        );
        assert!(here.same_container(&here) && here.may_be_alive());
        assert!(!Identity { start: here.start + 1, ..here }.may_be_alive(), "the id was used again");
        assert!(!Identity { pid: 0x3fff_fff0, ..here }.may_be_alive(), "nobody has the id");
        assert!(Identity { start: here.start + 1, pid_ns: here.pid_ns + 1, ..here }.may_be_alive(), "of another namespace nothing is known");
    }

    #[test]
    fn names_may_hold_parentheses() {
        let fields = "7 (a) b (c)) R 1 7 7 0 -1 4194304 90 0 0 0 0 0 0 0 20 0 1 0 123456 5 6";
        assert_eq!(parse_stat(fields.as_bytes()).map(|(start, name)| (start, name[..9].to_vec())), Some((123_456, b"a) b (c)\0".to_vec())));
        assert_eq!(parse_stat(b"7 (x"), None);
        assert_eq!(parse_stat(b""), None);
    }
}
