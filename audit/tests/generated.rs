//! Completions and the manual page: made from the arguments, and taken by the programs they are for.

use std::io::Write as _;
use std::process::{Command, Stdio};

fn run(arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(arguments).output().expect("runs");
    assert!(done.status.success());
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn bash_takes_the_completions_and_completes_with_them() {
    let script = run(&["completions", "bash"]);
    let asked = format!("{script}\nCOMP_WORDS=(vrocm-audit ga); COMP_CWORD=1; _vrocm__audit vrocm-audit ga vrocm-audit; echo \"${{COMPREPLY[@]}}\"");
    let mut bash = Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash");
    bash.stdin.take().expect("a pipe").write_all(asked.as_bytes()).expect("written");
    let done = bash.wait_with_output().expect("ends");
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "gate");
}

#[test]
fn the_manual_has_every_command() {
    let page = run(&["man"]);
    assert!(page.contains(".TH vrocm-audit 1"), "{}", &page[..200]);
    for command in ["COVERAGE", "LINKAGE", "GATE", "EXPLAIN", "CONSUMERS"] {
        assert!(page.contains(&format!("VROCM-AUDIT {command}")), "{command}");
    }
    assert!(page.contains("since"), "options of the commands");
    let other = run(&["man", "gfx-scan"]);
    assert!(other.contains(".TH gfx-scan 1") && other.contains("GFX-SCAN PREFLIGHT"), "{}", &other[..200]);
    assert!(run(&["completions", "bash", "--program", "gfx-scan"]).contains("_gfx__scan"));
}
