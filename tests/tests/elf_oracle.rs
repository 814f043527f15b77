//! Our reader against others on every ELF file at hand: binutils' `readelf`, and the `goblin` crate, the parser that the product does not use.
//!
//! A file that our reader refuses must be one that `readelf` finds no dynamic section in (a debug-only file) or complains about.

use std::path::{Path, PathBuf};

use vrocm_audit::elf::Elf;
use vrocm_tests::facts::Facts;
use vrocm_tests::files::{corpus, elf_files, in_parallel, repository};
use vrocm_tests::readelf;

/// What became of one file.
enum Outcome {
    /// Same facts, and the file has a dynamic section.
    Same,
    /// Both readers find no dynamic section: a static program or an object file.
    Static,
    /// Our reader refuses it, `readelf` finds nothing either; the reason.
    Refused(String),
    /// What differs.
    Different(Vec<String>),
}

fn compare_with_readelf(path: &Path) -> Outcome {
    let opened = Elf::open(path);
    let sections = opened.as_ref().is_ok_and(|image| image.header.section_header_count > 0);
    let theirs = readelf::run(path, opened.is_ok() && !sections);
    let image = match opened {
        Ok(image) => image,
        Err(error) if !theirs.dynamic || !theirs.complaints.is_empty() => return Outcome::Refused(error.to_string()),
        Err(error) => return Outcome::Different(vec![format!("refused ({error}), but readelf reads it without complaint")]),
    };
    let ours = match Facts::ours(&image) {
        Ok(ours) => ours,
        Err(error) if !theirs.complaints.is_empty() => return Outcome::Refused(error.to_string()),
        Err(error) => return Outcome::Different(vec![format!("refused ({error}), but readelf reads it without complaint")]),
    };
    if image.dynamic.is_empty() {
        return if theirs.dynamic { Outcome::Different(vec!["readelf finds a dynamic section".into()]) } else { Outcome::Static };
    }
    let mut theirs = theirs.facts;
    complete_relative(&ours, &mut theirs);
    let differences = ours.differences(&theirs);
    if differences.is_empty() { Outcome::Same } else { Outcome::Different(differences) }
}

/// `readelf` does not print the address that a REL or RELR entry finds at its place; for those only the places are compared.
fn complete_relative(ours: &Facts, theirs: &mut Facts) {
    let known: std::collections::BTreeMap<u64, Option<u64>> = ours.relative.iter().copied().collect();
    let completed = theirs.relative.iter().map(|&(place, address)| (place, address.or_else(|| known.get(&place).copied().flatten())));
    theirs.relative = completed.collect();
}

/// Compares all files, prints the counts, fails on any difference or if fewer than `at_least` have a dynamic section.
fn hold_against_readelf(what: &str, files: &[PathBuf], at_least: usize) {
    let outcomes = in_parallel(files, |path| compare_with_readelf(path));
    let (mut same, mut without, mut refused, mut different) = (0, 0, Vec::new(), Vec::new());
    for (path, outcome) in files.iter().zip(outcomes) {
        match outcome {
            Outcome::Same => same += 1,
            Outcome::Static => without += 1,
            Outcome::Refused(reason) => refused.push(reason),
            Outcome::Different(differences) => different.push(format!("{}:\n    {}", path.display(), differences.join("\n    "))),
        }
    }
    for reason in &refused {
        println!("refused, as by readelf: {reason}");
    }
    println!(
        "{what}: {} ELF files; {same} with the same facts as readelf's, {without} without a dynamic section, {} refused by both, {} different",
        files.len(),
        refused.len(),
        different.len()
    );
    assert!(different.is_empty(), "{} files differ:\n{}", different.len(), different[..different.len().min(20)].join("\n"));
    assert!(same >= at_least, "only {same} files were compared, where at least {at_least} are expected");
}

#[test]
fn every_elf_file_of_the_machine_reads_as_by_readelf() {
    hold_against_readelf("/usr/lib and /usr/bin", &elf_files(&["/usr/lib", "/usr/bin"]), 300);
}

#[test]
fn the_real_libraries_read_as_by_readelf() {
    hold_against_readelf("VROCM_CORPUS", &elf_files(&[corpus()]), 8);
}

#[test]
fn libraries_of_other_machines_read_as_by_readelf() {
    let files = elf_files(&[repository("fixtures/elf")]);
    let files: Vec<PathBuf> = files.into_iter().filter(|path| !path.to_string_lossy().contains("-android")).collect();
    hold_against_readelf("fixtures/elf", &files, 8);
    for path in files {
        let image = Elf::open(&path).unwrap();
        let table = image.symbols().unwrap();
        let exports: Vec<&str> = table.exports().map(|symbol| symbol.name.as_ref()).collect();
        let calls = table.exports().filter(|symbol| symbol.name == "lib_call").map(|symbol| table.version(symbol).unwrap());
        let mut calls: Vec<(&str, bool)> = calls.map(|version| (version.node, version.hidden)).collect();
        calls.sort_unstable();
        assert_eq!(calls, [("LIB_1", true), ("LIB_2", false)], "{}", path.display());
        for name in ["lib_pointer", "lib_table", "lib_tls"] {
            assert!(exports.contains(&name), "{}: {exports:?}", path.display());
        }
        assert_eq!(exports.len(), 5, "{}: {exports:?}", path.display());
    }
}

