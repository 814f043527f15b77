//! `gfx-scan preflight` on real runtimes, and the account of the edge cases that it has to be right about.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use vrocm_audit::gfx::preflight::ask::{Memory, Wanted};
use vrocm_audit::gfx::preflight::reasons;
use vrocm_audit::gfx::verdict::Verdict;
use vrocm_audit::loader::Request;

mod checklist;
#[path = "../linkage/patch.rs"]
mod patch;
mod python;
mod stand_in;

const ROCR_724: &str = "libhsa-runtime64-1_7.2.4+dfsg-1~exp1_amd64";
const ROCR_643: &str = "libhsa-runtime64-1_6.4.3+dfsg-5_amd64";
const HIP_643: &str = "libamdhip64-6_6.4.3-5_amd64";
/// A C library as new as the runtimes ask for, whatever this machine has: with an older one the program does not start.
const LIBC: &str = "libc6_2.44-3_amd64";
/// What the runtimes need.
const BESIDE: [&str; 7] = [
    "libdrm-amdgpu1_2.4.134-3_amd64",
    "libdrm2_2.4.134-3_amd64",
    "libelf1t64_0.196-1_amd64",
    "libnuma1_2.0.19-1+b2_amd64",
    "libstdc++6_16.2.0-4_amd64",
    "libgcc-s1_16.2.0-4_amd64",
    LIBC,
];

fn corpus() -> PathBuf {
    std::env::var_os("VROCM_CORPUS").map_or_else(|| PathBuf::from("../.corpus"), PathBuf::from)
}

/// Library folders of packages, those of `first` before what they need; `None`, with the reason, where one cannot be had any more.
fn folders(first: &[&str]) -> Option<String> {
    let missing = std::fs::read_to_string(corpus().join(".missing")).unwrap_or_default();
    let mut folders = Vec::new();
    for package in first.iter().copied().chain(BESIDE) {
        let folder = corpus().join(package).join("usr/lib/x86_64-linux-gnu");
        if !folder.is_dir() {
            assert!(missing.lines().any(|line| line == package), "{} is missing: scripts/corpus.sh fetches it", folder.display());
            println!("not tested: {package} cannot be had here");
            return None;
        }
        folders.push(std::fs::canonicalize(folder).expect("there").display().to_string());
    }
    Some(folders.join(":"))
}

