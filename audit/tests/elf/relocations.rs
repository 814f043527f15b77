//! Relocations in every form of table: plain, packed (`DT_RELR`), Android's.

use std::fs;
use std::path::Path;

use vrocm_audit::elf::{Elf, Relocation, RelocationKind};

use crate::{CALLS, address_of, library, patch, support};

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
    let of = |path: &Path| Elf::from_bytes("x.so", patch::file(path, &["header 18 2 0x1234"])).expect("readable").relative_relocations();
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
    let count = |steps: &[&str]| each(&Elf::from_bytes("x.so", patch::file(&path, steps)).expect("readable")).len() as u64;
    assert_eq!(count(&[]), (size + plt_size) / 24);
    assert_eq!(count(&[&format!("dynamic 8 8 {}", size + plt_size)]), (size + plt_size) / 24, "DT_RELASZ covers both");
    // The run of relative entries at its start is none any more.
    let both = [format!("dynamic 7 7 {plt}"), format!("dynamic 8 8 {plt_size}"), "dynamic 0x6ffffff9 21 =".into()];
    assert_eq!(count(&both.each_ref().map(String::as_str)), plt_size / 24, "DT_RELA is the PLT's table");
    let said = Elf::from_bytes("x.so", patch::file(&path, &["dynamic 20 20 5"]))
        .and_then(|image| image.symbolic_relocations().map(<[_]>::len))
        .expect_err("neither")
        .to_string();
    assert!(said.contains("DT_PLTREL") && said.contains("5 is neither DT_REL (17) nor DT_RELA (7)"), "{said}");
}

#[test]
fn tables_of_another_form_or_size_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = support::library(
        folder.path(),
        &format!("{CALLS}static int here; int *table[] = {{&here, &here}};\n"),
        "libx.so",
        None,
        &["-Wl,-z,pack-relative-relocs"],
    );
    let relative =
        |steps: &[&str]| Elf::from_bytes("x.so", patch::file(&path, steps)).and_then(|image| image.relative_relocations().map(|all| all.len()));
    assert!(relative(&[]).is_ok_and(|count| count >= 2));
    for (step, says) in [
        ("dynamic 37 37 4", "DT_RELRENT at 0x"),
        ("dynamic 35 35 12", "DT_RELRSZ at 0x"),
        ("dynamic 35 21 =", "DT_RELR without DT_RELRSZ"),
        ("dynamic 9 9 16", "DT_RELAENT at 0x"),
        ("dynamic 8 8 25", "DT_RELASZ at 0x"),
    ] {
        let said = relative(&[step]).expect_err(step).to_string();
        assert!(said.contains(says), "{step}: {said}");
    }
    // DT_PLTREL of a machine that knows entries without addend only.
    let mut bytes = fs::read("../fixtures/elf/i386.so").expect("a fixture");
    let at = bytes.windows(8).position(|entry| entry == [20, 0, 0, 0, 17, 0, 0, 0]).expect("DT_PLTREL is DT_REL");
    bytes[at + 4] = 7;
    let said = Elf::from_bytes("x.so", bytes).and_then(|image| image.symbolic_relocations().map(<[_]>::len)).expect_err("the other form").to_string();
    assert!(said.contains("this machine's only form"), "{said}");
}

/// Bit maps in a row, with gaps, and tables far from each other: the same places as without packing.
#[test]
fn long_packed_tables_are_those_of_the_unpacked_twin() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = |text: &str, count: usize| vec![text; count].join(",");
    let source = format!(
        "static int here; int *full[200] = {{{}}}; char gap[8192] = {{1}}; struct {{ int *at; long no; }} half[150] = {{{}}}; char more[4096] = {{1}}; int *last[3] = {{{}}};\n",
        all("&here", 200),
        all("{&here, 7}", 150),
        all("&here", 3)
    );
    let places = |flag: &str| {
        let image = Elf::open(&support::library(folder.path(), &source, "libx.so", None, &[flag, "-nostdlib"])).expect("readable");
        let packed = image.dynamic.has(object::elf::DT_RELR);
        let table: Vec<u64> = image.relative_relocations().expect("read").into_iter().map(|(place, _)| place).collect();
        (packed, table.iter().map(|place| place - table[0]).collect::<Vec<_>>())
    };
    let (packed, plain) = (places("-Wl,-z,pack-relative-relocs"), places("-Wl,-z,nopack-relative-relocs"));
    assert!(packed.0 && !plain.0);
    assert_eq!((packed.1.len(), &packed.1), (353, &plain.1));
}

