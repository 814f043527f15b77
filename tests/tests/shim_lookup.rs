//! Look-ups under the shim: what is nobody's business stays as it was, and what leads to a runtime leads through the shim.
//!
//! The stand-in for a runtime is small and has no HSA beneath, so that only the HIP layer can hold the quota. What a look-up gives
//! on AMD's own runtimes is compared with what it gives without the shim.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim::library;

/// Compiled once: the probe, a plugin linked with the stand-in, a stub before it, and the stand-in under two names.
struct Programs {
    folder: TempDir,
}

const STAND_IN: &str = r#"
#include <stdlib.h>
#include <string.h>
static long used; static struct { void *p; long n; } kept[64];
int hipInit(unsigned f) { return 0; }
int hipGetDeviceCount(int *n) { *n = 1; return 0; }
int hipGetDevice(int *d) { *d = 0; return 0; }
int hipDeviceGetPCIBusId(char *b, int n, int d) { strncpy(b, "0000:03:00.0", n); return 0; }
int hipMalloc(void **p, size_t n) { for (int i = 0; i < 64; i++) if (!kept[i].p) { *p = kept[i].p = malloc(16); kept[i].n = n; used += n; return 0; } return 2; }
int hipFree(void *p) { for (int i = 0; p && i < 64; i++) if (kept[i].p == p) { free(p); kept[i].p = 0; used -= kept[i].n; } return 0; }
"#;

fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder = TempDir::with_prefix("lookup-").unwrap();
        let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let probe = concat!(env!("CARGO_MANIFEST_DIR"), "/probes/lookup.c").to_owned();
        std::fs::write(at("stand-in.c"), STAND_IN).unwrap();
        std::fs::write(at("stand-in.map"), "hip_4.2 { global: hip*; local: *; };\n").unwrap();
        let map = format!("-Wl,--version-script={}", at("stand-in.map"));
        let runtime =
            |name: &str, soname: &str| cc(&["-shared", "-fPIC", &map, &format!("-Wl,-soname,{soname}"), &at("stand-in.c"), "-o", &at(name)]);
        runtime("libamdhip64.so.7", "libamdhip64.so.7");
        runtime("renamed-4f21.so", "renamed-4f21.so");
        cc(&["-shared", "-fPIC", "-DPLUGIN", &probe, &at("libamdhip64.so.7"), "-Wl,-rpath,$ORIGIN", "-o", &at("plugin.so")]);
        cc(&["-shared", "-fPIC", "-DSTUB", &probe, "-Wl,-soname,libhipstub.so", "-o", &at("libhipstub.so")]);
        cc(&["-shared", "-fPIC", "-DPLUGIN", &probe, &at("libhipstub.so"), "-Wl,-rpath,$ORIGIN", "-o", &at("plugin-of-stub.so")]);
        cc(&["-rdynamic", &probe, "-o", &at("lookup")]);
        Programs { folder }
    })
}

fn cc(arguments: &[&str]) {
    let status = Command::new("cc").args(["-D_GNU_SOURCE", "-O1", "-w"]).args(arguments).arg("-ldl").status().unwrap();
    assert!(status.success(), "cc {arguments:?}");
}

