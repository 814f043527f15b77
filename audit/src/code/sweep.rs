//! The loaded bytes of a file, in chunks through one buffer: a pass over 27 MB keeps 64 KiB in memory.

use crate::elf::{Elf, Result, Segment, segment_type};

/// Bytes handed out at once: few enough that the allocator has them at hand and a processor's cache holds them.
const CHUNK: usize = 1 << 16;
/// Bytes of context before and after the part of a chunk that belongs to it. No pattern looked for is longer.
pub const CONTEXT: usize = 128;

/// Part of a segment, with context around it.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// All bytes, context included.
    pub bytes: &'a [u8],
    /// Address of the first of them.
    pub address: u64,
    /// What starts here or later belongs to this chunk: bytes before are context (none at the start of a segment).
    pub from: usize,
    /// What starts here or later belongs to the next chunk: bytes after are context (none at the end of a segment).
    pub to: usize,
}

/// Passes over what the file holds of each `PT_LOAD` that `wanted` accepts, in the order of the program headers.
///
/// Segments that together take more bytes than twice the file's size overlap on purpose: an error, so that no file is read for ever.
pub fn segments(image: &Elf, wanted: impl Fn(&Segment) -> bool, mut see: impl FnMut(Chunk<'_>)) -> Result<()> {
    let loads = bounded(image, wanted)?;
    let mut buffer = Vec::with_capacity(CHUNK + 2 * CONTEXT);
    for segment in loads {
        let mut done = 0_u64;
        while done < segment.file_size {
            let before = done.min(CONTEXT as u64) as usize;
            let own = (segment.file_size - done).min(CHUNK as u64) as usize;
            let after = (segment.file_size - done - own as u64).min(CONTEXT as u64) as usize;
            buffer.resize(before + own + after, 0);
            let start = done - before as u64;
            image.bytes_into("PT_LOAD", segment.offset + start, &mut buffer)?;
            see(Chunk { bytes: &buffer, address: segment.address + start, from: before, to: before + own });
            done += own as u64;
        }
    }
    Ok(())
}

/// The `PT_LOAD`s that `wanted` accepts, or the error that they take more than twice the file.
pub(super) fn bounded(image: &Elf, wanted: impl Fn(&Segment) -> bool) -> Result<Vec<&Segment>> {
    let loads: Vec<&Segment> = image.segments.iter().filter(|segment| segment.kind == segment_type::LOAD && wanted(segment)).collect();
    let total = loads.iter().fold(0_u64, |total, segment| total.saturating_add(segment.file_size));
    if total > image.len().saturating_mul(2) {
        let problem = format!("the PT_LOAD segments take {total} bytes from a file of {} bytes: they overlap", image.len());
        return Err(image.error("p_filesz", loads.first().map(|segment| segment.header_offset), problem));
    }
    Ok(loads)
}
