//! Whether an answer still holds: files that changed while they were read, and paths that others may change at any time.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::tree::Tree;

/// What tells that a path still leads to the file that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl From<&Metadata> for Stamp {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino(), size: metadata.size(), modified: (metadata.mtime(), metadata.mtime_nsec()) }
    }
}

impl Stamp {
    /// Of a path as it is now; `None` where there is no such file.
    pub fn of(tree: &Tree, path: &str) -> Option<Self> {
        tree.metadata(path).ok().as_ref().map(Self::from)
    }
}

/// The first component, of the path as it is spelled or with its links resolved, that somebody else than root and the user who asks may change;
/// in words, with who. Everybody may write in a sticky directory such as /tmp, but not replace what is another's there.
pub fn changeable(tree: &Tree, path: &str) -> Option<String> {
    let own = std::fs::metadata("/proc/self").ok()?;
    let spelled = tree.absolute(path);
    let canonical = tree.canonical(path).ok();
    [Some(spelled), canonical].into_iter().flatten().find_map(|path| {
        let ends = path.match_indices('/').map(|(at, _)| at.max(1)).chain([path.len()]);
        ends.map(|end| &path[..end]).find_map(|part| who(&tree.metadata(part).ok()?, &own).map(|who| format!("{part} ({who})")))
    })
}

fn who(metadata: &Metadata, own: &Metadata) -> Option<String> {
    const STICKY: u32 = 0o1000;
    let (mode, sticky) = (metadata.mode(), metadata.is_dir() && metadata.mode() & STICKY != 0);
    match () {
        () if ![0, own.uid()].contains(&metadata.uid()) => Some(format!("owned by user {}", metadata.uid())),
        () if sticky => None,
        () if mode & 0o002 != 0 => Some("writable by everybody".into()),
        () if mode & 0o020 != 0 && ![0, own.gid()].contains(&metadata.gid()) => Some(format!("writable by group {}", metadata.gid())),
        () => None,
    }
}
