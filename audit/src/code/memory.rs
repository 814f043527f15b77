//! What a file's memory holds after loading: constant bytes, and the places that relocations fill.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::elf::{Elf, RelocationKind, Result, SymbolTable, segment_type};

/// What a relocation puts into a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filled {
    /// An address of this file.
    Address(u64),
    /// The address of a dynamic symbol, by its index in `DT_SYMTAB`, wherever it is found.
    Symbol(u32),
}

/// Read access to constants and relocated places of one file.
#[derive(Debug)]
pub struct Memory<'a> {
    image: &'a Elf,
    /// Sorted by place.
    places: Vec<(u64, Filled)>,
    /// Constant data, block by block: code refers to the same few again and again. A block that cannot be read is an empty one.
    blocks: RefCell<HashMap<u64, Vec<u8>>>,
}

/// Bytes of a block of constants: a page, which two segments share only if they show the same bytes in it.
const BLOCK: u64 = 1 << 12;
/// Blocks kept at most.
const MOST_BLOCKS: usize = 2048;

impl<'a> Memory<'a> {
    /// Reads the relocations. Data of this file that is bound by name counts as its address: another file may preempt it, and then makes the same objects.
    pub fn read(image: &'a Elf, symbols: &SymbolTable<'_>) -> Result<Self> {
        let mut places: Vec<(u64, Filled)> =
            image.relative_relocations()?.into_iter().map(|(place, address)| (place, Filled::Address(address))).collect();
        let by_symbol = |kind| matches!(kind, RelocationKind::JumpSlot | RelocationKind::GlobDat | RelocationKind::Absolute);
        let symbolic = image.symbolic_relocations()?.iter().filter(|relocation| by_symbol(relocation.kind));
        places.extend(symbolic.map(|relocation| {
            let own = symbols.get(relocation.symbol).filter(|symbol| symbol.is_export());
            let address = match relocation.kind {
                RelocationKind::Absolute => own.map(|symbol| symbol.value.wrapping_add_signed(relocation.addend)),
                RelocationKind::GlobDat => own.filter(|symbol| !symbol.is_function()).map(|symbol| symbol.value),
                _ => None,
            };
            (relocation.place, address.map_or(Filled::Symbol(relocation.symbol), Filled::Address))
        }));
        places.sort_unstable();
        places.dedup_by_key(|&mut (place, _)| place);
        Ok(Self { image, places, blocks: RefCell::default() })
    }

    /// What a relocation puts into a place.
    pub fn filled(&self, place: u64) -> Option<Filled> {
        filled(&self.places, place)
    }

    /// All relocated places, ascending.
    pub fn places(&self) -> &[(u64, Filled)] {
        &self.places
    }

    /// True if the memory at an address holds exactly this text and a NUL after it, in a segment that no code may write.
    pub fn is_text(&self, address: u64, text: &str) -> bool {
        let mut at = address;
        text.bytes().chain([0]).all(|wanted| {
            let found = self.byte(at);
            at = at.wrapping_add(1);
            found == Some(wanted)
        })
    }

    /// The printable text up to a NUL at an address of a segment that no code may write, if it is not longer than `most` bytes.
    pub fn text(&self, address: u64, most: usize) -> Option<String> {
        let mut text = String::new();
        for at in address..address.saturating_add(most as u64) {
            match self.byte(at)? {
                0 => return Some(text),
                byte if byte.is_ascii_graphic() || byte == b' ' => text.push(byte.into()),
                _ => return None,
            }
        }
        None
    }

    /// Eight bytes, in a segment that no code may write, where no relocation fills them.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        for (byte, at) in bytes.iter_mut().zip(address..) {
            *byte = self.byte(at)?;
        }
        self.filled(address).is_none().then(|| u64::from_le_bytes(bytes))
    }

    fn byte(&self, address: u64) -> Option<u8> {
        let start = address - address % BLOCK;
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() == MOST_BLOCKS {
            blocks.clear();
        }
        let block = blocks.entry(start).or_insert_with(|| self.block(start).unwrap_or_default());
        block.get((address - start) as usize).copied()
    }

    /// The constant bytes of a block; what lies before the segment's first byte is zero.
    fn block(&self, start: u64) -> Option<Vec<u8>> {
        let loads = self.image.segments.iter().filter(|segment| segment.kind == segment_type::LOAD && !segment.writable());
        let inside = |address: u64, from: u64, size: u64| address.wrapping_sub(from) < size;
        let segment = loads
            .into_iter()
            .find(|segment| inside(start, segment.address, segment.file_size) || inside(segment.address, start, BLOCK) && segment.file_size > 0)?;
        let skip = segment.address.saturating_sub(start);
        let window = self.image.window_up_to("constant of the code", start + skip, BLOCK - skip).ok()?;
        let mut bytes = vec![0; skip as usize];
        bytes.extend(window.bytes);
        Some(bytes)
    }
}

/// What a relocation of a list, ascending by place, puts into a place.
pub(super) fn filled(places: &[(u64, Filled)], place: u64) -> Option<Filled> {
    places.binary_search_by_key(&place, |&(place, _)| place).ok().map(|at| places[at].1)
}
