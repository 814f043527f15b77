//! What the reader of ELF files says at its limits, and what it makes of files that no toolchain of this machine leaves behind. Reading order: this
//! file's helpers, then one file per subject.
#![cfg(target_arch = "x86_64")]

use std::path::{Path, PathBuf};

use vrocm_audit::elf::Elf;

mod limits;
#[path = "../linkage/patch.rs"]
mod patch;
mod relocations;
mod repeats;
#[path = "../support/mod.rs"]
mod support;

const CALLS: &str = "int work(int); int counter = 7; int helper(int i) { return work(i) + counter; }\n";

fn library(folder: &Path, flags: &[&str]) -> PathBuf {
    support::library(folder, CALLS, "libx.so", None, flags)
}

/// The address of an exported symbol.
fn address_of(path: &Path, name: &str) -> u64 {
    let image = Elf::open(path).expect("readable");
    image.symbols().expect("read").symbols.iter().find(|symbol| symbol.name == name).expect("exported").value
}

fn error(bytes: Vec<u8>) -> String {
    Elf::from_bytes("x.so", bytes).map(|_| ()).expect_err("it cannot be trusted").to_string()
}
