//! The gate: one configuration, one result; each part of it made to fire and to be silent.

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::{audit, stub};

/// What every configuration here shares: a shim of these names against HIP 7.2.4's list, its linkage not being the point.
fn configure(folder: &Path, more: &Value) -> String {
    let mut config = json!({"schema_version": 1, "shims": [{"file": "libshim.so", "policy": "lax.json", "accepted": []}], "lists": ["hip 7.2.4"]});
    for (key, value) in more.as_object().expect("an object") {
        config[key] = value.clone();
    }
    let text = format!("// a comment\n{config}\n/* and another */\n");
    std::fs::copy("../fixtures/gate/lax.json", folder.join("lax.json")).expect("copied");
    let path = folder.join("gate.jsonc");
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

fn shim(folder: &Path, out: &str, names: &[&str]) {
    stub(folder, out, names, None, &["-nostdlib"]);
}

/// Findings of a check that deny.
fn denied(report: &Value, check: &str) -> usize {
    report["findings"].as_array().expect("findings").iter().filter(|finding| finding["check"] == check && finding["severity"] == "deny").count()
}

fn part<'a>(report: &'a Value, kind: &str) -> &'a Value {
    report["subjects"].as_array().expect("subjects").iter().find(|subject| subject["kind"] == kind).unwrap_or(&Value::Null)
}

fn reference() -> Vec<String> {
    let list: Value = serde_json::from_str(include_str!("../../manifests/interposed-reference.json")).expect("JSON");
    list["exports"].as_array().expect("exports").iter().map(|row| row["name"].as_str().expect("a name").to_string()).collect()
}

#[test]
fn the_start_is_written_once_and_works_once_it_names_a_shim() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vrocm-gate.jsonc");
    let init = || Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).current_dir(&folder).args(["gate", "--init"]).output().expect("runs");
    assert_eq!(init().status.code(), Some(0));
    let text = std::fs::read_to_string(&path).expect("written");
    assert_eq!(init().status.code(), Some(2), "never over what is there");
    std::fs::write(&path, text.replace("target/release/libshim.so", "libshim.so")).expect("written");
    shim(folder.path(), "libshim.so", &["hipMalloc"]);
    let done = audit(&["gate", path.to_str().expect("text")]);
    assert_eq!(done.exit, 1, "{}", done.stderr);
    assert_eq!(done.report["subjects"].as_array().expect("subjects").iter().filter(|part| part["kind"] == "row").count(), 8);
}

#[test]
fn the_table_counts_what_coverage_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = reference();
    shim(folder.path(), "libshim.so", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let done = audit(&["gate", &configure(folder.path(), &json!({}))]);
    assert_eq!(done.exit, 1, "{}", done.stderr);
    let (row, subject) = (part(&done.report, "row"), part(&done.report, "coverage"));
    let doors: u64 = row["doors"].as_object().expect("doors").values().filter_map(Value::as_u64).sum();
    assert_eq!((row["exports"].as_u64(), row["must_interpose"].as_u64(), row["held"].as_u64()), (Some(525), Some(77), Some(24)));
    assert_eq!(Some(doors), subject["labels"]["open"].as_u64());
    assert_eq!(denied(&done.report, "open-door") as u64, doors);
    assert_eq!(part(&done.report, "manifests")["families"], 2);
    let schema: Value = serde_json::from_str(include_str!("../../docs/report.schema.json")).expect("JSON");
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .expect("a schema")
        .iter_errors(&done.report)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .take(3)
        .collect();
    assert_eq!(errors, Vec::<String>::new());
    let text = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).arg("gate").arg(folder.path().join("gate.jsonc")).output().expect("runs");
    let text = String::from_utf8(text.stdout).expect("text");
    let line = text.lines().find(|line| line.trim_start().starts_with("hip 7.2.4")).expect("the table's row");
    assert_eq!(line.split_whitespace().take(6).collect::<Vec<_>>(), ["hip", "7.2.4", "525", "77", "24", "0"], "{text}");
}

