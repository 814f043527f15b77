//! Reports: the JSON against its schema, and that an error is one line on standard error.

mod support;

use std::process::Command;

use serde_json::Value;
use support::audit;

fn schema() -> jsonschema::Validator {
    let text = std::fs::read_to_string("../docs/report.schema.json").expect("the schema");
    jsonschema::validator_for(&serde_json::from_str(&text).expect("JSON")).expect("a schema")
}

fn errors(report: &Value) -> Vec<String> {
    schema().iter_errors(report).map(|error| format!("{}: {error}", error.instance_path())).take(5).collect()
}

#[test]
fn a_coverage_report_keeps_its_schema() {
    let report = audit(&["coverage", "--interposed", "../manifests/interposed-reference.json"]).report;
    assert_eq!(errors(&report), Vec::<String>::new());
    assert_eq!((report["audit"].as_str(), report["verdict"].as_str()), (Some("coverage"), Some("fail")));
}

#[test]
fn an_evidence_report_keeps_its_schema() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("libamdhip64.so.9");
    let built = Command::new("g++").args(["-w", "-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg("../fixtures/evidence/runtime.cpp").status();
    assert!(built.expect("g++").success());
    let report = audit(&["evidence", library.to_str().expect("a readable path")]).report;
    assert_eq!(errors(&report), Vec::<String>::new());
    assert_eq!(report["audit"], "evidence");
}

#[test]
fn a_linkage_report_keeps_its_schema() {
    for file in ["../fixtures/cases/e01-no-sections/libpre.so", "../fixtures/cases/e10-hash-styles/imports-only", "../fixtures/elf/aarch64.so"] {
        let report = audit(&["linkage", file]).report;
        assert_eq!(errors(&report), Vec::<String>::new(), "{file}");
        assert_eq!(report["audit"], "linkage");
    }
}

#[test]
fn a_gfx_report_keeps_its_schema() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("libhsa-runtime64.so.1");
    let built = Command::new("bash").arg("../fixtures/cases/common/build-hsa.sh").arg(&library).status().expect("bash");
    assert!(built.success());
    for (target, verdict) in [(None, "pass"), (Some("gfx942"), "supported"), (Some("gfx1250"), "unsupported"), (Some("gfx11-generic"), "unknown")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gfx-scan"));
        command.arg(&library).args(["--format", "json"]).args(target.map(|target| format!("--target={target}")));
        let report: Value = serde_json::from_slice(&command.output().expect("runs").stdout).expect("JSON");
        assert_eq!(errors(&report), Vec::<String>::new(), "{target:?}");
        assert_eq!((report["audit"].as_str(), report["verdict"].as_str()), (Some("gfx"), Some(verdict)));
    }
}

#[test]
fn the_schema_is_not_satisfied_by_anything() {
    let good = audit(&["coverage", "--interposed", "../manifests/interposed-reference.json"]).report;
    for (pointer, value) in [
        ("/schema_version", Value::from(2)),
        ("/verdict", Value::from("maybe")),
        ("/subjects/0/labels/open", Value::from("many")),
        ("/subjects/0/exports/0/class", Value::from("allocator")),
        ("/subjects/0/release", Value::from("seven")),
        ("/findings/0/severity", Value::from("fatal")),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).expect(pointer) = value;
        assert!(!errors(&bad).is_empty(), "{pointer}");
    }
    let mut more = good;
    more["subjects"][0]["surprise"] = Value::from(1);
    assert!(!errors(&more).is_empty(), "a key that the schema does not name");
}

#[test]
fn findings_are_sorted_and_reports_are_stable() {
    let run = || audit(&["coverage", "--interposed", "../manifests/interposed-reference.json"]).report;
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    let rank = |finding: &Value| ["deny", "warn", "note"].iter().position(|word| finding["severity"] == *word).expect("a severity");
    let ranks: Vec<usize> = first["findings"].as_array().expect("findings").iter().map(rank).collect();
    assert!(ranks.is_sorted() && ranks.len() > 10);
}

#[test]
fn an_error_is_one_line_and_text_has_no_colour_in_a_pipe() {
    let run = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(arguments).output().expect("runs");
    let failed = run(&["coverage", "/no/such/file.so"]);
    assert_eq!(failed.status.code(), Some(2));
    let stderr = String::from_utf8(failed.stderr).expect("text");
    assert_eq!(stderr, "vrocm-audit: /no/such/file.so: no such file\n");

    let text = run(&["coverage", "--interposed", "../manifests/interposed-reference.json"]);
    assert!(!text.stdout.contains(&0x1b), "no escape sequences");
    assert_eq!(text.status.code(), Some(1));
    assert_eq!(run(&["coverage", "--format", "nonsense"]).status.code(), Some(2));
}
