//! The stubs in `fixtures/stubs`: audits answer for them as for the known builds, and they say what the real libraries say.

use std::path::PathBuf;

use vrocm_audit::elf::Elf;
use vrocm_audit::manifest::{Family, KnownBuild};
use vrocm_tests::files::{corpus, elf_files, repository};

/// A build with its stub.
fn stubs() -> Vec<(&'static KnownBuild, PathBuf)> {
    let families: Vec<Family> = Family::embedded().expect("the manifests");
    let mut stubs = Vec::new();
    for family in &families {
        for build in family.builds {
            let library = build.soname.split(".so").next().expect("a name");
            stubs.push((build, repository(&format!("fixtures/stubs/{library}-{}.so", build.release))));
        }
    }
    stubs
}

/// Everything that linkage and coverage look at, in words that can be compared.
fn facts(image: &Elf) -> Vec<String> {
    let (names, table) = (image.names().expect("names"), image.symbols().expect("symbols"));
    let mut facts = vec![format!("{names:?}"), format!("{:?}", image.build_id().expect("a build-id")), format!("{:?}", image.requirements())];
    facts.extend(table.symbols.iter().map(|symbol| {
        format!("{} {:?} {:?} {:?} {:?} {:?}", symbol.name, symbol.binding, symbol.kind, symbol.visibility, symbol.place, table.version(symbol))
    }));
    let mut bound: Vec<String> = image
        .symbolic_relocations()
        .expect("relocations")
        .iter()
        .map(|relocation| format!("{:?} {} at {:#x}", relocation.kind, relocation.symbol, relocation.place))
        .collect();
    bound.sort();
    facts.extend(bound);
    facts
}

#[test]
fn a_stub_exports_what_its_build_does() {
    let stubs = stubs();
    assert_eq!(stubs.len(), 8);
    for (build, path) in stubs {
        assert!(std::fs::metadata(&path).expect("a stub").len() < 100_000, "{}", path.display());
        let image = Elf::open(&path).expect("a library");
        assert_eq!(image.build_id().expect("notes").as_deref(), Some(build.build_id));
        let table = image.symbols().expect("symbols");
        let mut exports: Vec<(String, Option<String>)> = table
            .exports()
            .filter(|symbol| symbol.is_function())
            .map(|symbol| (symbol.name.to_string(), table.version(symbol).map(|version| version.node.to_string())))
            .collect();
        exports.sort();
        let known: Vec<(String, Option<String>)> = build.exports().map(|export| (export.name.to_string(), export.node.map(str::to_string))).collect();
        assert_eq!(exports, known, "{}", path.display());
    }
}

#[test]
fn a_stub_says_what_the_real_library_says() {
    let real = elf_files(&[corpus()]);
    let mut compared = 0;
    for (build, stub) in stubs() {
        let twin =
            real.iter().filter_map(|path| Elf::open(path).ok()).find(|image| image.build_id().is_ok_and(|id| id.as_deref() == Some(build.build_id)));
        let Some(twin) = twin else {
            println!("not compared: {} is not among the libraries at hand", build.source);
            continue;
        };
        assert_eq!(facts(&Elf::open(&stub).expect("a stub")), facts(&twin), "{}", stub.display());
        compared += 1;
    }
    assert!(compared >= 4, "the libraries of stable releases are demanded, {compared} were there");
}
