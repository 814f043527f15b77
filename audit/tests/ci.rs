//! What other people's CI takes from this repository, executed from the files themselves: the action, the hook, the last job of the workflows.
//!
//! An action's steps run as a runner runs them: the same shell, inputs and expressions filled in, the first failing step the last. An expression or a key that
//! this driver does not know fails the test, instead of being passed over.
#![cfg(target_arch = "x86_64")]

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Value, json};
use support::stub;

/// A YAML file as JSON.
fn yaml(text: &str) -> Value {
    fn convert(node: &Yaml) -> Value {
        match node {
            Yaml::Value(Scalar::String(text)) => json!(text),
            Yaml::Value(Scalar::Boolean(value)) => json!(value),
            Yaml::Value(Scalar::Integer(value)) => json!(value),
            Yaml::Value(Scalar::Null) => Value::Null,
            Yaml::Sequence(items) => items.iter().map(convert).collect(),
            Yaml::Mapping(entries) => {
                Value::Object(entries.iter().map(|(key, value)| (key.as_str().expect("a key").to_string(), convert(value))).collect())
            }
            other => panic!("no JSON for {other:?}"),
        }
    }
    convert(&Yaml::load_from_str(text).expect("YAML")[0])
}

fn file(path: &str) -> Value {
    yaml(&std::fs::read_to_string(Path::new("..").join(path)).expect("there"))
}

/// What `${{ }}` stands for.
type Context = BTreeMap<String, String>;

/// Text with its expressions filled in.
fn fill(text: &str, context: &Context) -> String {
    let mut parts = text.split("${{");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (expression, rest) = part.split_once("}}").expect("an expression has an end");
        out += context.get(expression.trim()).unwrap_or_else(|| panic!("{expression:?} is no expression this driver knows"));
        out += rest;
    }
    out
}

/// Runs a step's `run` in bash, as `shell: bash` does.
fn run(step: &Value, folder: &Path, context: &Context, environment: &[(&str, &str)]) -> Output {
    for key in step.as_object().expect("a step").keys() {
        assert!(["name", "shell", "env", "run", "if"].contains(&key.as_str()), "a step with {key}: this driver does not know it");
    }
    let script = folder.join("step.sh");
    std::fs::write(&script, fill(step["run"].as_str().expect("run"), context)).expect("written");
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script).current_dir(folder).envs(environment.iter().copied());
    for (name, value) in step["env"].as_object().into_iter().flatten() {
        bash.env(name, fill(value.as_str().expect("text"), context));
    }
    bash.output().expect("bash")
}

/// Stands for the compiler: it takes the command line that the action has and installs the program under test. With `VROCM_REAL_CARGO` set cargo itself is asked.
const CARGO: &str = r#"#!/bin/bash
set -eu
[ "$1" = install ] || { echo "not install: $*" >&2; exit 101; }
shift
path= root=
while [ $# -gt 0 ]; do
    case $1 in
        --quiet | --locked) ;;
        --path) path=$2; shift ;;
        --root) root=$2; shift ;;
        *) echo "unknown: $1" >&2; exit 101 ;;
    esac
    shift
done
grep -q '^name = "vrocm-audit"$' "$path/Cargo.toml" || { echo "no package in $path" >&2; exit 101; }
mkdir -p "$root/bin"
ln -sf "$UNDER_TEST" "$root/bin/vrocm-audit"
"#;

/// What came of the action: its exit status, how many steps ran, what they printed, the summary of the step.
struct Ran {
    exit: i32,
    steps: usize,
    text: String,
    summary: String,
}

