//! Which mutant is on in this process: the number in a file, read once. With the word `note` there, every switch that is met is written into another.

use std::io::Write;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const UNASKED: u32 = u32::MAX;
const NOTING: u32 = u32::MAX - 1;

static ACTIVE: AtomicU32 = AtomicU32::new(UNASKED);
static MET: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// The number of the mutant that is on; 0 for none.
#[inline]
pub fn at(site: u32) -> u32 {
    let active = ACTIVE.load(Relaxed);
    if active < NOTING { active } else { ask(site) }
}

#[cold]
fn ask(site: u32) -> u32 {
    if ACTIVE.load(Relaxed) == UNASKED {
        let text = std::fs::read_to_string("{STATE}/active").unwrap_or_default();
        ACTIVE.store(if text.trim() == "note" { NOTING } else { text.trim().parse().unwrap_or(0) }, Relaxed);
    }
    let active = ACTIVE.load(Relaxed);
    if active != NOTING {
        return active;
    }
    let bit = 1 << (site % 64);
    if MET[site as usize / 64].fetch_or(bit, Relaxed) & bit == 0
        && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open("{STATE}/met")
    {
        let _ = file.write_all(format!("{site}\n").as_bytes());
    }
    0
}