impl Programs {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Runs a command with 64 MiB of every card; its standard output, and how it ended.
fn run(mut command: Command, shim: bool) -> String {
    let ledger = TempDir::with_prefix("ledger-").unwrap();
    if shim {
        command.env("LD_PRELOAD", library());
    }
    command.env("VROCM_DEVICE_MEMORY_LIMIT", "64").env("VROCM_LEDGER_PATH", ledger.path().join("ledger"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{} {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn probe(arguments: &[&str], shim: bool) -> String {
    let mut command = Command::new(programs().path("lookup"));
    command.args(arguments).current_dir(programs().folder.path());
    run(command, shim)
}

/// As without the shim, the runtime's functions that have a row in the library's name.
fn assert_only_ours_differ(with: &str, without: &str, runtime: &str, ours: &[&str]) {
    let expected: Vec<String> = without
        .lines()
        .map(|line| {
            let name = line.rsplit(' ').next().unwrap_or_default();
            if ours.contains(&name) { line.replace(&format!(" {runtime} "), " libvrocm.so ") } else { line.to_owned() }
        })
        .collect();
    assert_eq!(with.lines().map(str::to_owned).collect::<Vec<_>>(), expected);
}

#[test]
fn nobody_else_notices() {
    let without = probe(&["plain"], false);
    assert_eq!(probe(&["plain"], true), without);
    assert!(without.contains("same 1") && without.contains("error once 1, then 0") && without.contains("error after success 0"), "{without}");
}

#[test]
fn without_a_runtime_its_names_are_nowhere() {
    let without = probe(&["absent"], false);
    assert_eq!(probe(&["absent"], true), without);
    assert!(without.lines().all(|line| line.contains(" null, undefined symbol")), "{without}");
}

#[test]
fn a_private_handle_gives_ours_and_what_the_runtime_lacks_stays_absent() {
    for library in ["libamdhip64.so.7", "renamed-4f21.so"] {
        let path = format!("./{library}");
        let arguments = ["private", &path, "hipMalloc", "hipFree", "hipInit", "hipGetDevice", "hipMallocManaged", "hipGetProcAddress"];
        let without = probe(&arguments, false);
        assert_only_ours_differ(&probe(&arguments, true), &without, library, &["hipMalloc", "hipFree"]);
        assert!(without.contains("hipMallocManaged null, undefined symbol: hipMallocManaged"), "{without}");
    }
}

#[test]
fn a_runtime_that_is_closed_and_opened_again_is_found_again() {
    for library in ["./libamdhip64.so.7", "./renamed-4f21.so"] {
        let without = probe(&["again", library], false);
        assert_eq!(without.matches("allocated 0, above 0\nclosed 0").count(), 3, "{without}");
        let with = probe(&["again", library], true);
        // What the closed one had taken and never freed stays charged: nobody has seen it go.
        assert!(with.starts_with("allocated 0, above 2\nclosed 0\n") && with.matches("closed 0").count() == 3, "{with}");
    }
}

#[test]
fn plugins_are_held_however_they_are_opened() {
    for mode in ["local", "global", "local-lazy", "deepbind", "deepbind-lazy"] {
        let with = probe(&["through", "./plugin.so", mode], true);
        assert!(with.starts_with("allocated 0, above 2\n"), "{mode}: {with}");
        let without = probe(&["through", "./plugin.so", mode], false);
        assert!(without.starts_with("allocated 0, above 0\n"), "{mode}: {without}");
        assert!(with.contains("plugin's next hipMalloc libvrocm.so hipMalloc"), "{mode}: {with}");
        let open = |text: &str| text.lines().find(|line| line.starts_with("plugin's next open")).map(str::to_owned);
        assert_eq!(open(&with), open(&without), "RTLD_NEXT goes by who asks");
    }
}

#[test]
fn a_stub_between_program_and_runtime_charges_once() {
    for (plugin, runtime) in [("./plugin-of-stub.so", "./libamdhip64.so.7"), ("./libhipstub.so", "./renamed-4f21.so")] {
        let mut command = Command::new(programs().path("lookup"));
        command.args(["through", plugin, "local"]).current_dir(programs().folder.path()).env("STUB_OF", runtime);
        let with = run(command, true);
        assert!(with.starts_with("allocated 0, above 2\n"), "{plugin}: {with}");
    }
}

/// AMD's own runtimes, brought along by a plugin that is opened with `RTLD_DEEPBIND`: they then call HSA past a preload as well.
#[test]
fn a_runtime_that_came_with_a_deeply_bound_plugin_is_held() {
    for runtime in Runtime::present() {
        let plugin = programs().path(&format!("plugin-{}.so", runtime.version));
        let probe = concat!(env!("CARGO_MANIFEST_DIR"), "/probes/lookup.c");
        let linked = runtime.folder.join(&runtime.soname);
        cc(&["-shared", "-fPIC", "-DPLUGIN", probe, linked.to_str().unwrap(), "-Wl,--allow-shlib-undefined", "-o", plugin.to_str().unwrap()]);
        for mode in ["deepbind", "deepbind-lazy"] {
            let mock = Mock::new();
            let mut command = runtime.command(&programs().path("lookup"), Some(library()));
            command.args(["through", plugin.to_str().unwrap(), mode]).envs(mock.environment());
            let said = run(command, false);
            assert!(said.starts_with("allocated 0, above 2\n"), "{} {mode}: {said}", runtime.version);
            assert!(mock.card(0).highest_asked <= 64 << 20, "{} {mode}", runtime.version);
        }
    }
}

/// The runtimes' own look-ups hand out the same functions as without the shim, ours where there is a row, whatever version is
/// asked for.
#[test]
fn the_runtimes_own_look_ups_hand_out_ours() {
    let mut tried = 0;
    for runtime in Runtime::present().into_iter().filter(|runtime| runtime.is_at_least("6.4.3")) {
        let mock = Mock::new();
        let look = |shim: bool| {
            let mut command = runtime.command(&programs().path("lookup"), shim.then(library));
            command.args(["proc", &runtime.soname]).envs(mock.environment());
            run(command, false)
        };
        let (with, without) = (look(true), look(false));
        let file = |text: &str| text.lines().find(|line| line.contains("hipStreamCreate")).map(str::to_owned);
        assert_eq!(file(&with), file(&without), "{}", runtime.version);
        let ours: Vec<&str> = vrocm_core::interpose::TABLE.iter().map(|row| row.name).collect();
        let name = without.lines().next().unwrap().split(' ').nth(5).unwrap().to_owned();
        assert_only_ours_differ(&with, &without, &name, &ours);
        assert!(with.contains("libvrocm.so hipMalloc") && with.contains("libvrocm.so hipGetDevicePropertiesR0600"), "{with}");
        tried += 1;
    }
    if tried == 0 {
        eprintln!("not tested: no runtime with hipGetProcAddress is there");
    }
}
