//! The judgements under `manifests/` as tables: a bad entry stops the build with file, entry and rule.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[allow(dead_code, missing_docs, clippy::all, clippy::pedantic)]
#[path = "../src/manifest/schema.rs"]
mod schema;

#[allow(dead_code, missing_docs, clippy::all, clippy::pedantic)]
#[path = "../src/manifest/beyond.rs"]
mod beyond;

#[allow(dead_code, missing_docs, clippy::all, clippy::pedantic)]
#[path = "../src/manifest/builds.rs"]
mod builds;

#[allow(dead_code, missing_docs, clippy::all, clippy::pedantic)]
#[path = "../src/manifest/readings.rs"]
mod readings;

#[allow(dead_code, missing_docs, clippy::all, clippy::pedantic)]
#[path = "../src/manifest/glibc.rs"]
mod glibc;

/// Checks every family and writes `families.rs` for `src/manifest/mod.rs`.
pub fn write() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../manifests");
    println!("cargo::rerun-if-changed={}", root.display());
    println!("cargo::rerun-if-changed=src/manifest/schema.rs");
    println!("cargo::rerun-if-changed=src/manifest/beyond.rs");
    println!("cargo::rerun-if-changed=src/manifest/builds.rs");
    println!("cargo::rerun-if-changed=src/manifest/readings.rs");
    println!("cargo::rerun-if-changed=src/manifest/glibc.rs");
    check_glibc(&root);
    let mut families: Vec<PathBuf> =
        fs::read_dir(&root).expect("manifests/ is part of the checkout").map(|entry| entry.expect("readable").path()).collect();
    families.retain(|folder| folder.join("family.json").is_file());
    families.sort();
    let mut code = String::from("pub(super) static FAMILIES: &[Embedded] = &[\n");
    for folder in &families {
        write_family(&mut code, folder);
    }
    code.push_str("];\n");
    write_ways(&mut code, &root.join("beyond.json"));
    let target = Path::new(&env::var("OUT_DIR").expect("set by cargo")).join("families.rs");
    fs::write(target, code).expect("the build folder is writable");
}

fn write_ways(code: &mut String, path: &Path) {
    let text = fs::read_to_string(path).unwrap_or_else(|error| fail(&format!("{}: {error}", beyond::FILE)));
    code.push_str("pub(super) static WAYS: &[Way] = &[\n");
    for way in beyond::ways(beyond::FILE, &text).unwrap_or_else(|bad| fail(&bad.to_string())) {
        writeln!(code, "{},", rust(&way)).expect("a string takes it");
    }
    code.push_str("];\n");
}

fn check_glibc(root: &Path) {
    for (name, with_versions) in [("symbols-x86_64.txt", true), ("musl-x86_64.txt", false)] {
        let file = format!("manifests/glibc/{name}");
        let text = fs::read_to_string(root.join("glibc").join(name)).unwrap_or_else(|error| fail(&format!("{file}: {error}")));
        glibc::check_list(&file, &text, with_versions).unwrap_or_else(|bad| fail(&bad.to_string()));
    }
    glibc::Glibc::embedded().unwrap_or_else(|bad| fail(&bad.to_string()));
}

fn write_family(code: &mut String, folder: &Path) {
    let name = folder.file_name().expect("a folder").to_string_lossy();
    let path = folder.join("classes.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| fail(&format!("manifests/{name}/classes.json: {error}")));
    let rows = schema::rows(&format!("manifests/{name}/classes.json"), &text).unwrap_or_else(|bad| fail(&bad.to_string()));
    let absolute = |file: &Path| fs::canonicalize(file).expect("exists").display().to_string();
    writeln!(
        code,
        "Embedded {{ name: {name:?}, family: include_str!({:?}), classes: include_str!({:?}), evidence: {}, rows: &[",
        absolute(&folder.join("family.json")),
        absolute(&path),
        Some(folder.join("evidence.json"))
            .filter(|file| file.is_file())
            .map_or("None".into(), |file| format!("Some(include_str!({:?}))", absolute(&file)))
    )
    .expect("a string takes it");
    for row in rows {
        writeln!(code, "{},", rust(&row)).expect("a string takes it");
    }
    code.push_str("], builds: &[\n");
    let entries = fs::read_dir(folder.join("exports")).into_iter().flatten();
    let mut builds: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("readable").path();
            let file = format!("manifests/{name}/exports/{}", path.file_name().expect("a file").to_string_lossy());
            let text = fs::read_to_string(&path).unwrap_or_else(|error| fail(&format!("{file}: {error}")));
            builds::known_build(&file, &text).unwrap_or_else(|bad| fail(&bad.to_string()))
        })
        .collect();
    builds.sort_by_key(|build| build.release);
    for build in &builds {
        writeln!(code, "{},", rust(build)).expect("a string takes it");
    }
    code.push_str("], readings: &[\n");
    let mut paths: Vec<_> = fs::read_dir(folder.join("readings")).into_iter().flatten().map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    for path in &paths {
        let file = format!("manifests/{name}/readings/{}", path.file_name().expect("a file").to_string_lossy());
        let text = fs::read_to_string(path).unwrap_or_else(|error| fail(&format!("{file}: {error}")));
        let reading = readings::CodeReading::read(&file, &text).unwrap_or_else(|bad| fail(&bad.to_string()));
        if !builds.iter().any(|build| (build.release, build.build_id) == (reading.release, &reading.build_id)) {
            fail(&format!("{file}: no list under exports/ has the build {} of {}", reading.build_id, reading.release));
        }
        writeln!(code, "({file:?}, include_str!({:?})),", absolute(path)).expect("a string takes it");
    }
    code.push_str("] },\n");
}

/// The derived text of a row is Rust, but for the slices, which lack their borrow.
fn rust(row: &impl std::fmt::Debug) -> String {
    format!("{row:?}").replace(": [", ": &[")
}

fn fail(problem: &str) -> ! {
    println!("cargo::error={problem}");
    std::process::exit(1)
}
