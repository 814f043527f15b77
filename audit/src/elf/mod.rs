//! Facts of ONE file, no judgement. The only place that knows the ELF crate.
//!
//! Everything goes through the program headers, as the loader does: `PT_DYNAMIC`, `DT_SYMTAB`, the hash tables for the number
//! of symbols, `DT_VERSYM`, `DT_VERNEED`, `DT_VERDEF`. Section headers are not consulted: they may be gone, and they may lie.
//! Whatever cannot be read or contradicts itself is an [`ElfError`] with field and offset, never an empty list.
//!
//! Reading order: [`Elf::open`] (header, segments, dynamic), then one file per concept: [`source`], [`header`], [`segment`],
//! [`dynamic`], [`string`], [`hash`], [`version`], [`symbol`], [`relocation`], [`note`]. What a loader would do with the facts is in
//! [`crate::loader`].

pub mod debug;
pub mod dynamic;
pub mod error;
pub mod hash;
pub mod header;
pub mod note;
pub mod relocation;
pub mod segment;
pub mod source;
pub mod string;
pub mod symbol;
pub mod version;

use std::cell::OnceCell;
use std::path::Path;

pub use dynamic::{Dynamic, Linked, Names};
pub use error::{ElfError, Result};
pub use header::{Class, Header};
pub use object::Endianness;
pub use object::elf as constants;
pub use relocation::{Relocation, RelocationKind};
pub use segment::{Segment, segment_type};
pub use source::Source;
pub use symbol::{Binding, Kind, Place, Symbol, SymbolTable, Visibility};
pub use version::{Requirement, Versions};

/// One ELF file: header, segments and dynamic section are read at opening, everything else when it is asked for.
#[derive(Debug)]
pub struct Elf {
    source: Source,
    /// The ELF header.
    pub header: Header,
    /// All program headers, in file order.
    pub segments: Vec<Segment>,
    /// The dynamic section; empty for a static program.
    pub dynamic: Dynamic,
    /// The `PT_LOAD`s that take address space, ascending.
    loads: Vec<Segment>,
    strings: OnceCell<string::Strings>,
    relocations: OnceCell<Vec<Relocation>>,
}

/// Bytes of the file that the loader would map at an address.
#[derive(Debug)]
pub struct Window {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Address of the first byte.
    pub address: u64,
    /// Offset in the file of the first byte.
    pub offset: u64,
}

impl Elf {
    /// Opens a file and reads header, segments and dynamic section.
    pub fn open(path: &Path) -> Result<Self> {
        Self::parse(Source::open(path)?)
    }