/// The action in a project, as `uses:` with these inputs.
fn act(project: &Path, action: &Value, given: &[(&str, &str)], cargo: &str) -> Ran {
    assert_eq!(action["runs"]["using"], "composite");
    let mut context = Context::from([("github.action_path".to_string(), Path::new("..").canonicalize().expect("there").display().to_string())]);
    for (name, input) in action["inputs"].as_object().expect("inputs") {
        context.insert(format!("inputs.{name}"), input["default"].as_str().expect("each input has a default").to_string());
    }
    for (name, value) in given {
        assert!(context.insert(format!("inputs.{name}"), (*value).to_string()).is_some(), "the action has no input {name}");
    }
    let runner = tempfile::tempdir().expect("a folder");
    let tools = runner.path().join("tools");
    std::fs::create_dir(&tools).expect("made");
    let mut path = std::env::var("PATH").expect("PATH");
    if std::env::var_os("VROCM_REAL_CARGO").is_none() {
        std::fs::write(tools.join("cargo"), cargo).expect("written");
        let made = Command::new("chmod").arg("+x").arg(tools.join("cargo")).status().expect("chmod");
        assert!(made.success());
        path = format!("{}:{path}", tools.display());
    }
    let temporary = runner.path().display().to_string();
    let summary = runner.path().join("summary.md");
    let environment = [
        ("PATH", path.as_str()),
        ("RUNNER_TEMP", &temporary),
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_STEP_SUMMARY", summary.to_str().expect("text")),
        ("UNDER_TEST", env!("CARGO_BIN_EXE_vrocm-audit")),
    ];
    let mut ran = Ran { exit: 0, steps: 0, text: String::new(), summary: String::new() };
    for step in action["runs"]["steps"].as_array().expect("steps") {
        assert_eq!(step["shell"], "bash", "a composite step names its shell");
        let done = run(step, project, &context, &environment);
        ran.steps += 1;
        ran.text += &(String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr));
        ran.exit = done.status.code().expect("an exit status");
        if ran.exit != 0 {
            break;
        }
    }
    ran.summary = std::fs::read_to_string(summary).unwrap_or_default();
    ran
}

/// A project whose shim holds all that HIP 7.2.4 asks for but what is left out.
fn project(out: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    std::fs::copy("../fixtures/gate/lax.json", at.join("lax.json")).expect("copied");
    let report = support::audit(&["coverage", "--interposed", "../manifests/interposed-reference.json"]).report;
    let subjects = report["subjects"].as_array().expect("subjects");
    let list = subjects.iter().find(|subject| subject["file"].as_str().is_some_and(|file| file.starts_with("hip 7.2.4"))).expect("the list");
    let exports = list["exports"].as_array().expect("exports").iter().filter(|export| export["must_interpose"] == true);
    let names: Vec<&str> = exports.map(|export| export["name"].as_str().expect("a name")).filter(|name| !out.contains(name)).collect();
    stub(at, "libshim.so", &names, None, &["-nostdlib"]);
    let config = json!({"schema_version": 1, "shims": [{"file": "libshim.so", "policy": "lax.json", "accepted": []}], "lists": ["hip 7.2.4"]});
    std::fs::write(at.join("vrocm-gate.jsonc"), config.to_string()).expect("written");
    folder
}

#[test]
fn the_action_is_green_for_a_shim_without_open_doors() {
    let folder = project(&[]);
    let ran = act(folder.path(), &file("action.yml"), &[], CARGO);
    assert_eq!((ran.exit, ran.steps), (0, 2), "{}", ran.text);
    assert!(ran.summary.contains("hip 7.2.4"), "{}", ran.summary);
    assert!(!folder.path().join("gate.sarif").exists());
}

#[test]
fn the_action_is_red_for_an_open_door_and_leaves_a_report() {
    let folder = project(&["hipMallocAsync"]);
    let ran = act(folder.path(), &file("action.yml"), &[("sarif", "gate.sarif")], CARGO);
    assert_eq!(ran.exit, 1, "{}", ran.text);
    assert!(ran.text.lines().any(|line| line.starts_with("::error ") && line.contains("hipMallocAsync")), "{}", ran.text);
    assert!(ran.summary.contains("hipMallocAsync"), "{}", ran.summary);
    let sarif: Value = serde_json::from_slice(&std::fs::read(folder.path().join("gate.sarif")).expect("written")).expect("JSON");
    let results = sarif["runs"][0]["results"].as_array().expect("results");
    assert!(results.iter().any(|result| result["ruleId"] == "open-door"), "{results:?}");
}

