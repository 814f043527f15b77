//! A file under the right name: taken, passed over, or the end of the process (`open_verify` and `_dl_map_object_from_fd` in `elf/dl-load.c`).

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use super::fresh::Stamp;
use super::tree::{EACCES, ENOENT, ENOTDIR, identity};
use crate::elf::{Class, Elf, Names, constants as elf, segment_type};

/// What the program is; libraries have to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Word size.
    pub class: Class,
    /// `e_machine`.
    pub machine: u16,
    /// `e_ident[EI_DATA]`.
    pub data: u8,
}

/// A library that the loader would map.
#[derive(Debug, Clone)]
pub struct Library {
    /// Device and inode.
    pub id: (u64, u64),
    /// The file as it was read.
    pub stamp: Stamp,
    /// Names in its dynamic section.
    pub names: Names,
    /// `DT_FLAGS_1`.
    pub flags_1: u64,
}

/// What becomes of a candidate.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The loader takes it.
    Taken(Box<Library>),
    /// It looks further: missing, or of another class or machine.
    Passed,
    /// It leaves this list of directories, and goes on with the next rule (`ELOOP`, `ENAMETOOLONG` and the like).
    ListEnds,
    /// This process may not read it; another one may.
    Unreadable(String),
    /// It stops with this message.
    Fatal(String),
    /// The loader's opinion of this file is not known: it contradicts itself.
    Doubtful(String),
}

/// Judges a file.
pub fn judge(file: io::Result<&Path>, wanted: Wanted) -> Outcome {
    let opened = file.and_then(|path| Ok((path, std::fs::metadata(path)?)));
    let (path, metadata) = match opened {
        Ok(found) => found,
        Err(error) => return by_error(&error),
    };
    if metadata.is_dir() {
        return Outcome::Fatal("cannot read file data: Is a directory".into());
    }
    if !metadata.is_file() {
        return Outcome::Doubtful("is a special file".into());
    }
    let mut head = Vec::with_capacity(64);
    let read = File::open(path).and_then(|opened| opened.take(64).read_to_end(&mut head));
    if let Err(error) = read {
        return by_error(&error);
    }
    if let Some(outcome) = judge_header(&head, wanted) {
        return outcome;
    }
    match Elf::open(path).and_then(|image| Ok((image.names()?, image))) {
        Ok((names, image)) => judge_image(&image, names, &metadata),
        Err(error) => {
            let error = crate::elf::ElfError { file: String::new(), ..error };
            Outcome::Doubtful(error.to_string().trim_start_matches(": ").to_string())
        }
    }
}

fn by_error(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(ENOENT | ENOTDIR) => Outcome::Passed,
        Some(EACCES) => Outcome::Unreadable(error.to_string()),
        _ => Outcome::ListEnds,
    }
}

/// The checks of `open_verify`, in its order; `None` if the header passes.
fn judge_header(head: &[u8], wanted: Wanted) -> Option<Outcome> {
    let size = if wanted.class == Class::Elf64 { 64 } else { 52 };
    let fatal = |what: &str| Some(Outcome::Fatal(what.to_string()));
    if head.len() < size {
        return fatal("file too short");
    }
    let class = if wanted.class == Class::Elf64 { 2 } else { 1 };
    if !head.starts_with(b"\x7fELF") {
        return fatal("invalid ELF header");
    }
    if head[4] != class {
        return Some(Outcome::Passed);
    }
    if head[5] != wanted.data {
        return fatal("ELF file data encoding does not match");
    }
    if head[6] != 1 {
        return fatal("ELF file version ident does not match current one");
    }
    let gnu = head[7] == elf::ELFOSABI_GNU.0;
    if head[7] != 0 && !gnu {
        return fatal("ELF file OS ABI invalid");
    }
    if head[8] != 0 && !(gnu && head[8] <= 3) {
        return fatal("ELF file ABI version invalid");
    }
    if head[9..16] != [0; 7] {
        return fatal("nonzero padding in e_ident");
    }
    let half = |at: usize| if wanted.data == 2 { u16::from_be_bytes([head[at], head[at + 1]]) } else { u16::from_le_bytes([head[at], head[at + 1]]) };
    if half(if wanted.data == 2 { 22 } else { 20 }) != 1 {
        return fatal("ELF file version does not match current one");
    }
    if half(18) != wanted.machine {
        return Some(Outcome::Passed);
    }
    if ![elf::ET_DYN.0, elf::ET_EXEC.0].contains(&half(16)) {
        return fatal("only ET_DYN and ET_EXEC can be loaded");
    }
    if half(if wanted.class == Class::Elf64 { 54 } else { 42 }) != if wanted.class == Class::Elf64 { 56 } else { 32 } {
        return fatal("ELF file's phentsize not the expected size");
    }
    None
}

/// What stops the loader once it looks at the segments.
fn judge_image(image: &Elf, names: Names, metadata: &Metadata) -> Outcome {
    let fatal = |what: &str| Outcome::Fatal(what.to_string());
    let flags_1 = image.dynamic.flags_1();
    if image.header.file_type == elf::ET_EXEC.0 {
        return fatal("cannot dynamically load executable");
    }
    if image.segment(segment_type::LOAD).is_none() {
        return fatal("object file has no loadable segments");
    }
    if image.dynamic.is_empty() {
        return fatal("object file has no dynamic section");
    }
    if flags_1 & elf::DF_1_PIE.0 != 0 {
        return fatal("cannot dynamically load position-independent executable");
    }
    Outcome::Taken(Box::new(Library { id: identity(metadata), stamp: Stamp::from(metadata), names, flags_1 }))
}