/// `readelf` does not unpack Android's forms: each library is held against the same one linked without packing. Addresses differ by the size
/// of the tables, so places are compared by their distances.
#[test]
fn packed_relocations_are_those_of_the_unpacked_twin() {
    for (packed, plain) in [("aarch64-android", "aarch64-lld"), ("aarch64-android-relr", "aarch64-lld"), ("i386-android", "i386-lld")] {
        let facts = |name: &str| Facts::ours(&Elf::open(&repository(&format!("fixtures/elf/{name}.so"))).unwrap()).unwrap();
        let (packed_facts, plain_facts) = (facts(packed), facts(plain));
        let by_symbol = |facts: &Facts| {
            let relocations = facts.symbolic.iter().map(|relocation| (relocation.symbol.clone(), relocation.kind, relocation.addend));
            let mut relocations: Vec<_> = relocations.collect();
            relocations.sort();
            relocations
        };
        assert_eq!(by_symbol(&packed_facts), by_symbol(&plain_facts), "{packed}");
        let distances = |facts: &Facts| {
            let places: Vec<(u64, u64)> = facts.relative.iter().map(|&(place, address)| (place, address.unwrap())).collect();
            places.iter().map(|&(place, address)| (place - places[0].0, address - places[0].1)).collect::<Vec<_>>()
        };
        assert_eq!(distances(&packed_facts), distances(&plain_facts), "{packed}");
        assert_eq!(packed_facts.relative.len(), 11, "{packed}");
        assert_eq!(packed_facts.needed, ["libdep.so.1"], "{packed}");
    }
}

/// The comparison itself must be able to fail: each fact altered alone is a difference.
#[test]
fn the_comparison_notices_each_altered_fact() {
    let path = repository("fixtures/elf/i386.so");
    let ours = Facts::ours(&Elf::open(&path).unwrap()).unwrap();
    let mut theirs = readelf::run(&path, false).facts;
    complete_relative(&ours, &mut theirs);
    assert_eq!(ours.differences(&theirs), Vec::<String>::new());
    let alterations: [fn(&mut Facts); 14] = [
        |facts| facts.needed.clear(),
        |facts| facts.soname = None,
        |facts| facts.rpath = Some("/x".into()),
        |facts| facts.runpath = Some("/x".into()),
        |facts| facts.interpreter = Some("/x".into()),
        |facts| facts.build_id = None,
        |facts| facts.requirements[0].2 = true,
        |facts| facts.definitions[1].1 = true,
        |facts| facts.symbols[3].name.push('x'),
        |facts| facts.symbols[3].version = "@x".into(),
        |facts| facts.symbols[3].binding = "other",
        |facts| facts.symbols.truncate(3),
        |facts| _ = facts.symbolic.pop_first(),
        |facts| _ = facts.relative.pop_last(),
    ];
    for (number, alter) in alterations.into_iter().enumerate() {
        let mut altered = theirs.clone();
        alter(&mut altered);
        assert!(!ours.differences(&altered).is_empty(), "alteration {number} goes unnoticed");
    }
}

/// Exports, imports and needed of one file: (name, version, binding, type), sorted.
type Linkage = (Vec<Linked>, Vec<Linked>, Vec<String>);
type Linked = (String, String, u8, u8);

