//! What people read: the text of every command, on a clean and a failing input, held against `audit/tests/golden/`.
//!
//! `UPDATE_GOLDEN=1 cargo test -p vrocm-audit --test golden` writes the texts anew; the diff is the review.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use support::{audit, compile, library, stub};

const AUDIT: &str = env!("CARGO_BIN_EXE_vrocm-audit");
const SCAN: &str = env!("CARGO_BIN_EXE_gfx-scan");

/// A text of the house, and where it differs from the one just printed.
fn hold(name: &str, printed: &str, wrong: &mut Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, printed).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}: UPDATE_GOLDEN=1 writes it"));
    if kept != printed {
        wrong.push(format!("{name} (UPDATE_GOLDEN=1 writes it anew)\n{}", similar::TextDiff::from_lines(kept.as_str(), printed).unified_diff()));
    }
}

/// Runs a program in a folder; what it prints, errors and exit status included. Addresses differ with the compiler and are not shown.
fn run(program: &str, folder: &Path, arguments: &[&str]) -> (i32, String) {
    let done = Command::new(program)
        .current_dir(folder)
        .env_remove("VROCM_SHIM")
        .env_remove("HSA_OVERRIDE_GFX_VERSION")
        .args(arguments)
        .output()
        .expect("the program runs");
    let exit = done.status.code().expect("an exit status");
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let mut text = format!("$ {name} {}\n{}", arguments.join(" "), String::from_utf8_lossy(&done.stdout));
    if !done.stderr.is_empty() {
        text += &format!("-- standard error\n{}", String::from_utf8_lossy(&done.stderr));
    }
    (exit, format!("{}-- exit status {exit}\n", without_addresses(&text)))
}

fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        out += "0x…";
        out += part.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
    }
    out
}

/// Every name of a list inside the program that a shim has to hold.
fn must_hold(list: &str) -> Vec<String> {
    let report = audit(&["coverage", "--interposed", "../manifests/interposed-reference.json"]).report;
    let subjects = report["subjects"].as_array().expect("subjects").iter();
    let subject = subjects.into_iter().find(|subject| subject["file"].as_str().is_some_and(|file| file.starts_with(list))).expect("the list");
    let exports = subject["exports"].as_array().expect("exports").iter().filter(|export| export["must_interpose"] == true);
    exports.map(|export| export["name"].as_str().expect("a name").to_string()).collect()
}

fn names(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// A folder with everything the commands are given: small, and the same wherever a C compiler is.
fn workshop() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    std::fs::copy("../fixtures/gate/lax.json", at.join("lax.json")).expect("copied");
    stub(at, "libfew.so", &["hipFree", "hipMalloc"], None, &["-nostdlib"]);
    let whole = must_hold("hip 7.2.4");
    stub(at, "libwhole.so", &names(&whole), None, &["-nostdlib"]);
    // A runtime of the family, and a program for each of two shims.
    let anchors = ["hipFree", "hipGetDeviceCount", "hipMalloc", "hipMallocManaged"];
    let map = "hip_4.2 { global: hip*; local: *; };";
    stub(at, "libamdhip64.so.7", &anchors, Some(map), &["-nostdlib", "-Wl,-soname,libamdhip64.so.7", "-Wl,--build-id=0x00c0ffee"]);
    let program = |name: &str, calls: &str| {
        let source = format!("int {calls}(void); int main(void) {{ return {calls}(); }}");
        let library = at.join("libamdhip64.so.7").display().to_string();
        compile(at, &source, name, &[&library, "-nostartfiles", "-Wl,-e,main", "-nostdlib", "-Wl,--build-id=none"]);
    };
    program("malloc", "hipMalloc");
    program("managed", "hipMallocManaged");
    for (file, shim, lists) in [("red.jsonc", "libfew.so", json!(["hip 7.2.4"])), ("green.jsonc", "libwhole.so", json!(["hip 7.2.4"]))] {
        let config = json!({"schema_version": 1, "shims": [{"file": shim, "policy": "lax.json", "accepted": []}], "lists": lists});
        std::fs::write(at.join(file), config.to_string()).expect("written");
    }
    std::fs::write(at.join("whole.txt"), whole.join("\n")).expect("written");
    let accepted = json!({"schema_version": 1, "accepted": []});
    std::fs::write(at.join("accepted.json"), accepted.to_string()).expect("written");
    let more = r#"{"schema_version": 1, "accepted": [{"family": "hip", "export": "hipFree", "reason": "a test", "since": "2026-01-01", "until": "2026-06-01"}]}"#;
    std::fs::write(at.join("more.json"), more).expect("written");
    folder
}

