//! Runtimes in Python packages: candidates that a Python program may import, never a verdict.

use std::fs;

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
    let answer = ask(&bench, "venv/bin/python3", &[]);
    let torch = (format!("{site}/torch/lib/libhsa-runtime64-1a2b3c4d.so.1.14.0"), Verdict::Unsupported);
    let rock = (format!("{site}/_rocm_sdk_core_1a2b/lib/libhsa-runtime64.so.1"), Verdict::Supported);
    let found = candidates(&bench, &answer);
    assert!(found.len() == 2 && found.contains(&torch) && found.contains(&rock), "{found:?}");
    assert!(answer.candidates.iter().all(|candidate| !candidate.linked));
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
    let (venv, extra) = (bench.at("venv").display().to_string(), bench.at("extra").display().to_string());
    assert_eq!(candidates(&bench, &ask(&bench, "usr/bin/python3", &[])), []);
    assert_eq!(candidates(&bench, &ask(&bench, "usr/bin/python3", &[("VIRTUAL_ENV", &venv)])).len(), 1);
    assert_eq!(candidates(&bench, &ask(&bench, "usr/bin/python3", &[("PYTHONPATH", &extra)])).len(), 1);
}