    /// The same for bytes in memory under a name.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self> {
        Self::parse(Source::from_bytes(name, bytes))
    }

    /// The same for a source that has been opened, and perhaps looked through, before.
    pub fn parse(source: Source) -> Result<Self> {
        let header = header::read(&source)?;
        let segments = segment::read(&source, &header)?;
        let loads = segments.iter().filter(|segment| segment.is_mapped()).copied().collect();
        let mut image = Self { source, header, segments, dynamic: Dynamic::default(), loads, strings: OnceCell::new(), relocations: OnceCell::new() };
        image.dynamic = dynamic::read(&image)?;
        Ok(image)
    }

    /// The name of the file as given at opening.
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// Length of the file in bytes.
    pub fn len(&self) -> u64 {
        self.source.len()
    }

    /// True for an empty file, which never opens: here for completeness.
    pub fn is_empty(&self) -> bool {
        self.source.is_empty()
    }

    /// `DT_NEEDED`, `DT_SONAME`, `DT_RPATH`, `DT_RUNPATH` and the filter and audit tags.
    pub fn names(&self) -> Result<Names> {
        dynamic::read_names(self, self.strings()?)
    }

    /// The dynamic symbol table with version nodes, defined and undefined symbols alike.
    pub fn symbols(&self) -> Result<SymbolTable<'_>> {
        symbol::read(self)
    }

    /// `DT_VERNEED`: what this file asks of others, in file order.
    pub fn requirements(&self) -> Result<Vec<Requirement>> {
        Ok(version::read(self)?.requirements)
    }

    /// `DT_VERDEF` and `DT_VERNEED`.
    pub fn versions(&self) -> Result<Versions> {
        version::read(self)
    }

    /// Relocations that name a symbol, in table order: `DT_JMPREL`, `DT_RELA`, `DT_REL` and Android's packed form.
    ///
    /// Relative relocations are left out (see [`Elf::relative_relocations`]); a run of them announced by `DT_RELACOUNT` is not even read.
    ///
    /// Read once: the number of symbols depends on them, too.
    pub fn symbolic_relocations(&self) -> Result<&[Relocation]> {
        if self.relocations.get().is_none() {
            let _ = self.relocations.set(relocation::read_symbolic(self)?);
        }
        Ok(self.relocations.get_or_init(Vec::new))
    }

    /// Places in memory that hold an address of this file after loading: relative relocations and `DT_RELR`, as (place, address).
    pub fn relative_relocations(&self) -> Result<Vec<(u64, u64)>> {
        relocation::read_relative(self)
    }

    /// Hands every relocation of the file to `take`, in table order: those of [`Elf::symbolic_relocations`] and all others. An entry of `DT_RELR` is
    /// a relative one without addend.
    pub fn each_relocation(&self, take: &mut dyn FnMut(Relocation)) -> Result<()> {
        relocation::read_each(self, take)
    }

    /// The GNU build-id as lower-case hex.
    pub fn build_id(&self) -> Result<Option<String>> {
        note::build_id(self)
    }

    /// `GNU_PROPERTY_X86_ISA_1_NEEDED` as a bit set: 1 baseline, 2 v2, 4 v3, 8 v4.
    pub fn isa_needed(&self) -> Result<Option<u32>> {
        note::isa_needed(self)
    }

    /// The program interpreter, `PT_INTERP`.
    pub fn interpreter(&self) -> Result<Option<String>> {
        let Some(segment) = self.segment(segment_type::INTERP) else { return Ok(None) };
        if segment.file_size == 0 || segment.file_size > 4096 {
            return Err(self.error("PT_INTERP", Some(segment.header_offset), format!("a path of {} bytes", segment.file_size)));
        }
        let bytes = self.source.read("PT_INTERP", segment.offset, segment.file_size)?;
        let Some(end) = memchr::memchr(0, &bytes) else {
            return Err(self.error("PT_INTERP", Some(segment.offset), "the path has no end within p_filesz"));
        };
        Ok(Some(string::printable(&bytes[..end]).into_owned()))
    }

    /// The first segment of a type (`segment_type`).
    pub fn segment(&self, kind: u32) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind)
    }

    /// Exactly `len` bytes at an address, from the file.
    pub fn window(&self, field: &str, address: u64, len: u64) -> Result<Window> {
        if len == 0 {
            return Ok(Window { bytes: Vec::new(), address, offset: 0 });
        }
        match self.locate(address) {
            Some((offset, left)) if len <= left => Ok(Window { bytes: self.source.read(field, offset, len)?, address, offset }),
            Some((offset, left)) => {
                let problem = format!("{len} bytes at address {address:#x}, but only {left} are left in the segment's part of the file");
                Err(self.error(field, Some(offset), problem))
            }
            None => Err(self.error(field, None, format!("address {address:#x} is in no PT_LOAD's part of the file"))),
        }
    }

    /// Up to `most` bytes at an address; fewer where the segment's part of the file ends before.
    pub fn window_up_to(&self, field: &str, address: u64, most: u64) -> Result<Window> {
        match self.locate(address) {
            Some((offset, left)) => Ok(Window { bytes: self.source.read(field, offset, most.min(left))?, address, offset }),
            None => Err(self.error(field, None, format!("address {address:#x} is in no PT_LOAD's part of the file"))),
        }
    }

    /// Bytes by offset in the file, for segments whose contents are not loaded.
    pub fn bytes(&self, field: &str, offset: u64, len: u64) -> Result<Vec<u8>> {
        self.source.read(field, offset, len)
    }

    /// The same into a buffer of the caller, for passes over much of a file.
    pub fn bytes_into(&self, field: &str, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_into(field, offset, buffer)
    }

    /// An error about this file.
    pub fn error(&self, field: &str, offset: Option<u64>, problem: impl Into<String>) -> ElfError {
        self.source.error(field, offset, problem)
    }

    /// Where an address lies in the file, and how many bytes of the file follow it in its segment; `None` for what comes from no file.
    pub(crate) fn locate(&self, address: u64) -> Option<(u64, u64)> {
        segment::locate(&self.loads, address)
    }

    fn strings(&self) -> Result<&string::Strings> {
        if self.strings.get().is_none() {
            let read = string::read(self)?;
            let _ = self.strings.set(read);
        }
        Ok(self.strings.get_or_init(string::Strings::default))
    }
}
