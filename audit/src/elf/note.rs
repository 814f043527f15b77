//! Notes: the build-id, and the ISA level a file says it needs (`.note.gnu.property`).

use std::fmt::Write as _;

use object::elf;
use object::endian::U32;
use object::pod;

use super::error::Result;
use super::{Elf, Endianness, segment_type};

/// Notes in all that one file may have, in bytes: a build-id and a property take a few hundred, debuggers' notes some thousands.
const MOST_BYTES: u64 = 1 << 20;

/// `NT_GNU_BUILD_ID` as lower-case hex.
pub(super) fn build_id(image: &Elf) -> Result<Option<String>> {
    let hex = |id: &[u8]| {
        id.iter().fold(String::with_capacity(id.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    find(image, elf::NT_GNU_BUILD_ID, |id, _| Ok(Some(hex(id))))
}

/// `GNU_PROPERTY_X86_ISA_1_NEEDED` as a bit set.
pub(super) fn isa_needed(image: &Elf) -> Result<Option<u32>> {
    const ISA_1_NEEDED: u32 = 0xc000_8002;
    let endian = image.header.endian;
    let align = image.header.word_size() as usize;
    find(image, elf::NT_GNU_PROPERTY_TYPE_0, |properties, at| {
        let mut rest = properties;
        while let Ok((head, tail)) = pod::slice_from_bytes::<U32<Endianness>>(rest, 2) {
            let (kind, size) = (head[0].get(endian), head[1].get(endian) as usize);
            let Some(data) = tail.get(..size) else {
                let problem = format!("a property of {size} bytes, where the note has {} left", tail.len());
                return Err(image.error("pr_datasz", Some(at), problem));
            };
            if kind == ISA_1_NEEDED
                && let Ok((value, _)) = pod::from_bytes::<U32<Endianness>>(data)
            {
                return Ok(Some(value.get(endian)));
            }
            rest = tail.get(size.next_multiple_of(align)..).unwrap_or_default();
        }
        Ok(None)
    })
}

/// Gives the descriptions of all GNU notes of a type, with their offset in the file, to `read`, until it finds something.
fn find<T>(image: &Elf, kind: elf::NoteType, read: impl Fn(&[u8], u64) -> Result<Option<T>>) -> Result<Option<T>> {
    let endian = image.header.endian;
    let mut left = MOST_BYTES;
    for segment in image.segments.iter().filter(|segment| segment.kind == segment_type::NOTE) {
        let fail = |field: &str, at: u64, problem: String| image.error(field, Some(at), problem);
        left = left.checked_sub(segment.file_size).ok_or_else(|| {
            fail("PT_NOTE", segment.header_offset, format!("the notes take more than {MOST_BYTES} bytes (p_filesz {})", segment.file_size))
        })?;
        let bytes = image.bytes("PT_NOTE", segment.offset, segment.file_size)?;
        let align = if segment.align == 8 { 8 } else { 4 };
        let mut start = 0;
        // What is shorter than a header is padding.
        while let Ok((head, _)) = pod::slice_from_bytes::<U32<Endianness>>(bytes.get(start..).unwrap_or_default(), 3) {
            let at = segment.offset + start as u64;
            let [name_size, size, note_kind] = [0, 1, 2].map(|index: usize| head[index].get(endian));
            let name_start = start + 12;
            let name_end = name_start.saturating_add(name_size as usize);
            let Some(owner) = bytes.get(name_start..name_end) else {
                return Err(fail("n_namesz", at, format!("a name of {name_size} bytes leaves the segment's {}", bytes.len())));
            };
            let description_start = name_end.next_multiple_of(align);
            let description_end = description_start.saturating_add(size as usize);
            let description = match bytes.get(description_start..description_end) {
                Some(description) => description,
                // A note without a description may end before the padding of its name.
                None if size == 0 => &[],
                None => return Err(fail("n_descsz", at, format!("a description of {size} bytes leaves the segment's {}", bytes.len()))),
            };
            if owner == b"GNU\0"
                && note_kind == kind.0
                && let Some(found) = read(description, segment.offset + description_start as u64)?
            {
                return Ok(Some(found));
            }
            start = description_end.next_multiple_of(align);
        }
    }
    Ok(None)
}
