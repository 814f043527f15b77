//! Makes the stub `libc.so.6` that the library is linked against.
//!
//! The stub has the real soname and, under one version node, exactly the names that the library may import. The linker then
//! proves the floor: an import that is not in this list, or that exists only in a newer version, fails the link, whatever glibc
//! the build machine has. Nothing of the stub is shipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Functions that the library may import.
const FUNCTIONS: &[&str] = &["dl_iterate_phdr"];
/// Functions that it may import where it has none of its own ([src/memory.rs] has them for x86-64).
const MEMORY_FUNCTIONS: &[&str] = &["memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen"];
/// Data that the library may import.
const DATA: &[&str] = &["environ"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    // The oldest version node of each architecture's glibc.
    let node = match arch.as_str() {
        "x86_64" => "GLIBC_2.2.5",
        "aarch64" => "GLIBC_2.17",
        other => panic!("no glibc base version known for {other}"),
    };
    let stub = stub_libc(&out, node, arch == "x86_64");
    println!("cargo:rustc-cdylib-link-arg={}", stub.display());
    for argument in [
        "-nostdlib",
        "-Wl,-z,now",
        "-Wl,-z,relro",
        "-Wl,-z,noexecstack",
        "-Wl,-z,text",
        "-Wl,--no-undefined",
        "-Wl,--hash-style=both",
        "-Wl,-soname,libvrocm.so",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}

fn stub_libc(out: &Path, node: &str, own_memory: bool) -> PathBuf {
    let functions = if own_memory { FUNCTIONS.to_vec() } else { [FUNCTIONS, MEMORY_FUNCTIONS].concat() };
    let mut source: Vec<String> = functions.iter().map(|name| format!("void {name}(void) {{}}")).collect();
    source.extend(DATA.iter().map(|name| format!("void *{name};")));
    source.push(String::new());
    let names = [&functions, DATA].concat().join("; ");
    fs::write(out.join("stub.c"), source.join("\n")).expect("OUT_DIR is writable");
    fs::write(out.join("stub.map"), format!("{node} {{ global: {names}; local: *; }};\n")).expect("OUT_DIR is writable");
    let stub = out.join("libc.so.6");
    let status = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-w", "-shared", "-nostdlib", "-fPIC", "-fno-builtin", "-Wl,-soname,libc.so.6"])
        .arg(format!("-Wl,--version-script={}", out.join("stub.map").display()))
        .arg("-o")
        .arg(&stub)
        .arg(out.join("stub.c"))
        .status()
        .expect("a C compiler is needed to build the shim: set CC, or install one as cc");
    assert!(status.success(), "the C compiler could not make the stub libc.so.6");
    stub
}
