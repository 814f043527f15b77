//! The binding rule against the real loader: shims of every kind are preloaded before a program that was linked against a versioned
//! runtime, and what runs must be what the audit says.

mod support;

use std::path::Path;
use std::process::Command;

use support::{audit, compile};

/// A runtime of five anchors, so that it is recognised, with `hipMalloc@@hip_4.2` and `hipFree@@hip_5.1`.
const RUNTIME: &str = "int hipMalloc(void){return 1;} int hipFree(void){return 1;} int hipGetDeviceCount(void){return 1;}";
const RUNTIME_MAP: &str = "hip_4.2 { global: hipMalloc; hipGetDeviceCount; local: *; }; hip_5.1 { global: hipFree; } hip_4.2;";

/// Returns 10 × hipMalloc + hipFree: 1 stands for the runtime's own function, 2 for the shim's.
const PROGRAM: &str = "int hipMalloc(void), hipFree(void); int main(void){return 10*hipMalloc() + hipFree();}";

/// One kind of shim: how hipMalloc is defined there, the linker script that goes with it, and edits of the finished file.
struct Kind {
    name: &'static str,
    source: &'static str,
    map: Option<&'static str>,
    edit: Option<fn(&mut Vec<u8>, Symbol)>,
}

/// Where `hipMalloc` stands in the shim's tables.
struct Symbol {
    entry: usize,
    versym: Option<usize>,
}

const PLAIN: &str = "int hipMalloc(void){return 2;}";

const KINDS: &[Kind] = &[
    Kind { name: "plain", source: PLAIN, map: None, edit: None },
    Kind { name: "weak", source: "__attribute__((weak)) int hipMalloc(void){return 2;}", map: None, edit: None },
    Kind { name: "protected", source: "__attribute__((visibility(\"protected\"))) int hipMalloc(void){return 2;}", map: None, edit: None },
    Kind { name: "hidden by the compiler", source: "__attribute__((visibility(\"hidden\"))) int hipMalloc(void){return 2;}", map: None, edit: None },
    Kind { name: "local by the linker", source: PLAIN, map: Some("{ local: *; };"), edit: None },
    Kind { name: "anonymous version script", source: PLAIN, map: Some("{ global: hipMalloc; local: *; };"), edit: None },
    Kind { name: "own node", source: PLAIN, map: Some("V1 { global: hipMalloc; local: *; };"), edit: None },
    Kind { name: "the importer's node", source: PLAIN, map: Some("hip_4.2 { global: hipMalloc; local: *; };"), edit: None },
    Kind { name: "another node of the runtime", source: PLAIN, map: Some("hip_5.1 { global: hipMalloc; local: *; };"), edit: None },
    Kind {
        name: "the importer's node, hidden",
        source: "int inner(void){return 2;} __asm__(\".symver inner,hipMalloc@hip_4.2\");",
        map: Some("hip_4.2 { local: *; };"),
        edit: None,
    },
    Kind {
        name: "indirect function",
        source: "static int two(void){return 2;} static void *pick(void){return two;} int hipMalloc(void) __attribute__((ifunc(\"pick\")));",
        map: None,
        edit: None,
    },
    Kind { name: "hidden by an edit", source: PLAIN, map: None, edit: Some(|bytes, symbol| bytes[symbol.entry + 5] = 2) },
    Kind { name: "internal by an edit", source: PLAIN, map: None, edit: Some(|bytes, symbol| bytes[symbol.entry + 5] = 1) },
    Kind { name: "local by an edit", source: PLAIN, map: None, edit: Some(|bytes, symbol| bytes[symbol.entry + 4] &= 0x0f) },
    Kind { name: "value 0", source: PLAIN, map: None, edit: Some(|bytes, symbol| bytes[symbol.entry + 8..symbol.entry + 16].fill(0)) },
    Kind {
        name: "version index 0",
        source: PLAIN,
        map: Some("hip_4.2 { global: hipMalloc; local: *; };"),
        edit: Some(|bytes, symbol| set_version(bytes, &symbol, 0)),
    },
    Kind {
        name: "hidden base version",
        source: PLAIN,
        map: Some("hip_4.2 { global: hipMalloc; local: *; };"),
        edit: Some(|bytes, symbol| set_version(bytes, &symbol, 0x8001)),
    },
];

fn set_version(bytes: &mut [u8], symbol: &Symbol, version: u16) {
    let at = symbol.versym.expect("a versioned shim");
    bytes[at..at + 2].copy_from_slice(&version.to_le_bytes());
}

#[test]
fn the_loader_does_what_the_audit_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path();
    std::fs::write(dir.join("map"), RUNTIME_MAP).expect("written");
    compile(dir, RUNTIME, "libamdhip64.so.7", &["-shared", "-fPIC", "-Wl,--version-script=map", "-Wl,-soname,libamdhip64.so.7"]);
    compile(dir, PROGRAM, "program", &["./libamdhip64.so.7", "-Wl,-rpath,$ORIGIN"]);
    let mut bound = 0;
    for kind in KINDS {
        let shim = dir.join("shim.so");
        let mut arguments = vec!["-shared", "-fPIC"];
        if let Some(map) = kind.map {
            std::fs::write(dir.join("shim.map"), map).expect("written");
            arguments.push("-Wl,--version-script=shim.map");
        }
        compile(dir, kind.source, "shim.so", &arguments);
        if let Some(edit) = kind.edit {
            let mut bytes = std::fs::read(&shim).expect("built");
            let symbol = find(&shim);
            edit(&mut bytes, symbol);
            std::fs::write(&shim, bytes).expect("written");
        }
        let status = Command::new(dir.join("program")).env("LD_PRELOAD", &shim).status().expect("the program runs");
        let label = label(dir, &shim);
        let (loader, audit) = (status.code(), label.as_str());
        match loader {
            Some(21) => assert_eq!(audit, "interposed", "{}: the loader binds the shim", kind.name),
            Some(11) => assert!(matches!(audit, "not-bound" | "open"), "{}: the loader passes over the shim, the audit says {audit}", kind.name),
            other => panic!("{}: the program ended with {other:?}", kind.name),
        }
        bound += usize::from(loader == Some(21));
    }
    assert!(bound >= 6 && bound + 6 <= KINDS.len(), "kinds of both sorts were tried, {bound} of {} bound", KINDS.len());
}

/// The label that `coverage` gives hipMalloc.
fn label(dir: &Path, shim: &Path) -> String {
    let runtime = dir.join("libamdhip64.so.7");
    let outcome = audit(&["coverage", "--shim", shim.to_str().expect("a path"), runtime.to_str().expect("a path")]);
    outcome.export("hipMalloc")["label"].as_str().expect("a label").to_string()
}

/// Finds `hipMalloc` by the section headers, which the linker has just written.
fn find(shim: &Path) -> Symbol {
    let image = vrocm_audit::elf::Elf::open(shim).expect("a library");
    let table = image.symbols().expect("symbols");
    let index = table.symbols.iter().find(|symbol| symbol.name == "hipMalloc").expect("hipMalloc").index as usize;
    let offset = |tag| image.window("table", image.dynamic.value(tag).expect("the table"), 8).expect("in the file").offset as usize;
    let versym = image.dynamic.value(vrocm_audit::elf::constants::DT_VERSYM).map(|_| offset(vrocm_audit::elf::constants::DT_VERSYM) + index * 2);
    Symbol { entry: offset(vrocm_audit::elf::constants::DT_SYMTAB) + index * 24, versym }
}
