//! Tables that cost far more than their bytes: entries that all name one long string, and symbols that a table does not reach.

use std::fs;
use std::path::Path;

use vrocm_audit::elf::Elf;

use crate::{CALLS, address_of, library, patch, support};

/// Bytes of the long name. All names of one reader may take eight times the string table and 64 KiB.
const LONG: usize = 40_000;

fn flags(name: &str, more: &[String]) -> Vec<String> {
    [vec![format!("-Wl,-soname,{name}")], more.to_vec()].concat()
}

#[test]
fn needed_names_and_filters_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "n".repeat(LONG);
    let read = |count: usize| {
        let flags = flags(&name, &vec![format!("-Wl,-f,{name}"); count]);
        let path = library(folder.path(), &flags.iter().map(String::as_str).collect::<Vec<_>>());
        Elf::open(&path).and_then(|image| image.names().map(|names| names.linked.len())).map_err(|error| error.to_string())
    };
    assert_eq!(read(6), Ok(6));
    let said = read(12).expect_err("twelve times");
    assert!(said.contains("DT_AUXILIARY at 0x") && said.contains("they repeat it"), "{said}");
}

/// A library whose table of versions is the array `table`, which `words` makes of the long name's place among the strings and its hash.
fn versions(folder: &Path, tags: (u64, u64), entries: u32, words: impl Fn(u32, u32) -> Vec<u32>) -> Result<usize, String> {
    let name = "n".repeat(LONG);
    let hash = object::elf::hash(name.as_bytes());
    let build = |words: &[u32]| {
        let list = words.iter().map(ToString::to_string).collect::<Vec<_>>().join("u,");
        let flags = flags(&name, &[]);
        support::library(
            folder,
            &format!("{CALLS}int puts(const char *); int say(void) {{ return puts(\"\"); }}\nconst unsigned table[] = {{{list}u}};\n"),
            "libx.so",
            None,
            &flags.iter().map(String::as_str).collect::<Vec<_>>(),
        )
    };
    // The place does not change with the numbers.
    let first = build(&words(0, hash));
    let place = Elf::open(&first).expect("readable").dynamic.value(object::elf::DT_SONAME).expect("a soname");
    let path = build(&words(u32::try_from(place).expect("small"), hash));
    // DT_INIT and DT_FINI become the table and its count; the table of the call is none any more.
    let steps = [
        "dynamic 0x6ffffffe 21 =".into(),
        "dynamic 0x6fffffff 21 =".into(),
        format!("dynamic 12 {} {}", tags.0, address_of(&path, "table")),
        format!("dynamic 13 {} {entries}", tags.1),
    ];
    let image = Elf::from_bytes("x.so", patch::file(&path, &steps.each_ref().map(String::as_str))).map_err(|error| error.to_string())?;
    image.symbols().map(|table| table.versions.definitions.len() + table.versions.requirements.len()).map_err(|error| error.to_string())
}

#[test]
fn names_of_versions_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let definitions = |count: u32| {
        let words = |place: u32, hash: u32| {
            // vd_version 1 and vd_flags 0, vd_ndx and vd_cnt 1, hash, vd_aux, vd_next; vda_name, vda_next.
            (0..count).flat_map(|at| [1, (at + 2) | 1 << 16, hash, 20, if at + 1 == count { 0 } else { 28 }, place, 0]).collect()
        };
        versions(folder.path(), (0x6fff_fffc, 0x6fff_fffd), count, words)
    };
    let said = definitions(12).expect_err("twelve times");
    assert!(said.contains("vda_name at 0x") && said.contains("they repeat it"), "{said}");
    assert!(!definitions(4).err().unwrap_or_default().contains("they repeat it"));
    let requirements = |count: u32| {
        let words = |place: u32, hash: u32| {
            // vn_version 1 and vn_cnt, vn_file, vn_aux, vn_next; then hash, flags 0 and index, name, vna_next.
            let aux = (0..count).flat_map(|at| [hash, (at + 2) << 16, place, if at + 1 == count { 0 } else { 16 }]);
            [1 | count << 16, place, 16, 0].into_iter().chain(aux).collect()
        };
        versions(folder.path(), (0x6fff_fffe, 0x6fff_ffff), 1, words)
    };
    let said = requirements(6).expect_err("file and version, six times");
    assert!(said.contains("vna_name at 0x") && said.contains("they repeat it"), "{said}");
    assert!(!requirements(4).err().unwrap_or_default().contains("they repeat it"));
}

#[test]
fn a_relocation_names_a_symbol_that_there_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = library(folder.path(), &["-Wl,-z,lazy"]);
    let image = Elf::open(&path).expect("readable");
    let count = image.symbols().expect("read").symbols.iter().map(|symbol| symbol.index).max().expect("some") + 1;
    // Tables lie in the first segment, whose offset and address are both 0; the symbol is the upper half of r_info.
    let at = usize::try_from(image.dynamic.value(object::elf::DT_JMPREL).expect("a PLT")).expect("small") + 12;
    let names = |symbol: u32| {
        let mut bytes = fs::read(&path).expect("just built");
        bytes[at..at + 4].copy_from_slice(&symbol.to_le_bytes());
        Elf::from_bytes("x.so", bytes).and_then(|image| image.symbols().map(|_| ())).map_err(|error| error.to_string())
    };
    assert_eq!(names(count - 1), Ok(()));
    for symbol in [count, count + 500] {
        let said = names(symbol).expect_err("there is none");
        assert!(said.contains(&format!("a relocation names symbol {symbol}")), "{said}");
    }
}

/// Other files see a protected symbol as any other, so a table that hides it is as wrong.
#[test]
fn a_filter_that_hides_a_protected_symbol_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "__attribute__((visibility(\"protected\"))) int guarded(void) { return 2; }\n";
    let path = support::library(folder.path(), source, "libx.so", None, &["-nostdlib"]);
    let image = Elf::open(&path).expect("readable");
    assert_eq!(image.symbols().expect("read").exports().count(), 1);
    let at = usize::try_from(image.dynamic.value(object::elf::DT_GNU_HASH).expect("a table")).expect("small") + 16;
    let mut bytes = fs::read(&path).expect("just built");
    bytes[at..at + 8].fill(0);
    let said = Elf::from_bytes("x.so", bytes).and_then(|image| image.symbols().map(|_| ())).expect_err("hidden").to_string();
    assert!(said.contains("DT_GNU_HASH") && said.contains("guarded"), "{said}");
}
