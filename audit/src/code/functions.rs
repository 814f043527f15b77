//! Function starts from `.eh_frame_hdr`, which stripped C++ libraries keep because exceptions need it.
//!
//! Format: Linux Standard Base, "Exception Frames". Linkers write one form, a table of pairs of 32-bit offsets from the header's
//! own address (encoding 0x3b), sorted by the first; any other form is read as "no bounds known".

use crate::elf::{Elf, Endianness, Result, segment_type};

/// Bytes before the table: version, three encodings, a pointer to `.eh_frame`, the number of entries.
const HEADER: u64 = 12;
/// An entry: where a function starts, where its frame description is.
const ENTRY: u64 = 8;
/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
const TABLE_ENCODING: u8 = 0x3b;
/// `DW_EH_PE_udata4`.
const COUNT_ENCODING: u8 = 0x03;

/// Function starts of a file in ascending order.
#[derive(Debug, Default)]
pub struct Functions {
    starts: Vec<u64>,
}

impl Functions {
    /// Bounds from a list of starts, in any order.
    pub fn from_starts(mut starts: Vec<u64>) -> Self {
        starts.sort_unstable();
        starts.dedup();
        Self { starts }
    }

    /// Number of functions.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True where no bounds are known.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The function that an address falls in, as start and start of the next one; `None` before the first.
    ///
    /// The table holds starts only, so padding after a function counts as its own, and the last one has no end (`u64::MAX`).
    pub fn around(&self, address: u64) -> Option<(u64, u64)> {
        let next = self.starts.partition_point(|&start| start <= address);
        let start = *self.starts.get(next.checked_sub(1)?)?;
        Some((start, self.starts.get(next).copied().unwrap_or(u64::MAX)))
    }

    /// Starts and ends of all functions, as [`Functions::around`] gives them.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.starts.iter().enumerate().map(|(index, &start)| (start, self.starts.get(index + 1).copied().unwrap_or(u64::MAX)))
    }
}

/// Reads the table. A file without `PT_GNU_EH_FRAME`, or with another encoding, has none; a table that leaves the file is an error.
pub fn read(image: &Elf) -> Result<Functions> {
    let Some(segment) = image.segment(segment_type::GNU_EH_FRAME) else { return Ok(Functions::default()) };
    if segment.file_size < HEADER {
        return Ok(Functions::default());
    }
    let header = image.window("PT_GNU_EH_FRAME", segment.address, HEADER)?;
    let [version, _, count_encoding, table_encoding] = [0, 1, 2, 3].map(|index: usize| header.bytes[index]);
    if version != 1 || count_encoding != COUNT_ENCODING || table_encoding != TABLE_ENCODING {
        return Ok(Functions::default());
    }
    let endian = image.header.endian;
    let count = u64::from(word(endian, &header.bytes[8..]));
    let table = image.window(".eh_frame_hdr (size by its count)", segment.address.wrapping_add(HEADER), count * ENTRY)?;
    let starts = table.bytes.chunks_exact(ENTRY as usize).map(|entry| {
        let offset = word(endian, entry).cast_signed();
        segment.address.wrapping_add_signed(offset.into())
    });
    Ok(Functions::from_starts(starts.collect()))
}

/// The 32-bit number at the start of `bytes`, which holds at least four.
fn word(endian: Endianness, bytes: &[u8]) -> u32 {
    let raw = [bytes[0], bytes[1], bytes[2], bytes[3]];
    match endian {
        Endianness::Little => u32::from_le_bytes(raw),
        Endianness::Big => u32::from_be_bytes(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::Functions;

    #[test]
    fn address_falls_in_the_last_function_that_starts_before_it() {
        let functions = Functions::from_starts(vec![0x30, 0x10, 0x10, 0x20]);
        assert_eq!(functions.len(), 3);
        assert_eq!(functions.around(0x0f), None);
        assert_eq!(functions.around(0x10), Some((0x10, 0x20)));
        assert_eq!(functions.around(0x2f), Some((0x20, 0x30)));
        assert_eq!(functions.around(0x99), Some((0x30, u64::MAX)));
        assert_eq!(functions.ranges().count(), 3);
    }
}
