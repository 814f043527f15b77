//! Runs of decoded code for their constants: which bytes to decode, on which machine, with the file's constant data at hand.

use std::cell::RefCell;
use std::collections::HashMap;

use super::constants::{self, Constant};
use crate::elf::{Elf, Result, segment_type};

/// `EM_X86_64` and `EM_AARCH64`, the machines whose code is read.
pub const X86_64: u16 = 62;
/// See [`X86_64`].
pub const AARCH64: u16 = 183;

/// Code decoded at most of one function; the largest looked at takes 67 kB.
const LARGEST_FUNCTION: u64 = 1 << 20;
/// Code decoded at most where all of it is, in bytes.
const MOST_CODE: u64 = 1 << 24;
/// Code decoded at once where function bounds do not matter.
const SLICE: u64 = 1 << 16;

/// Decodes code of one file and reports strings and numbers that it puts together.
pub struct Assembly<'a> {
    image: &'a Elf,
    tag: &'a [u8],
    /// Constant data, block by block: code refers to the same few again and again.
    blocks: RefCell<HashMap<u64, Vec<u8>>>,
}

impl<'a> Assembly<'a> {
    /// For strings that begin with `tag`.
    pub fn new(image: &'a Elf, tag: &'a [u8]) -> Self {
        Self { image, tag, blocks: RefCell::default() }
    }

    /// Bytes of the function between two addresses.
    pub fn code(&self, (start, end): (u64, u64)) -> Result<Vec<u8>> {
        let size = end.saturating_sub(start).min(LARGEST_FUNCTION);
        Ok(self.image.window_up_to("machine code", start, size)?.bytes)
    }

    /// Decodes the function between two addresses.
    pub fn function(&self, range: (u64, u64), see: &mut dyn FnMut(Constant)) -> Result<()> {
        let code = self.code(range)?;
        let constant = |address: u64, buffer: &mut [u8]| self.constant(address, buffer);
        match self.image.header.machine {
            X86_64 => constants::x86_64(&code, range.0, self.tag, &constant, see),
            AARCH64 => constants::aarch64(&code, range.0, self.tag, &constant, see),
            _ => {}
        }
        Ok(())
    }

    /// Decodes every executable segment from its start, up to [`MOST_CODE`] bytes in all.
    pub fn everything(&self, see: &mut dyn FnMut(Constant)) -> Result<()> {
        let mut left = MOST_CODE;
        for segment in self.image.segments.iter().filter(|segment| segment.kind == segment_type::LOAD && segment.executable()) {
            let size = segment.file_size.min(left);
            left -= size;
            let mut done = 0;
            while done < size {
                let start = segment.address + done;
                let slice = SLICE.min(size - done);
                self.function((start, start + slice), see)?;
                done += slice;
            }
        }
        Ok(())
    }

    /// Bytes that no running code changes: what a writable segment holds is no constant.
    fn constant(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        const SIZE: u64 = 1 << 12;
        const MOST: usize = 256;
        let loads = self.image.segments.iter().filter(|segment| segment.kind == segment_type::LOAD && !segment.writable());
        let segment = loads.into_iter().find(|segment| address.wrapping_sub(segment.address) < segment.file_size)?;
        let start = address - (address - segment.address) % SIZE;
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() == MOST {
            blocks.clear();
        }
        // A block that cannot be read is kept as an empty one, so that it is not tried again.
        let read = || self.image.window_up_to("constant of the code", start, SIZE + 16).map(|window| window.bytes).unwrap_or_default();
        let block = blocks.entry(start).or_insert_with(read);
        let skip = (address - start) as usize;
        buffer.copy_from_slice(block.get(skip..skip + buffer.len())?);
        Some(())
    }
}
