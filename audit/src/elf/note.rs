//! Notes: the build-id, and the ISA level a file says it needs (`.note.gnu.property`).

use object::elf;
use object::endian::U32;
use object::pod;

use super::error::Result;
use super::{Elf, Endianness, segment_type};

/// Notes larger than this are not read: a build-id and a property take a few hundred bytes.
const MOST_BYTES: u64 = 1 << 16;

/// One note.
struct Note {
    owner: Vec<u8>,
    kind: u32,
    description: Vec<u8>,
}

/// `NT_GNU_BUILD_ID` as lower-case hex.
pub(super) fn build_id(image: &Elf) -> Result<Option<String>> {
    let found = read(image)?.into_iter().find(|note| note.owner == b"GNU" && note.kind == elf::NT_GNU_BUILD_ID.0);
    Ok(found.map(|note| note.description.iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// `GNU_PROPERTY_X86_ISA_1_NEEDED` as a bit set.
pub(super) fn isa_needed(image: &Elf) -> Result<Option<u32>> {
    const ISA_1_NEEDED: u32 = 0xc000_8002;
    let endian = image.header.endian;
    let align = image.header.word_size() as usize;
    for note in read(image)?.iter().filter(|note| note.owner == b"GNU" && note.kind == elf::NT_GNU_PROPERTY_TYPE_0.0) {
        let mut rest = note.description.as_slice();
        while let Ok((head, tail)) = pod::slice_from_bytes::<U32<Endianness>>(rest, 2) {
            let (kind, size) = (head[0].get(endian), head[1].get(endian) as usize);
            if kind == ISA_1_NEEDED
                && let Ok((value, _)) = pod::from_bytes::<U32<Endianness>>(tail)
            {
                return Ok(Some(value.get(endian)));
            }
            match tail.get(size.next_multiple_of(align)..) {
                Some(next) => rest = next,
                None => break,
            }
        }
    }
    Ok(None)
}

fn read(image: &Elf) -> Result<Vec<Note>> {
    let mut notes = Vec::new();
    for segment in image.segments.iter().filter(|segment| segment.kind == segment_type::NOTE && segment.file_size <= MOST_BYTES) {
        let bytes = image.bytes("PT_NOTE", segment.offset, segment.file_size)?;
        let align = if segment.align == 8 { 8 } else { 4 };
        let endian = image.header.endian;
        let mut rest = bytes.as_slice();
        while let Ok((head, tail)) = pod::slice_from_bytes::<U32<Endianness>>(rest, 3) {
            let [name_size, size, kind] = [0, 1, 2].map(|index: usize| head[index].get(endian));
            let name_size = name_size as usize;
            // Offsets of the parts are aligned from the start of the note, whose header is 12 bytes.
            let Some(description_start) = name_size.checked_add(12).map(|end| end.next_multiple_of(align) - 12) else { break };
            let Some(description_end) = description_start.checked_add(size as usize) else { break };
            let (Some(owner), Some(description)) = (tail.get(..name_size), tail.get(description_start..description_end)) else { break };
            let owner = owner.strip_suffix(b"\0").unwrap_or(owner).to_vec();
            notes.push(Note { owner, kind, description: description.to_vec() });
            match tail.get((description_end + 12).next_multiple_of(align) - 12..) {
                Some(next) => rest = next,
                None => break,
            }
        }
    }
    Ok(notes)
}
