//! Program headers, and the way from an address to a place in the file: each address through its own `PT_LOAD`.

use std::ops::Range;

use object::Endianness;
use object::read::elf::{FileHeader, ProgramHeader as _};

use super::error::Result;
use super::header::{Header, by_class};
use super::source::Source;

/// `PT_LOAD` and the other segment types this crate looks at (gABI, GNU extensions).
pub mod segment_type {
    /// Mapped into memory.
    pub const LOAD: u32 = 1;
    /// The dynamic section.
    pub const DYNAMIC: u32 = 2;
    /// Path of the program interpreter.
    pub const INTERP: u32 = 3;
    /// Notes.
    pub const NOTE: u32 = 4;
    /// Thread-local storage template.
    pub const TLS: u32 = 7;
    /// `.eh_frame_hdr`.
    pub const GNU_EH_FRAME: u32 = 0x6474_e550;
    /// Stack flags.
    pub const GNU_STACK: u32 = 0x6474_e551;
    /// Read-only after relocation.
    pub const GNU_RELRO: u32 = 0x6474_e552;
    /// `.note.gnu.property`.
    pub const GNU_PROPERTY: u32 = 0x6474_e553;
}

/// One program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`: 1 executable, 2 writable, 4 readable.
    pub flags: u32,
    /// `p_offset`, bytes in the file.
    pub offset: u64,
    /// `p_vaddr`.
    pub address: u64,
    /// `p_filesz`, bytes.
    pub file_size: u64,
    /// `p_memsz`, bytes.
    pub memory_size: u64,
    /// `p_align`.
    pub align: u64,
    /// Where this header itself stands in the file.
    pub header_offset: u64,
}

impl Segment {
    /// True if the segment may be executed (`PF_X`).
    pub fn executable(&self) -> bool {
        self.flags & 1 != 0
    }

    /// True if the segment may be written (`PF_W`).
    pub fn writable(&self) -> bool {
        self.flags & 2 != 0
    }

    /// True for a `PT_LOAD` that takes any address space.
    pub(super) fn is_mapped(&self) -> bool {
        self.kind == segment_type::LOAD && self.memory_size.max(self.file_size) > 0
    }

    /// Why `next`, the `PT_LOAD` after this one in the table, cannot stand beside it. The gABI wants ascending addresses; loaders map whole
    /// pages one over the other, so that two segments in one page must show the same bytes of the file.
    fn conflict(&self, next: &Self) -> Option<&'static str> {
        let end = self.address + self.file_size;
        if next.address < self.address {
            return Some("lies below");
        }
        if next.address < end {
            return Some("overlaps");
        }
        let same_page = self.file_size > 0 && (end - 1) / PAGE == next.address / PAGE;
        let same_bytes = self.address.wrapping_sub(self.offset) == next.address.wrapping_sub(next.offset);
        (same_page && !same_bytes).then_some("puts other bytes of the file into the last page of")
    }

    /// Bytes of the file from `address` to the end of what this segment takes from the file; `None` if it holds no byte there.
    fn file_bytes_from(&self, address: u64) -> Option<(u64, u64)> {
        let skip = address.checked_sub(self.address)?;
        let left = self.file_size.checked_sub(skip).filter(|&left| left > 0)?;
        Some((self.offset + skip, left))
    }
}

/// The smallest page that a loader maps; the segments of a file never share one unless they show the same bytes in it.
const PAGE: u64 = 4096;

/// How often the segments may take the file's bytes in all. Linkers take each byte once; without a bound, a table of 65,535 headers would
/// make a small file stand for gigabytes of addresses.
const MOST_TAKEN: u64 = 4;

/// Reads all program headers and checks that what is loaded lies in the file and in the address space.
pub(super) fn read(source: &Source, header: &Header) -> Result<Vec<Segment>> {
    let segments = by_class!(header.class, read_table(source, header))?;
    let mut taken = 0_u64;
    let mut before: Option<(usize, Segment)> = None;
    for (index, &segment) in segments.iter().enumerate().filter(|(_, segment)| segment.is_mapped()) {
        let field = |name: &str| format!("PT_LOAD[{index}] {name}");
        let at = Some(segment.header_offset);
        if segment.offset.checked_add(segment.file_size).is_none_or(|end| end > source.len()) {
            let problem = format!(
                "the segment takes {} bytes from {:#x} of a file of {} bytes: the file is cut short, a debug-only file, or the header is wrong",
                segment.file_size,
                segment.offset,
                source.len()
            );
            return Err(source.error(&field("p_offset + p_filesz"), at, problem));
        }
        if segment.address.checked_add(segment.memory_size.max(segment.file_size)).is_none() {
            return Err(source.error(&field("p_vaddr + p_memsz"), at, "the segment leaves the address space"));
        }
        if segment.file_size > segment.memory_size {
            return Err(source.error(&field("p_filesz"), at, format!("{} is more than p_memsz ({})", segment.file_size, segment.memory_size)));
        }
        taken = taken.saturating_add(segment.file_size);
        if taken > source.len().saturating_mul(MOST_TAKEN) {
            let problem = format!("the segments take {taken} bytes from a file of {}: they repeat it", source.len());
            return Err(source.error(&field("p_filesz"), at, problem));
        }
        if let Some((earlier, problem)) = before.and_then(|(earlier, other)| Some((earlier, other.conflict(&segment)?))) {
            return Err(source.error(&field("p_vaddr"), at, format!("{problem} PT_LOAD[{earlier}]: what a loader sees there depends on the loader")));
        }
        before = Some((index, segment));
    }
    Ok(segments)
}

