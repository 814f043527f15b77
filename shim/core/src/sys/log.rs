//! Lines on standard error, each in one `write`, so that those of several threads do not mix.
//!
//! Level 0 says nothing, level 1 what an operator has to know (a refusal and its reason, what goes past the quota), level 2 everything.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use super::raw;
use super::text::Text;

/// What an operator has to know.
pub const NOTICE: u8 = 1;
/// Everything.
pub const TRACE: u8 = 2;

static LEVEL: AtomicU8 = AtomicU8::new(NOTICE);

/// Sets the level: 0, 1 or 2.
pub fn set_level(level: u8) {
    LEVEL.store(level, Ordering::Relaxed);
}

/// True if lines of `level` are printed.
pub fn enabled(level: u8) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level
}

/// Prints one line, if `level` is enabled.
pub fn line(level: u8, fill: impl FnOnce(&mut Text)) {
    if !enabled(level) {
        return;
    }
    let mut text = Text::new();
    text.str("libvrocm[").dec(raw::getpid().into()).str("]: ");
    fill(&mut text);
    raw::write_error(text.end());
}

/// Counts how often something was said, so that it is said once (or a few times) per process.
pub struct Said(AtomicU32);

impl Said {
    /// Not said yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// True the first `times` times.
    pub fn first(&self, times: u32) -> bool {
        self.0.load(Ordering::Relaxed) < times && self.0.fetch_add(1, Ordering::Relaxed) < times
    }

    /// True if it was said at all.
    pub fn is_said(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

impl Default for Said {
    fn default() -> Self {
        Self::new()
    }
}