/// As goblin reads it; `None` for a file that it does not parse, or finds nothing in.
fn linkage_by_goblin(bytes: &[u8]) -> Option<Linkage> {
    use goblin::elf::sym::{STB_GLOBAL, STB_GNU_UNIQUE, STB_WEAK};
    let elf = goblin::elf::Elf::parse(bytes).ok()?;
    elf.dynamic.as_ref()?;
    // goblin hands out version entries by iterating; a map by index answers for all symbols.
    let mut nodes: std::collections::HashMap<u16, (&str, bool)> = std::collections::HashMap::new();
    for definition in elf.verdef.iter().flatten().filter(|definition| definition.vd_flags & 1 == 0) {
        let name = definition.iter().next().and_then(|aux| elf.dynstrtab.get_at(aux.vda_name))?;
        nodes.insert(definition.vd_ndx & 0x7fff, (name, false));
    }
    for need in elf.verneed.iter().flatten() {
        for aux in &need {
            nodes.insert(aux.vna_other & 0x7fff, (elf.dynstrtab.get_at(aux.vna_name)?, true));
        }
    }
    let (mut exports, mut imports) = (Vec::new(), Vec::new());
    for (index, symbol) in elf.dynsyms.iter().enumerate().skip(1) {
        if ![STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE].contains(&symbol.st_bind()) {
            continue;
        }
        let name = elf.dynstrtab.get_at(symbol.st_name)?;
        let raw = elf.versym.as_ref().and_then(|table| table.get_at(index)).map_or(0, |version| version.vs_val);
        let version = nodes.get(&(raw & 0x7fff)).map_or_else(String::new, |&(node, asked)| {
            let default = !asked && symbol.st_shndx != 0 && raw & 0x8000 == 0;
            format!("{}{node}", if default { "@@" } else { "@" })
        });
        // The marker of a version node is no export.
        if u32::from(symbol.st_shndx as u16) == goblin::elf::section_header::SHN_ABS && version == format!("@@{name}") {
            continue;
        }
        let entry = (name.to_owned(), version, symbol.st_bind(), symbol.st_type());
        if symbol.st_shndx == 0 { imports.push(entry) } else { exports.push(entry) }
    }
    exports.sort();
    imports.sort();
    let needed: Vec<String> = elf.libraries.iter().map(|&name| name.to_owned()).collect();
    // goblin reads a debug-only file without complaint, and finds nothing in it.
    (exports.len() + imports.len() + needed.len() > 0).then_some((exports, imports, needed))
}

fn linkage_by_us(image: &Elf) -> Result<Linkage, vrocm_audit::elf::ElfError> {
    use vrocm_audit::elf::{Binding, Kind, Place, Symbol};
    let table = image.symbols()?;
    let entry = |symbol: &Symbol<'_>| {
        let version = table.version(symbol).map_or_else(String::new, |version| {
            let default = version.file.is_none() && symbol.place != Place::Undefined && !version.hidden;
            format!("{}{}", if default { "@@" } else { "@" }, version.node)
        });
        let binding = match symbol.binding {
            Binding::Local | Binding::Other => 0,
            Binding::Global => 1,
            Binding::Weak => 2,
            Binding::GnuUnique => 10,
        };
        let kind = match symbol.kind {
            Kind::NoType | Kind::Other => 0,
            Kind::Object => 1,
            Kind::Func => 2,
            Kind::Section => 3,
            Kind::File => 4,
            Kind::Common => 5,
            Kind::Tls => 6,
            Kind::IFunc => 10,
        };
        (symbol.name.clone().into_owned(), version, binding, kind)
    };
    let (mut exports, mut imports) = (table.exports().map(entry).collect::<Vec<_>>(), table.imports().map(entry).collect::<Vec<_>>());
    exports.sort();
    imports.sort();
    Ok((exports, imports, image.names()?.needed))
}

fn hold_against_goblin(what: &str, files: &[PathBuf], at_least: usize) {
    let results = in_parallel(files, |path| {
        let Ok(bytes) = std::fs::read(path) else { return None };
        let theirs = linkage_by_goblin(&bytes)?;
        drop(bytes);
        Some(match Elf::open(path).and_then(|image| linkage_by_us(&image)) {
            Ok(ours) if ours == theirs => Ok(()),
            Ok(ours) => {
                let first = |ours: &[Linked], theirs: &[Linked]| {
                    let pair = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
                    format!("{} to {}, first difference {pair:?}", ours.len(), theirs.len())
                };
                let needed = if ours.2 == theirs.2 { "same".into() } else { format!("{:?} to {:?}", ours.2, theirs.2) };
                Err(format!("{}: exports {}; imports {}; needed {needed}", path.display(), first(&ours.0, &theirs.0), first(&ours.1, &theirs.1)))
            }
            Err(error) => Err(format!("{error}, but goblin reads it")),
        })
    });
    let parsed = results.iter().flatten().count();
    let different: Vec<&String> = results.iter().flatten().filter_map(|result| result.as_ref().err()).collect();
    println!("{what}: {} ELF files, {parsed} with linkage by goblin, {} different", files.len(), different.len());
    for difference in different.iter().take(20) {
        println!("{difference}");
    }
    assert!(different.is_empty(), "{} files read differently by goblin, the first ones above", different.len());
    assert!(parsed >= at_least, "only {parsed} files were compared, where at least {at_least} are expected");
}

#[test]
fn every_elf_file_of_the_machine_reads_as_by_goblin() {
    hold_against_goblin("/usr/lib and /usr/bin", &elf_files(&["/usr/lib", "/usr/bin"]), 300);
}

#[test]
fn the_real_libraries_read_as_by_goblin() {
    hold_against_goblin("VROCM_CORPUS", &elf_files(&[corpus()]), 8);
}
