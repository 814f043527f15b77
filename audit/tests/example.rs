//! The example project: built, gated, broken as its README says, gated again, mended. Nothing but a C compiler and make is needed.
#![cfg(target_arch = "x86_64")]

use std::path::Path;
use std::process::Command;

/// The example in a folder of its own.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let copied = Command::new("cp").args(["-r", "../docs/examples/toy-shim/."]).arg(folder.path()).status().expect("cp");
    assert!(copied.success());
    folder
}

fn change(folder: &Path, file: &str, from: &str, to: &str) {
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).expect("there");
    assert!(text.contains(from), "{file}: {from}");
    std::fs::write(path, text.replace(from, to)).expect("written");
}

fn build(folder: &Path) {
    let done = Command::new("make").arg("-B").current_dir(folder).output().expect("make");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Builds and gates: exit status and text.
fn gate(folder: &Path) -> (Option<i32>, String) {
    build(folder);
    let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).arg("gate").current_dir(folder).output().expect("runs");
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr))
}

/// The line of a wrapper.
fn line(folder: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(folder.join("toy_shim.c")).expect("there");
    let line = text.lines().find(|line| line.starts_with(&format!("WRAP({name},"))).expect("a wrapper");
    format!("{line}\n")
}

#[test]
fn a_wrapper_taken_out_is_a_red_gate_that_names_the_door_and_put_back_a_green_one() {
    let folder = project();
    let (exit, text) = gate(folder.path());
    assert_eq!(exit, Some(0), "{text}");
    assert!(folder.path().join("gate.sarif").is_file());
    let wrapper = line(folder.path(), "hipMallocAsync");
    change(folder.path(), "toy_shim.c", &wrapper, "");
    let (exit, text) = gate(folder.path());
    assert_eq!(exit, Some(1), "{text}");
    assert!(text.contains("open-door          hipMallocAsync@hip_5.1 is open: device-alloc"), "{text}");
    assert!(text.contains("FAIL  1 deny"), "{text}");
    std::fs::write(folder.path().join("toy_shim.c"), std::fs::read_to_string(folder.path().join("toy_shim.c")).expect("there") + &wrapper)
        .expect("written");
    assert_eq!(gate(folder.path()).0, Some(0));
}

#[test]
fn what_the_readme_says_of_other_changes_is_so() {
    for (file, from, to, says) in [
        ("Makefile", "-shared", "-shared -Wl,-rpath,/opt/lib", "runpath"),
        ("Makefile", "-Wl,-soname,$@ ", "", "soname"),
        ("vrocm-gate.jsonc", "\"class\": \"free\"", "\"export\": \"hipFree\"", "open-door"),
        ("vrocm-gate.jsonc", "\"class\": \"free\"", "\"export\": \"hipMalloc\"", "stale-acceptance"),
    ] {
        let folder = project();
        change(folder.path(), file, from, to);
        let (exit, text) = gate(folder.path());
        assert_eq!(exit, Some(1), "{file}: {to}\n{text}");
        assert!(text.contains(&format!("deny  {says} ")), "{file}: {to}\n{text}");
    }
}

#[test]
fn the_toy_stands_in_front_of_a_runtime() {
    let folder = project();
    build(folder.path());
    let write = |name: &str, source: &str| std::fs::write(folder.path().join(name), source).expect("written");
    write("runtime.c", "int hipMalloc(void **memory, unsigned long size) { *memory = (void *)size; return 0; }\n");
    write(
        "main.c",
        "int hipMalloc(void **, unsigned long);\nint main(void) { void *memory = 0; return hipMalloc(&memory, 7) || memory != (void *)7; }\n",
    );
    for arguments in [
        &["-shared", "-fPIC", "-o", "libamdhip64.so.7", "runtime.c", "-Wl,-soname,libamdhip64.so.7"][..],
        &["-o", "main", "main.c", "./libamdhip64.so.7", "-Wl,-rpath,$ORIGIN"],
    ] {
        let done = Command::new("cc").args(arguments).current_dir(folder.path()).output().expect("cc");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let shim = folder.path().join("libtoy_shim.so");
    let done = Command::new(folder.path().join("main")).env("LD_PRELOAD", shim).output().expect("runs");
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr).as_ref()), (Some(0), "toy-shim: hipMalloc\n"));
}
