//! The command `bindings`: what it says of programs whose runtime is held, slips, or cannot be told.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Outcome, audit, compile, library};

const MAP: &str = "hip_4.2 { global: hipMalloc; hipFree; hipGetDeviceCount; hipMemGetInfo; };";
const RUNTIME: &str =
    "int hipMalloc(void){return 1;} int hipFree(void){return 1;} int hipGetDeviceCount(void){return 1;} int hipMemGetInfo(void){return 1;}";
const PROGRAM: &str =
    "int hipMalloc(void), hipFree(void), hipGetDeviceCount(void); int main(void){ return hipMalloc()+hipFree()+hipGetDeviceCount(); }";
const SHIM: &str = "int hipMalloc(void){return 2;} int hipFree(void){return 2;} int hipMemGetInfo(void){return 2;}";

/// A runtime, a program that is linked with it, and a shim.
struct Stage {
    _folder: tempfile::TempDir,
    dir: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = folder.path().canonicalize().expect("a path");
        library(&dir, RUNTIME, "libamdhip64.so.7", Some(MAP), &["-Wl,-soname,libamdhip64.so.7"]);
        library(&dir, SHIM, "libshim.so", None, &[]);
        let stage = Self { _folder: folder, dir };
        stage.program(PROGRAM, &["./libamdhip64.so.7"]);
        stage
    }

    fn program(&self, source: &str, arguments: &[&str]) {
        compile(&self.dir, source, "program", &[arguments, &["-Wl,-rpath,$ORIGIN"]].concat());
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn ask(&self, preload: Option<&str>, more: &[&str]) -> Outcome {
        let (program, preload) = (self.path("program"), preload.map(|name| self.path(name)));
        let mut arguments = vec!["bindings", &program];
        if let Some(preload) = &preload {
            arguments.extend(["--preload", preload]);
        }
        arguments.extend(more);
        let outcome = audit(&arguments);
        conforms(&outcome.report);
        outcome
    }
}

