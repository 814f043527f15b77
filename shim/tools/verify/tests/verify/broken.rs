//! Every case can fail: each is run against the library with one piece taken out, and against libraries that do nothing, crash, hang or boast.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;

use crate::run::{bare, over_mock, shipped};

/// One piece of the real library, and what is in its place.
struct Mutant {
    name: &'static str,
    /// In `shim/`.
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// The case that must find it, and the start of a row that must be FAIL.
    found_by: (&'static str, &'static str),
}

const MUTANTS: [Mutant; 10] = [
    Mutant {
        name: "the card's own size is reported",
        file: "core/src/shim.rs",
        from: "    (total.min(quota), free.min(quota.saturating_sub(used)))",
        to: "    let _ = used;\n    (total, free)",
        found_by: ("capacity", "hipMemGetInfo, linked"),
    },
    Mutant {
        name: "refusals are not counted",
        file: "core/src/shim.rs",
        from: "        counter.refused.fetch_add(1, Relaxed);",
        to: "        let _ = counter;",
        found_by: ("paths", "hipMalloc, linked: counted, and refused by the library"),
    },
    Mutant {
        name: "nothing is refunded",
        file: "core/src/shim.rs",
        from: "            ledger.release(Card::from_index(self.entry.card), self.entry.bytes);",
        to: "            let _ = ledger;",
        found_by: ("paths", "hipMalloc, linked: given back"),
    },
    Mutant {
        name: "every request is granted",
        file: "core/src/shim.rs",
        from: "    let quota = quota(card)?;\n    let (ledger, place) = ledger(card)?;",
        to: "    let quota = quota(card)?.saturating_mul(64);\n    let (ledger, place) = ledger(card)?;",
        found_by: ("paths", "hipMalloc, linked: refused over the quota"),
    },
    Mutant {
        name: "the first process's charge is left out",
        file: "core/src/ledger/counter.rs",
        from: "cells.get(..slots - block * SLOTS_PER_BLOCK)",
        to: "cells.get(1..slots - block * SLOTS_PER_BLOCK)",
        found_by: ("processes", "refused while another process holds it"),
    },
    Mutant {
        name: "every card has the first one's figure",
        file: "core/src/shim.rs",
        from: "config.figure(card.ids, card.position)",
        to: "config.figure(card.ids, Some(0))",
        found_by: ("cards", "card 1 reports its own figure"),
    },
    Mutant {
        name: "the dead are not swept",
        file: "core/src/ledger/protocol.rs",
        from: "            shared.sweep(slot);",
        to: "",
        found_by: ("stranded", "granted after SIGKILL to a process that was there"),
    },
    Mutant {
        name: "what code takes is not charged",
        file: "core/src/interpose/hsa/image.rs",
        from: ".filter(|_| span != 0)",
        to: ".filter(|_| span == u64::MAX)",
        found_by: ("paths", "hipModuleLoad, linked: refused over the quota"),
    },
    Mutant {
        name: "HSA reports the card's own size to whoever asks",
        file: "core/src/interpose/hsa/system.rs",
        from: "    if call.is_from_hip() {\n        return;",
        to: "    if !call.is_from_hip() {\n        return;",
        found_by: ("capacity", "hsa_amd_memory_pool_get_info, size, linked"),
    },
    Mutant {
        name: "dlsym is not looked after",
        file: "preload/src/exports.rs",
        from: "#[cfg(target_arch = \"x86_64\")]\nlook_up!(dlsym, \"rdx\");",
        to: "",
        found_by: ("binding", "dlsym"),
    },
];

/// The newest release that is there.
fn newest() -> &'static Runtime {
    Runtime::present().pop().expect("a release")
}

