//! Builds by other compilers and with other options, and other machines: what still works and what is refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{BENEATH, hints, support};
use vrocm_audit::elf::Elf;
use vrocm_audit::evidence::Verdict;
use vrocm_audit::evidence::read::{self, Reading};
use vrocm_audit::manifest::Hints;

/// Builds the miniature runtime; `None` where the compiler is not there.
pub(crate) fn miniature(folder: &Path, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    let out = folder.join("runtime.so");
    let mut command = Command::new(compiler);
    command.args(["-w", "-shared", "-fPIC", "-o"]).arg(&out).arg("../fixtures/evidence/runtime.cpp").args(options);
    match command.output() {
        Ok(done) if done.status.success() => Some(out),
        Ok(done) => panic!("{compiler} {options:?}: {}", String::from_utf8_lossy(&done.stderr)),
        Err(_) => {
            println!("not tested: {compiler} is not installed");
            None
        }
    }
}

pub(crate) fn read_miniature(path: &Path) -> Reading {
    let hints = Hints {
        seeds: vec!["hipMalloc".into(), "hipMallocArray".into()],
        negatives: vec!["hipEventQuery".into(), "hipMemcpy".into()],
        explained: Vec::new(),
        ..hints()
    };
    read::read(&Elf::open(path).expect("opens"), Some(&hints), BENEATH).expect("read")
}

fn verdict(reading: &Reading, name: &str) -> Verdict {
    reading.exports.iter().find(|export| export.name == name).unwrap_or_else(|| panic!("{name} is not exported")).verdict
}

#[test]
fn other_compilers_and_options() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let builds: [(&str, &[&str]); 11] = [
        ("g++", &["-O2"]),
        ("g++", &["-O1"]),
        ("g++", &["-Os"]),
        ("g++", &["-O2", "-fno-plt", "-Wl,-z,now"]),
        ("g++", &["-O2", "-DNO_TABLE"]),
        ("g++", &["-O2", "-flto"]),
        ("clang++", &["-O2"]),
        ("clang++", &["-O1"]),
        ("clang++", &["-Os"]),
        ("clang++", &["-O2", "-fno-plt", "-Wl,-z,now"]),
        ("clang++", &["-O2", "-DNO_TABLE"]),
    ];
    for (compiler, options) in builds {
        let Some(path) = miniature(folder.path(), compiler, options) else { continue };
        let reading = read_miniature(&path);
        let core = reading.core.as_ref().unwrap_or_else(|why| panic!("{compiler} {options:?}: {why}; {:#?}", reading.tables));
        assert_eq!(core.class, "N2rt6MemoryE", "{compiler} {options:?}");
        for name in ["hipMalloc", "hipMallocArray", "hipMemCreate"] {
            assert_eq!(verdict(&reading, name), Verdict::Allocates, "{compiler} {options:?}: {name}");
        }
        for name in ["hipEventQuery", "hipMemcpy", "hipEventCreate"] {
            assert_eq!(verdict(&reading, name), Verdict::NothingSeen, "{compiler} {options:?}: {name}");
        }
        assert_eq!(verdict(&reading, "hipGetProcAddress"), Verdict::HandsOutPointers, "{compiler} {options:?}");
        if !options.contains(&"-DNO_TABLE") {
            assert_eq!(verdict(&reading, "hipEmpty"), Verdict::Unknown, "{compiler} {options:?}");
        }
    }
}

#[test]
fn coverage_of_an_unheard_of_build_says_what_the_code_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(path) = miniature(folder.path(), "g++", &["-O2", "-Wl,-soname,libamdhip64.so.9"]) else { return };
    let path = path.to_str().expect("a readable path");
    let outcome = support::audit(&["coverage", path, "--interposed", "../manifests/interposed-reference.json"]);
    let findings = outcome.report["findings"].as_array().expect("findings");
    let of = |symbol: &str| findings.iter().find(|finding| finding["check"] == "unclassified" && finding["symbol"] == symbol).expect("unclassified");
    let unheard = of("hipMallocUnheardOf");
    assert_eq!(unheard["evidence"]["code"], "allocates", "{unheard}");
    assert!(unheard["message"].as_str().expect("text").contains("0x"), "{unheard}");
    assert_eq!(of("hipEmpty")["evidence"]["code"], "unknown");
    assert!(!outcome.found("class-contradicted", "hipMalloc"));
    let proposed = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(["manifest", "add", path]).output().expect("runs");
    let lines = String::from_utf8(proposed.stdout).expect("text");
    let line = |name: &str| lines.lines().find(|line| line.contains(&format!("\"{name}\""))).unwrap_or_else(|| panic!("{name}: {lines}"));
    assert!(line("hipMallocUnheardOf").contains("\"class\": \"device-alloc\""));
    // What nothing was seen of is for a person to judge: the word is no class, and the build refuses it.
    assert!(line("hipEmpty").contains("\"class\": \"?\""));
    assert!(!lines.contains("\"hipFree\""), "known already");
}

/// The getter then fills several slots at once through registers of 32 bytes, which the reading does not model.
#[test]
fn a_table_filled_by_unmodelled_instructions_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(path) = miniature(folder.path(), "g++", &["-O3", "-march=x86-64-v3"]) else { return };
    let reading = read_miniature(&path);
    let refused = reading.tables[0].refused.as_deref().expect("refused");
    assert!(refused.contains("0x"), "{refused}");
    assert!(reading.self_checks.iter().any(|check| check.name == "dispatch-table" && !check.holds));
    assert!(reading.exports.iter().filter(|export| export.name.starts_with("hip")).all(|export| export.verdict == Verdict::Unknown));
}

#[test]
fn without_type_information_nothing_is_claimed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for compiler in ["g++", "clang++"] {
        let Some(path) = miniature(folder.path(), compiler, &["-O2", "-fno-rtti"]) else { continue };
        let reading = read_miniature(&path);
        let why = reading.core.as_ref().expect_err("no core");
        assert!(why.contains("RTTI"), "{why}");
        assert_eq!(verdict(&reading, "hipMalloc"), Verdict::Unknown);
        assert_eq!(verdict(&reading, "hipGetProcAddress"), Verdict::HandsOutPointers);
        // What is left is the alarm.
        let alarmed =
            |name: &str| reading.exports.iter().any(|export| export.name == name && export.alarm.is_some() && export.says.contains("shares"));
        assert!(alarmed("hipMemCreate") && !alarmed("hipEventQuery") && !alarmed("hipMemcpy"));
    }
}

#[test]
fn another_machine_is_unknown() {
    let image = Elf::open(Path::new("../fixtures/elf/aarch64.so")).expect("opens");
    let reading = read::read(&image, Some(&hints()), BENEATH).expect("read");
    assert!(!reading.exports.is_empty());
    assert!(reading.exports.iter().all(|export| export.verdict == Verdict::Unknown && export.says.contains("x86-64")));
}
