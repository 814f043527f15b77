//! What several test programs share: a C compiler, and running our programs.

#![allow(dead_code, reason = "each test program uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Compiles C source into `dir/out`. Extra arguments follow the source, so that libraries resolve.
pub fn compile(dir: &Path, source: &str, out: &str, arguments: &[&str]) -> PathBuf {
    std::fs::write(dir.join("source.c"), source).expect("written");
    let done = Command::new("cc").current_dir(dir).args(["-w", "-O1", "-o", out, "source.c"]).args(arguments).output().expect("a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    dir.join(out)
}

/// A shared library; `map` is a version script.
pub fn library(dir: &Path, source: &str, out: &str, map: Option<&str>, arguments: &[&str]) -> PathBuf {
    let script = format!("{out}.map");
    let option = format!("-Wl,--version-script={script}");
    let mut all = vec!["-shared", "-fPIC"];
    if let Some(map) = map {
        std::fs::write(dir.join(&script), map).expect("written");
        all.push(&option);
    }
    all.extend(arguments);
    compile(dir, source, out, &all)
}

/// A library that exports functions which do nothing.
pub fn stub(dir: &Path, out: &str, names: &[&str], map: Option<&str>, arguments: &[&str]) -> PathBuf {
    let source: String = names.iter().map(|name| format!("int {name}(void){{return 2;}}\n")).collect();
    library(dir, &source, out, map, arguments)
}

/// What came of a run: exit status, JSON report (null if there is none), standard error.
pub struct Outcome {
    pub exit: i32,
    pub report: Value,
    pub stderr: String,
}

impl Outcome {
    /// True if a finding of this check about this symbol is in the report.
    pub fn found(&self, check: &str, symbol: &str) -> bool {
        self.report["findings"].as_array().into_iter().flatten().any(|finding| finding["check"] == check && finding["symbol"] == symbol)
    }

    /// The entry of an export in the first subject.
    pub fn export(&self, name: &str) -> Value {
        let exports = self.report["subjects"][0]["exports"].as_array().expect("exports");
        exports.iter().find(|export| export["name"] == name).cloned().unwrap_or(Value::Null)
    }
}

/// Runs `vrocm-audit` with `--format json`.
pub fn audit(arguments: &[&str]) -> Outcome {
    let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit"))
        .env_remove("VROCM_SHIM")
        .args(arguments)
        .args(["--format", "json"])
        .output()
        .expect("the program runs");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    let report = if done.stdout.is_empty() { Value::Null } else { serde_json::from_slice(&done.stdout).expect("JSON") };
    Outcome { exit: done.status.code().expect("an exit status"), report, stderr }
}

/// A library of a package; `None`, with the reason, where scripts/corpus.sh has found that the package cannot be had any more.
pub fn file(package: &str, name: &str) -> Option<PathBuf> {
    let corpus = std::env::var_os("VROCM_CORPUS").map_or_else(|| PathBuf::from("../.corpus"), PathBuf::from);
    let path = corpus.join(package).join("usr/lib/x86_64-linux-gnu").join(name);
    if path.exists() {
        return Some(path);
    }
    let missing = std::fs::read_to_string(corpus.join(".missing")).unwrap_or_default();
    assert!(missing.lines().any(|line| line == package), "{} is missing: scripts/corpus.sh fetches it", path.display());
    println!("not tested: {package} cannot be had here");
    None
}

/// The loaders at hand: (version, file).
pub fn loaders() -> Vec<(&'static str, PathBuf)> {
    let mut found = vec![("this machine's", PathBuf::from("/lib64/ld-linux-x86-64.so.2"))];
    let Some(corpus) = std::env::var_os("VROCM_CORPUS").map(PathBuf::from) else { return found };
    for (version, prefix, inside) in
        [("2.31", "libc6_2.31", "lib/x86_64-linux-gnu/ld-2.31.so"), ("2.44", "libc6_2.44", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")]
    {
        let package =
            std::fs::read_dir(&corpus).into_iter().flatten().flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
        match package.map(|entry| entry.path().join(inside)).filter(|file| file.is_file()) {
            Some(file) => found.push((version, file)),
            None => eprintln!("not compared with glibc {version}: VROCM_CORPUS has no {prefix}*/{inside}"),
        }
    }
    found
}

/// Numbers that look random and come again with the same seed (xorshift64*).
pub struct Dice(u64);

impl Dice {
    /// The row of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    /// True once in `sides` times.
    pub fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    /// One of these.
    pub fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// A number from the environment.
pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}
