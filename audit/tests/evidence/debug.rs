//! Names and prototypes: debug information of every form that compilers and distributions leave it in.

use std::path::Path;
use std::process::Command;

use crate::support;
use serde_json::Value;
use vrocm_audit::elf::debug::places;

/// A library with debug information that is split off as distributions do, found again by its link.
#[test]
fn names_and_prototypes_come_from_the_debug_information_of_the_same_build() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = "#include <stddef.h>\n\
        int hipEventQuery(const void **out, size_t size) { *out = 0; return (int)size; }\n\
        int hipEventCreate(void **event) { *event = 0; return 0; }\n\
        int hipMalloc(void **at, size_t size) { *at = 0; return (int)size; }\n\
        int hipFree(void *at) { return at == 0; }\n\
        int hipGetDeviceCount(int *count) { *count = 0; return 0; }\n";
    let arguments = ["-shared", "-fPIC", "-g", "-O1", "-Wl,--build-id=sha1", "-Wl,-soname,libamdhip64.so.9"];
    let built = support::compile(folder.path(), source, "libamdhip64.so.9", &arguments);
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).current_dir(folder.path()).output().expect("binutils are there");
        assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let audited = |options: &[&str]| support::audit(&[&["evidence", built.to_str().expect("a readable path")], options].concat());
    // In the file itself, packed or not.
    let whole = audited(&["--debug"]);
    let of = |report: &Value, name: &str| {
        let exports = report["subjects"][0]["exports"].as_array().expect("exports").clone();
        exports.into_iter().find(|export| export["name"] == name).expect("an export")
    };
    assert_eq!(of(&whole.report, "hipEventQuery")["prototype"], "int hipEventQuery(const void **out, size_t size)");
    assert!(whole.found("suspicious-prototype", "hipEventQuery"));
    // An event is handed back without a size; an allocator that is known as one raises no suspicion.
    assert!(!whole.found("suspicious-prototype", "hipEventCreate") && !whole.found("suspicious-prototype", "hipMalloc"));
    run("objcopy", &["--only-keep-debug", "--compress-debug-sections=zlib", "libamdhip64.so.9", "split.debug"]);
    run("objcopy", &["--strip-all", "--add-gnu-debuglink=split.debug", "libamdhip64.so.9"]);
    let split = audited(&["--debug"]);
    assert_eq!(of(&split.report, "hipMalloc")["prototype"], "int hipMalloc(void **at, size_t size)");
    assert!(split.report["subjects"][0]["debug_file"].as_str().expect("a file").ends_with("split.debug"));
    assert!(of(&audited(&[]).report, "hipMalloc").get("prototype").is_none(), "nobody asked for names");
    // Another build's names are refused, and their absence is said.
    let other = support::compile(folder.path(), "int hipMalloc(void) { return 1; }", "other.so", &arguments);
    let output = |option: &str| {
        let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).arg("evidence").arg(&built).arg(option).output().expect("runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (status, says) = output(&format!("--debug={}", other.display()));
    assert!(status == Some(2) && says.contains("another build"), "{says}");
    std::fs::remove_file(folder.path().join("split.debug")).expect("removed");
    let (status, says) = output("--debug");
    assert!(status == Some(2) && says.contains("no debug information") && says.contains("dbgsym"), "{says}");
}

#[test]
fn damaged_debug_information_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let built = support::compile(folder.path(), "int hipMalloc(void **at) { return *at != 0; }", "libamdhip64.so.9", &["-shared", "-fPIC", "-g"]);
    let whole = std::fs::read(&built).expect("read");
    let damaged = folder.path().join("damaged.debug");
    // Every other byte in turn is too slow; these steps hit headers, tables and sections.
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(&damaged, &bytes).expect("written");
        let Ok(file) = vrocm_audit::elf::debug::DebugFile::open(&damaged) else { continue };
        let wanted = file.functions().unwrap_or_default().into_iter().map(|(address, _)| address).collect();
        if let Err(error) = vrocm_audit::code::debug::prototypes(&file, &wanted) {
            assert!(error.to_string().contains("damaged.debug"), "{error}");
        }
    }
}

fn run(folder: &Path, program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).current_dir(folder).output().expect("the program is there");
    assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn prototype(path: &Path, name: &str) -> Value {
    let outcome = support::audit(&["evidence", path.to_str().expect("a readable path"), "--debug"]);
    assert_eq!(outcome.stderr, "", "{}", path.display());
    outcome.export(name)
}

