//! Bounds, other files, debug information, flags, notes: each with the input that is just inside and the one that is just outside.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use vrocm_audit::elf::debug::{DebugFile, places};
use vrocm_audit::elf::{Elf, Visibility};

use crate::{CALLS, address_of, error, library, patch, support};

fn run(program: &str, arguments: &[&str], folder: &Path) {
    let done = Command::new(program).args(arguments).current_dir(folder).output().expect("binutils are there");
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
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
        let image = Elf::from_bytes("x.so", patch::file(&library(folder.path(), flags), steps)).expect("readable");
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
        let said = error(patch::file(&path, &steps));
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
        let image = Elf::from_bytes("x.so", patch::file(&path, steps)).expect("readable");
        assert_eq!(image.names().expect("read").linked.len(), 300, "{steps:?}");
    }
}

#[test]
fn an_error_names_file_field_and_offset() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = error(patch::file(&library(folder.path(), &[]), &["segment dynamic 0 type 0"]));
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
        |size: u64| Elf::from_bytes("x", patch::file(&program, &[&format!("segment 3 0 filesz {size}")])).and_then(|image| image.interpreter());
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
        let address = address_of(&path, "table");
        Elf::from_bytes("x.so", patch::file(&path, &[&format!("dynamic 0x6ffffef5 0x6ffffef5 {address}")]))
            .and_then(|image| image.symbols().map(|_| ()))
            .map_err(|error| error.to_string())
    };
    let said = read("2,4").expect_err("no end");
    assert!(said.contains("DT_GNU_HASH chain at 0x") && said.contains("has no end within the segment"), "{said}");
    assert!(!read("2,5").err().unwrap_or_default().contains("has no end"));
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

#[test]
fn what_is_no_regular_file_is_refused_unread() {
    assert!(Elf::open(Path::new("/dev/null")).expect_err("a device").to_string().contains("is a special file, not a library"));
    assert!(Elf::open(Path::new("/")).expect_err("a folder").to_string().contains("is a directory"));
}

/// A sparse file may claim a table of any size.
#[test]
fn no_table_of_more_than_a_gigabyte_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = library(folder.path(), &[]);
    let start = address_of(&path, "counter") & !0xfff;
    let strings = |size: u64| {
        let table = (start + 0x1000).to_string();
        let steps = [
            format!("segment load 3 filesz {}", 3_u64 << 30),
            format!("segment load 3 memsz {}", 3_u64 << 30),
            format!("dynamic 5 5 {table}"),
            format!("dynamic 10 10 {size}"),
        ];
        let large = folder.path().join("large.so");
        fs::write(&large, patch::file(&path, &steps.each_ref().map(String::as_str))).expect("written");
        File::options().write(true).open(&large).expect("there").set_len(4 << 30).expect("sparse");
        Elf::open(&large).and_then(|image| image.names().map(|_| ())).map_err(|error| error.to_string())
    };
    let said = strings((1 << 30) + 1).expect_err("too large");
    assert!(said.contains("DT_STRTAB at 0x") && said.contains("where no table has more than 1073741824"), "{said}");
    assert!(!strings(5000).err().unwrap_or_default().contains("no table has more"));
}

#[test]
fn names_that_are_no_text_and_unique_symbols_are_exports() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "__asm__(\".data\\n.globl unique\\n.type unique, @gnu_unique_object\\nunique: .long 1\\n.text\\n.globl \\\"a\\377b\\\"\\n\\\"a\\377b\\\":\\nnop\\n\");\n";
    let path = support::library(folder.path(), &format!("{CALLS}{more}"), "libx.so", None, &[]);
    let image = Elf::open(&path).expect("readable");
    let table = image.symbols().expect("read");
    let names: Vec<&str> = table.exports().map(|symbol| &*symbol.name).collect();
    assert!(names.contains(&"unique") && names.contains(&"a\\xffb") && names.contains(&"helper"), "{names:?}");
}

/// More versions than the first piece that is read holds, and more than any library has.
#[test]
fn versions_are_read_to_the_last_and_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let provider = |count: usize| {
        let functions: String = (0..count).map(|at| format!("int f{at}(void) {{ return {at}; }}\n")).collect();
        let nodes: String = (0..count).map(|at| format!("V_{at} {{ f{at}; }};\n")).collect();
        support::library(folder.path(), &functions, "libmany.so", Some(&nodes), &["-nostdlib", "-O0"])
    };
    let many = provider(600);
    let definitions = Elf::open(&many).expect("readable").symbols().expect("read").versions.definitions.clone();
    assert_eq!(definitions.iter().filter(|definition| !definition.base).count(), 600);
    assert_eq!(definitions.last().map(|definition| definition.name.as_str()), Some("V_599"));
    let calls: String = (0..600).map(|at| format!("f{at}() + ")).collect();
    let declared: String = (0..600).map(|at| format!("int f{at}(void);\n")).collect();
    let source = format!("{declared} int all(void) {{ return {calls} 0; }}\n");
    let path = support::library(folder.path(), &source, "libx.so", None, &["-nostdlib", "-O0", "libmany.so"]);
    let mut names: Vec<String> = Elf::open(&path)
        .expect("readable")
        .symbols()
        .expect("read")
        .versions
        .requirements
        .iter()
        .map(|requirement| requirement.version.clone())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 600);
}

#[test]
fn kinds_and_visibilities_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = format!(
        "{CALLS}static int one(void) {{ return 1; }} static void *choose(void) {{ return one; }} int chosen(void) __attribute__((ifunc(\"choose\")));\n\
         __attribute__((visibility(\"protected\"))) int guarded(void) {{ return 2; }}\n"
    );
    let path = support::library(folder.path(), &source, "libx.so", None, &[]);
    let image = Elf::open(&path).expect("readable");
    let table = image.symbols().expect("read");
    let of = |name: &str| table.exports().find(|symbol| symbol.name == name).expect("exported");
    assert!(of("chosen").is_function() && of("guarded").is_function() && !of("counter").is_function());
    assert_eq!((of("guarded").visibility, of("helper").visibility), (Visibility::Protected, Visibility::Default));
}
