//! Compiles the C parts of the tests with the machine's own C compiler: the mock HSA, its reader, the stub of comgr, and the programs that call HIP and
//! HSA.
//!
//! Everything lands in `OUT_DIR`, where `src/mock.rs` and `src/runtime.rs` find it. The driver that is linked with a runtime is made at test time: it needs
//! that runtime.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for folder in ["mock-hsa", "probes"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    let mock = out.join("mock");
    std::fs::create_dir_all(&mock).expect("OUT_DIR can be written");

    let sources = sources("mock-hsa", |name| name != "read.c" && name != "comgr.c" && name != "abi_check.c");
    compile(
        &mock.join("libhsa-runtime64.so.1"),
        &sources,
        &[
            "-fPIC",
            "-fvisibility=hidden",
            "-shared",
            "-Wl,-soname,libhsa-runtime64.so.1",
            "-Wl,--version-script=mock-hsa/versions.map",
            // The mock's calls to itself are its own business, as ROCr's are: nothing that is preloaded sees them.
            "-Wl,-Bsymbolic",
            "-Wl,-z,defs",
            "-pthread",
        ],
    );
    compile(&out.join("mockhsa-read"), &[PathBuf::from("mock-hsa/read.c"), PathBuf::from("mock-hsa/account_file.c")], &["-pthread"]);
    for soname in ["libamd_comgr.so.2", "libamd_comgr.so.3"] {
        let folder = out.join("comgr");
        std::fs::create_dir_all(&folder).expect("OUT_DIR can be written");
        compile(&folder.join(soname), &[PathBuf::from("mock-hsa/comgr.c")], &["-fPIC", "-shared", &format!("-Wl,-soname,{soname}")]);
    }
    let beside = format!("-L{}", mock.display());
    compile(&out.join("hsa"), &[PathBuf::from("probes/hsa.c")], &[beside.as_str(), "-l:libhsa-runtime64.so.1"]);
    let alone = out.join("alone");
    std::fs::create_dir_all(&alone).expect("OUT_DIR can be written");
    // Its calls to itself go through its own PLT, so that a preload sees them.
    compile(
        &alone.join("libamdhip64.so.7"),
        &[PathBuf::from("probes/alone.c")],
        &["-fPIC", "-fvisibility=hidden", "-shared", "-Wl,-soname,libamdhip64.so.7", "-pthread"],
    );
    compile(&out.join("driver"), &["probes/driver.c", "probes/calls.c"].map(PathBuf::from), &["-ldl", "-pthread"]);
}

/// The C files of a folder, those that `wanted` says yes to.
fn sources(folder: &str, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is part of the package")
        .map(|entry| entry.expect("a folder's entries can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted))
        .collect();
    found.sort();
    found
}

fn compile(output: &Path, sources: &[PathBuf], flags: &[&str]) {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(&compiler)
        .args(["-D_GNU_SOURCE", "-std=gnu11", "-Wall", "-Wextra", "-O2", "-g", "-o"])
        .arg(output)
        .args(sources)
        .args(flags)
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}; the tests need a C compiler"));
    assert!(status.success(), "{compiler} did not make {}", output.display());
}
