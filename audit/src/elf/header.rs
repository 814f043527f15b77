//! `e_ident` and the ELF header: class, byte order, type, machine. What is no ELF file is named for what it is.

use object::Endianness;
use object::elf;
use object::read::elf::FileHeader;

use super::error::Result;
use super::source::Source;

/// Word size of the file, `e_ident[EI_CLASS]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// ELFCLASS32.
    Elf32,
    /// ELFCLASS64.
    Elf64,
}

/// The ELF header, byte order resolved.
#[derive(Debug, Clone)]
pub struct Header {
    /// Word size.
    pub class: Class,
    /// Byte order of every field.
    pub endian: Endianness,
    /// `e_ident[EI_OSABI]`.
    pub os_abi: u8,
    /// `e_ident[EI_ABIVERSION]`.
    pub abi_version: u8,
    /// `e_type`: 2 EXEC, 3 DYN.
    pub file_type: u16,
    /// `e_machine`: 62 x86-64, 183 `AArch64`.
    pub machine: u16,
    /// `e_entry`.
    pub entry: u64,
    /// `e_phoff`, bytes.
    pub program_headers_offset: u64,
    /// `e_phnum`.
    pub program_header_count: u16,
    /// `e_shoff`; 0 where the section headers are gone.
    pub section_headers_offset: u64,
    /// `e_shnum`.
    pub section_header_count: u16,
}

impl Header {
    /// The machine's short name as the tools of the field print it (`x86_64`, `aarch64`), or `machine 224`.
    pub fn machine_name(&self) -> String {
        let name = match elf::Machine(self.machine) {
            elf::EM_X86_64 => "x86_64",
            elf::EM_AARCH64 => "aarch64",
            elf::EM_386 => "i386",
            elf::EM_ARM => "arm",
            elf::EM_PPC64 => "ppc64",
            elf::EM_RISCV => "riscv",
            elf::EM_S390 => "s390x",
            elf::EM_LOONGARCH => "loongarch64",
            elf::EM_AMDGPU => "amdgpu",
            elf::EM_MIPS => "mips",
            elf::EM_PPC => "ppc",
            elf::EM_SPARCV9 => "sparc64",
            other => return format!("machine {}", other.0),
        };
        name.into()
    }

    /// Bytes of an address: 4 or 8.
    pub fn word_size(&self) -> u64 {
        match self.class {
            Class::Elf32 => 4,
            Class::Elf64 => 8,
        }
    }
}

/// Calls a reader that is generic over object's `FileHeader` with the type that fits the class.
macro_rules! by_class {
    ($class:expr, $function:ident($($argument:expr),* $(,)?)) => {
        match $class {
            $crate::elf::header::Class::Elf32 => $function::<object::elf::FileHeader32<object::Endianness>>($($argument),*),
            $crate::elf::header::Class::Elf64 => $function::<object::elf::FileHeader64<object::Endianness>>($($argument),*),
        }
    };
}
pub(super) use by_class;

/// Reads and checks the header.
pub(super) fn read(source: &Source) -> Result<Header> {
    let head = source.read("file", 0, source.len().min(64))?;
    if !head.starts_with(&elf::ELFMAG) {
        return Err(source.error("file", None, what_it_is(source, &head)));
    }
    let class = match head.get(4) {
        Some(1) => Class::Elf32,
        Some(2) => Class::Elf64,
        Some(other) => return Err(source.error("e_ident[EI_CLASS]", Some(4), format!("{other} is neither 1 (32-bit) nor 2 (64-bit)"))),
        None => return Err(source.error("e_ident", Some(0), format!("ELF magic, then the file ends after {} bytes", head.len()))),
    };
    let endian = match head.get(5) {
        Some(1) => Endianness::Little,
        Some(2) => Endianness::Big,
        Some(other) => return Err(source.error("e_ident[EI_DATA]", Some(5), format!("{other} is neither 1 (little-endian) nor 2 (big-endian)"))),
        None => return Err(source.error("e_ident", Some(0), format!("ELF magic, then the file ends after {} bytes", head.len()))),
    };
    by_class!(class, read_fields(source, &head, class, endian))
}

fn read_fields<H: FileHeader<Endian = Endianness>>(source: &Source, head: &[u8], class: Class, endian: Endianness) -> Result<Header> {
    let Ok((header, _)) = object::pod::from_bytes::<H>(head) else {
        return Err(source.error("e_ident", Some(0), format!("ELF magic, then the file ends after {} bytes, inside the ELF header", head.len())));
    };
    if header.e_version(endian) != 1 || header.e_ident().version.0 != 1 {
        return Err(source.error("e_version", Some(20), format!("{} where only version 1 exists", header.e_version(endian))));
    }
    let expected = size_of::<H::ProgramHeader>() as u16;
    let count = header.e_phnum(endian);
    if count > 0 && header.e_phentsize(endian) != expected {
        let problem = format!("{} where this class has program headers of {expected} bytes", header.e_phentsize(endian));
        return Err(source.error("e_phentsize", Some(if class == Class::Elf32 { 42 } else { 54 }), problem));
    }
    Ok(Header {
        class,
        endian,
        os_abi: header.e_ident().os_abi.0,
        abi_version: header.e_ident().abi_version,
        file_type: header.e_type(endian).0,
        machine: header.e_machine(endian).0,
        entry: header.e_entry(endian).into(),
        program_headers_offset: header.e_phoff(endian).into(),
        program_header_count: count,
        section_headers_offset: header.e_shoff(endian).into(),
        section_header_count: header.e_shnum(endian),
    })
}

/// Says what a file without the ELF magic is, for the cases that people meet under a library's name.
fn what_it_is(source: &Source, head: &[u8]) -> String {
    if source.is_empty() {
        return "is empty".into();
    }
    if head.len() < 4 && elf::ELFMAG.starts_with(head) {
        return format!("ends after {} bytes, inside the ELF magic", head.len());
    }
    if head.starts_with(b"version https://git-lfs") {
        return "is a Git LFS pointer, not the file it points to: fetch it with `git lfs pull`".into();
    }
    if head.starts_with(b"!<arch>\n") {
        return "is an ar archive (a static library or a .deb), not a shared library".into();
    }
    if head.starts_with(b"PK\x03\x04") {
        return "is a zip archive (a wheel?), not a shared library: unpack it first".into();
    }
    if head.starts_with(b"\x1f\x8b") || head.starts_with(b"\xfd7zXZ") || head.starts_with(b"\x28\xb5\x2f\xfd") {
        return "is compressed, not a shared library: unpack it first".into();
    }
    if head.starts_with(b"MZ") {
        return "is a Windows program or library, not ELF".into();
    }
    let text = head.iter().all(|&byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..));
    if text {
        if head.starts_with(b"#!") {
            return "is a script, not a shared library".into();
        }
        let start = source.read("file", 0, source.len().min(4096)).unwrap_or_default();
        let commands: [&[u8]; 4] = [b"GROUP", b"INPUT", b"OUTPUT_FORMAT", b"SECTIONS"];
        if start.split(|&byte| byte == b'\n').any(|line| commands.iter().any(|command| line.starts_with(command))) {
            return "is a GNU ld script (text that names libraries for the linker), not a shared library".into();
        }
        return "is a text file, not a shared library".into();
    }
    "is not an ELF file: the magic bytes 7f 45 4c 46 are missing".into()
}
