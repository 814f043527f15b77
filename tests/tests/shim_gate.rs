//! The gate of our own shim: what `vrocm-audit` says of the library as it is shipped, over every runtime that is there and over the lists inside the
//! program. Broken on purpose, it is red.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use vrocm_tests::corpus;
use vrocm_tests::driver::{Driver, End, Session, Status};
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim;

const MIB: u64 = 1 << 20;

/// `vrocm-audit`, built on first use: it carries the list of the shim's rows, so it has to be as new as the shim.
fn auditor() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = std::env::current_exe().expect("a program knows its path");
        let target = program.ancestors().nth(3).expect("a test program lies in a target directory");
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "-q", "-p", "vrocm-audit", "--target-dir"])
            .arg(target)
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "vrocm-audit cannot be built");
        target.join("debug/vrocm-audit")
    })
}

fn audit(command: &str, arguments: &[&Path], shim: Option<&Path>) -> (i32, serde_json::Value) {
    let mut program = Command::new(auditor());
    program.arg(command).args(["--format", "json"]).args(arguments);
    if let Some(shim) = shim {
        program.arg("--shim").arg(shim);
    }
    let Output { status, stdout, stderr } = program.output().expect("it runs");
    let said = String::from_utf8_lossy(&stderr);
    let report = serde_json::from_slice(&stdout).unwrap_or_else(|error| panic!("{command}: {error}: {said}"));
    (status.code().expect("it exits"), report)
}

/// The runtimes of the corpus, real files.
fn runtimes() -> Vec<PathBuf> {
    const PACKAGES: [&str; 8] = [
        "libamdhip64-5_5.2.3",
        "libamdhip64-5_5.7.1",
        "libamdhip64-6_6.4.3",
        "libamdhip64-7_7.2.4",
        "libhsa-runtime64-1_5.2.3",
        "libhsa-runtime64-1_6.1.2",
        "libhsa-runtime64-1_6.4.3",
        "libhsa-runtime64-1_7.2.4",
    ];
    let mut found = Vec::new();
    for package in PACKAGES {
        let Some(folder) = corpus::package(package) else {
            corpus::not_tested(&format!("{package} is not in the corpus"));
            continue;
        };
        let libraries = folder.join("usr/lib/x86_64-linux-gnu");
        let entries = std::fs::read_dir(&libraries).expect("the package is unpacked").map(|entry| entry.expect("it can be read").path());
        found.extend(entries.filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (name.starts_with("libamdhip64.so.") || name.starts_with("libhsa-runtime64.so.")) && !path.is_symlink()
        }));
    }
    assert!(!found.is_empty(), "no runtime at all: scripts/corpus.sh");
    found
}

/// Exports that carry one of the labels that must not occur, as `file name label`.
fn failures(report: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    for subject in report["subjects"].as_array().expect("subjects") {
        for export in subject["exports"].as_array().expect("exports") {
            let label = export["label"].as_str().expect("a label");
            if matches!(label, "open" | "unclassified" | "not-bound") {
                found.push(format!("{} {} {label}", subject["file"], export["name"]));
            }
        }
    }
    found
}

/// Findings that deny or warn.
fn loud(report: &serde_json::Value) -> Vec<&serde_json::Value> {
    report["findings"].as_array().expect("findings").iter().filter(|finding| finding["severity"] != "note").collect()
}

fn assert_covers(paths: &[&Path], least: usize) {
    let (exit, report) = audit("coverage", paths, Some(shim::library()));
    assert_eq!(failures(&report), Vec::<String>::new());
    assert!(loud(&report).is_empty(), "{:#?}", loud(&report));
    assert_eq!(exit, 0);
    assert!(report["subjects"].as_array().is_some_and(|subjects| subjects.len() >= least), "{paths:?}: fewer than {least} runtimes were audited");
}

#[test]
fn nothing_is_open_in_the_runtimes_that_are_there() {
    let files = runtimes();
    let all: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    assert_covers(&all, all.len());
    // One by one too: an acceptance for the other family must not be called stale.
    for file in all {
        assert_covers(&[file], 1);
    }
}

#[test]
fn nothing_is_open_in_the_lists_inside_the_program() {
    assert_covers(&[], 8);
}

