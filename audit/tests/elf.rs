//! What the reader of ELF files says at its limits, and what it makes of files that no toolchain of this machine leaves behind.
#![cfg(target_arch = "x86_64")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use vrocm_audit::elf::Elf;
use vrocm_audit::elf::debug::{DebugFile, places};

#[path = "linkage/patch.rs"]
mod patch;
mod support;

const CALLS: &str = "int work(int); int counter = 7; int helper(int i) { return work(i) + counter; }\n";

fn library(folder: &Path, flags: &[&str]) -> PathBuf {
    support::library(folder, CALLS, "libx.so", None, flags)
}

fn run(program: &str, arguments: &[&str], folder: &Path) {
    let done = Command::new(program).args(arguments).current_dir(folder).output().expect("binutils are there");
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The library with these bytes changed.
fn patched(path: &Path, steps: &[&str]) -> Vec<u8> {
    let mut bytes = fs::read(path).expect("just built");
    steps.iter().for_each(|step| patch::apply(&mut bytes, step));
    bytes
}

fn error(bytes: Vec<u8>) -> String {
    Elf::from_bytes("x.so", bytes).map(|_| ()).expect_err("it cannot be trusted").to_string()
}

#[test]
fn a_file_of_debug_information_is_bounded_and_64_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    let sparse = folder.path().join("sparse.debug");
    let says = |bytes: u64| {
        File::create(&sparse).expect("made").set_len(bytes).expect("sparse");
        DebugFile::open(&sparse).expect_err("no ELF file").to_string()
    };
    assert!(says((1 << 30) + 1).contains("are read at most") && says(3 << 30).contains("are read at most"));
    assert!(!says(1 << 30).contains("are read at most"));
    let narrow = Path::new("../fixtures/elf").join("i386.so");
    assert!(DebugFile::open(&narrow).expect_err("32 bit").to_string().contains("debug information of 32-bit files is not read"));
}

/// A section that says it unpacks to more than is ever read.
#[test]
fn a_section_of_debug_information_is_bounded_when_it_is_unpacked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = library(folder.path(), &["-g", "-gz=zlib"]);
    assert!(!DebugFile::open(&path).expect("opens").section(".debug_info").expect("unpacks").is_empty());
    let mut bytes = fs::read(&path).expect("just built");
    let at = {
        use object::{Object, ObjectSection};
        let image = object::File::parse(&*bytes).expect("parsed");
        image.section_by_name(".debug_info").and_then(|section| section.file_range()).expect("in the file").0 as usize
    };
    // ch_size, after ch_type and a reserved word.
    bytes[at + 8..at + 16].copy_from_slice(&((1_u64 << 30) + 1).to_le_bytes());
    fs::write(&path, bytes).expect("written");
    let error = DebugFile::open(&path).expect("opens").section(".debug_info").expect_err("too large").to_string();
    assert!(error.contains(".debug_info") && error.contains("unpacks to 1073741825 bytes"), "{error}");
}

#[test]
fn names_are_those_of_functions_that_are_here() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = library(folder.path(), &[]);
    let open = || DebugFile::open(&path).expect("opens");
    assert!(open().has_names().expect("read"), "a symbol table, and no DWARF");
    let functions = open().functions().expect("read");
    let named = |name: &str| functions.iter().any(|(_, function)| function == name);
    assert!(named("helper") && !named("work") && !named("counter"), "{functions:?}");
    run("strip", &["libx.so"], folder.path());
    assert!(!open().has_names().expect("read"), "neither");
    assert!(open().functions().expect("read").is_empty());
}

#[test]
fn a_build_id_leads_to_a_file_if_something_is_left_for_its_name() {
    let found = |id: &str| places(Path::new("/x/libx.so"), Some(id), None, Path::new("/store"));
    assert_eq!(found("abcd"), [Path::new("/store/.build-id/ab/cd.debug")]);
    assert!(found("ab").is_empty());
}

#[test]
fn flags_count_in_their_old_and_new_form() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = |flags: &[&str], steps: &[&str]| {
        let image = Elf::from_bytes("x.so", patched(&library(folder.path(), flags), steps)).expect("readable");
        (image.dynamic.flags(), image.dynamic.binds_now())
    };
    assert_eq!(flags(&["-Wl,-z,lazy"], &[]), (0, false));
    // DF_SYMBOLIC is 2, DF_BIND_NOW 8. DT_FLAGS (30) or DT_FLAGS_1 becomes DT_DEBUG, or DT_FLAGS the old tag of the same meaning.
    assert_eq!(flags(&["-Wl,-z,lazy", "-Wl,-Bsymbolic"], &[]).0, 2);
    assert_eq!(flags(&["-Wl,-z,lazy", "-Wl,-Bsymbolic"], &["dynamic 30 16 ="]).0, 2, "DT_SYMBOLIC alone");
    assert_eq!(flags(&["-Wl,-z,now"], &[]), (8, true));
    assert_eq!(flags(&["-Wl,-z,now"], &["dynamic 30 24 ="]), (8, true), "DT_BIND_NOW and DF_1_NOW");
    assert_eq!(flags(&["-Wl,-z,now"], &["dynamic 0x6ffffffb 21 ="]), (8, true), "DF_BIND_NOW alone");
    assert_eq!(flags(&["-Wl,-z,now"], &["dynamic 30 21 ="]), (0, true), "DF_1_NOW alone");
    assert_eq!(flags(&["-Wl,-z,now"], &["dynamic 30 21 =", "dynamic 0x6ffffffb 21 ="]), (0, false));
}

#[test]
fn a_program_that_maps_nothing_is_refused_as_a_library_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = library(folder.path(), &[]);
    let unmapped: Vec<String> = (0..4).map(|_| "segment load 0 type 0".to_owned()).collect();
    for kind in ["header 16 2 3", "header 16 2 2"] {
        let steps: Vec<&str> = std::iter::once(kind).chain(unmapped.iter().map(String::as_str)).collect();
        let said = error(patched(&path, &steps));
        assert!(said.contains("there is nothing to map"), "{said}");
    }
}

/// The loader reads on to the end mark, whatever `p_filesz` says.
#[test]
fn a_dynamic_section_is_read_to_its_end_mark() {
    let folder = tempfile::tempdir().expect("a folder");
    let filters: Vec<String> = (0..300).map(|number| format!("-Wl,-f,liba{number}.so")).collect();
    let flags: Vec<&str> = filters.iter().map(String::as_str).collect();
    let path = library(folder.path(), &flags);
    for steps in [&[][..], &["segment dynamic 0 filesz 64"]] {
        let image = Elf::from_bytes("x.so", patched(&path, steps)).expect("readable");
        assert_eq!(image.names().expect("read").linked.len(), 300, "{steps:?}");
    }
}

#[test]
fn an_error_names_file_field_and_offset() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = error(patched(&library(folder.path(), &[]), &["segment dynamic 0 type 0"]));
    assert!(said.starts_with("x.so: PT_DYNAMIC at 0x40: missing"), "{said}");
    let said = error(b"no ELF file".to_vec());
    assert!(said.starts_with("x.so: "), "{said}");
}