#[test]
fn the_library_with_one_piece_taken_out_is_found() {
    let folder = Mock::new();
    let copy = folder.folder().join("shim");
    let mut missed = Vec::new();
    for Mutant { name, file, from, to, found_by: (case, check) } in MUTANTS {
        copy_sources(&copy);
        let path = copy.join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{name}: {file} no longer has {from:?}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let mut arguments = vec!["--case", case, "--timeout", "20"];
        if case == "paths" {
            arguments.extend(["--path", check.split(',').next().unwrap()]);
        }
        let outcome = over_mock(&[newest()], 2, &build(&copy), &arguments);
        let found = outcome.of(case, "FAIL").iter().any(|row| row.starts_with(check));
        if !found || outcome.status != 1 {
            missed.push(format!("{name}: status {}, {:?}", outcome.status, outcome.of(case, "FAIL")));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Nothing interposed: every case of the library fails, and each runs to its end.
#[test]
fn a_library_that_does_nothing_fails_every_case() {
    let folder = Mock::new();
    let silent = compile(folder.folder(), "silent");
    let runtimes = Runtime::present();
    // 5.2.3 does not come to an end with stream-ordered memory left, which is what the refusal spares it.
    let outcome = over_mock(&runtimes, 2, &silent, &["--timeout", "5", "--path", "hipMalloc", "--path", "hsa_memory_allocate"]);
    assert_eq!(outcome.status, 1, "{}", outcome.text);
    let expected = ["host", "linkage", "coverage", "binding", "capacity", "paths", "hsa-paths", "processes", "cards", "stranded"];
    let expected = expected.iter().chain((runtimes.len() > 1).then_some(&"releases"));
    for case in expected {
        assert!(!outcome.of(case, "FAIL").is_empty(), "{case}: {}", outcome.text);
    }
}

/// The loader leaves out what it cannot load, with a line: the program must not take that for a library that holds.
#[test]
fn a_library_that_is_left_out_fails() {
    let folder = Mock::new();
    let none = folder.folder().join("libvrocm.so");
    fs::write(&none, "PASS\n").unwrap();
    let outcome = bare(&none, &["--case", "host", "--case", "linkage"]);
    assert_eq!(outcome.status, 1, "{}", outcome.text);
    assert!(outcome.of("host", "FAIL").iter().any(|row| row.starts_with("mapped where it is preloaded")), "{}", outcome.text);
    assert!(!outcome.of("linkage", "FAIL").is_empty(), "{}", outcome.text);
}

/// A probe's death or silence is a row; what it printed before is none.
#[test]
fn a_probe_that_dies_or_hangs_is_a_row() {
    let folder = Mock::new();
    let cases = ["--case", "processes", "--case", "stranded", "--case", "compute", "--timeout", "2"];
    for (name, word) in [("crash", "signal 6"), ("hang", "did not answer")] {
        let outcome = over_mock(&[newest()], 2, &compile(folder.folder(), name), &cases);
        assert_eq!(outcome.status, 1, "{name}: {}", outcome.text);
        for case in ["processes", "stranded"] {
            let failed = outcome.of(case, "FAIL");
            assert!(failed.iter().any(|row| row.contains(word)), "{name}: {failed:?}");
            assert!(outcome.of(case, "PASS").is_empty(), "{name}: {}", outcome.text);
        }
        assert_eq!(outcome.of("compute", "SKIP").len(), vrocm_verify::compute::CHECKS.len(), "{name}: the run went on");
    }
}

/// A dump and verdicts in what a process prints are words: what was granted was granted.
#[test]
fn a_library_that_boasts_fails() {
    let folder = Mock::new();
    let boast = compile(folder.folder(), "boast");
    let outcome = over_mock(
        &[newest()],
        1,
        &boast,
        &["--case", "paths", "--case", "host-memory", "--path", "hipMalloc", "--path", "hipMallocManaged", "--path", "hipHostMalloc"],
    );
    assert_eq!(outcome.status, 1, "{}", outcome.text);
    let failed = outcome.of("paths", "FAIL");
    for path in ["hipMalloc", "hipMallocManaged"] {
        assert!(failed.iter().any(|row| row.starts_with(&format!("{path}, linked: refused over the quota"))), "{failed:?}");
    }
    assert!(outcome.of("host-memory", "FAIL").iter().any(|row| row.starts_with("hipHostMalloc: granted")), "{}", outcome.text);
}

/// A library of C under the name of ours.
fn compile(folder: &Path, name: &str) -> PathBuf {
    let folder = folder.join(name);
    fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libvrocm.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/verify/shims/{name}.c"));
    let status = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status().expect("a C compiler");
    assert!(status.success(), "{name}.c");
    library
}

/// The shim's two crates in a workspace of their own.
fn copy_sources(to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["core/src", "preload/src"] {
        copy_folder(&from.join(folder), &to.join(folder));
    }
    for file in ["core/Cargo.toml", "preload/Cargo.toml", "preload/build.rs"] {
        copy_file(&from.join(file), &to.join(file));
    }
    // What the crates' manifests name beside the library: a test and a bench of the ledger, which are not built.
    for file in ["core/tests/processes.rs", "core/benches/ledger.rs"] {
        fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
        fs::write(to.join(file), "fn main() {}\n").unwrap();
    }
    let root = fs::read_to_string(from.join("../Cargo.toml")).unwrap();
    let package = root.split("[workspace.package]").nth(1).unwrap().split("\n[").next().unwrap();
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [\"core\", \"preload\"]\n[workspace.package]{package}\n[workspace.dependencies]\n\
         vrocm-core = {{ path = \"core\" }}\n[profile.release]\nopt-level = 3\nlto = \"fat\"\ncodegen-units = 1\npanic = \"abort\"\n"
    );
    fs::write(to.join("Cargo.toml"), manifest).unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() { copy_folder(&entry.path(), &target) } else { copy_file(&entry.path(), &target) }
    }
}

/// Written only where it differs, so that only what was changed is built again.
fn copy_file(from: &Path, to: &Path) {
    let bytes = fs::read(from).unwrap();
    if fs::read(to).is_ok_and(|there| there == bytes) {
        return;
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::write(to, bytes).unwrap();
}

fn build(workspace: &Path) -> PathBuf {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--release", "--offline", "-q", "-p", "vrocm-preload", "--target-dir"])
        .arg(workspace.join("target"))
        .current_dir(workspace);
    // Lints are the workspace's business; a mutant leaves things unused.
    command.env("RUSTFLAGS", "-Awarnings");
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "a mutant must build: {}", String::from_utf8_lossy(&output.stderr));
    workspace.join("target/release/libvrocm.so")
}

/// The unchanged copy passes what the mutants fail.
#[test]
fn the_copy_without_a_change_passes() {
    let folder = Mock::new();
    let copy = folder.folder().join("shim");
    copy_sources(&copy);
    let library = build(&copy);
    assert_ne!(library, shipped());
    let mut arguments: Vec<&str> = MUTANTS.iter().flat_map(|mutant| ["--case", mutant.found_by.0]).collect();
    arguments.extend(["--path", "hipMalloc", "--path", "hipModuleLoad"]);
    let outcome = over_mock(&[newest()], 2, &library, &arguments);
    assert_eq!(outcome.status, 0, "{}", outcome.all("FAIL").join("\n"));
}