/// Runs cases, each with the exit status that makes it clean or failing.
fn check(program: &str, folder: &Path, cases: &[(&str, &[&str], i32)]) {
    let mut wrong = Vec::new();
    for (name, arguments, expected) in cases {
        let (exit, text) = run(program, folder, arguments);
        assert_eq!(exit, *expected, "{name}\n{text}");
        hold(name, &text, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn audits_of_shims_and_runtimes() {
    let folder = workshop();
    check(
        AUDIT,
        folder.path(),
        &[
            ("coverage-refused", &["coverage", "libamdhip64.so.7", "--interposed", "absent.txt"], 2),
            ("coverage-clean", &["coverage", "libamdhip64.so.7", "--interposed", "whole.txt"], 0),
            ("linkage-fail", &["linkage", "libamdhip64.so.7"], 1),
            ("linkage-clean", &["linkage", "libfew.so"], 0),
            ("linkage-refused", &["linkage", "lax.json"], 2),
            ("gate-fail", &["gate", "red.jsonc"], 1),
            ("gate-clean", &["gate", "green.jsonc"], 0),
            ("gate-since", &["gate", "green.jsonc", "--since", "libfew.so"], 0),
            ("gate-nothing", &["gate"], 2),
            ("gate-init", &["gate", "--init"], 0),
            ("consumers-fail", &["consumers", "malloc", "managed", "--shim", "libfew.so"], 1),
            ("consumers-clean", &["consumers", "malloc", "--shim", "libfew.so"], 0),
            ("manifest-exports", &["manifest", "exports", "libamdhip64.so.7", "--release", "7.2.4", "--source", "a test"], 0),
            ("manifest-refused", &["manifest", "exports", "libfew.so", "--release", "7.2.4", "--source", "a test"], 2),
        ],
    );
}

#[test]
fn coverage_of_a_list_with_open_doors() {
    let folder = workshop();
    std::fs::write(folder.path().join("few.txt"), "hipFree\nhipMalloc\nhipFreee\n").expect("written");
    check(AUDIT, folder.path(), &[("coverage-fail", &["coverage", "libamdhip64.so.7", "--interposed", "few.txt"], 1)]);
}

#[test]
fn differences() {
    let folder = workshop();
    check(
        AUDIT,
        folder.path(),
        &[
            ("diff-runtimes-fail", &["diff", "hip 6.4.3", "hip 7.2.4"], 1),
            ("diff-runtimes-clean", &["diff", "hsa 6.4.3", "hsa 7.2.4"], 0),
            ("diff-shims-fail", &["diff", "libwhole.so", "libfew.so"], 1),
            ("diff-shims-clean", &["diff", "libfew.so", "libwhole.so"], 0),
            ("diff-manifests", &["diff", "accepted.json", "more.json"], 0),
            ("diff-refused", &["diff", "hip 7.2.4", "accepted.json"], 2),
        ],
    );
}

#[test]
fn explanations() {
    let folder = tempfile::tempdir().expect("a folder");
    check(
        AUDIT,
        folder.path(),
        &[
            ("explain-check", &["explain", "version-floor"], 0),
            ("explain-script", &["explain", "export-version"], 0),
            ("explain-reason", &["explain", "unknown-script"], 0),
            ("explain-word", &["explain", "generic-only"], 0),
            ("explain-class", &["explain", "proc-address"], 0),
            ("explain-export", &["explain", "hipMemPoolTrimTo"], 0),
            ("explain-held", &["explain", "hipGetDriverEntryPoint"], 0),
            ("explain-other", &["explain", "hipInit"], 0),
            ("explain-beyond", &["explain", "beyond-preload"], 0),
            ("explain-way", &["explain", "dlmopen"], 0),
            ("explain-refused", &["explain", "hipFry"], 2),
        ],
    );
}

/// Machine code differs with the compiler, so the real library is read.
#[test]
fn evidence_of_a_real_runtime() {
    let Some(file) = support::file("libhsa-runtime64-1_7.2.4+dfsg-1~exp1_amd64", "libhsa-runtime64.so.1") else { return };
    let folder = file.parent().expect("a folder").to_path_buf();
    let families = tempfile::tempdir().expect("a folder");
    let copied = Command::new("cp").arg("-r").arg("../manifests/hip").arg(families.path()).status().expect("cp");
    assert!(copied.success());
    check(AUDIT, &folder, &[("evidence-clean", &["evidence", "libhsa-runtime64.so.1"], 0)]);
    let Some(hip) = support::file("libamdhip64-7_7.2.4-1~exp2_amd64", "libamdhip64.so.7") else { return };
    let classes = families.path().join("hip/classes.json");
    let text = std::fs::read_to_string(&classes).expect("there");
    let changed = text.replace("{\"name\": \"hipMemCreate\", \"class\": \"device-alloc\"", "{\"name\": \"hipMemCreate\", \"class\": \"other\"");
    assert_ne!(text, changed);
    std::fs::write(&classes, changed).expect("written");
    std::os::unix::fs::symlink(hip.canonicalize().expect("there"), families.path().join("libamdhip64.so.7")).expect("linked");
    check(AUDIT, families.path(), &[("evidence-fail", &["evidence", "libamdhip64.so.7", "--manifests", "hip"], 1)]);
    // Two that the family does not know any more: of one the code says what it does, of the other nothing.
    let known = |line: &&str| !line.starts_with("{\"name\": \"hipMemCreate\"") && !line.starts_with("{\"name\": \"hipGetErrorName\"");
    let fewer: Vec<&str> = text.lines().filter(known).collect();
    assert_eq!(fewer.len() + 2, text.lines().count());
    std::fs::write(&classes, fewer.join("\n")).expect("written");
    check(
        AUDIT,
        families.path(),
        &[
            ("manifest-add", &["manifest", "add", "libamdhip64.so.7", "--manifests", "hip"], 0),
            ("manifest-add-nothing", &["manifest", "add", "libamdhip64.so.7"], 0),
            ("manifest-add-refused", &["manifest", "add", "hip/classes.json"], 2),
        ],
    );
}

/// What is made from the arguments: scripts for shells and the manual pages.
#[test]
fn what_packages_install() {
    let folder = tempfile::tempdir().expect("a folder");
    check(
        AUDIT,
        folder.path(),
        &[
            ("man", &["man"], 0),
            ("man-gfx-scan", &["man", "gfx-scan"], 0),
            ("completions-bash", &["completions", "bash"], 0),
            ("completions-bash-gfx-scan", &["completions", "bash", "--program", "gfx-scan"], 0),
            ("completions-zsh", &["completions", "zsh"], 0),
            ("completions-zsh-gfx-scan", &["completions", "zsh", "--program", "gfx-scan"], 0),
            ("completions-fish", &["completions", "fish"], 0),
            ("completions-fish-gfx-scan", &["completions", "fish", "--program", "gfx-scan"], 0),
        ],
    );
}

/// A stand-in ROCr whose registry is an array.
fn rocr(folder: &Path) -> PathBuf {
    let library = folder.join("libhsa-runtime64.so.1");
    let built = Command::new("bash").arg("../fixtures/cases/common/build-hsa.sh").arg(&library).status().expect("bash");
    assert!(built.success());
    library
}

#[test]
fn targets() {
    let folder = tempfile::tempdir().expect("a folder");
    rocr(folder.path());
    check(
        SCAN,
        folder.path(),
        &[
            ("gfx-scan", &["libhsa-runtime64.so.1"], 0),
            ("gfx-scan-clean", &["libhsa-runtime64.so.1", "--target", "gfx942"], 0),
            ("gfx-scan-fail", &["libhsa-runtime64.so.1", "--target", "gfx1250"], 1),
            ("gfx-scan-unknown", &["libhsa-runtime64.so.1", "--target", "gfx11-generic"], 3),
            ("gfx-scan-refused", &["libhsa-runtime64.so.1", "--target", "gfx9"], 2),
        ],
    );
}

#[test]
fn preflight_of_a_program() {
    let folder = tempfile::tempdir().expect("a folder");
    rocr(folder.path());
    library(folder.path(), "int x;", "libempty.so", None, &["-Wl,-soname,libhsa-runtime64.so.1"]);
    compile(folder.path(), "int main(void){return 0;}", "app", &["-Wl,--no-as-needed", "./libempty.so", "-Wl,--allow-shlib-undefined"]);
    let arguments = |target| ["preflight", "--clear-env", "--env", "LD_LIBRARY_PATH=.", "--target", target, "--", "./app"];
    check(SCAN, folder.path(), &[("preflight-clean", &arguments("gfx942"), 0), ("preflight-fail", &arguments("gfx1250"), 1)]);
    check(SCAN, folder.path(), &[("preflight-refused", &["preflight", "--target", "gfx942", "--", "./absent"], 2)]);
}
