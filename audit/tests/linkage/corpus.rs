//! The real libraries of the corpus go through `linkage`: facts as known, and no error.

use std::path::{Path, PathBuf};

use vrocm_audit::elf::Elf;
use vrocm_audit::linkage::{self, Policy};

fn corpus() -> PathBuf {
    let Some(folder) = std::env::var_os("VROCM_CORPUS") else {
        panic!("VROCM_CORPUS is not set: scripts/corpus.sh fetches the packages and says where they are");
    };
    folder.into()
}

fn libraries(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            libraries(&path, found);
        } else if name.contains(".so") {
            found.push(path);
        }
    }
}

#[test]
fn every_library_is_answered() {
    let policy = Policy::embedded().expect("good data");
    let mut files = Vec::new();
    libraries(&corpus(), &mut files);
    let mut runtimes = 0;
    for file in &files {
        let image = match Elf::open(file) {
            Ok(image) => image,
            // Linker scripts and plug-in descriptions go by the same name.
            Err(error) if error.field == "file" => continue,
            Err(error) => panic!("{error}"),
        };
        let (subject, findings) = linkage::audit(&image, &policy, None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(subject.loads_on.len(), policy.glibc.systems.len());
        if subject.soname.as_deref().is_some_and(|soname| soname.starts_with("libamdhip64.so")) {
            runtimes += 1;
            let said = |id: &str| findings.iter().any(|found| found.check == id);
            assert!(said("needed-list") && said("soname") && said("version-floor") && said("undefined-runtime"), "{}", file.display());
            assert!(subject.exports.len() > 400 && subject.floors.contains_key("GLIBCXX"), "{}", file.display());
        }
    }
    assert!(runtimes > 0, "no libamdhip64 among the {} libraries of the corpus", files.len());
}