#[test]
fn it_loads_everywhere() {
    let (exit, report) = audit("linkage", &[shim::library()], None);
    assert!(loud(&report).is_empty(), "{:#?}", loud(&report));
    assert_eq!(exit, 0);
}

/// A row that is gone is an open door, and the gate says which.
#[test]
fn a_row_less_is_red() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["hipMemGetInfo", "hipDeviceSetLimit", "hipMallocManaged"] {
        let broken = folder.path().join("libvrocm.so");
        std::fs::write(&broken, without(name)).expect("it can be written");
        let (exit, report) = audit("coverage", &[], Some(&broken));
        let open: BTreeSet<String> = failures(&report).iter().filter_map(|line| line.split(' ').nth_back(1).map(str::to_owned)).collect();
        assert!(exit == 1 && open.contains(&format!("\"{name}\"")), "{name}: exit {exit}, {open:?}");
    }
}

/// The library with one export that no loader binds: its symbol is hidden.
fn without(name: &str) -> Vec<u8> {
    const HIDDEN: u8 = 2;
    let mut bytes = std::fs::read(shim::library()).expect("it was built");
    let elf = goblin::elf::Elf::parse(&bytes).expect("an ELF file");
    let table = elf.dynamic.as_ref().expect("a dynamic section").info.symtab as usize;
    let index = elf.dynsyms.iter().position(|symbol| elf.dynstrtab.get_at(symbol.st_name) == Some(name));
    let index = index.unwrap_or_else(|| panic!("{name} is not exported"));
    // The symbol table lies in the first segment, whose addresses are offsets; an entry has 24 bytes, the visibility in the sixth.
    bytes[table + 24 * index + 5] = HIDDEN;
    bytes
}

/// A limit that is raised is charged for what ROCr can take because of it, once, and refused where there is no room.
#[test]
fn a_raised_limit_is_charged_once_and_refused_without_room() {
    for runtime in Runtime::present() {
        let mock = Mock::new();
        let mut session = Driver::new(runtime, &mock).shim(&mock, 1024).start();
        session.must("hipInit,0");
        session.must("hipMalloc,4K");
        session.must("hipFree");
        if session.status("hipDeviceSetLimit,0,1024") == Status::Absent {
            assert_eq!(runtime.version, "5.2.3");
            continue;
        }
        let context = runtime.version;
        let held = |session: &mut Session| 1024 * MIB - session.must("hipMemGetInfo").number("free");
        let before = held(&mut session);
        // 64 lanes of 32 waves on each of the mock's 60 units, beyond the 1024 bytes that the runtime starts with.
        let stack = |bytes: u64| (bytes - 1024) * 64 * 32 * 60;
        for (bytes, charged) in [(1024, 0), (2048, 2048), (1024, 2048), (2048, 2048), (4096, 4096), (2048, 4096)] {
            session.must(&format!("hipDeviceSetLimit,0,{bytes}"));
            let expected = if charged == 0 { 0 } else { stack(charged) };
            assert_eq!(held(&mut session) - before, expected, "{context}: {bytes}");
        }
        assert_eq!(session.status("hipDeviceSetLimit,0,65536"), Status::Code(2), "{context}: 7.4 GiB of scratch");
        assert_eq!(session.must("hipDeviceGetLimit,0").number("value"), 2048, "{context}: a refusal changes nothing");
        // What the runtime itself refuses charges nothing, and its answer stands.
        assert_eq!(session.status("hipDeviceSetLimit,1,512"), Status::Code(215), "{context}");
        assert_eq!(session.status("hipDeviceSetLimit,2,900M"), Status::Code(2), "{context}: kernels' heap");
        session.must("hipDeviceSetLimit,2,256M");
        assert_eq!(held(&mut session) - before, stack(4096), "{context}: the heap is charged when it is taken");
        if runtime.is_at_least("7.2.4") {
            session.must("hipDeviceSetLimit,4098,64M");
            assert_eq!(held(&mut session) - before, stack(4096), "{context}: less than the scratch that is allowed already");
            assert_eq!(session.status("hipDeviceSetLimit,4098,1200M"), Status::Code(2), "{context}: more");
        }
        assert_eq!(session.close().end, End::Exit(0), "{context}");
    }
}
