//! Removes one guard at a time and demands that a test fails: `cargo run --release -p vrocm-core --example mutants [name]`.
//!
//! The list is `mutants/list.txt`. Works on a copy of the crate in the temporary folder, so nothing here is touched.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// A text and what stands in its place.
type Edit = (String, String);

struct Mutant {
    name: String,
    file: String,
    tests: Vec<String>,
    edits: Vec<Edit>,
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let list = std::fs::read_to_string(root.join("mutants/list.txt")).unwrap();
    let copy = std::env::temp_dir().join("vrocm-core-mutants");
    let mut survivors = Vec::new();
    let mut count = 0;
    for mutant in parse(&list) {
        if !wanted.is_empty() && !wanted.iter().any(|name| mutant.name.contains(name)) {
            continue;
        }
        count += 1;
        make_copy(root, &copy);
        let caught = apply(&copy.join(&mutant.file), &mutant.edits) && builds(&copy, &mutant.tests[0]) && !passes(&copy, &mutant.tests);
        println!("{} {}", if caught { "caught  " } else { "SURVIVED" }, mutant.name);
        if !caught {
            survivors.push(mutant.name);
        }
    }
    println!("{} of {count} caught", count - survivors.len());
    if survivors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(list: &str) -> Vec<Mutant> {
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut before = ' ';
    for line in list.lines() {
        let (mark, text) = line.split_at_checked(1).unwrap_or_default();
        let text = text.strip_prefix(' ').unwrap_or(text);
        match (mark, mutants.last_mut()) {
            ("=", _) => {
                let mut parts = text.trim_start_matches('=').split('|').map(str::trim);
                let mut part = || parts.next().unwrap().to_owned();
                let (name, file) = (part(), part());
                mutants.push(Mutant { name, file, tests: part().split(' ').map(str::to_owned).collect(), edits: Vec::new() });
            }
            ("<", Some(mutant)) => {
                if before != '<' {
                    mutant.edits.push(Edit::default());
                }
                push_line(&mut mutant.edits.last_mut().unwrap().0, text);
            }
            (">", Some(mutant)) => push_line(&mut mutant.edits.last_mut().unwrap().1, text),
            _ => {}
        }
        before = mark.chars().next().unwrap_or(' ');
    }
    mutants
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

fn make_copy(root: &Path, copy: &Path) {
    let _ = std::fs::remove_dir_all(copy.join("src"));
    for folder in ["src", "tests"] {
        copy_folder(&root.join(folder), &copy.join(folder));
    }
    let manifest = "[package]\nname = \"vrocm-core\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[lib]\nname = \"vrocm_core\"\ndoctest = false\n\
        [[test]]\nname = \"processes\"\nharness = false\n[profile.dev]\nopt-level = 2\n[workspace]\n";
    std::fs::write(copy.join("Cargo.toml"), manifest).unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            let text = std::fs::read(entry.path()).unwrap();
            std::fs::write(target, text).unwrap();
        }
    }
}

fn apply(file: &Path, edits: &[Edit]) -> bool {
    let mut text = std::fs::read_to_string(file).unwrap();
    for (from, to) in edits {
        if text.matches(from.as_str()).count() != 1 {
            println!("in {}, not found exactly once:\n{from}", file.display());
            return false;
        }
        text = text.replacen(from.as_str(), to, 1);
    }
    std::fs::write(file, text).unwrap();
    true
}

fn cargo(copy: &Path, target: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(copy).env("CARGO_TARGET_DIR", copy.join("target")).env("RUSTFLAGS", "-Awarnings").args(["test", "-q", "--offline"]);
    if target == "lib" {
        command.arg("--lib")
    } else {
        command.args(["--test", target])
    };
    command
}

fn builds(copy: &Path, target: &str) -> bool {
    let output = cargo(copy, target).arg("--no-run").output().unwrap();
    if !output.status.success() {
        println!("does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// A mutant may wait for ever: two minutes are as good as a failure.
fn passes(copy: &Path, tests: &[String]) -> bool {
    let mut command = cargo(copy, &tests[0]);
    command.arg("--").args(&tests[1..]).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    for _ in 0..1200 {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    // Cargo and the test below it are one group.
    let _ = Command::new("kill").args(["-9", &format!("-{}", child.id())]).status();
    let _ = child.wait();
    false
}