#[test]
fn the_action_is_red_where_nothing_could_be_audited() {
    let folder = project(&[]);
    std::fs::remove_file(folder.path().join("libshim.so")).expect("removed");
    let ran = act(folder.path(), &file("action.yml"), &[("sarif", "gate.sarif")], CARGO);
    assert_eq!(ran.exit, 2, "{}", ran.text);
    assert!(!folder.path().join("gate.sarif").exists(), "no audit, no report to upload");
    let ran = act(folder.path(), &file("action.yml"), &[("config", "absent.jsonc")], CARGO);
    assert_eq!(ran.exit, 2, "{}", ran.text);
    // A runner without a compiler: the gate is never asked.
    let ran = act(folder.path(), &file("action.yml"), &[], "#!/bin/sh\nexit 101\n");
    assert_eq!((ran.exit, ran.steps), (101, 1), "{}", ran.text);
}

#[test]
fn the_action_compares_with_an_older_shim() {
    let folder = project(&[]);
    stub(folder.path(), "old.so", &["hipMalloc"], None, &["-nostdlib"]);
    let ran = act(folder.path(), &file("action.yml"), &[("since", "old.so")], CARGO);
    assert_eq!(ran.exit, 0, "{}", ran.text);
    assert!(ran.summary.contains("Since old.so, against hip 7.2.4"), "{}", ran.summary);
    assert!(ran.summary.contains("- opened 0\n- closed 76: "), "{}", ran.summary);
}

