//! Runtimes in Python packages: candidates that a Python program may import, never a verdict.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use vrocm_audit::gfx::preflight::ask::{self, Answer};
use vrocm_audit::gfx::preflight::reasons;
use vrocm_audit::gfx::verdict::Verdict;
use vrocm_audit::loader::Request;

use crate::stand_in::{Bench, wanted};

/// A virtual environment whose `python3` is a program that links nothing.
fn environment(bench: &Bench) {
    fs::create_dir_all(bench.at("venv/bin")).expect("made");
    fs::copy("/bin/true", bench.at("venv/bin/python3")).expect("copied");
}

fn ask(bench: &Bench, program: &str, variables: &[(&str, &str)]) -> Answer {
    let command = bench.at(program).display().to_string();
    ask::ask(&Request { command, ..bench.request(variables) }, &wanted()).expect("starts")
}

/// Paths of candidates below the folder, as (path, verdict).
fn candidates(bench: &Bench, answer: &Answer) -> Vec<(String, Verdict)> {
    let folder = format!("{}/", bench.path().display());
    let below = answer.candidates.iter().filter_map(|candidate| Some((candidate.runtime.strip_prefix(&folder)?.to_string(), candidate.verdict)));
    below.collect()
}

#[test]
fn runtimes_of_wheels_are_candidates_of_a_python_program() {
    let bench = Bench::new();
    environment(&bench);
    let site = "venv/lib/python3.11/site-packages";
    // PyTorch's wheels rename; TheRock's have a package of their own with a suffix.
    bench.rocr(&format!("{site}/torch/lib/libhsa-runtime64-1a2b3c4d.so.1.14.0"), &[]);
    bench.rocr(&format!("{site}/_rocm_sdk_core_1a2b/lib/libhsa-runtime64.so.1"), &["1250"]);
    fs::write(bench.at(&format!("{site}/torch/lib/libhsa-runtime64.txt")), "no library").expect("written");
    let answer = ask(&bench, "venv/bin/python3", &[]);
    let torch = (format!("{site}/torch/lib/libhsa-runtime64-1a2b3c4d.so.1.14.0"), Verdict::Unsupported);
    let rock = (format!("{site}/_rocm_sdk_core_1a2b/lib/libhsa-runtime64.so.1"), Verdict::Supported);
    let found = candidates(&bench, &answer);
    assert!(found.len() == 2 && found.contains(&torch) && found.contains(&rock), "{found:?}");
    assert!(answer.candidates.iter().all(|candidate| !candidate.linked));
    assert!(!answer.unknowns.iter().any(|unknown| unknown.object.contains("runtime64.txt")), "{:?}", answer.unknowns);
    // Whether the program imports one is not known, so there is no verdict, whatever the candidates say.
    assert_eq!(answer.verdict, Verdict::Unknown);
    assert!(answer.unknowns.iter().any(|unknown| unknown.code == reasons::NOT_LINKED.id));
    assert_eq!(answer.notice, None);
}

#[test]
fn another_program_has_no_python_packages() {
    let bench = Bench::new();
    environment(&bench);
    bench.rocr("venv/lib/python3.11/site-packages/torch/lib/libhsa-runtime64.so", &[]);
    fs::copy("/bin/true", bench.at("venv/bin/ruby")).expect("copied");
    assert_eq!(candidates(&bench, &ask(&bench, "venv/bin/ruby", &[])), []);
    assert_eq!(candidates(&bench, &ask(&bench, "venv/bin/python3", &[])).len(), 1);
}

#[test]
fn the_variables_of_python_lead_to_packages() {
    let bench = Bench::new();
    environment(&bench);
    fs::create_dir_all(bench.at("usr/bin")).expect("made");
    fs::copy("/bin/true", bench.at("usr/bin/python3")).expect("copied");
    bench.rocr("venv/lib/python3.12/site-packages/torch/lib/libhsa-runtime64.so", &[]);
    bench.rocr("extra/torch/lib/libamdhip64.so", &[]);
    bench.rocr("home/.local/lib64/python3.12/site-packages/torch/lib/libhsa-runtime64.so", &[]);
    let (venv, extra) = (bench.at("venv").display().to_string(), bench.at("extra").display().to_string());
    assert_eq!(candidates(&bench, &ask(&bench, "usr/bin/python3", &[])), []);
    assert_eq!(candidates(&bench, &ask(&bench, "usr/bin/python3", &[("VIRTUAL_ENV", &venv)])).len(), 1);
    assert_eq!(candidates(&bench, &ask(&bench, "usr/bin/python3", &[("PYTHONPATH", &extra)])).len(), 1);
    assert_eq!(candidates(&bench, &ask(&bench, "usr/bin/python3", &[("HOME", &bench.at("home").display().to_string())])).len(), 1);
}

