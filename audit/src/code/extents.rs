//! Where functions begin and end, from the frame descriptions of `.eh_frame`: each covers one function, or one part that the compiler split off.
//!
//! [`super::functions`] reads the table of starts alone, which is enough to say where an address lies; the calls of a function need its end.

use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, RunTimeEndian, UnwindSection};

use crate::elf::{Elf, Endianness, Result, segment_type};

/// Start and end of every function, ascending and without overlap; empty where the file has no frame descriptions.
///
/// Descriptions that gimli cannot read are an error with the offset; those of no length are left out.
pub fn read(image: &Elf) -> Result<Vec<(u64, u64)>> {
    let Some(header) = image.segment(segment_type::GNU_EH_FRAME) else { return Ok(Vec::new()) };
    let endian = if image.header.endian == Endianness::Little { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let bytes = image.window("PT_GNU_EH_FRAME", header.address, header.file_size)?.bytes;
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.address);
    let broken = |what: &str, error: gimli::Error| image.error(what, Some(header.offset), error.to_string());
    let parsed = EhFrameHdr::new(&bytes, endian).parse(&bases, 8).map_err(|error| broken("PT_GNU_EH_FRAME", error))?;
    let gimli::Pointer::Direct(start) = parsed.eh_frame_ptr() else { return Ok(Vec::new()) };
    // The section has no length of its own: a terminator ends it.
    let section = image.window_up_to(".eh_frame", start, u64::MAX)?;
    let bases = bases.set_eh_frame(start);
    let frames = EhFrame::from(EndianSlice::new(&section.bytes, endian));
    let mut entries = frames.entries(&bases);
    let mut found = Vec::new();
    while let Some(entry) = entries.next().map_err(|error| image.error(".eh_frame", Some(section.offset), error.to_string()))? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let frame = partial.parse(EhFrame::cie_from_offset).map_err(|error| image.error(".eh_frame", Some(section.offset), error.to_string()))?;
        let (start, end) = (frame.initial_address(), frame.initial_address().saturating_add(frame.len()));
        if start < end {
            found.push((start, end));
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|&mut (start, _)| start);
    for at in 1..found.len() {
        found[at - 1].1 = found[at - 1].1.min(found[at].0);
    }
    Ok(found)
}
