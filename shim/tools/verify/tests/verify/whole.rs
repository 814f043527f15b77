//! Runs in which all holds that can be tried.

use std::collections::BTreeSet;

use vrocm_tests::runtime::Runtime;

use crate::run::{bare, command, over_mock, shipped};

/// Cases that a mock can try.
const BY_MOCK: [&str; 11] =
    ["host", "linkage", "coverage", "binding", "capacity", "paths", "hsa-paths", "host-memory", "processes", "cards", "stranded"];
/// What needs a card, by name.
const COMPUTE: [&str; 7] = ["yardstick", "alone", "repeat", "fair share", "sum", "ordering", "ceiling"];

/// Ways that every release has.
const PLAIN: [&str; 5] = ["hipMalloc", "hipExtMallocWithFlags", "hipMallocManaged", "hipMallocPitch", "hipMalloc3D"];

#[test]
fn all_holds_under_every_release() {
    let newest = Runtime::present().pop().expect("a release").version;
    for runtime in Runtime::present() {
        // Every way on the newest; on the others those that every release has.
        let mut arguments = Vec::new();
        if runtime.version != newest {
            arguments.extend(
                PLAIN.iter().chain(&["hipMallocAsync", "hipMemCreate", "hsa_memory_allocate", "hipHostMalloc"]).flat_map(|path| ["--path", path]),
            );
        }
        let outcome = over_mock(&[runtime], 2, &shipped(), &arguments);
        let context = format!("{}: {}", runtime.version, outcome.all("FAIL").join("\n"));
        assert_eq!(outcome.status, 0, "{context}");
        for case in BY_MOCK {
            assert!(!outcome.of(case, "PASS").is_empty(), "{context}: {case} has no PASS");
        }
        for path in vrocm_verify::paths::device().iter().filter(|path| arguments.is_empty() || arguments.contains(&path.name)) {
            let prefix = format!("{}, linked", path.name);
            assert!(outcome.rows.iter().any(|row| row[0] == "paths" && row[1].starts_with(&prefix)), "{context}: {prefix} has no row");
        }
        // What every release can do is never skipped.
        let modules = if arguments.is_empty() { &["hipModuleLoad", "hipModuleLoadData", "hipModuleLoadDataEx"][..] } else { &[] };
        for path in PLAIN.iter().chain(modules) {
            for check in ["granted under the quota", "given back", "refused over the quota", "lives on", "counted, and refused by the library"] {
                let wanted = format!("{path}, linked: {check}");
                assert!(outcome.rows.iter().any(|row| row[1] == wanted && row[2] == "PASS"), "{context}: {wanted}");
            }
        }
        let untried = outcome.of("compute", "SKIP").join("\n");
        assert!(COMPUTE.iter().all(|name| untried.contains(name)) && outcome.of("compute", "PASS").is_empty(), "{context}: {untried}");
        assert!(!outcome.of("cu-mask", "SKIP").is_empty() && !outcome.of("releases", "SKIP").is_empty(), "{context}");
    }
}

#[test]
fn one_file_under_several_releases() {
    let runtimes = Runtime::present();
    if runtimes.len() < 2 {
        eprintln!("not tested: one release alone is there");
        return;
    }
    let outcome = over_mock(&runtimes, 1, &shipped(), &["--case", "releases"]);
    assert_eq!(outcome.status, 0, "{}", outcome.text);
    assert_eq!(outcome.of("releases", "PASS").len(), runtimes.len() * 4 + 1, "{}", outcome.text);
    // One release named twice is not two.
    let outcome = over_mock(&[runtimes[0], runtimes[0]], 1, &shipped(), &["--case", "releases"]);
    assert_eq!((outcome.status, outcome.of("releases", "FAIL").len()), (1, 1), "{}", outcome.text);
}

#[test]
fn without_a_card_the_file_is_judged_and_the_rest_named() {
    let outcome = bare(&shipped(), &["--case", "host", "--case", "linkage", "--case", "compute"]);
    assert_eq!(outcome.status, 0, "{}", outcome.text);
    let cases: BTreeSet<&str> = outcome.rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(cases, BTreeSet::from(["host", "linkage", "compute"]));
}

/// One way alone, and the cases that have it not say so.
#[test]
fn one_way_is_tried_alone() {
    let Some(runtime) = Runtime::present().pop() else { panic!("no release") };
    let outcome =
        over_mock(&[runtime], 1, &shipped(), &["--case", "paths", "--case", "hsa-paths", "--case", "host-memory", "--path", "hipMallocPitch"]);
    assert_eq!(outcome.status, 0, "{}", outcome.text);
    assert!(outcome.of("paths", "PASS").iter().all(|row| row.starts_with("hipMallocPitch, linked")), "{}", outcome.text);
    assert_eq!((outcome.of("paths", "PASS").len(), outcome.all("SKIP").len()), (5, 2), "{}", outcome.text);
}

/// A run in which nothing could fail is a failure; one that was not possible is neither.
#[test]
fn nothing_tried_is_no_pass() {
    let outcome = bare(&shipped(), &["--case", "compute"]);
    assert_eq!((outcome.status, outcome.all("FAIL").len(), outcome.all("SKIP").len()), (1, 0, COMPUTE.len()), "{}", outcome.text);
    for arguments in [
        &["--case", "nonsense"][..],
        &["--shim", "/nowhere/libvrocm.so"],
        &["--quota", "1"],
        &["--path", "hipMallocs"],
        &["--runtime", "/nowhere/libamdhip64.so.7"],
    ] {
        let output = command(arguments).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}");
    }
}

#[test]
fn every_case_is_listed_and_junit_is_written() {
    let listed = String::from_utf8(command(&["--list"]).output().unwrap().stdout).unwrap();
    assert_eq!(
        listed.lines().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(),
        vrocm_verify::cases::CASES.iter().map(|case| case.name).collect::<Vec<_>>()
    );
    let folder = vrocm_tests::mock::Mock::new();
    let file = folder.folder().join("junit.xml");
    let outcome = bare(&shipped(), &["--case", "linkage", "--case", "compute", "--junit", file.to_str().unwrap()]);
    let xml = std::fs::read_to_string(file).unwrap();
    let tests = outcome.rows.iter().filter(|row| row[2] != "INFO").count();
    assert_eq!(xml.matches("<testcase ").count(), tests, "{xml}");
    assert_eq!(xml.matches("<skipped").count(), COMPUTE.len(), "{xml}");
}