/// The same library in each form; what it says must not depend on it.
#[test]
fn every_form_of_debug_information_says_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = std::fs::canonicalize("../fixtures/evidence/runtime.cpp").expect("the fixture");
    let out = folder.path().join("libamdhip64.so.9");
    let shared = ["-w", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-Wl,-soname,libamdhip64.so.9", "-o", "libamdhip64.so.9"];
    for form in
        [&["-g", "-O2"][..], &["-gdwarf-4", "-O1"], &["-g", "-O2", "-gz=zlib"], &["-g", "-Os", "-flto"], &["-g", "-O2", "-fdebug-types-section"]]
    {
        run(folder.path(), "g++", &[&shared[..], form, &[source.to_str().expect("a readable path")]].concat());
        let malloc = prototype(&out, "hipMalloc");
        assert_eq!(malloc["prototype"], "int hipMalloc(void **out, size_t size)", "{form:?}");
        // The body's own name is that of the symbol table.
        assert!(malloc["internal"].as_str().is_none_or(|name| name.contains("malloc_body")), "{form:?}: {malloc}");
        if form == ["-g", "-O2"] {
            assert!(malloc["internal"].as_str().is_some_and(|name| name.contains("malloc_body")), "{malloc}");
        }
    }
    // Packed with zstd, where binutils can; shared by dwz, where it is installed.
    let zstd = Command::new("objcopy").args(["--compress-debug-sections=zstd", "libamdhip64.so.9"]).current_dir(folder.path()).output();
    if zstd.is_ok_and(|done| done.status.success()) {
        assert_eq!(prototype(&out, "hipFree")["prototype"], "int hipFree(void *at)", "zstd");
        run(folder.path(), "objcopy", &["--decompress-debug-sections", "libamdhip64.so.9"]);
    } else {
        println!("not tested: this objcopy does not pack with zstd");
    }
    // It does not know sections of types.
    run(folder.path(), "g++", &[&shared[..], &["-g", "-O2", source.to_str().expect("a readable path")]].concat());
    match Command::new("dwz").arg(&out).output() {
        Ok(done) => {
            assert!(done.status.success(), "dwz: {}", String::from_utf8_lossy(&done.stderr));
            assert_eq!(prototype(&out, "hipMalloc")["prototype"], "int hipMalloc(void **out, size_t size)", "dwz");
        }
        Err(_) => println!("not tested: dwz is not installed"),
    }
}

#[test]
fn a_suspicion_is_about_types_not_about_their_names() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = "#include <stddef.h>\n\
        typedef void *hipDeviceptr_t; typedef const size_t bytes_t;\n\
        int hipEventQuery(hipDeviceptr_t *out, bytes_t size) { *out = 0; return (int)size; }\n\
        int hipEventRecord(void **out, size_t *size) { *out = 0; return (int)*size; }\n\
        int hipEventSynchronize(hipDeviceptr_t at, size_t size) { return at == 0 || size; }\n\
        int hipMalloc(void **at, size_t size) { *at = 0; return (int)size; }\n\
        int hipFree(void *at) { return at == 0; }\n\
        int hipGetDeviceCount(int *count) { *count = 0; return 0; }\n";
    let built =
        support::compile(folder.path(), source, "libamdhip64.so.9", &["-shared", "-fPIC", "-g", "-Wl,--build-id", "-Wl,-soname,libamdhip64.so.9"]);
    let outcome = support::audit(&["evidence", built.to_str().expect("a readable path"), "--debug"]);
    assert_eq!(outcome.export("hipEventQuery")["prototype"], "int hipEventQuery(hipDeviceptr_t *out, bytes_t size)");
    assert!(outcome.found("suspicious-prototype", "hipEventQuery"), "both behind other names");
    assert!(!outcome.found("suspicious-prototype", "hipEventRecord"), "a size that is handed back is none that is asked for");
    assert!(!outcome.found("suspicious-prototype", "hipEventSynchronize"), "nothing is handed back");
}

#[test]
fn places_are_those_of_gdb() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let own = folder.path().canonicalize().expect("exists");
    let store = Path::new("/usr/lib/debug");
    let below = store.join(own.strip_prefix("/").expect("absolute")).join("x.debug");
    let found = places(&own.join("lib.so"), Some("abcdef"), Some("x.debug"), store);
    assert_eq!(found, [store.join(".build-id/ab/cdef.debug"), own.join("x.debug"), own.join(".debug/x.debug"), below]);
    assert!(places(&own.join("lib.so"), None, Some("../x.debug"), store).is_empty(), "a link leads nowhere else");
    assert!(places(&own.join("lib.so"), None, None, store).is_empty());
}