/// The parts of a file that are mapped when it is loaded, ascending, none twice; empty for an object file.
pub fn mapped(source: &Source) -> Result<Vec<Range<u64>>> {
    let header = super::header::read(source)?;
    let segments = read(source, &header)?;
    let mut parts: Vec<Range<u64>> =
        segments.iter().filter(|segment| segment.is_mapped()).map(|segment| segment.offset..segment.offset + segment.file_size).collect();
    parts.sort_by_key(|part| part.start);
    let mut apart: Vec<Range<u64>> = Vec::new();
    for part in parts {
        match apart.last_mut().filter(|last| part.start <= last.end) {
            Some(last) => last.end = last.end.max(part.end),
            None => apart.push(part),
        }
    }
    Ok(apart)
}

fn read_table<H: FileHeader<Endian = Endianness>>(source: &Source, header: &Header) -> Result<Vec<Segment>> {
    let entry = size_of::<H::ProgramHeader>() as u64;
    let table = source.read("e_phoff", header.program_headers_offset, entry * u64::from(header.program_header_count))?;
    let raw = object::pod::slice_from_all_bytes::<H::ProgramHeader>(&table).unwrap_or_default();
    let endian = header.endian;
    Ok(raw
        .iter()
        .enumerate()
        .map(|(index, raw)| Segment {
            kind: raw.p_type(endian).0,
            flags: raw.p_flags(endian).0,
            offset: raw.p_offset(endian).into(),
            address: raw.p_vaddr(endian).into(),
            file_size: raw.p_filesz(endian).into(),
            memory_size: raw.p_memsz(endian).into(),
            align: raw.p_align(endian).into(),
            header_offset: header.program_headers_offset + index as u64 * entry,
        })
        .collect())
}

/// Where `address` lies in the file, and how many bytes of the file follow it in its segment.
///
/// `loads` are the mapped segments alone; they ascend and do not overlap ([`read`]).
pub(super) fn locate(loads: &[Segment], address: u64) -> Option<(u64, u64)> {
    let after = loads.partition_point(|segment| segment.address <= address);
    loads.get(after.checked_sub(1)?)?.file_bytes_from(address)
}

#[cfg(test)]
mod tests {
    use super::{Segment, segment_type};

    fn load(address: u64, offset: u64, file_size: u64) -> Segment {
        Segment { kind: segment_type::LOAD, flags: 4, offset, address, file_size, memory_size: file_size, align: 4096, header_offset: 64 }
    }

    #[test]
    fn neighbours_share_a_page_only_if_it_shows_the_same_bytes() {
        let first = load(0x1000, 0x1000, 0x800);
        let whole_page = load(0x1000, 0x1000, 0x1000);
        for (before, next, conflict) in [
            (first, load(0xf00, 0xf00, 0x10), Some("lies below")),
            (first, load(0x17ff, 0x17ff, 0x10), Some("overlaps")),
            (first, load(0x1800, 0x1800, 0x10), None),
            (first, load(0x1900, 0x1900, 0x10), None),
            (first, load(0x1900, 0x2900, 0x10), Some("puts other bytes of the file into the last page of")),
            (first, load(0x2000, 0x5000, 0x10), None),
            (whole_page, load(0x2000, 0x9000, 0x10), None),
            // Without bytes of the file there is no last page.
            (load(0, 0, 0), load(0x10, 0x20, 0x10), None),
            (load(0x1800, 0x800, 0), load(0x1900, 0x1900, 0x10), None),
        ] {
            assert_eq!(before.conflict(&next), conflict, "{before:x?} {next:x?}");
        }
    }

    #[test]
    fn bytes_end_where_the_file_s_part_ends() {
        let part = load(0x1000, 0x3000, 0x800);
        assert_eq!(part.file_bytes_from(0x1000), Some((0x3000, 0x800)));
        assert_eq!(part.file_bytes_from(0x17ff), Some((0x37ff, 1)));
        assert_eq!((part.file_bytes_from(0x1800), part.file_bytes_from(0xfff)), (None, None));
        assert!(part.is_mapped() && !load(0x1000, 0x3000, 0).is_mapped());
    }
}
