//! Puts the functions that every answer runs side by side.
//!
//! The kernel maps a program's code in windows of 64 KiB. Spread over 4 MB, the 500 functions of one `coverage` touch nearly all of them: 2 MB more
//! resident memory and 0.1 to 0.4 ms more page faults than if they lie together. `hot.txt` names them (`scripts/hot-code.sh` remakes it); a linker script, which GNU
//! ld and lld understand, collects their sections. A name that is not there any more has no effect, and neither has the list where names are mangled
//! otherwise than `.cargo/config.toml` asks.

use std::path::PathBuf;
use std::{env, fs};

/// Mangled names, one a line; `*` stands for the parts that differ between compilers.
const NAMES: &str = include_str!("hot.txt");

/// Asks cargo to link the programs so, in release builds.
pub fn ask() {
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|set| set == value);
    // Who names a linker gets it without a script that it may not read.
    let own_linker = env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.contains("fuse-ld") || flags.contains("linker"));
    if !is("PROFILE", "release") || !is("CARGO_CFG_TARGET_OS", "linux") || own_linker {
        return;
    }
    let script = PathBuf::from(env::var("OUT_DIR").expect("set by cargo")).join("hot.ld");
    if fs::write(&script, text()).is_ok() {
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
}

/// The compiler sets functions that it holds for unlikely, and `main`, apart.
fn text() -> String {
    let names = NAMES.lines().filter(|line| !line.starts_with('#'));
    let sections: String = names.map(|name| format!("    *(.text.{name} .text.unlikely.{name} .text.startup.{name})\n")).collect();
    format!("SECTIONS {{ .text.hot : {{\n{sections}}} }} INSERT BEFORE .text;\n")
}