/// A program that links these sonames.
fn program(sonames: &[&str]) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str]| {
        let done = Command::new("cc").current_dir(dir.path()).args(arguments).output().expect("a C compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    std::fs::write(dir.path().join("empty.c"), "int x;").expect("written");
    std::fs::write(dir.path().join("main.c"), "int main(void){return 0;}").expect("written");
    let mut arguments = vec!["-o", "app", "main.c", "-Wl,--no-as-needed"];
    let loader = std::fs::canonicalize(corpus().join(LIBC).join("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"));
    let by = loader.map(|loader| format!("-Wl,--dynamic-linker={}", loader.display()));
    arguments.extend(by.as_deref().ok());
    for soname in sonames {
        run(&["-shared", "-fPIC", "-o", soname, "empty.c", &format!("-Wl,-soname,{soname}")]);
        arguments.push(soname);
    }
    run(&arguments);
    for soname in sonames {
        std::fs::remove_file(dir.path().join(soname)).expect("removed");
    }
    dir
}

struct Outcome {
    exit: Option<i32>,
    report: Value,
    stderr: String,
}

fn preflight(arguments: &[&str], dir: &Path, path: &str) -> Outcome {
    let app = dir.join("app");
    let done = Command::new(env!("CARGO_BIN_EXE_gfx-scan"))
        .args(["preflight", "--format", "json", "--clear-env", "--env", &format!("LD_LIBRARY_PATH={path}")])
        .args(arguments)
        .arg("--")
        .arg(&app)
        .output()
        .expect("the program runs");
    Outcome {
        exit: done.status.code(),
        report: serde_json::from_slice(&done.stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

/// The published table: seven emulated GPUs on ROCm 7.0, of which gfx1250 alone does not enumerate. No build of 7.0 can be had; 7.2.4 of the same
/// library line (`libhsa-runtime64.so.1.18`) stands for it. That 7.0 registers the same targets is not proven by this.
#[test]
fn s1_seven_emulated_gpus_of_which_gfx1250_does_not_enumerate() {
    let Some(path) = folders(&[ROCR_724]) else { return };
    let dir = program(&["libhsa-runtime64.so.1"]);
    for (target, packed, exit) in [
        ("gfx90a", 90010, 0),
        ("gfx942", 90402, 0),
        ("gfx950", 90500, 0),
        ("gfx1100", 110_000, 0),
        ("gfx1151", 110_501, 0),
        ("gfx1201", 120_001, 0),
        ("gfx1250", 120_500, 1),
    ] {
        let config = dir.path().join("config.json");
        std::fs::write(&config, format!("// {target}\n{{vm: {{gpu: {{device: {{gfx_target_version: {packed},}},}},}},}}")).expect("written");
        let done = preflight(&["--config", &config.display().to_string()], dir.path(), &path);
        assert_eq!(done.exit, Some(exit), "{target}: {} {}", done.stderr, done.report);
        assert_eq!(done.report["subjects"][0]["device"], target);
        assert_eq!(done.stderr.lines().count(), usize::from(exit == 1), "{}", done.stderr);
        if exit == 1 {
            for part in ["gfx1250", "39 targets", "ROCm 7.0-7.2", "no GPU at all", "status 0"] {
                assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
            }
        }
    }
    let warned = preflight(&["--target", "gfx1250", "--warn-only"], dir.path(), &path);
    assert_eq!((warned.exit, warned.stderr.lines().count()), (Some(0), 1), "warned, and the status unchanged");
}

#[test]
fn x2_an_override_changes_the_answer_and_a_bad_one_is_loud() {
    let Some(path) = folders(&[ROCR_724]) else { return };
    let dir = program(&["libhsa-runtime64.so.1"]);
    let ask = |value: &str| preflight(&["--target", "gfx1250", "--env", &format!("HSA_OVERRIDE_GFX_VERSION={value}")], dir.path(), &path);
    let over = ask("12.0.1");
    assert_eq!((over.exit, &over.report["candidates"][0]["taken_for"]), (Some(0), &Value::from("gfx1201")), "{}", over.report);
    assert_eq!(ask("12.5.1").exit, Some(1));
    for (value, code) in [("12.0", "unknown-override-refused"), ("", "unknown-override-refused"), ("9.255.255", "unknown-version")] {
        let done = ask(value);
        assert_eq!((done.exit, &done.report["unknowns"][0]["code"]), (Some(3), &Value::from(code)), "{value}");
        assert!(done.stderr.is_empty(), "{}", done.stderr);
    }
}

#[test]
fn x3_variables_that_replace_tools_topology_or_thunk_are_unknown() {
    let Some(path) = folders(&[ROCR_724]) else { return };
    let dir = program(&["libhsa-runtime64.so.1"]);
    for (variable, exit) in [
        ("HSA_TOOLS_LIB=x.so", 3),
        ("HSA_MODEL_TOPOLOGY=x", 3),
        ("HSA_MODEL_LIB=x", 3),
        ("HSA_ENABLE_DTIF=1", 3),
        ("HSA_ENABLE_DXG_DETECTION=1", 3),
        ("HSA_TOOLS_LIB=", 1),
        ("HSA_ENABLE_SDMA=0", 1),
        ("HSA_OVERRIDE_GFX_VERSION_1=12.0.1", 3),
        ("HSA_OVERRIDE_GFX_VERSION_x=12.0.1", 1),
    ] {
        let done = preflight(&["--target", "gfx1250", "--env", variable], dir.path(), &path);
        assert_eq!(done.exit, Some(exit), "{variable}: {}", done.report["unknowns"]);
    }
}

#[test]
fn x4_gfx950_is_known_to_rocr_6_4_3_and_not_to_its_hip() {
    let Some(path) = folders(&[ROCR_643, HIP_643]) else { return };
    let bare = program(&["libhsa-runtime64.so.1"]);
    assert_eq!(preflight(&["--target", "gfx950"], bare.path(), &path).exit, Some(0));
    // HIP's own needs (comgr, LLVM) have no say in the table, but the loader has to find them; what it lacks here makes the answer unknown.
    let dir = program(&["libamdhip64.so.6", "libhsa-runtime64.so.1"]);
    let done = preflight(&["--target", "gfx950"], dir.path(), &path);
    let hip = done.report["candidates"].as_array().into_iter().flatten().find(|candidate| candidate["layer"] == "hip").cloned().unwrap_or_default();
    assert_eq!(hip["verdict"], "unsupported", "{}", done.report);
}

#[test]
fn x5_a_missing_library_or_command_gives_no_verdict() {
    let dir = program(&["libhsa-runtime64.so.1"]);
    let done = preflight(&["--target", "gfx1250"], dir.path(), "");
    assert_eq!(done.exit, Some(3), "{}", done.report);
    assert!(done.report["unknowns"].as_array().is_some_and(|all| all.iter().any(|unknown| unknown["code"] == "unknown-does-not-start")));
    assert_eq!(preflight(&["--target", "gfx12"], dir.path(), "").exit, Some(2), "a malformed target");
    assert_eq!(preflight(&["--config", "/absent"], dir.path(), "").exit, Some(2));
    std::fs::remove_file(dir.path().join("app")).expect("removed");
    assert_eq!(preflight(&["--target", "gfx1250"], dir.path(), "").exit, Some(2));
}

#[test]
fn a_runtime_that_asks_for_a_newer_c_library_does_not_start() {
    let Some(path) = folders(&[ROCR_724]) else { return };
    let old = corpus().join("libc6_2.31-13+deb11u11_amd64/lib/x86_64-linux-gnu");
    let Ok(old) = std::fs::canonicalize(&old) else {
        println!("not tested: {} is missing", old.display());
        return;
    };
    let dir = program(&["libhsa-runtime64.so.1"]);
    assert_eq!(preflight(&["--target", "gfx1250"], dir.path(), &path).exit, Some(1), "with its own C library");
    let done = preflight(&["--target", "gfx1250"], dir.path(), &format!("{}:{path}", old.display()));
    assert_eq!((done.exit, &done.report["unknowns"][0]["code"]), (Some(3), &Value::from("unknown-does-not-start")), "{}", done.report);
    let said = done.report["unknowns"].to_string();
    assert!(said.contains("GLIBC_2.3") && said.contains("libhsa-runtime64.so.1"), "{said}");
}

#[test]
fn c3_equal_questions_are_asked_once() {
    let dir = program(&["libhsa-runtime64.so.1"]);
    let mut memory = Memory::default();
    let wanted = [Wanted::named("gfx1250".parse().expect("a target"))];
    for (variable, asked) in [("RANK=0", 1), ("RANK=1", 1), ("HSA_TOOLS_LIB=x", 2), ("LD_LIBRARY_PATH=/x", 3), ("LD_LIBRARY_PATH=/x", 3)] {
        let (name, value) = variable.split_once('=').expect("K=V");
        let command = dir.path().join("app").display().to_string();
        let request = Request { command, environment: vec![(name.into(), value.into())], ..Request::from_this_process() };
        memory.ask(&request, &wanted).expect("an answer");
        assert_eq!(memory.asked(), asked, "{variable}");
    }
}

/// A program that links no runtime: what it would find if it opened one is told, and is no verdict.
#[test]
fn what_a_program_may_open_is_a_candidate() {
    let bench = stand_in::Bench::new();
    std::fs::copy("/bin/true", bench.at("plain")).expect("copied");
    let wanted = stand_in::wanted();
    let lib = bench.at("lib").display().to_string();
    let answer = |path: &str| {
        let command = bench.at("plain").display().to_string();
        vrocm_audit::gfx::preflight::ask::ask(&Request { command, ..bench.request(&[("LD_LIBRARY_PATH", path)]) }, &wanted).expect("starts")
    };
    assert!(answer("/nowhere").candidates.iter().all(|candidate| !candidate.runtime.starts_with(&lib)));
    let found = answer(&lib);
    let opened = found.candidates.iter().find(|candidate| candidate.runtime.starts_with(&lib)).expect("the path leads there");
    assert!(!opened.linked && opened.how.starts_with("if the program opens libhsa-runtime64.so.1: "), "{}", opened.how);
    assert_eq!((found.verdict, opened.verdict), (Verdict::Unknown, Verdict::Unsupported));
    let not_linked = found.unknowns.iter().find(|unknown| unknown.code == reasons::NOT_LINKED.id).expect("told");
    assert!(not_linked.detail.contains("links no libhsa-runtime64"), "{}", not_linked.detail);
    assert!(found.reason().contains("links no libhsa-runtime64"), "{}", found.reason());
}

/// Versions that cannot be read may be missing: the program may not start.
#[test]
fn a_library_whose_versions_are_damaged_forbids_an_answer() {
    let bench = stand_in::Bench::new();
    std::fs::write(bench.at("dep.c"), "int dep(void) { return 1; }").expect("written");
    std::fs::write(bench.at("dep.map"), "DEP_1 { dep; };").expect("written");
    bench.cc(&["-shared", "-fPIC", "-nostdlib", "-Wl,-soname,libdep.so", "-Wl,--version-script=dep.map", "-o", "lib/libdep.so", "dep.c"]);
    bench.cc(&["-o", "app", "main.c", "-Wl,--no-as-needed", "lib/libhsa-runtime64.so.1", "lib/libdep.so", "-Wl,-rpath,$ORIGIN/lib"]);
    let ask = || vrocm_audit::gfx::preflight::ask::ask(&bench.request(&[]), &stand_in::wanted()).expect("starts");
    assert_eq!(ask().verdict, Verdict::Unsupported);
    let library = bench.at("lib/libdep.so");
    // DT_VERDEFNUM.
    std::fs::write(&library, patch::file(&library, &["dynamic 0x6ffffffd 0x6ffffffd 1000"])).expect("written");
    let answer = ask();
    assert_eq!((answer.verdict, answer.notice.as_deref()), (Verdict::Unknown, None));
    assert!(answer.unknowns.iter().any(|unknown| unknown.object.ends_with("libdep.so")), "{:?}", answer.unknowns);
}

/// A target with features is asked for with them.
#[test]
fn features_of_a_target_count() {
    let bench = stand_in::Bench::new();
    for (name, verdict) in [("gfx90a:xnack+", Verdict::Supported), ("gfx1030", Verdict::Supported), ("gfx1030:xnack+", Verdict::Unsupported)] {
        let wanted = [Wanted::named(name.parse().expect("a target"))];
        let answer = vrocm_audit::gfx::preflight::ask::ask(&bench.request(&[]), &wanted).expect("starts");
        assert_eq!((answer.verdict, &answer.candidates[0].taken_for), (verdict, &None), "{name}");
        if verdict == Verdict::Supported {
            assert!(answer.reason().contains(&format!("{name} is one of the")), "{}", answer.reason());
        }
    }
}

#[test]
fn variables_that_env_takes_away_do_not_count() {
    let bench = stand_in::Bench::new();
    let wanted = [Wanted::named("gfx942".parse().expect("a target"))];
    let taken = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.replace("APP", &bench.at("app").display().to_string())).collect();
        let request = Request::workload(&words, &[("HSA_OVERRIDE_GFX_VERSION".into(), "12.5.0".into())]);
        let resolution = vrocm_audit::loader::resolve(&request).expect("a program");
        let answer = vrocm_audit::gfx::preflight::ask::about(&resolution, &request, &wanted);
        assert!(!answer.reason().is_empty() && !answer.reason().contains('\n'), "{}", answer.reason());
        (answer.candidates[0].taken_for.clone(), resolution.variable("HSA_OVERRIDE_GFX_VERSION").map(str::to_owned))
    };
    let other = |version: &str, name: &str| (Some(name.to_string()), Some(version.to_string()));
    assert_eq!(taken(&["APP"]), other("12.5.0", "gfx1250"));
    assert_eq!(taken(&["env", "-u", "HSA_OVERRIDE_GFX_VERSION", "APP"]), (None, None));
    assert_eq!(taken(&["env", "-i", "APP"]), (None, None));
    assert_eq!(taken(&["env", "HSA_OVERRIDE_GFX_VERSION=11.0.0", "APP"]), other("11.0.0", "gfx1100"));
    assert_eq!(taken(&["env", "APP", "HSA_OVERRIDE_GFX_VERSION=11.0.0"]), other("12.5.0", "gfx1250"), "an argument of the program");
}
