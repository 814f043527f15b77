//! Makes a stub of a shared library: soname, needed, dynamic symbols with their versions, hash table, symbolic relocations and build-id are kept byte
//! for byte, code and data are dropped. What is left of 27 MB is some 70 kB, and an audit of linkage or coverage cannot tell the two apart.
//!
//! `cargo run -p vrocm-tests --bin make-stub -- LIBRARY OUT` (64-bit little-endian)

use std::path::Path;
use std::process::ExitCode;

use vrocm_audit::elf::{Elf, ElfError, constants as elf, segment_type};

const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const DYNAMIC_ENTRY: u64 = 16;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, out] = arguments.as_slice() else {
        eprintln!("usage: make-stub LIBRARY OUT");
        return ExitCode::from(2);
    };
    match make(Path::new(library)).map_err(|error| error.to_string()).and_then(|bytes| std::fs::write(out, bytes).map_err(|error| error.to_string()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("make-stub: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Tables and the entries of the new dynamic section that point to them.
#[derive(Default)]
struct Stub {
    bytes: Vec<u8>,
    entries: Vec<(elf::DynamicTag, u64)>,
}

impl Stub {
    /// Appends a table; its address is its offset in the file.
    fn put(&mut self, table: &[u8]) -> u64 {
        let at = (self.bytes.len() as u64).next_multiple_of(8);
        self.bytes.resize(at as usize, 0);
        self.bytes.extend(table);
        at
    }

    fn put_table(&mut self, tag: elf::DynamicTag, table: &[u8]) {
        let at = self.put(table);
        self.entries.push((tag, at));
    }
}

fn make(path: &Path) -> Result<Vec<u8>, ElfError> {
    let image = Elf::open(path)?;
    let table = image.symbols()?;
    let count = table.symbols.len() as u64 + 1;
    let value = |tag| image.dynamic.value(tag);
    let bytes = |name: &str, tag, size| -> Result<Option<Vec<u8>>, ElfError> {
        value(tag).map(|address| image.window(name, address, size).map(|window| window.bytes)).transpose()
    };
    let mut stub = Stub { bytes: vec![0; (HEADER + 3 * PROGRAM_HEADER) as usize], ..Stub::default() };

    // The strings first, then what refers to them.
    let strings_size = value(elf::DT_STRSZ).unwrap_or(0);
    if let Some(strings) = bytes("DT_STRTAB", elf::DT_STRTAB, strings_size)? {
        stub.put_table(elf::DT_STRTAB, &strings);
        stub.entries.push((elf::DT_STRSZ, strings_size));
    }
    if let Some(symbols) = bytes("DT_SYMTAB", elf::DT_SYMTAB, count * 24)? {
        stub.put_table(elf::DT_SYMTAB, &symbols);
        stub.entries.push((elf::DT_SYMENT, 24));
    }
    if let Some(versions) = bytes("DT_VERSYM", elf::DT_VERSYM, count * 2)? {
        stub.put_table(elf::DT_VERSYM, &versions);
    }
    for (name, tag, count_tag) in [("DT_VERNEED", elf::DT_VERNEED, elf::DT_VERNEEDNUM), ("DT_VERDEF", elf::DT_VERDEF, elf::DT_VERDEFNUM)] {
        if let (Some(address), Some(entries)) = (value(tag), value(count_tag)) {
            // The chains end before the next table; a little too much does no harm.
            let chain = image.window_up_to(name, address, 4096)?;
            stub.put_table(tag, &chain.bytes);
            stub.entries.push((count_tag, entries));
        }
    }
    if let Some(address) = value(elf::DT_GNU_HASH) {
        let head = image.window("DT_GNU_HASH", address, 16)?.bytes;
        let word = |at: usize| u64::from(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        let (buckets, first, filters) = (word(0), word(4), word(8));
        let size = 16 + filters * 8 + buckets * 4 + count.saturating_sub(first) * 4;
        stub.put_table(elf::DT_GNU_HASH, &image.window("DT_GNU_HASH", address, size)?.bytes);
    }
    put_relocations(&image, &mut stub)?;
    let note = image.segments.iter().find(|segment| segment.kind == segment_type::NOTE && segment.align == 4);
    let note = note.map(|note| image.bytes("PT_NOTE", note.offset, note.file_size).map(|bytes| (stub.put(&bytes), note.file_size))).transpose()?;
    let named = [elf::DT_NEEDED, elf::DT_SONAME, elf::DT_RPATH, elf::DT_RUNPATH, elf::DT_FLAGS, elf::DT_FLAGS_1];
    let dynamic = put_dynamic(&image, &mut stub, &named)?;
    Ok(finish(stub.bytes, &image, dynamic, note))
}

/// Relocations that name a symbol, in their tables; relative ones name none and are dropped.
fn put_relocations(image: &Elf, stub: &mut Stub) -> Result<(), ElfError> {
    let tables = [("DT_RELA", elf::DT_RELA, elf::DT_RELASZ, elf::DT_RELASZ), ("DT_JMPREL", elf::DT_JMPREL, elf::DT_PLTRELSZ, elf::DT_PLTRELSZ)];
    for (name, tag, size_tag, new_size_tag) in tables {
        let (Some(address), Some(size)) = (image.dynamic.value(tag), image.dynamic.value(size_tag)) else { continue };
        let raw = image.window(name, address, size)?.bytes;
        let kept: Vec<u8> = raw.chunks_exact(24).filter(|entry| entry[12..16] != [0; 4]).flatten().copied().collect();
        stub.put_table(tag, &kept);
        stub.entries.push((new_size_tag, kept.len() as u64));
    }
    if image.dynamic.has(elf::DT_RELA) {
        stub.entries.push((elf::DT_RELAENT, 24));
    }
    if image.dynamic.has(elf::DT_JMPREL) {
        stub.entries.push((elf::DT_PLTREL, elf::DT_RELA.0.cast_unsigned()));
    }
    Ok(())
}

/// The dynamic section: entries that hold a string or flags as they stand, then those of the tables.
fn put_dynamic(image: &Elf, stub: &mut Stub, named: &[elf::DynamicTag]) -> Result<(u64, u64), ElfError> {
    let Some(segment) = image.segment(segment_type::DYNAMIC) else { return Err(image.error("PT_DYNAMIC", None, "has no dynamic section")) };
    let raw = image.window("PT_DYNAMIC", segment.address, segment.file_size)?.bytes;
    let mut section = Vec::new();
    for entry in raw.chunks_exact(16) {
        let tag = i64::from_le_bytes(entry[..8].try_into().unwrap_or_default());
        if named.iter().any(|kept| kept.0 == tag) {
            section.extend(entry);
        }
    }
    for (tag, value) in &stub.entries {
        section.extend(tag.0.to_le_bytes());
        section.extend(value.to_le_bytes());
    }
    section.extend([0; DYNAMIC_ENTRY as usize]);
    let size = section.len() as u64;
    Ok((stub.put(&section), size))
}

/// Writes the ELF header and the program headers: all of the file at its own offsets, the dynamic section, the build-id.
fn finish(mut bytes: Vec<u8>, image: &Elf, dynamic: (u64, u64), note: Option<(u64, u64)>) -> Vec<u8> {
    let whole = bytes.len() as u64;
    let mut headers = vec![(segment_type::LOAD, 0, whole, 0x1000), (segment_type::DYNAMIC, dynamic.0, dynamic.1, 8)];
    headers.extend(note.map(|(at, size)| (segment_type::NOTE, at, size, 4)));
    let mut head = Vec::new();
    head.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    head.extend(3_u16.to_le_bytes());
    head.extend(image.header.machine.to_le_bytes());
    head.extend(1_u32.to_le_bytes());
    head.extend(0_u64.to_le_bytes());
    head.extend(HEADER.to_le_bytes());
    head.extend(0_u64.to_le_bytes());
    head.extend(0_u32.to_le_bytes());
    for field in [HEADER, PROGRAM_HEADER, headers.len() as u64, 64, 0, 0] {
        head.extend((field as u16).to_le_bytes());
    }
    for (kind, at, size, align) in headers {
        head.extend(kind.to_le_bytes());
        head.extend(6_u32.to_le_bytes());
        for field in [at, at, at, size, size, align] {
            head.extend(field.to_le_bytes());
        }
    }
    bytes[..head.len()].copy_from_slice(&head);
    bytes
}