#[test]
fn an_acceptance_holds_or_fails_the_gate() {
    let folder = tempfile::tempdir().expect("a folder");
    shim(folder.path(), "libshim.so", &["hipMalloc"]);
    let with = |entry: Value| {
        let shims = json!([{"file": "libshim.so", "policy": "lax.json", "accepted": [entry]}]);
        audit(&["gate", &configure(folder.path(), &json!({"shims": shims}))]).report
    };
    let base = json!({"family": "hip", "reason": "a test", "since": "2026-01-01"});
    let entry = |more: Value| {
        let mut entry = base.clone();
        more.as_object().expect("an object").iter().for_each(|(key, value)| entry[key] = value.clone());
        entry
    };
    let checks = ["stale-acceptance", "expired-acceptance", "manifest-gap"];
    for (more, expected) in [
        (json!({"export": "hipFree"}), [0, 0, 0]),
        (json!({"export": "hipMalloc"}), [1, 0, 0]),
        (json!({"export": "hipFree", "until": "2026-01-02"}), [0, 1, 0]),
        (json!({"export": "hipFry"}), [1, 0, 1]),
        (json!({"family": "hsa", "export": "hsa_memory_free"}), [1, 0, 0]),
        (json!({"family": "cuda", "export": "cuMemFree"}), [1, 0, 1]),
    ] {
        let report = with(entry(more.clone()));
        assert_eq!(checks.map(|check| denied(&report, check)), expected, "{more}");
    }
}

#[test]
fn a_severity_of_the_configuration_decides_the_exit_status() {
    let folder = tempfile::tempdir().expect("a folder");
    shim(folder.path(), "libshim.so", &["hipMalloc"]);
    let with = |severities: Value| audit(&["gate", &configure(folder.path(), &json!({"severities": severities}))]).exit;
    assert_eq!(with(json!({})), 1);
    assert_eq!(with(json!({"open-door": "warn"})), 0);
    assert_eq!(with(json!({"open-door": "warn", "needed-list": "deny"})), 0);
    assert_eq!(with(json!({"opendoor": "warn"})), 2);
}

#[test]
fn since_says_what_was_opened_and_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    shim(folder.path(), "libshim.so", &["hipMalloc", "hipMallocManaged"]);
    shim(folder.path(), "libold.so", &["hipFree", "hipMalloc"]);
    let config = configure(folder.path(), &json!({}));
    let old = folder.path().join("libold.so").display().to_string();
    let same = folder.path().join("libshim.so").display().to_string();
    let change = |since: &str| part(&audit(&["gate", &config, "--since", since]).report, "change").clone();
    assert_eq!((&change(&old)["opened"], &change(&old)["closed"]), (&json!(["hipFree"]), &json!(["hipMallocManaged"])));
    assert_eq!((&change(&same)["opened"], &change(&same)["closed"]), (&json!([]), &json!([])));
    assert_eq!(audit(&["gate", &config, "--since", "/no/such.so"]).exit, 2);
}

#[test]
fn reports_are_written_where_the_configuration_says() {
    let folder = tempfile::tempdir().expect("a folder");
    shim(folder.path(), "libshim.so", &["hipMalloc"]);
    let reports = json!({"sarif": "g.sarif", "junit": "g.xml", "html": "g.html", "gitlab": "g.json", "markdown": "g.md", "github": "g.txt"});
    assert_eq!(audit(&["gate", &configure(folder.path(), &json!({"reports": reports}))]).exit, 1);
    for (name, holds) in [
        ("g.sarif", "2.1.0"),
        ("g.xml", "<testsuites"),
        ("g.html", "class=\"matrix\""),
        ("g.json", "fingerprint"),
        ("g.md", "| hip 7.2.4 |"),
        ("g.txt", "::error "),
    ] {
        let text = std::fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(text.contains(holds), "{name}");
    }
    let bad = audit(&["gate", &configure(folder.path(), &json!({"reports": {"pdf": "g.pdf"}}))]);
    assert_eq!(bad.exit, 2);
    assert!(bad.stderr.contains("reports: \"pdf\" is no format"), "{}", bad.stderr);
}

#[test]
fn what_cannot_be_read_is_no_green_gate() {
    let folder = tempfile::tempdir().expect("a folder");
    shim(folder.path(), "libshim.so", &["hipMalloc"]);
    for more in [
        json!({"runtimes": ["no-such-folder"], "severities": {"open-door": "note"}}),
        json!({"shims": [{"file": "no-such.so"}]}),
        json!({"lists": ["hip 1.0"]}),
        json!({"targets": ["gfx9"]}),
    ] {
        assert_eq!(audit(&["gate", &configure(folder.path(), &more)]).exit, 2, "{more}");
    }
    assert_eq!(audit(&["gate", "/no/such/config"]).exit, 2);
}

