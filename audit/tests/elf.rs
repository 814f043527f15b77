//! What the reader of ELF files says at its limits, and what it makes of files that no toolchain of this machine leaves behind.
#![cfg(target_arch = "x86_64")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use vrocm_audit::elf::debug::{DebugFile, places};
use vrocm_audit::elf::{Elf, Relocation, RelocationKind};

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

#[test]
fn what_is_no_elf_file_is_named_for_what_it_is() {
    let long = |start: &[u8]| [start, &[0; 100]].concat();
    for (bytes, says) in [
        (Vec::new(), "is empty"),
        (b"\x7fEL".to_vec(), "ends after 3 bytes, inside the ELF magic"),
        (b"\x7fEL\0".to_vec(), "the magic bytes"),
        (b"EL".to_vec(), "is a text file"),
        (b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "is a Git LFS pointer"),
        (long(b"!<arch>\ndebian-binary"), "is an ar archive"),
        (long(b"PK\x03\x04"), "is a zip archive"),
        (long(b"\x1f\x8b"), "is compressed"),
        (long(b"\xfd7zXZ"), "is compressed"),
        (long(b"\x28\xb5\x2f\xfd"), "is compressed"),
        (long(b"MZ"), "is a Windows program"),
        (b"#!/bin/sh\n".to_vec(), "is a script"),
        (b"/* GNU ld script */\nGROUP ( /lib/libc.so.6 )\n".to_vec(), "is a GNU ld script"),
        (b"a\ttab\r\n".to_vec(), "is a text file"),
        ("h\u{fc}te".as_bytes().to_vec(), "is a text file"),
        (long(b"\x01\x02"), "the magic bytes"),
    ] {
        let said = error(bytes.clone());
        assert!(said.contains(says), "{:?}: {said}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn an_interpreters_path_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = support::compile(folder.path(), "int main(void) { return 0; }", "program", &[]);
    let interpreter =
        |size: u64| Elf::from_bytes("x", patched(&program, &[&format!("segment 3 0 filesz {size}")])).and_then(|image| image.interpreter());
    assert_eq!(interpreter(4096).expect("as long as may be").as_deref(), Some("/lib64/ld-linux-x86-64.so.2"));
    for size in [0, 4097, 5000] {
        let said = interpreter(size).expect_err("no path").to_string();
        assert!(said.contains(&format!("a path of {size} bytes")), "{said}");
    }
    assert!(!Elf::open(&program).expect("readable").is_empty());
}

/// A table of the newer form at the very end of a segment, whose only run has no end mark: a loader would read on beyond.
#[test]
fn a_chain_without_an_end_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    // One bucket, first symbol 1, one word of filter, shift 0; filter, bucket and chain.
    let table = |chain: &str| format!("{CALLS}__attribute__((section(\".zzz\"))) unsigned table[]={{1,1,1,0,~0u,~0u,1,{chain}}};\n");
    let read = |chain: &str| {
        let path = support::library(folder.path(), &table(chain), "libx.so", None, &[]);
        let image = Elf::open(&path).expect("readable");
        let address = image.symbols().expect("read").symbols.iter().find(|symbol| symbol.name == "table").expect("exported").value;
        Elf::from_bytes("x.so", patched(&path, &[&format!("dynamic 0x6ffffef5 0x6ffffef5 {address}")]))
            .and_then(|image| image.symbols().map(|_| ()))
            .map_err(|error| error.to_string())
    };
    let said = read("2,4").expect_err("no end");
    assert!(said.contains("DT_GNU_HASH chain at 0x") && said.contains("has no end within the segment"), "{said}");
    assert!(!read("2,5").err().unwrap_or_default().contains("has no end"));
}

fn each(image: &Elf) -> Vec<Relocation> {
    let mut all = Vec::new();
    image.each_relocation(&mut |relocation| all.push(relocation)).expect("read");
    all
}

/// The two lists that audits use hold nothing that the whole has not, in every form of table.
#[test]
fn the_whole_of_relocations_is_the_sum_of_its_parts() {
    for entry in fs::read_dir("../fixtures/elf")
        .expect("fixtures")
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "so"))
    {
        let image = Elf::open(&entry.path()).expect("readable");
        let all = each(&image);
        let symbolic: Vec<_> = image.symbolic_relocations().expect("read").iter().map(|one| (one.place, one.symbol)).collect();
        let own: Vec<_> =
            all.iter().filter(|one| one.symbol != 0 && one.kind != RelocationKind::Other(0)).map(|one| (one.place, one.symbol)).collect();
        assert_eq!(own, symbolic, "{entry:?}");
        let Ok(relative) = image.relative_relocations() else { continue };
        let mut places: Vec<u64> = all.iter().filter(|one| one.kind == RelocationKind::Relative).map(|one| one.place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places, relative.iter().map(|&(place, _)| place).collect::<Vec<_>>(), "{entry:?}");
        assert!(!places.is_empty(), "{entry:?}");
    }
}

