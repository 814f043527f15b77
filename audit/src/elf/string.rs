//! `DT_STRTAB`: names by offset.

use std::borrow::Cow;

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

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True where the file has no string table.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Text for people and JSON: bytes that are not UTF-8 as `\xNN`.
pub(super) fn printable(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                for byte in chunk.invalid() {
                    text.push_str(&format!("\\x{byte:02x}"));
                }
            }
            Cow::Owned(text)
        }
    }
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
