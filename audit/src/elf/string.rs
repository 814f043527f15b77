//! `DT_STRTAB`: names by offset.

use std::borrow::Cow;
use std::fmt::Write as _;

use object::elf;

use super::Elf;
use super::error::Result;

/// The dynamic string table.
#[derive(Debug, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    offset: u64,
}

impl Strings {
    /// The string at `position`, up to its NUL. Bytes that are not UTF-8 appear as `\xNN`, so that no two names become one.
    ///
    /// `field` and `field_offset` say which field of the file held the position.
    pub fn get(&self, image: &Elf, field: &str, field_offset: Option<u64>, position: u64) -> Result<Cow<'_, str>> {
        self.raw(image, field, field_offset, position).map(printable)
    }

    /// The same as the bytes that stand in the file.
    pub fn raw(&self, image: &Elf, field: &str, field_offset: Option<u64>, position: u64) -> Result<&[u8]> {
        let start = usize::try_from(position).ok().filter(|&start| start < self.bytes.len());
        let Some(rest) = start.map(|start| &self.bytes[start..]) else {
            let problem = format!("string offset {position:#x} is past the {} bytes of DT_STRTAB (DT_STRSZ)", self.bytes.len());
            return Err(image.error(field, field_offset, problem));
        };
        let Some(end) = memchr::memchr(0, rest) else {
            let problem = "the string has no end within DT_STRSZ".to_string();
            return Err(image.error(field, Some(self.offset + position), problem));
        };
        Ok(&rest[..end])
    }

    /// A meter for one reader's names.
    pub(super) fn meter(&self) -> Meter {
        Meter { left: self.bytes.len() as u64 * 8 + (1 << 16), table: self.bytes.len() }
    }
}

/// Counts the bytes of all names that one reader takes from the table.
///
/// Linkers let names share their ends, and several symbols one name, so the sum may pass the table's size, but not by much. Thousands of entries
/// that all name one string of a megabyte would cost gigabytes of copying and hashing.
pub(super) struct Meter {
    left: u64,
    table: usize,
}

impl Meter {
    /// Counts one name, an error once they add up to more than eight times the table.
    pub(super) fn count(&mut self, image: &Elf, field: &str, field_offset: u64, len: usize) -> Result<()> {
        if let Some(left) = self.left.checked_sub(len as u64) {
            self.left = left;
            return Ok(());
        }
        let problem = format!("the names up to here add up to over eight times the {} bytes of DT_STRTAB: they repeat it", self.table);
        Err(image.error(field, Some(field_offset), problem))
    }
}

/// Text for people and JSON: bytes that are not UTF-8 as `\xNN`.
pub(super) fn printable(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    Cow::Owned(text)
}

/// Reads the table that `DT_STRTAB` and `DT_STRSZ` describe.
pub(super) fn read(image: &Elf) -> Result<Strings> {
    let dynamic = &image.dynamic;
    let Some(address) = dynamic.value(elf::DT_STRTAB) else {
        return Ok(Strings::default());
    };
    let Some(size) = dynamic.value(elf::DT_STRSZ) else {
        return Err(image.error("DT_STRSZ", dynamic.offset(elf::DT_STRTAB), "DT_STRTAB without DT_STRSZ"));
    };
    let window = image.window("DT_STRTAB", address, size)?;
    Ok(Strings { bytes: window.bytes, offset: window.offset })
}
