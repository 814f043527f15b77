//! Builds and runs every case under `fixtures/cases/`: what a case is and how it is written down is told in the README there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    shows: String,
    reports: Vec<String>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    #[serde(default)]
    program: Option<String>,
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    exit: i32,
    /// Partial findings that must be in the report.
    #[serde(default)]
    findings: Vec<Value>,
    /// Partial findings that must not.
    #[serde(default)]
    no_findings: Vec<Value>,
    /// Values of the first subject, by JSON pointer.
    #[serde(default)]
    subject: BTreeMap<String, Value>,
    /// Values of the whole report, by JSON pointer.
    #[serde(default)]
    report: BTreeMap<String, Value>,
    /// Partial entries of the first subject's `exports`, by name.
    #[serde(default)]
    exports: BTreeMap<String, Value>,
    /// Text that standard error must hold.
    #[serde(default)]
    stderr: Vec<String>,
}

#[test]
fn every_case_is_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/cases");
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root).expect("cases").map(|entry| entry.expect("entry").path()).filter(|path| path.join("case.json").is_file()).collect();
    folders.sort();
    assert!(folders.len() >= 5, "only {} cases found", folders.len());
    let mut wrong = Vec::new();
    let mut runs = 0;
    for folder in &folders {
        let text = std::fs::read_to_string(folder.join("case.json")).expect("readable");
        let case: Case = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        assert_eq!(Some(case.id.as_str()), folder.file_name().and_then(|name| name.to_str()), "the id is the folder's name");
        assert!(!case.shows.is_empty() && !case.reports.is_empty() && !case.runs.is_empty(), "{}: says what it shows, from where, and how", case.id);
        let built = build(folder);
        for (number, run) in case.runs.iter().enumerate() {
            runs += 1;
            wrong.extend(check(run, built.path()).into_iter().map(|what| format!("{} run {}: {what}", case.id, number + 1)));
        }
    }
    println!("{} cases, {runs} runs", folders.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A fresh folder with the case's files, and with what its `build.sh` makes.
fn build(folder: &Path) -> tempfile::TempDir {
    let target = tempfile::tempdir().expect("a temporary folder");
    copy(folder, target.path());
    let script = folder.join("build.sh");
    if script.is_file() {
        let done = Command::new("bash").arg(&script).arg(target.path()).output().expect("bash runs");
        assert!(done.status.success(), "{}: {}", script.display(), String::from_utf8_lossy(&done.stderr));
    }
    target
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("readable") {
        let path = entry.expect("entry").path();
        let target = to.join(path.file_name().expect("a name"));
        let kind = std::fs::symlink_metadata(&path).expect("metadata").file_type();
        if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&path).expect("a link"), target).expect("a link is made");
        } else if kind.is_dir() {
            std::fs::create_dir_all(&target).expect("a folder is made");
            copy(&path, &target);
        } else {
            std::fs::copy(&path, target).expect("a file is copied");
        }
    }
}

/// Everything about one run that is not as it must be.
fn check(run: &Run, dir: &Path) -> Vec<String> {
    let program = match run.program.as_deref() {
        None | Some("vrocm-audit") => env!("CARGO_BIN_EXE_vrocm-audit"),
        Some("gfx-scan") => env!("CARGO_BIN_EXE_gfx-scan"),
        Some(other) => return vec![format!("no program {other}")],
    };
    let mut command = Command::new(program);
    for variable in ["VROCM_SHIM", "HSA_OVERRIDE_GFX_VERSION"] {
        command.env_remove(variable);
    }
    command.envs(&run.env).args(run.args.iter().map(|argument| argument.replace("{dir}", &dir.display().to_string())));
    if !run.args.iter().any(|argument| argument == "--format") {
        command.args(["--format", "json"]);
    }
    let done = command.output().expect("the program runs");
    let stderr = String::from_utf8_lossy(&done.stderr);
    let mut wrong = Vec::new();
    if done.status.code() != Some(run.exit) {
        wrong.push(format!("exit {:?} instead of {}: {stderr}", done.status.code(), run.exit));
    }
    wrong.extend(run.stderr.iter().filter(|text| !stderr.contains(*text)).map(|text| format!("standard error lacks {text:?}: {stderr}")));
    let report = match serde_json::from_slice(&done.stdout) {
        Ok(report) => report,
        Err(_) if done.stdout.is_empty() => Value::Null,
        Err(error) => {
            wrong.push(format!("the report is no JSON: {error}"));
            Value::Null
        }
    };
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    let found = |wanted: &Value| findings.iter().any(|finding| agrees(wanted, finding));
    wrong.extend(run.findings.iter().filter(|wanted| !found(wanted)).map(|wanted| format!("no finding {wanted}")));
    wrong.extend(run.no_findings.iter().filter(|unwanted| found(unwanted)).map(|unwanted| format!("finding {unwanted}")));
    let subject = &report["subjects"][0];
    for (values, pointer, wanted) in run
        .subject
        .iter()
        .map(|(pointer, wanted)| (subject, pointer, wanted))
        .chain(run.report.iter().map(|(pointer, wanted)| (&report, pointer, wanted)))
    {
        let is = values.pointer(pointer).unwrap_or(&Value::Null);
        if !agrees(wanted, is) {
            wrong.push(format!("{pointer} is {is} instead of {wanted}"));
        }
    }
    for (name, wanted) in &run.exports {
        let export = subject["exports"].as_array().into_iter().flatten().find(|export| export["name"] == name.as_str());
        if !export.is_some_and(|export| agrees(wanted, export)) {
            wrong.push(format!("export {name} is {export:?} instead of {wanted}"));
        }
    }
    wrong
}

/// True if every key of `wanted` agrees with that of `is`; what is no object must be equal. A string may begin and end with `*`.
fn agrees(wanted: &Value, is: &Value) -> bool {
    match (wanted, is) {
        (Value::Object(wanted), Value::Object(is)) => wanted.iter().all(|(key, wanted)| is.get(key).is_some_and(|is| agrees(wanted, is))),
        (Value::String(wanted), Value::String(is)) => match wanted.strip_prefix('*').and_then(|rest| rest.strip_suffix('*')) {
            Some(part) => is.contains(part),
            None => wanted == is,
        },
        _ => wanted == is,
    }
}
