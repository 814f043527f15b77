//! One pass over the bytes of a file, before anything of it is parsed: most files hold no word of any family and are done with here.

use super::words::{LONGEST, Word, Words};
use crate::elf::{Result, Source};

/// Bytes looked at in one piece; small enough for the processor's cache.
const CHUNK: usize = 1 << 17;

/// Words of one file at most; AMD's own runtimes have some thousands. What lies past them could decide, so more is an error.
const MOST: usize = 1 << 16;

/// Every word of a file with its offset, sorted, each once. More than [`MOST`] is an error.
pub(super) fn words(source: &Source, words: &Words<'_>) -> Result<Vec<(u64, Word)>> {
    let mut found = Vec::new();
    let mut buffer = Vec::new();
    let (mut done, len) = (0, source.len());
    while done < len {
        let before = done.min(LONGEST as u64) as usize;
        let own = (len - done).min(CHUNK as u64) as usize;
        let after = (len - done - own as u64).min(LONGEST as u64) as usize;
        buffer.resize(before + own + after, 0);
        let start = done - before as u64;
        source.read_into("file", start, &mut buffer)?;
        words.find(&buffer, before, before + own, &mut |at, word| found.push((start + at as u64, word)));
        done += own as u64;
        if found.len() > MOST {
            return Err(source.error(
                "file",
                Some(done),
                format!("more than {MOST} names of runtimes before this offset: no program, and not judged"),
            ));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}
