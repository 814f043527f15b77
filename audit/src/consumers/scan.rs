//! One pass over the bytes of a file, before anything of it is parsed: most files hold no word of any family and are done with here.

use std::ops::Range;

use super::words::{LONGEST, Word, Words};
use crate::elf::{Result, Source, segment};

/// Bytes looked at in one piece; small enough for the processor's cache.
const CHUNK: u64 = 1 << 17;

/// Words of one file at most; AMD's own runtimes have some thousands. What lies past them could decide, so more is an error.
const MOST: usize = 1 << 16;

/// Every word in the bytes of a file that are mapped when it is loaded, with its offset, sorted, each once. A file whose headers contradict themselves is
/// looked through from end to end. More than [`MOST`] is an error.
pub(super) fn words(source: &Source, words: &Words<'_>) -> Result<Vec<(u64, Word)>> {
    let (mut found, mut buffer) = (Vec::new(), Vec::new());
    let ranges = segment::mapped(source).unwrap_or_else(|_| std::iter::once(0..source.len()).collect());
    for part in ranges.into_iter().flat_map(chunks) {
        // A word that begins in this part may reach into the next, and the string around it into the one before.
        let start = part.start.saturating_sub(LONGEST as u64);
        let end = (part.end + LONGEST as u64).min(source.len());
        buffer.resize((end - start) as usize, 0);
        source.read_into("file", start, &mut buffer)?;
        let own = (part.start - start) as usize..(part.end - start) as usize;
        words.find(&buffer, own, &mut |at, word| found.push((start + at as u64, word)));
        if found.len() > MOST {
            return Err(source.error(
                "file",
                Some(part.end),
                format!("more than {MOST} names of runtimes before this offset: no program, and not judged"),
            ));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn chunks(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    (range.start..range.end).step_by(CHUNK as usize).map(move |start| start..(start + CHUNK).min(range.end))
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, words};
    use crate::consumers::words::{Word, Words};
    use crate::elf::Source;
    use crate::manifest::Family;

    #[test]
    fn a_word_is_found_once_wherever_a_piece_ends() {
        let families = Family::embedded().expect("families");
        let searched = Words::new(&families);
        let text = b"\0hipMalloc\0";
        for place in (0..=text.len()).map(|back| CHUNK as usize - back).chain([0, 2 * CHUNK as usize - text.len()]) {
            let mut bytes = vec![0xff; 2 * CHUNK as usize];
            bytes[place..place + text.len()].copy_from_slice(text);
            let found = words(&Source::from_bytes("made", bytes), &searched).expect("read");
            let [(at, Word::Name { name, .. })] = found.as_slice() else { panic!("{place}: {found:?}") };
            assert_eq!((*at as usize, name.as_str()), (place + 1, "hipMalloc"));
        }
    }
}