/// A pointer at an odd place stays out of `DT_RELR`.
#[test]
fn relative_places_ascend_whatever_table_they_stand_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = format!(
        "{CALLS}static int here; int *table[] = {{&here, &here}}; __attribute__((section(\".zzz\"), packed)) struct {{ char one; int *odd; }} last = {{1, &here}};\n\
         struct __attribute__((packed)) two {{ char one; int *odd; }}; __attribute__((section(\".zzz\"))) struct two pair[] = {{{{1, &here}}, {{2, &here}}}};\n"
    );
    let path = support::library(folder.path(), &source, "libx.so", None, &["-Wl,-z,pack-relative-relocs"]);
    let places: Vec<u64> = Elf::open(&path).expect("readable").relative_relocations().expect("read").into_iter().map(|(place, _)| place).collect();
    assert!(places.is_sorted() && places.iter().any(|place| place % 8 != 0) && places.iter().any(|place| place % 8 == 0), "{places:x?}");
}

#[test]
fn relocations_of_an_unheard_of_machine_are_no_empty_list() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |path: &Path| Elf::from_bytes("x.so", patched(path, &["header 18 2 0x1234"])).expect("readable").relative_relocations();
    let said = of(&library(folder.path(), &[])).expect_err("not known").to_string();
    assert!(said.contains("relocations of") && said.contains("are not known here"), "{said}");
    let alone = support::compile(folder.path(), "void _start(void) {}", "alone", &["-nostdlib", "-static", "-no-pie"]);
    assert_eq!(of(&alone), Ok(Vec::new()), "a static program has none");
}

/// Some linkers let `DT_RELASZ` cover the entries of the PLT.
#[test]
fn entries_that_two_tables_cover_are_read_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = library(folder.path(), &["-Wl,-z,lazy"]);
    let image = Elf::open(&path).expect("readable");
    let value = |tag| image.dynamic.value(tag).expect("there");
    let (table, size) = (value(object::elf::DT_RELA), value(object::elf::DT_RELASZ));
    let (plt, plt_size) = (value(object::elf::DT_JMPREL), value(object::elf::DT_PLTRELSZ));
    assert_eq!(table + size, plt, "as GNU ld lays them out");
    let count = |steps: &[&str]| each(&Elf::from_bytes("x.so", patched(&path, steps)).expect("readable")).len() as u64;
    assert_eq!(count(&[]), (size + plt_size) / 24);
    assert_eq!(count(&[&format!("dynamic 8 8 {}", size + plt_size)]), (size + plt_size) / 24, "DT_RELASZ covers both");
    // The run of relative entries at its start is none any more.
    let both = [format!("dynamic 7 7 {plt}"), format!("dynamic 8 8 {plt_size}"), "dynamic 0x6ffffff9 21 =".into()];
    assert_eq!(count(&both.each_ref().map(String::as_str)), plt_size / 24, "DT_RELA is the PLT's table");
    let said = Elf::from_bytes("x.so", patched(&path, &["dynamic 20 20 5"]))
        .and_then(|image| image.symbolic_relocations().map(<[_]>::len))
        .expect_err("neither")
        .to_string();
    assert!(said.contains("DT_PLTREL") && said.contains("5 is neither DT_REL (17) nor DT_RELA (7)"), "{said}");
}

/// Notes of a library: alignment, then words of assembler.
fn notes(folder: &Path, align: u32, words: &str) -> Result<Option<String>, String> {
    let source = format!("{CALLS}__asm__(\".section .note.x, \\\"a\\\", @note\\n.balign {align}\\n{words}\\n.previous\");\n");
    let path = support::library(folder, &source, "libx.so", None, &["-Wl,--build-id=none"]);
    Elf::open(&path).and_then(|image| image.build_id()).map_err(|error| error.to_string())
}

#[test]
fn notes_follow_each_other_at_their_segments_alignment() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = ".long 4, 4, 3\\n.asciz \\\"GNU\\\"\\n.byte 0xab, 0xcd, 0xef, 1\\n";
    let other = ".long 4, 4, 99\\n.asciz \\\"GNU\\\"\\n.long 7\\n";
    assert_eq!(notes(folder.path(), 4, &format!("{other}{id}")), Ok(Some("abcdef01".into())), "20 bytes, then the next");
    assert_eq!(notes(folder.path(), 8, &format!("{other}.balign 8\\n{id}")), Ok(Some("abcdef01".into())), "24 bytes, then the next");
    assert_eq!(notes(folder.path(), 4, other), Ok(None));
    // A name whose padding was cut off, without a description and with one.
    let bare = |size: u32| format!(".long 5, {size}, 99\\n.asciz \\\"GNUX\\\"\\n");
    assert_eq!(notes(folder.path(), 4, &bare(0)), Ok(None));
    let said = notes(folder.path(), 4, &bare(8)).expect_err("cut short");
    assert!(said.contains("n_descsz") && said.contains("a description of 8 bytes leaves the segment's 17"), "{said}");
}