#[test]
fn packed_places_ascend_and_lie_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = "static int here; int *table[] = {&here, &here, &here};\n";
    let path = support::library(folder.path(), source, "libx.so", None, &["-Wl,-z,pack-relative-relocs", "-nostdlib"]);
    let image = Elf::open(&path).expect("readable");
    let value = |tag| image.dynamic.value(tag).expect("there");
    assert_eq!(value(object::elf::DT_RELRSZ), 16, "an address, and a bit map");
    // Tables lie in the first segment, whose offset and address are both 0.
    let at = value(object::elf::DT_RELR) as usize;
    let bytes = fs::read(&path).expect("just built");
    let first = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    let data = image
        .segments
        .iter()
        .filter(|segment| segment.kind == 1)
        .find(|segment| (segment.address..segment.address + segment.file_size).contains(&first));
    let end = data.map(|segment| segment.address + segment.file_size).expect("in a segment").next_multiple_of(2);
    let second = |value: u64| {
        let mut bytes = bytes.clone();
        bytes[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
        Elf::from_bytes("x.so", bytes).and_then(|image| image.relative_relocations().map(|_| ())).map_err(|error| error.to_string())
    };
    assert_eq!(second(first + 8), Ok(()));
    for (value, says) in [
        (first, "where addresses ascend"),
        (first - 8, "where addresses ascend"),
        (end, "which no PT_LOAD takes"),
        (0x7fff_ffff_0000, "which no PT_LOAD takes"),
    ] {
        let said = second(value).expect_err("refused");
        assert!(said.contains(says) && said.contains(&format!("DT_RELR at {:#x}", at + 8)), "{value:#x}: {said}");
    }
}

#[test]
fn a_programs_copy_of_data_is_a_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    support::library(folder.path(), "int counter = 7;\n", "libcount.so", None, &[]);
    let source = "extern int counter; int main(void) { return counter; }\n";
    let program = support::compile(folder.path(), source, "program", &["-no-pie", "-fno-pie", "libcount.so"]);
    let image = Elf::open(&program).expect("readable");
    let copies: Vec<_> = each(&image).into_iter().filter(|one| one.kind == RelocationKind::Copy).map(|one| one.symbol).collect();
    let names: Vec<_> = copies.iter().filter_map(|&index| Some(image.symbols().ok()?.get(index)?.name.to_string())).collect();
    assert_eq!(names, ["counter"]);
}

/// Little-endian MIPS keeps the fields of `r_info` in the order of big-endian machines.
#[test]
fn mips_has_its_own_order_of_symbol_and_type() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = library(folder.path(), &["-Wl,-z,lazy"]);
    let slot = |image: &Elf| each(image).into_iter().next_back().expect("the PLT's entry comes last");
    let own = slot(&Elf::open(&path).expect("readable"));
    assert_eq!((own.kind, own.symbol != 0), (RelocationKind::JumpSlot, true));
    let other = slot(&Elf::from_bytes("x.so", patch::file(&path, &["header 18 2 8", "dynamic 0x6ffffff9 21 ="])).expect("readable"));
    assert_eq!((other.symbol, other.kind), (7, RelocationKind::Other(own.symbol.swap_bytes())));
}

/// A library whose table of Android's form holds these numbers, none of which takes more than a byte.
fn android(folder: &Path, numbers: &[i8]) -> Result<Vec<(u64, u32, i64)>, String> {
    let bytes: Vec<String> = b"APS2".iter().map(ToString::to_string).chain(numbers.iter().map(|number| (number & 0x7f).to_string())).collect();
    let source = format!("{CALLS}const unsigned char packed[] = {{{}}};\n", bytes.join(","));
    let path = support::library(folder, &source, "libx.so", None, &[]);
    let address = address_of(&path, "packed");
    // DT_INIT and DT_FINI become DT_ANDROID_RELA and its size; the other table goes.
    let steps = [
        format!("dynamic 12 0x60000011 {address}"),
        format!("dynamic 13 0x60000012 {}", bytes.len()),
        "dynamic 7 21 =".into(),
        "dynamic 23 21 =".into(),
    ];
    let image = Elf::from_bytes("x.so", patch::file(&path, &steps.each_ref().map(String::as_str))).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    image.each_relocation(&mut |one| all.push((one.place, one.symbol, one.addend))).map_err(|error| error.to_string())?;
    Ok(all)
}

#[test]
fn androids_groups_share_what_their_flags_say() {
    let folder = tempfile::tempdir().expect("a folder");
    // Six from place 16: two that share step 8, information 8 and addend 5; two of which each has an addend of its own; one without; one more with, from 0.
    let groups = [6, 16, 2, 15, 8, 8, 5, 2, 11, 8, 8, 1, 2, 1, 3, 8, 8, 1, 11, 8, 8, 9];
    let places = [(24, 0, 5), (32, 0, 5), (40, 0, 6), (48, 0, 8), (56, 0, 0), (64, 0, 9)];
    assert_eq!(android(folder.path(), &groups), Ok(places.to_vec()));
    // Nothing is shared: place, information and addend of each.
    assert_eq!(android(folder.path(), &[2, 0, 2, 8, 8, 8, 3, 16, 8, -1]), Ok(vec![(8, 0, 3), (24, 0, 2)]));
    for (numbers, says) in [
        (&[3, 0, 2, 3, 8, 8, 2, 3, 8, 8][..], "a group of 2 relocations where 1 are left"),
        (&[3, 0, 4, 3, 8, 8], "a group of 4 relocations where 3 are left"),
        (&[1, 0, 0, 3, 8, 8], "a group of 0 relocations where 1 are left"),
        (&[-1, 0], "announces -1 relocations"),
        (&[2, 0, 2, 3, 8], "the packed numbers are cut short"),
        (&[2, 0, 2], "the packed numbers are cut short"),
    ] {
        let said = android(folder.path(), numbers).expect_err("refused");
        assert!(said.contains(says) && said.contains("DT_ANDROID_RELA at 0x"), "{numbers:?}: {said}");
    }
}