fn conforms(report: &Value) {
    if report.is_null() {
        return;
    }
    let schema = serde_json::from_str(&std::fs::read_to_string("../docs/report.schema.json").expect("the schema")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<String> = validator.iter_errors(report).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:?}\n{report:#}");
}

/// (verdict, file name of `to`, reason) of a reference.
fn binding(outcome: &Outcome, from: &str, symbol: &str) -> (String, String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let all = outcome.report["bindings"].as_array().expect("bindings");
    let found = all.iter().find(|binding| binding["symbol"] == symbol && text(&binding["from"]).ends_with(from));
    let found = found.unwrap_or_else(|| panic!("no binding of {symbol} from {from}: {all:#?}"));
    (text(&found["verdict"]), text(&found["to"]).rsplit('/').next().unwrap_or_default().to_string(), text(&found["reason"]))
}

fn has(outcome: &Outcome, check: &str, words: &str) -> bool {
    let findings = outcome.report["findings"].as_array().expect("findings");
    findings.iter().any(|finding| finding["check"] == check && finding["message"].as_str().is_some_and(|message| message.contains(words)))
}

fn unseen(outcome: &Outcome, code: &str) -> bool {
    outcome.report["subjects"][0]["unseen"].as_array().into_iter().flatten().any(|unseen| unseen["code"] == code)
}

#[test]
fn without_a_shim_it_slips_and_with_one_it_is_held() {
    let stage = Stage::new();
    let bare = stage.ask(None, &[]);
    assert_eq!((bare.exit, &bare.report["verdict"]), (1, &Value::from("fail")));
    assert!(has(&bare, "binding-slips", "hipFree, hipMalloc: bound to") && has(&bare, "binding-slips", "no shim is preloaded"));
    assert_eq!(binding(&bare, "program", "hipGetDeviceCount").0, "not-needed");
    let objects = bare.report["objects"].as_array().expect("objects");
    assert_eq!(objects[0]["how"], "program");
    assert_eq!(objects[1]["role"], serde_json::json!({"runtime": "hip"}));
    assert_eq!(objects[1]["needed_by"], stage.path("program"));

    let held = stage.ask(Some("libshim.so"), &[]);
    assert_eq!((held.exit, &held.report["verdict"]), (0, &Value::from("pass")), "{:#}", held.report);
    assert_eq!(binding(&held, "program", "hipMalloc"), ("held".into(), "libshim.so".into(), format!("bound to {}", stage.path("libshim.so"))));
    assert_eq!(held.report["objects"][1]["role"], "shim");
    let by_variable = stage.ask(None, &["--env", &format!("LD_PRELOAD={}", stage.path("libshim.so"))]);
    assert_eq!(binding(&by_variable, "program", "hipFree").0, "held");
}

#[test]
fn a_shim_that_the_loader_passes_over_is_named_with_the_reason() {
    let stage = Stage::new();
    library(&stage.dir, SHIM, "libshim.so", Some("hip_9.9 { global: hipMalloc; hipMemGetInfo; }; hip_4.2 { global: hipFree; };"), &[]);
    let wrong = stage.ask(Some("libshim.so"), &[]);
    assert_eq!(wrong.exit, 1);
    assert_eq!(binding(&wrong, "program", "hipFree").0, "held");
    let (verdict, to, reason) = binding(&wrong, "program", "hipMalloc");
    assert_eq!((verdict.as_str(), to.as_str()), ("slips", "libamdhip64.so.7"));
    assert!(reason.contains("carries version node hip_9.9, but importers ask for hip_4.2"), "{reason}");

    library(&stage.dir, "int hipMalloc(void){return 2;}", "libshim.so", None, &[]);
    let part = stage.ask(Some("libshim.so"), &[]);
    assert!(binding(&part, "program", "hipFree").2.ends_with("libshim.so has no such function"), "{:?}", binding(&part, "program", "hipFree"));

    let dropped = stage.ask(Some("libmissing.so"), &[]);
    assert_eq!(dropped.exit, 1);
    assert!(has(&dropped, "preload-dropped", "libmissing.so") && has(&dropped, "binding-slips", "the loader drops the preload"));
}

#[test]
fn our_own_shim_is_judged_by_its_rows() {
    let stage = Stage::new();
    // The list inside the program says of libvrocm.so that hipMalloc charges; a name that it lacks is taken at its word.
    library(&stage.dir, SHIM, "libvrocm.so", None, &[]);
    assert_eq!(stage.ask(Some("libvrocm.so"), &[]).exit, 0);
}

#[test]
fn held_beneath_counts_only_where_every_way_is_held() {
    let stage = Stage::new();
    let names = ["hsa_init", "hsa_iterate_agents", "hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"];
    let define = |value: &str, names: &[&str]| names.iter().map(|name| format!("int {name}(void){{return {value};}}\n")).collect::<String>();
    library(&stage.dir, &define("1", &names), "libhsa-runtime64.so.1", Some("ROCR_1 { global: hsa_*; };"), &["-Wl,-soname,libhsa-runtime64.so.1"]);
    let calls = format!("{RUNTIME} int use(void){{ return hsa_amd_memory_pool_allocate()+hsa_amd_memory_pool_free(); }}");
    let arguments = ["./libhsa-runtime64.so.1", "-Wl,-soname,libamdhip64.so.7", "-Wl,-rpath,$ORIGIN"];
    library(&stage.dir, &calls, "libamdhip64.so.7", Some(MAP), &arguments);
    stage.program("int hipMalloc(void), hipMemGetInfo(void); int main(void){ return hipMalloc()+hipMemGetInfo(); }", &["./libamdhip64.so.7"]);

    library(&stage.dir, &define("2", &names[2..]), "libshim.so", None, &[]);
    let beneath = stage.ask(Some("libshim.so"), &[]);
    assert_eq!(binding(&beneath, "program", "hipMalloc").0, "held", "{:?}", binding(&beneath, "program", "hipMalloc"));
    assert!(binding(&beneath, "program", "hipMalloc").2.contains("held beneath"));
    // Nothing beneath answers for the card's size.
    assert_eq!(binding(&beneath, "program", "hipMemGetInfo").0, "slips");

    library(&stage.dir, &define("2", &names[2..3]), "libshim.so", None, &[]);
    assert_eq!(binding(&stage.ask(Some("libshim.so"), &[]), "program", "hipMalloc").0, "slips", "one release short");
}

#[test]
fn a_third_party_in_between_is_not_called_held() {
    let stage = Stage::new();
    library(
        &stage.dir,
        "int hipMalloc(void); int f(void){return hipMalloc();}",
        "libuser.so",
        None,
        &["-Wl,-soname,libuser.so", "./libamdhip64.so.7", "-Wl,-rpath,$ORIGIN"],
    );
    stage.program(
        "int f(void); int hipMalloc(void){return 3;} int main(void){return f();}",
        &["./libuser.so", "-rdynamic", "-Wl,--allow-shlib-undefined"],
    );
    let outcome = stage.ask(Some("libshim.so"), &[]);
    let (verdict, to, _) = binding(&outcome, "libuser.so", "hipMalloc");
    assert_eq!((verdict.as_str(), to.as_str(), outcome.exit), ("unknown", "program", 0));
    assert!(has(&outcome, "binding-elsewhere", "neither a shim nor a runtime"));
}

#[test]
fn two_runtimes_answer_in_their_order() {
    let stage = Stage::new();
    library(&stage.dir, RUNTIME, "libamdhip64.so.6", Some(MAP), &["-Wl,-soname,libamdhip64.so.6"]);
    library(
        &stage.dir,
        "int hipGetDeviceCount(void); int f(void){return hipGetDeviceCount();}",
        "libuser.so",
        None,
        &["-Wl,-soname,libuser.so", "./libamdhip64.so.7", "-Wl,-rpath,$ORIGIN"],
    );
    let source = "int f(void), hipGetDeviceCount(void); int main(void){return f()+hipGetDeviceCount();}";
    stage.program(source, &["./libamdhip64.so.6", "./libuser.so", "-Wl,--allow-shlib-undefined"]);
    let outcome = stage.ask(Some("libshim.so"), &[]);
    assert_eq!(binding(&outcome, "libuser.so", "hipGetDeviceCount").1, "libamdhip64.so.6");
    assert!(has(&outcome, "binding-crosses", "hipGetDeviceCount: asked of") && outcome.exit == 0);
}

#[test]
fn what_is_opened_at_run_time_is_told_apart() {
    let stage = Stage::new();
    let open = |flags: &str| {
        format!(
            "#define _GNU_SOURCE\n#include <dlfcn.h>\nint main(void){{ void *h = dlopen(\"libamdhip64.so.7\", {flags}); \
             int (*f)(void) = dlsym(h, \"hipMalloc\"); return f ? f() : 0; }}"
        )
    };
    stage.program(&open("RTLD_NOW"), &["-ldl"]);
    let opened = stage.ask(Some("libshim.so"), &[]);
    assert!(unseen(&opened, "lookup-slips") && opened.exit == 1, "{:#}", opened.report);
    let named = &opened.report["subjects"][0]["named"][0];
    assert_eq!((&named["name"], &named["found"][0]["path"]), (&Value::from("libamdhip64.so.7"), &Value::from(stage.path("libamdhip64.so.7"))));
    assert_eq!(opened.report["bindings"], serde_json::json!([]));
    stage.program(&open("RTLD_NOW|RTLD_DEEPBIND"), &["-ldl"]);
    assert!(unseen(&stage.ask(Some("libshim.so"), &[]), "deepbind-slips"));
    stage.program("int main(void){return 0;}", &[]);
    let plain = stage.ask(Some("libshim.so"), &[]);
    assert!(plain.exit == 0 && plain.report["findings"] == serde_json::json!([]), "{:#}", plain.report);
}

#[test]
fn what_cannot_be_known_is_not_called_held() {
    let stage = Stage::new();
    let audited = stage.ask(Some("libshim.so"), &["--env", "LD_AUDIT=/x.so"]);
    assert_eq!(binding(&audited, "program", "hipMalloc").0, "unknown");
    assert!(has(&audited, "unknown-audit-library", "/x.so"));

    std::fs::write(stage.dir.join("script"), "#!/bin/sh\n./program\n").expect("written");
    Command::new("chmod").args(["+x", &stage.path("script")]).status().expect("chmod");
    let script = audit(&["bindings", &stage.path("script")]);
    assert!(script.exit == 0 && has(&script, "unknown-script", "a script for"), "{:#}", script.report);

    compile(&stage.dir, "int main(void){return 0;}", "static", &["-static"]);
    let fixed = audit(&["bindings", &stage.path("static"), "--preload", &stage.path("libshim.so")]);
    assert!(fixed.exit == 0 && has(&fixed, "no-loader", "static") && fixed.report["subjects"][0]["linking"] == "static", "{:#}", fixed.report);
}

#[test]
fn what_the_cpu_decides_needs_both_answers() {
    let stage = Stage::new();
    let user = |folder: &str, calls: &str| {
        let dir = stage.dir.join(folder);
        std::fs::create_dir_all(&dir).expect("made");
        let source = format!("int {calls}(void); int f(void){{return {calls}();}}");
        library(
            &dir,
            &source,
            "libuser.so",
            None,
            &["-Wl,-soname,libuser.so", &stage.path("libamdhip64.so.7"), "-Wl,-rpath,$ORIGIN/..:$ORIGIN/../../.."],
        );
    };
    user("u", "hipGetDeviceCount");
    user("u/glibc-hwcaps/x86-64-v3", "hipMalloc");
    stage.program("int f(void); int main(void){return f();}", &["u/libuser.so", "-Wl,--allow-shlib-undefined", "-Wl,-rpath,$ORIGIN/u"]);
    let bare = stage.ask(None, &[]);
    let (verdict, _, reason) = binding(&bare, "x86-64-v3/libuser.so", "hipMalloc");
    assert!(verdict == "unknown" && reason.ends_with("on some CPUs") && has(&bare, "binding-unclear", "hipMalloc"), "{verdict} {reason}");
    let held = stage.ask(Some("libshim.so"), &[]);
    assert_eq!(binding(&held, "x86-64-v3/libuser.so", "hipMalloc").0, "held");
    assert_eq!(held.report["findings"], serde_json::json!([]));
}

#[test]
fn no_audit_is_no_pass() {
    let stage = Stage::new();
    let status = |arguments: &[&str]| {
        let outcome = audit(&[&["bindings"], arguments].concat());
        (outcome.exit, outcome.stderr)
    };
    let (exit, said) = status(&[&stage.path("libamdhip64.so.7")]);
    assert!(exit == 2 && said.contains("is a library"), "{exit} {said}");
    let (exit, said) = status(&["/nowhere/program"]);
    assert!(exit == 2 && said.contains("/nowhere/program"), "{exit} {said}");
    let (exit, said) = status(&[&stage.path("program"), "--env", "=x"]);
    assert!(exit == 2 && said.contains("not of the form K=V"), "{exit} {said}");

    std::fs::remove_file(stage.dir.join("libamdhip64.so.7")).expect("removed");
    let gone = stage.ask(Some("libshim.so"), &[]);
    assert!(gone.exit == 2 && gone.stderr.contains("libamdhip64.so.7") && gone.stderr.contains("would not start"), "{}", gone.stderr);
    library(&stage.dir, RUNTIME, "libamdhip64.so.7", Some("hip_5.0 { global: hip*; };"), &["-Wl,-soname,libamdhip64.so.7"]);
    let other = stage.ask(Some("libshim.so"), &[]);
    assert!(other.exit == 2 && other.stderr.contains("requires version hip_4.2"), "{}", other.stderr);

    std::fs::copy("/lib64/ld-linux-x86-64.so.2", stage.dir.join("ld-musl-x86_64.so.1")).expect("copied");
    stage.program("int main(void){return 0;}", &[&format!("-Wl,--dynamic-linker={}", stage.path("ld-musl-x86_64.so.1"))]);
    let musl = stage.ask(Some("libshim.so"), &[]);
    assert!(musl.exit == 2 && musl.stderr.contains("not glibc's"), "{}", musl.stderr);
}

/// Copies a file to the same path below a root.
fn put(root: &Path, path: &str) {
    let to = root.join(path.trim_start_matches('/'));
    std::fs::create_dir_all(to.parent().expect("a folder")).expect("made");
    std::fs::copy(path, to).expect("copied");
}

#[test]
fn a_root_is_a_world_of_its_own() {
    let stage = Stage::new();
    let root = stage.dir.join("root");
    for path in ["/lib64/ld-linux-x86-64.so.2", "/lib/x86_64-linux-gnu/libc.so.6"] {
        put(&root, path);
    }
    for (name, place) in [("program", "bin"), ("libamdhip64.so.7", "bin"), ("libshim.so", "opt")] {
        std::fs::create_dir_all(root.join(place)).expect("made");
        std::fs::copy(stage.dir.join(name), root.join(place).join(name)).expect("copied");
    }
    let folder = root.display().to_string();
    let ask = |more: &[&str]| audit(&[&["bindings", "program", "--root", &folder, "--env", "PATH=/bin"], more].concat());
    assert_eq!(ask(&[]).exit, 1);
    std::fs::create_dir_all(root.join("etc")).expect("made");
    std::fs::write(root.join("etc/ld.so.preload"), "/opt/libshim.so\n").expect("written");
    let held = ask(&[]);
    assert_eq!(held.exit, 0, "{:#} {}", held.report, held.stderr);
    assert_eq!(held.report["objects"][1]["path"], "/opt/libshim.so");
    assert_eq!(held.report["objects"][0]["path"], "/bin/program");
}

#[test]
fn text_says_first_what_slips() {
    let stage = Stage::new();
    let text = |arguments: &[&str]| {
        let program = stage.path("program");
        let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args([&["bindings", &program], arguments].concat()).output().expect("it runs");
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let bare = text(&[]);
    let lines: Vec<&str> = bare.lines().collect();
    assert!(lines[2].starts_with("slips past the shim (2 references)"), "{bare}");
    assert!(lines[4].contains("no shim is preloaded") && lines[5].contains("hipMalloc@hip_4.2"), "{bare}");
    assert!(bare.contains("load order\n    1  ") && bare.ends_with("FAIL  1 deny, 0 warn, 0 note\n"), "{bare}");
    let held = text(&["--preload", &stage.path("libshim.so")]);
    assert!(held.contains("held (2 references)") && !held.contains("slips") && held.contains("libshim.so  --preload  shim"), "{held}");
    assert!(bare.lines().count() < 20 && held.lines().count() < 20);
}