#[test]
fn a_family_whose_lists_do_not_fit_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    shim(folder.path(), "libshim.so", &["toyAlloc"]);
    let toy = folder.path().join("toy");
    std::fs::create_dir_all(toy.join("exports")).expect("made");
    let write = |name: &str, value: Value| std::fs::write(toy.join(name), value.to_string()).expect("written");
    write("family.json", json!({"schema_version": 1, "family": "toy", "title": "Toy", "soname_prefix": "libtoy.so", "anchors": ["toyAlloc"]}));
    let entry = |name: &str| {
        format!(
            r#"{{"name": "{name}", "class": "other", "checked": ["1.0.0"], "evidence": [{{"kind": "source", "at": "toy.c", "says": "does nothing"}}]}}"#
        )
    };
    // One entry a line, as every manifest is.
    let classes = |names: &[&str]| {
        let lines: Vec<String> = names.iter().map(|name| entry(name)).collect();
        let text =
            format!("{{\n\"schema_version\": 1,\n\"family\": \"toy\",\n\"releases\": [\"1.0.0\"],\n\"exports\": [\n{}\n]\n}}\n", lines.join(",\n"));
        std::fs::write(toy.join("classes.json"), text).expect("written");
    };
    let list = json!({"schema_version": 1, "family": "toy", "release": "1.0.0", "source": "a test", "soname": "libtoy.so.1", "build_id": "00", "reentry": [], "imports": [], "exports": [{"name": "toyAlloc", "node": null}, {"name": "toyFree", "node": null}]});
    write("exports/1.0.0.json", list);
    let run =
        || audit(&["gate", &configure(folder.path(), &json!({"manifests": ["toy"], "lists": ["toy"], "severities": {"unclassified": "note"}}))]);
    classes(&["toyAlloc", "toyFree"]);
    let good = run();
    assert_eq!((good.exit, denied(&good.report, "manifest-gap")), (0, 0), "{} {}", good.stderr, good.report["findings"]);
    classes(&["toyAlloc"]);
    assert_eq!(denied(&run().report, "manifest-gap"), 1);
}

#[test]
fn a_package_stands_for_the_runtimes_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    shim(folder.path(), "libshim.so", &["hipMalloc"]);
    let inside = folder.path().join("tree/usr/lib");
    std::fs::create_dir_all(&inside).expect("made");
    let mut stubs = std::fs::read_dir("../fixtures/stubs").expect("stubs").flatten().map(|entry| entry.path());
    let hip = stubs.find(|path| path.to_string_lossy().contains("libamdhip64-7")).expect("a stub of HIP 7");
    let pack = |name: &str, with: bool| {
        if with {
            std::fs::copy(&hip, inside.join("libamdhip64.so.7.2.4")).expect("copied");
        } else {
            std::fs::write(inside.join("note.txt"), "nothing here").expect("written");
        }
        let done = Command::new("tar").current_dir(folder.path()).args(["-cf", name, "tree"]).status().expect("tar");
        assert!(done.success());
        audit(&["gate", &configure(folder.path(), &json!({"runtimes": [name], "lists": []}))])
    };
    let empty = pack("empty.tar", false);
    assert_eq!(empty.exit, 2, "{}", empty.stderr);
    assert!(empty.stderr.contains("holds no library named"), "{}", empty.stderr);
    let done = pack("full.tar", true);
    assert_eq!(done.exit, 1, "{}", done.stderr);
    assert!(
        part(&done.report, "row")["runtime"].as_str().is_some_and(|name| name.ends_with("full.tar!/tree/usr/lib/libamdhip64.so.7.2.4")),
        "{}",
        part(&done.report, "row")
    );
}

#[test]
fn real_runtimes_are_gated_with_their_gpu_targets() {
    let Some(corpus) = std::env::var_os("VROCM_CORPUS") else {
        println!("not tested: the gate on real libraries (VROCM_CORPUS is not set; scripts/corpus.sh)");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    shim(folder.path(), "libshim.so", &["hipMalloc", "hsa_memory_allocate"]);
    let mut found: Vec<String> = Vec::new();
    for package in std::fs::read_dir(&corpus).expect("the corpus").flatten() {
        let name = package.file_name().to_string_lossy().into_owned();
        let library = package.path().join("usr/lib/x86_64-linux-gnu");
        if (name.starts_with("libamdhip64-") && !name.contains("-dev") || name.starts_with("libhsa-runtime64-1")) && library.is_dir() {
            found.push(library.display().to_string());
        }
    }
    assert!(found.len() >= 2, "the corpus has runtimes");
    let ask = |target: &str| audit(&["gate", &configure(folder.path(), &json!({"runtimes": found, "lists": [], "targets": [target]}))]);
    let done = ask("gfx900");
    assert_eq!(done.exit, 1, "{}", done.stderr);
    let rows = done.report["subjects"].as_array().expect("subjects").iter().filter(|part| part["kind"] == "row").count();
    assert_eq!(rows, found.len());
    assert_eq!(denied(&done.report, "unsupported-target"), 0);
    assert!(denied(&ask("gfx1250").report, "unsupported-target") > 0);
}
