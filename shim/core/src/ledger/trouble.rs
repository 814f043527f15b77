//! Why there is no ledger: one reason each, with what to do about it.

use crate::sys::raw::Errno;
use crate::sys::text::Text;

/// A reason for which nothing can be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The path in `VROCM_LEDGER_PATH` is too long.
    NoPath,
    /// The program runs with more rights than its caller: a path from the environment is not trusted.
    Elevated,
    /// A directory, a pipe, a device.
    NotAFile,
    /// The file cannot be opened for reading and writing.
    Open(Errno),
    /// It cannot be created.
    Create(Errno),
    /// Shorter than a ledger: the bytes it has.
    Short(u64),
    /// Something else's file.
    Foreign,
    /// A ledger of another version.
    Version(u32),
    /// The first line is of this version, and wrong; or the counts behind it are.
    Damaged,
    /// The path leads to another file than when this process took its slot: somebody removed or replaced the ledger.
    Moved,
    /// It cannot be mapped.
    Map(Errno),
    /// It cannot be locked.
    Lock(Errno),
    /// The file system takes locks and nobody else sees them.
    LocksUnseen,
    /// As many live processes as the ledger has slots for.
    Full,
    /// As many cards as the ledger has entries for.
    CardsFull,
    /// Live processes of another container are in this file.
    OtherContainer,
    /// Somebody has held the table lock for seconds.
    Busy,
    /// The kernel has no memory for the process's own state.
    NoMemory,
}

impl Trouble {
    /// Appends the reason.
    pub fn show(self, text: &mut Text) {
        match self {
            Self::NoPath => text.str("the path in VROCM_LEDGER_PATH is too long"),
            Self::Elevated => text.str("the program runs with elevated rights and VROCM_LEDGER_PATH is not trusted"),
            Self::NotAFile => text.str("it is not a regular file"),
            Self::Open(error) => errno(text.str("it cannot be opened for reading and writing"), error),
            Self::Create(error) => errno(text.str("it cannot be created"), error),
            Self::Short(size) => text.str("it has ").dec(size).str(" bytes, too few for a ledger; it was left as it is"),
            Self::Foreign => text.str("it is not a ledger; it was left as it is"),
            Self::Version(version) => {
                text.str("it is a ledger of version ").dec(version.into()).str(", this library knows version 1; it was left as it is")
            }
            Self::Damaged => text.str("it is damaged; it was left as it is, remove it when no process uses it"),
            Self::Moved => text.str("it was removed or replaced while processes used it; they go on with the old one"),
            Self::Map(error) => errno(text.str("it cannot be mapped"), error),
            Self::Lock(error) => errno(text.str("it cannot be locked"), error),
            Self::LocksUnseen => text.str("its file system does not show locks to other processes; choose another place by VROCM_LEDGER_PATH"),
            Self::Full => text.str("4096 live processes use it, and it has no room for one more"),
            Self::CardsFull => text.str("it knows 64 other cards already"),
            Self::OtherContainer => text.str("processes of another container use it; give each container a path of its own by VROCM_LEDGER_PATH"),
            Self::Busy => text.str("another process has kept it locked for seconds; it is tried again at the next call"),
            Self::NoMemory => text.str("the kernel gives no memory for it"),
        };
    }
}

fn errno(text: &mut Text, error: Errno) -> &mut Text {
    text.str(" (").str(error.name());
    if error.name() == "errno" {
        text.str(" ").dec(error.0 as u64);
    }
    text.str(")")
}
