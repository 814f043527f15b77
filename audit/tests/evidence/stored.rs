//! What is stored of known builds, and the way of somebody who moves to a release that nobody knows.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::{families, support};
use vrocm_audit::elf::Elf;
use vrocm_audit::evidence::audit::Known;
use vrocm_audit::evidence::{self, Verdict};
use vrocm_audit::manifest::readings::VERDICTS;
use vrocm_audit::manifest::{ClassTable, Family};

const NEWEST: (&str, &str) = ("libamdhip64-7_7.2.4-1~exp2_amd64", "libamdhip64.so.7");

/// The library of a known build.
fn library(family: &Family, release: &str) -> Option<std::path::PathBuf> {
    let (package, file) = match (family.name(), release) {
        ("hip", release) => crate::HIP.iter().find(|(known, ..)| *known == release).map(|&(_, package, file)| (package, file))?,
        (_, "5.2.3") => ("libhsa-runtime64-1_5.2.3-3_amd64", "libhsa-runtime64.so.1"),
        (_, "6.1.2") => ("libhsa-runtime64-1_6.1.2-3_amd64", "libhsa-runtime64.so.1"),
        (_, "6.4.3") => ("libhsa-runtime64-1_6.4.3+dfsg-5_amd64", "libhsa-runtime64.so.1"),
        _ => ("libhsa-runtime64-1_7.2.4+dfsg-1~exp1_amd64", "libhsa-runtime64.so.1"),
    };
    support::file(package, file)
}

#[test]
fn what_is_stored_is_what_a_fresh_reading_says() {
    assert_eq!(VERDICTS, Verdict::ALL.map(Verdict::word));
    let (families, table) = (families(), ClassTable::embedded().expect("a table"));
    for family in &families {
        let hints = family.hints().expect("read");
        for build in family.builds {
            let Some(path) = library(family, &build.release.to_string()) else { continue };
            let beneath = family.identity.beneath.as_deref().and_then(|name| families.iter().find(|other| other.name() == name));
            let known = Known { family, beneath, release: Some(build.release), hints: hints.as_ref() };
            let subject = evidence::audit(&Elf::open(&path).expect("opens"), known, &table, &mut Vec::new()).expect("read");
            assert_eq!(subject.build_id.as_deref(), Some(build.build_id));
            let file = format!("../manifests/{}/readings/{}.json", family.name(), build.release);
            let stored = std::fs::read_to_string(&file).unwrap_or_default();
            let fresh = subject.stored(build.release, build.build_id).text();
            assert!(stored == fresh, "{file} is another: vrocm-audit manifest reading {} >{file}", path.display());
            let reading = family.reading(build.build_id).expect("readable").expect("stored");
            assert_eq!((reading.release, reading.exports.len()), (build.release, build.exports().count()));
        }
        assert!(family.reading("0123456789").expect("readable").is_none(), "nobody has seen it");
    }
}

fn run(arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(arguments).output().expect("runs");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn explain_tells_what_the_code_of_each_release_says() {
    let malloc = run(&["explain", "hipMalloc"]);
    assert!(
        malloc.contains("code       7.2.4: allocates, of a size that flows from the caller") && malloc.contains("hsa_amd_memory_pool_allocate"),
        "{malloc}"
    );
    let string = run(&["explain", "hipGetErrorString"]);
    assert!(string.contains("7.2.4: nothing-seen; no call on any way from it leads to memory beneath"), "{string}");
}

/// Writes a manifest: judgements stand one a line, the name first.
fn write(path: &Path, value: &Value) {
    let mut text = value.to_string();
    if path.ends_with("classes.json") {
        let line = |entry: &Value| {
            let mut rest = entry.clone();
            let name = rest.as_object_mut().and_then(|entry| entry.remove("name")).expect("a name");
            format!("{{\"name\": {name}, {}", &rest.to_string()[1..])
        };
        let lines: Vec<String> = value["exports"].as_array().expect("exports").iter().map(line).collect();
        let mut head = value.clone();
        head.as_object_mut().expect("an object").remove("exports");
        let head = head.to_string();
        text = format!("{},\n\"exports\": [\n{}\n]\n}}\n", &head[..head.len() - 1], lines.join(",\n"));
    }
    std::fs::write(path, text).expect("written");
}

/// A copy of the family's folder, changed.
fn copy(folder: &Path, change: impl Fn(&str, &mut Value)) {
    for below in ["", "exports", "readings"] {
        std::fs::create_dir_all(folder.join(below)).expect("created");
        for entry in std::fs::read_dir(Path::new("../manifests/hip").join(below)).expect("readable") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.file_name().expect("a file").to_string_lossy().into_owned();
                let mut value = serde_json::from_str(&std::fs::read_to_string(&path).expect("text")).expect("JSON");
                change(&format!("{below}/{name}"), &mut value);
                if !value.is_null() {
                    write(&folder.join(below).join(name), &value);
                }
            }
        }
    }
}

fn found<'a>(outcome: &'a support::Outcome, check: &str) -> Vec<&'a str> {
    let findings = outcome.report["findings"].as_array().unwrap_or_else(|| panic!("no report: {}", outcome.stderr));
    let denied = findings.iter().filter(|finding| finding["check"] == check && finding["severity"] == "deny");
    denied.filter_map(|finding| finding["symbol"].as_str()).collect()
}