/// Packages of the system belong to any Python, wherever its interpreter stands.
#[test]
fn the_systems_packages_are_candidates_too() {
    let root = Bench::new();
    fs::create_dir_all(root.at("opt/py/bin")).expect("made");
    fs::copy("/bin/true", root.at("opt/py/bin/python3")).expect("copied");
    fs::create_dir(root.at("lib64")).expect("made");
    fs::copy("/lib64/ld-linux-x86-64.so.2", root.at("lib64/ld-linux-x86-64.so.2")).expect("copied");
    for (folder, at) in [("usr/lib/python3/dist-packages", "/usr"), ("usr/local/lib/python3.12/site-packages", "/usr/local")] {
        root.rocr(&format!("{folder}/torch/lib/libhsa-runtime64.so"), &[]);
        let request = Request { root: root.path().to_owned(), command: "/opt/py/bin/python3".into(), ..root.request(&[]) };
        let answer = ask::ask(&request, &wanted()).expect("starts");
        let path = format!("/{folder}/torch/lib/libhsa-runtime64.so");
        assert!(answer.candidates.iter().any(|candidate| candidate.runtime == path && !candidate.linked), "{at}: {:?}", answer.candidates);
    }
}

/// A wheel of these files.
fn wheel(bench: &Bench, name: &str, files: &[(&str, &Path)]) -> PathBuf {
    let at = bench.at(name);
    let mut archive = zip::ZipWriter::new(fs::File::create(&at).expect("created"));
    for (name, file) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).expect("begun");
        archive.write_all(&fs::read(file).expect("read")).expect("written");
    }
    archive.finish().expect("finished");
    at
}

#[test]
fn runtimes_of_a_wheel_that_is_not_installed_are_candidates() {
    let bench = Bench::new();
    environment(&bench);
    bench.rocr("build/libhsa-runtime64.so", &[]);
    let built = bench.at("build/libhsa-runtime64.so");
    let torch = wheel(&bench, "torch.whl", &[("torch/lib/libhsa-runtime64.so", &built), ("torch/lib/libother.so", &built)]);
    let other = wheel(&bench, "other.whl", &[("other/lib/libother.so", &built)]);
    let ask = |target: &str, packages: &[&Path], program: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gfx-scan"));
        command.args(["preflight", "--format", "json", "--target", target]);
        command.args(packages.iter().flat_map(|package| [Path::new("--package"), *package]));
        let done = command.arg("--").arg(bench.at(program)).output().expect("runs");
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap_or_default();
        let inside = |candidate: &&serde_json::Value| candidate["runtime"].as_str().is_some_and(|path| path.contains("!/"));
        let found = report["candidates"].as_array().into_iter().flatten().filter(inside);
        let words =
            found.map(|found| (found["runtime"].as_str().expect("text").to_string(), found["verdict"].to_string(), found["linked"].to_string()));
        (done.status.code(), words.collect::<Vec<_>>(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (exit, found, _) = ask("gfx1250", &[&torch], "venv/bin/python3");
    let name = format!("{}!/torch/lib/libhsa-runtime64.so", torch.display());
    assert_eq!((exit, found), (Some(3), vec![(name, "\"unsupported\"".into(), "false".into())]));
    assert_eq!(ask("gfx1250", &[], "venv/bin/python3").1, []);
    // What a program links decides; the package has no say.
    let (exit, found, _) = ask("gfx1150", &[&torch], "app");
    assert_eq!((exit, found.len()), (Some(0), 1));
    // Nor has one whose registry cannot be read.
    bench.library("build/libamdhip64.so", "libamdhip64.so.7", "int hipInit(void){return 0;} int hipGetDeviceCount(void){return 0;}");
    let unread = wheel(&bench, "unread.whl", &[("torch/lib/libamdhip64.so", &bench.at("build/libamdhip64.so"))]);
    let (exit, found, _) = ask("gfx1150", &[&unread], "app");
    assert_eq!((exit, found.iter().map(|found| found.1.as_str()).collect::<Vec<_>>()), (Some(0), vec!["\"unknown\""]));
    // Or one that is the other runtime under this one's name.
    bench.library("build/renamed.so", "libamdhip64.so.7", "int hipInit(void){return 0;} int hipGetDeviceCount(void){return 0;}");
    let renamed = wheel(&bench, "renamed.whl", &[("torch/lib/libhsa-runtime64.so", &bench.at("build/renamed.so"))]);
    assert_eq!(ask("gfx1150", &[&renamed], "app").0, Some(0));
    let (exit, _, said) = ask("gfx1250", &[&torch, &other], "venv/bin/python3");
    assert!(exit == Some(2) && said.contains("other.whl: holds no library named libhsa-runtime64.so* or libamdhip64.so*"), "{said}");
}