/// The driver stops where it does not understand: what it lets pass has run.
#[test]
fn the_driver_takes_nothing_it_does_not_know() {
    let folder = project(&[]);
    let known = r#"{"name": "t", "inputs": {}, "runs": {"using": "composite", "steps": [{"shell": "bash", "run": "exit 3"}]}}"#;
    assert_eq!(act(folder.path(), &yaml(known), &[], CARGO).exit, 3);
    for (from, to) in [("exit 3", "echo ${{ secrets.TOKEN }}"), (r#""shell": "bash", "#, ""), (r#""run""#, r#""with": {}, "run""#)] {
        let changed = yaml(&known.replace(from, to));
        let taken = std::panic::catch_unwind(|| act(Path::new("."), &changed, &[], CARGO).exit);
        assert!(taken.is_err(), "{to}");
    }
}

const WORKFLOWS: [&str; 2] = ["docs/examples/toy-shim/gate.yml", "docs/examples/gate-workflow.yml"];

/// What keeps a workflow from protecting anything.
fn holes(workflow: &Value) -> Vec<String> {
    let mut holes = Vec::new();
    if let Value::Object(events) = &workflow["on"] {
        for (event, settings) in events {
            let filters = settings.as_object().into_iter().flatten().map(|(key, _)| format!("{event} has {key}"));
            holes.extend(filters.filter(|hole| hole.contains("paths") || hole.contains("branches")));
        }
    }
    let jobs = workflow["jobs"].as_object().expect("jobs");
    let gates = |job: &Value| {
        job["steps"].as_array().into_iter().flatten().any(|step| step["uses"].as_str().is_some_and(|uses| uses.starts_with("vrocm-audit/")))
    };
    let Some((gate, _)) = jobs.iter().find(|(_, job)| gates(job)) else { return vec!["no job runs the gate".into()] };
    let Some(last) = jobs.values().find(|job| job["needs"] == **gate) else { return vec!["no job waits for the gate".into()] };
    if last["if"] != "always()" {
        holes.push("the last job can be skipped".into());
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (result, green) in [("success", true), ("failure", false), ("cancelled", false), ("skipped", false), ("", false)] {
        let context = Context::from([(format!("needs.{gate}.result"), result.to_string())]);
        let steps = last["steps"].as_array().expect("steps").iter();
        if steps.into_iter().all(|step| run(step, folder.path(), &context, &[]).status.success()) != green {
            holes.push(format!("{result:?} makes the last job {}", if green { "red" } else { "green" }));
        }
    }
    holes
}

/// A workflow with a filter, or without a job that is red when the gate is missing, protects nothing.
#[test]
fn the_workflows_cannot_be_skipped() {
    let action = file("action.yml");
    for path in WORKFLOWS {
        let text = std::fs::read_to_string(Path::new("..").join(path)).expect("there");
        let workflow = yaml(&text);
        assert_eq!(holes(&workflow), [""; 0], "{path}");
        for step in workflow["jobs"]["gate"]["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .filter(|step| step["uses"].as_str().is_some_and(|uses| uses.starts_with("vrocm-audit/")))
        {
            for input in step["with"].as_object().into_iter().flatten().map(|(input, _)| input) {
                assert!(action["inputs"].get(input).is_some(), "{path}: the action has no input {input}");
            }
        }
        // Each way to lose it is seen; a comment is none.
        for (from, to, hole) in [
            ("on: [push, pull_request, merge_group]", "on:\n  push:\n    paths: [src/**]\n", Some("push has paths")),
            ("if: always()\n", "if: success()\n", Some("the last job can be skipped")),
            ("= success", "!= failure", Some("\"cancelled\" makes the last job green")),
            ("    needs: gate\n", "", Some("no job waits for the gate")),
            ("uses: vrocm-audit/vrocm-audit@main", "uses: somebody/else@main", Some("no job runs the gate")),
            ("name: gate\n", "name: gate\n# paths: [src/**]\n", None),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(text, changed, "{path}: {from}");
            let found = holes(&yaml(&changed));
            assert!(hole.map_or(found.is_empty(), |hole| found.iter().any(|found| found == hole)), "{path}: {to}: {found:?}");
        }
    }
}

/// A tool that other people have; without it, which is said, nothing is tried.
fn tool(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        println!("not tried: {name} is not installed");
    }
    found
}

fn git(folder: &Path, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
    let done = Command::new("git").args(identity).args(arguments).current_dir(folder).output().expect("git");
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The hook's command as pre-commit would start it, and, where it is installed, pre-commit itself.
#[test]
fn the_hook_is_red_for_an_open_door() {
    let hooks = file(".pre-commit-hooks.yaml");
    let hook = &hooks[0];
    assert_eq!((&hook["language"], &hook["pass_filenames"], &hook["always_run"]), (&json!("system"), &json!(false), &json!(true)));
    let program = Path::new(env!("CARGO_BIN_EXE_vrocm-audit"));
    let path = format!("{}:{}", program.parent().expect("a folder").display(), std::env::var("PATH").expect("PATH"));
    for (out, green) in [(&[][..], true), (&["hipMallocAsync"][..], false)] {
        let folder = project(out);
        let mut words = hook["entry"].as_str().expect("entry").split_whitespace();
        let done = Command::new(words.next().expect("a program")).args(words).current_dir(&folder).env("PATH", &path).output().expect("runs");
        assert_eq!(done.status.code(), Some(i32::from(!green)));
        let Some(pre_commit) = tool("pre-commit") else { continue };
        let source = tempfile::tempdir().expect("a folder");
        std::fs::copy("../.pre-commit-hooks.yaml", source.path().join(".pre-commit-hooks.yaml")).expect("copied");
        git(source.path(), &["init", "-q"]);
        git(source.path(), &["add", "."]);
        git(source.path(), &["commit", "-q", "-m", "a"]);
        git(source.path(), &["tag", "v1"]);
        let repo = source.path().display();
        let id = hook["id"].as_str().expect("an id");
        let config = format!("repos:\n- repo: {repo}\n  rev: v1\n  hooks:\n  - id: {id}\n");
        std::fs::write(folder.path().join(".pre-commit-config.yaml"), config).expect("written");
        git(folder.path(), &["init", "-q"]);
        git(folder.path(), &["add", "."]);
        let home = source.path().join("home");
        let mut command = Command::new(pre_commit);
        command.args(["run", "--color", "never"]).current_dir(&folder).env("PATH", &path).env("PRE_COMMIT_HOME", home);
        let done = command.output().expect("pre-commit");
        let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(i32::from(!green)), "{text}");
        assert!(text.contains(if green { "Passed" } else { "hipMallocAsync" }), "{text}");
    }
}

/// sarif-tools reads the report of a red gate and counts what it holds.
#[test]
fn another_reader_opens_the_sarif() {
    let folder = project(&["hipMallocAsync", "hipMalloc"]);
    let report = folder.path().join("gate.sarif");
    let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(["gate", "--format", "sarif"]).current_dir(&folder).output().expect("runs");
    std::fs::write(&report, &done.stdout).expect("written");
    let sarif: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let errors = sarif["runs"][0]["results"].as_array().expect("results").iter().filter(|result| result["level"] == "error").count();
    assert!(errors >= 2);
    let Some(reader) = tool("sarif") else { return };
    let done = Command::new(reader).arg("summary").arg(&report).current_dir(&folder).output().expect("sarif");
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && text.contains(&format!("error: {errors}")), "{text}");
}