/// A folder's judgements on a known build are held against what is stored, without the library being decoded.
#[test]
fn a_changed_judgement_is_held_against_what_is_stored() {
    let Some(path) = support::file(NEWEST.0, NEWEST.1) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let audited = |change: fn(&str, &mut Value)| {
        copy(folder.path(), change);
        support::audit(&["coverage", path.to_str().expect("a path"), "--manifests", folder.path().to_str().expect("a path")])
    };
    assert!(found(&audited(|_, _| {}), "class-contradicted").is_empty());
    let wrong = audited(|file, value| {
        if file == "/classes.json" {
            let exports = value["exports"].as_array_mut().expect("exports");
            let entry = exports.iter_mut().find(|entry| entry["name"] == "hipMalloc3D").expect("is there");
            entry["class"] = "other".into();
            entry.as_object_mut().expect("an entry").remove("by_version");
        }
    });
    assert_eq!(found(&wrong, "class-contradicted"), ["hipMalloc3D"]);
}

/// 7.2.4 as if nobody knew it: red, then proposals, then a person's word, then green.
#[test]
fn a_move_to_an_unknown_release_goes_from_red_to_green() {
    let Some(path) = support::file(NEWEST.0, NEWEST.1) else { return };
    let path = path.to_str().expect("a path");
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = temporary.path();
    let older = |list: &mut Value| list.as_array_mut().expect("a list").retain(|release| release != "7.2.4");
    copy(folder, |file, value| match file {
        "exports/7.2.4.json" | "readings/7.2.4.json" => *value = Value::Null,
        "/evidence.json" => value["explained"] = Value::Array(Vec::new()),
        "/classes.json" => {
            older(&mut value["releases"]);
            let exports = value["exports"].as_array_mut().expect("exports");
            for entry in exports.iter_mut() {
                older(&mut entry["checked"]);
                for other in entry.get_mut("by_version").and_then(Value::as_array_mut).into_iter().flatten() {
                    older(&mut other["versions"]);
                }
                if let Some(others) = entry.get_mut("by_version").and_then(Value::as_array_mut) {
                    others.retain(|other| other["versions"].as_array().is_some_and(|versions| !versions.is_empty()));
                }
                if entry.get("by_version").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                    entry.as_object_mut().expect("an entry").remove("by_version");
                }
            }
            exports.retain(|entry| entry["checked"].as_array().is_some_and(|checked| !checked.is_empty()));
        }
        _ => {}
    });
    let manifests = folder.to_str().expect("a path");
    let audited = || support::audit(&["coverage", path, "--manifests", manifests]);
    let red = audited();
    let unknown: Vec<String> = found(&red, "unclassified").iter().map(ToString::to_string).collect();
    assert!(unknown.len() > 20 && unknown.contains(&"hipGetDriverEntryPoint".to_string()), "{unknown:?}");
    // What nobody has explained of the new release is said as well: its launches allocate, those that older ones have, too.
    let contradicted: Vec<String> = found(&red, "class-contradicted").iter().map(ToString::to_string).collect();
    assert!(contradicted.len() == 15 && contradicted.iter().all(|name| name.contains("aunch")), "{contradicted:?}");

    // Proposals: exactly the unknown ones, with what the code says; a person puts a word for every `?`.
    let lines = run(&["manifest", "add", path, "--manifests", manifests]);
    assert_eq!(lines.lines().count(), unknown.len());
    assert!(lines.lines().any(|line| line.contains("\"hipGetDriverEntryPoint\", \"class\": \"proc-address\"")), "{lines}");
    let decided = lines.replace("\"class\": \"?\"", "\"class\": \"other\"").replace("\"checked\": [\"7.2\"]", "\"checked\": [\"7.2.4\"]");
    let entries: Vec<Value> = decided.lines().map(|line| serde_json::from_str(line.trim_end_matches(',')).expect("an entry")).collect();
    let edit = |file: &str, change: &dyn Fn(&mut Value)| {
        let path = folder.join(file);
        let mut value = serde_json::from_str(&std::fs::read_to_string(&path).expect("text")).expect("JSON");
        change(&mut value);
        write(&path, &value);
    };
    edit("classes.json", &|value| {
        value["releases"].as_array_mut().expect("releases").push("7.2.4".into());
        let exports = value["exports"].as_array_mut().expect("exports");
        exports.extend(entries.iter().cloned());
        exports.sort_by_key(|entry| entry["name"].as_str().expect("a name").to_string());
    });
    edit("evidence.json", &|value| {
        let explained = contradicted.iter().map(
            |name| serde_json::json!({"name": name, "releases": ["7.2.4"], "verdict": "allocates", "because": "managed variables at first use"}),
        );
        value["explained"] = explained.collect();
    });
    let list = run(&["manifest", "exports", path, "--manifests", manifests, "--release", "7.2.4", "--source", "a test"]);
    std::fs::write(folder.join("exports/7.2.4.json"), list).expect("written");
    let reading = run(&["manifest", "reading", path, "--manifests", manifests]);
    std::fs::write(folder.join("readings/7.2.4.json"), reading).expect("written");
    let green = audited();
    assert!(found(&green, "unclassified").is_empty() && found(&green, "class-contradicted").is_empty());
    assert_eq!(green.report["subjects"][0]["release"], "7.2.4");
}
