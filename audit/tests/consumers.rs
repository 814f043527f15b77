//! `consumers`: every reason fires on an input made for it and is silent on its neighbour; known truth about real packages; the report as text.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{audit, compile, library, stub};
use vrocm_audit::consumers::checks;

/// What our own shim does, as a list with actions.
const OWN: [&str; 2] = ["--interposed", "../manifests/interposed.json"];
/// The published shim's 26 names: no dlsym among them.
const REFERENCE: [&str; 2] = ["--interposed", "../manifests/interposed-reference.json"];

const OPENS: &str = "#include <dlfcn.h>\nint main(void){ void*h=dlopen(\"libamdhip64.so\", RTLD_NOW); return dlsym(h, \"hipMalloc\")==0; }";

/// Verdict and reasons of one file.
fn judged(file: &Path, more: &[&str]) -> (String, BTreeSet<String>) {
    let mut arguments = vec!["consumers", file.to_str().expect("text")];
    arguments.extend(more);
    let outcome = audit(&arguments);
    let subject = &outcome.report["subjects"][0];
    let verdict = subject["verdict"].as_str().unwrap_or_else(|| panic!("{}", outcome.stderr)).to_string();
    let text = |reason: &Value| reason["code"].as_str().expect("a code").to_string();
    let reasons = subject["reasons"].as_array().expect("reasons").iter().map(text).collect();
    assert_eq!(outcome.exit, i32::from(verdict == "slips"), "{}", file.display());
    (verdict, reasons)
}

/// A program made for one reason, and its neighbour without it.
struct Case {
    code: &'static str,
    source: &'static str,
    neighbour: &'static str,
    options: &'static [&'static str],
    shim: [&'static str; 2],
}

fn cases() -> Vec<Case> {
    let case = |code, source, neighbour, options, shim| Case { code, source, neighbour, options, shim };
    vec![
        case("lookup-slips", OPENS, "#include <dlfcn.h>\nint main(void){ return dlopen(\"libm.so.6\", RTLD_NOW)==0; }", &[], REFERENCE),
        case(
            "lookup-unseen",
            "#include <dlfcn.h>\nint main(void){ return dlsym(RTLD_DEFAULT, \"hipMalloc\")==0; }",
            "#include <dlfcn.h>\nint main(void){ return dlsym(RTLD_DEFAULT, \"hipMallow\")==0; }",
            &[],
            REFERENCE,
        ),
        case(
            "names-unseen",
            "#include <dlfcn.h>\nint main(void){ return dlopen(\"/opt/rocm/lib/libhsa-runtime64.so.1\", RTLD_NOW)==0; }",
            "#include <dlfcn.h>\nint main(void){ return dlopen(\"/opt/rocm/lib/libhsa-other64.so.1\", RTLD_NOW)==0; }",
            &[],
            OWN,
        ),
        case(
            "deepbind-slips",
            "#define _GNU_SOURCE\n#include <dlfcn.h>\nint main(void){ return dlsym(dlopen(\"libamdhip64.so\", RTLD_NOW|RTLD_DEEPBIND), \"hipMalloc\")==0; }",
            OPENS,
            &[],
            OWN,
        ),
        case(
            "deepbind-unknown",
            "#include <dlfcn.h>\nint main(int n,char**v){ return dlsym(dlopen(\"libamdhip64.so\", n), \"hipMalloc\")==0; }",
            OPENS,
            &[],
            OWN,
        ),
        case(
            "namespace-unknown",
            "#define _GNU_SOURCE\n#include <dlfcn.h>\nint main(void){ return dlsym(dlmopen(-1, \"libamdhip64.so\", RTLD_NOW), \"hipMalloc\")==0; }",
            OPENS,
            &[],
            OWN,
        ),
        case(
            "thunk-unknown",
            "#include <fcntl.h>\nint main(void){ return open(\"/dev/kfd\", 2); }",
            "#include <fcntl.h>\nint main(void){ return open(\"/dev/kvm\", 2); }",
            &[],
            OWN,
        ),
        case(
            "static-slips",
            "char d[]=\"/dev/kfd\"; void _start(void){}",
            "char d[]=\"/dev/kvm\"; void _start(void){}",
            &["-static", "-nostdlib"],
            OWN,
        ),
        case(
            "static-unknown",
            "char d[]=\"hipMalloc\"; void _start(void){}",
            "char d[]=\"hipMallow\"; void _start(void){}",
            &["-static", "-nostdlib"],
            OWN,
        ),
    ]
}

#[test]
fn each_reason_fires_and_its_neighbour_is_silent() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for case in cases() {
        let program = compile(folder.path(), case.source, case.code, case.options);
        let (verdict, reasons) = judged(&program, &case.shim);
        let check = checks::ALL.into_iter().find(|check| check.id == case.code).expect("a check");
        assert!(reasons.contains(case.code), "{}: {verdict} {reasons:?}", case.code);
        assert_eq!(verdict == "slips", reasons.iter().any(|code| code.ends_with("-slips")), "{}", check.id);
        let program = compile(folder.path(), case.neighbour, "neighbour", case.options);
        let (_, reasons) = judged(&program, &case.shim);
        assert!(!reasons.contains(case.code), "{}: the neighbour has it too", case.code);
        seen.insert(case.code);
    }
    // These need more than one file, or another kind of file; the other tests have them.
    seen.extend(["hook-unknown", "import-slips", "import-unknown", "machine-unknown", "python-unknown"]);
    assert_eq!(seen, checks::ALL.into_iter().map(|check| check.id).collect());
}

#[test]
fn a_program_that_looks_up_is_held_by_a_shim_that_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), OPENS, "opens", &[]);
    assert_eq!(judged(&program, &OWN), ("held".into(), BTreeSet::new()));
    // Without -fno-plt the call goes through a PLT entry, with it through the GOT; both are read.
    let program = compile(folder.path(), OPENS, "direct", &["-fno-plt"]);
    assert_eq!(judged(&program, &OWN), ("held".into(), BTreeSet::new()));
    // A shim whose dlsym may do anything.
    let shim = stub(folder.path(), "libshim.so", &["hipMalloc", "dlsym"], None, &[]);
    let (verdict, reasons) = judged(&program, &["--shim", shim.to_str().expect("text")]);
    assert_eq!((verdict.as_str(), reasons), ("unknown", BTreeSet::from(["hook-unknown".to_string()])));
}

/// A stand-in runtime in `folder` that exports these names under one version node.
fn runtime(folder: &Path, names: &[&str]) -> PathBuf {
    let map = format!("hip_4.2 {{ global: {}; local: *; }};", names.join("; "));
    stub(folder, "libamdhip64.so.7", names, Some(&map), &["-Wl,-soname,libamdhip64.so.7"])
}

/// A Python source that opens a runtime by ctypes.
const PYTHON: &str = "import ctypes\nhip = ctypes.CDLL('libamdhip64.so')\nhip.hipMalloc(None, 1)\n";

#[test]
fn a_python_source_that_opens_a_runtime_is_a_candidate_and_no_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |text: &str| {
        let path = folder.path().join("module.py");
        std::fs::write(&path, text).expect("written");
        let outcome = audit(&["consumers", folder.path().to_str().expect("text"), OWN[0], OWN[1]]);
        assert_eq!((outcome.exit, &outcome.report["scanned"]["python"]), (0, &Value::from(1)), "{text}");
        let subject = &outcome.report["subjects"][0];
        let reasons = subject["reasons"].as_array().into_iter().flatten().map(|reason| reason["code"].as_str().expect("text").to_string());
        (subject["verdict"].as_str().map(String::from), reasons.collect::<Vec<_>>())
    };
    let candidate = (Some("unknown".to_string()), vec!["python-unknown".to_string()]);
    assert_eq!(said(PYTHON), candidate);
    assert_eq!(said("import ctypes.util as u\nu.find_library(\"amdhip64\")\n"), candidate);
    assert_eq!(said("fd = os.open('/dev/kfd', 2)\n"), (Some("unknown".to_string()), vec!["thunk-unknown".to_string()]));
    for silent in [
        "import ctypes\n# hip = ctypes.CDLL('libamdhip64.so')\n",
        "import ctypes\nhip = ctypes.CDLL('libamdhip65.so')\n",
        "FILES = ['libamdhip64.so']\n",
        "import ctypes\namdhip64 = 1\n",
        "",
    ] {
        assert_eq!(said(silent), (None, Vec::new()), "{silent}");
    }
    // Named, it is reported whatever it is; and in a wheel it is found under its name.
    let named = folder.path().join("module.py");
    assert_eq!(judged(&named, &OWN), ("untouched".into(), BTreeSet::new()));
    std::fs::write(&named, PYTHON).expect("written");
    let (report, wheel) = (audit(&["consumers", named.to_str().expect("text"), OWN[0], OWN[1]]).report, folder.path().join("x.whl"));
    assert_eq!(report["subjects"][0]["lookups"][0]["name"], "hipMalloc");
    let mut archive = zip::ZipWriter::new(std::fs::File::create(&wheel).expect("created"));
    archive.start_file("pkg/hip.py", zip::write::SimpleFileOptions::default()).expect("begun");
    std::io::Write::write_all(&mut archive, PYTHON.as_bytes()).expect("written");
    archive.finish().expect("finished");
    let report = audit(&["consumers", wheel.to_str().expect("text"), OWN[0], OWN[1]]).report;
    let file = report["subjects"][0]["file"].as_str().expect("found").to_string();
    assert!(file.ends_with("x.whl!/pkg/hip.py"), "{file}");
    assert_eq!((&report["scanned"]["python"], &report["scanned"]["elf"]), (&Value::from(1), &Value::from(0)));
}

#[test]
fn imports_are_held_name_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["hipFree", "hipGetDeviceCount", "hipMalloc", "hipNobodyKnowsThis"];
    runtime(folder.path(), &names);
    let link = ["-L.", "-l:libamdhip64.so.7"];
    let program = |name: &str, source: &str| compile(folder.path(), source, name, &link);
    let plain = program("plain", "int hipMalloc(void), hipFree(void); int main(void){ return hipMalloc()+hipFree(); }");
    assert_eq!(judged(&plain, &OWN).0, "held");
    let half = stub(folder.path(), "libhalf.so", &["hipMalloc"], None, &[]);
    let outcome = audit(&["consumers", plain.to_str().expect("text"), "--shim", half.to_str().expect("text")]);
    assert!(outcome.exit == 1 && outcome.found("import-slips", "hipFree") && !outcome.found("import-slips", "hipMalloc"));
    // The loader would not bind this shim's definition, for it carries another version node.
    let wrong = stub(folder.path(), "libwrong.so", &["hipMalloc", "hipFree"], Some("V1 { global: hip*; };"), &[]);
    assert_eq!(judged(&plain, &["--shim", wrong.to_str().expect("text")]).0, "slips");
    let strange = program("strange", "int hipNobodyKnowsThis(void); int main(void){ return hipNobodyKnowsThis(); }");
    assert_eq!(judged(&strange, &OWN), ("unknown".into(), BTreeSet::from(["import-unknown".to_string()])));
    // The same shim, said to be for AArch64.
    let full = stub(folder.path(), "libfull.so", &["hipMalloc", "hipFree"], None, &[]);
    assert_eq!(judged(&plain, &["--shim", full.to_str().expect("text")]).0, "held");
    let mut bytes = std::fs::read(&full).expect("read");
    bytes[18..20].copy_from_slice(&183_u16.to_le_bytes());
    std::fs::write(folder.path().join("libother.so"), bytes).expect("written");
    let other = folder.path().join("libother.so");
    assert_eq!(judged(&plain, &["--shim", other.to_str().expect("text")]), ("unknown".into(), BTreeSet::from(["machine-unknown".to_string()])));
}

#[test]
fn a_directory_reports_what_touches_and_its_links_are_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path().join("tree/usr/lib");
    std::fs::create_dir_all(&tree).expect("made");
    library(folder.path(), "int nothing(void){return 0;}", "libnothing.so", None, &[]);
    compile(folder.path(), OPENS, "opens", &[]);
    for name in ["libnothing.so", "opens"] {
        std::fs::copy(folder.path().join(name), tree.join(name)).expect("copied");
    }
    std::os::unix::fs::symlink("/", tree.join("everything")).expect("linked");
    std::fs::write(tree.join("cut"), b"\x7fELF and no more").expect("written");
    let root = folder.path().join("tree");
    let outcome = audit(&["consumers", "/usr", "--root", root.to_str().expect("text"), OWN[0], OWN[1]]);
    assert_eq!((outcome.exit, outcome.stderr.as_str()), (0, ""), "what holds no word of a family is not even parsed");
    assert_eq!(outcome.report["scanned"], serde_json::json!({ "files": 3, "elf": 3, "python": 0, "containers": 0 }));
    assert_eq!(outcome.report["subjects"].as_array().map(Vec::len), Some(1));
    // A file that says hipMalloc and cannot be read is no clean file.
    std::fs::write(tree.join("cut"), b"\x7fELF\x02\x01\x01 hipMalloc\0").expect("written");
    let outcome = audit(&["consumers", "/usr", "--root", root.to_str().expect("text"), OWN[0], OWN[1]]);
    assert!(outcome.exit == 2 && outcome.stderr.contains("usr/lib/cut: "), "{}", outcome.stderr);
    assert_eq!(audit(&["consumers", "/no/such/file"]).exit, 2);
    // What lies past the bound could decide.
    let many = [&b"\x7fELF\x02\x01\x01 "[..], &b"hipMalloc\0".repeat(1 << 17)].concat();
    std::fs::write(tree.join("cut"), many).expect("written");
    let outcome = audit(&["consumers", "/usr", "--root", root.to_str().expect("text"), OWN[0], OWN[1]]);
    assert!(outcome.exit == 2 && outcome.stderr.contains("more than 65536 names"), "{}", outcome.stderr);
    // Behind the end of what is mapped, no process sees a name by itself.
    let many = [&std::fs::read(tree.join("opens")).expect("read")[..], &b"\0hipFree\0".repeat(1 << 17)].concat();
    std::fs::write(tree.join("cut"), many).expect("written");
    let outcome = audit(&["consumers", "/usr", "--root", root.to_str().expect("text"), OWN[0], OWN[1]]);
    let names: Vec<&Value> = outcome.report["subjects"].as_array().expect("two").iter().map(|subject| &subject["lookups"]).collect();
    assert_eq!((outcome.exit, names.len(), names[0]), (0, 2, names[1]));
}

/// Files of the unpacked packages by their file names.
fn real(package: &str, file: &str) -> PathBuf {
    let corpus = std::env::var_os("VROCM_CORPUS").map_or_else(|| PathBuf::from("../.corpus"), PathBuf::from);
    let entries = std::fs::read_dir(&corpus).unwrap_or_else(|_| panic!("{}: scripts/corpus.sh gets the packages", corpus.display()));
    let folder =
        entries.flatten().map(|entry| entry.path()).find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(package)));
    folder.unwrap_or_else(|| panic!("{package} is not in {}", corpus.display())).join(file)
}

#[test]
fn known_truth_about_real_programs() {
    let lib = "usr/lib/x86_64-linux-gnu";
    let hashcat = real("hashcat_", "usr/bin/hashcat");
    let direct = [
        real("libucx0_", &format!("{lib}/ucx/libuct_rocm.so.0.0.0")),
        real("rocm-opencl-icd_", &format!("{lib}/libamdocl64.so.2.1")),
        real("libhsa-amd-aqlprofile64-1_", &format!("{lib}/libhsa-amd-aqlprofile64.so.1.0.0")),
    ];
    let linked = [
        real("libgloo-rocm-0_", "usr/lib/libgloo_hip.so.0.5.0"),
        real("libhipsparse4_", &format!("{lib}/libhipsparse.so.4.2.0")),
        real("libmiopen1_", &format!("{lib}/libMIOpen.so.1.0")),
    ];
    // A shim at HIP alone is passed by who asks HSA, and by who looks names up.
    assert!(judged(&hashcat, &REFERENCE).1.contains("lookup-slips"));
    for file in &direct {
        assert_eq!(judged(file, &REFERENCE).0, "slips", "{}", file.display());
    }
    // Our own, at both, holds them all.
    for file in [&hashcat].into_iter().chain(&direct).chain(&linked) {
        let own = [OWN[0], OWN[1], "--accept", "../manifests/accepted.json"];
        assert_eq!(judged(file, &own), ("held".into(), BTreeSet::new()), "{}", file.display());
    }
    // What it takes to look names up in hashcat.
    let report = audit(&["consumers", hashcat.to_str().expect("text"), REFERENCE[0], REFERENCE[1]]).report;
    let subject = &report["subjects"][0];
    let names: BTreeSet<&str> = subject["lookups"].as_array().expect("names").iter().map(|name| name["name"].as_str().expect("text")).collect();
    assert!(["hipMalloc", "hipMemGetInfo", "hipDeviceTotalMem"].iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!((subject["deepbind"].as_str(), &subject["libraries"]), (Some("no"), &serde_json::json!(["libamdhip64.so"])));
    // It asks whether the kernel's device is there: that alone is no proof of anything.
    assert_eq!(judged(&real("rocminfo_", "usr/bin/rocminfo"), &OWN), ("unknown".into(), BTreeSet::from(["thunk-unknown".to_string()])));
}

#[test]
fn the_report_as_text() {
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), OPENS, "opens", &[]);
    compile(folder.path(), "int main(void){return 0;}", "plain", &[]);
    let shim = std::fs::canonicalize("../manifests/interposed-reference.json").expect("there");
    let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit"))
        .current_dir(folder.path())
        .args(["consumers", "opens", "plain", "--interposed"])
        .arg(&shim)
        .output()
        .expect("runs");
    let text = String::from_utf8(done.stdout).expect("text");
    let (head, rest) = text.split_once('\n').expect("lines");
    assert!(head.starts_with("shim  list of 26 names: "), "{head}");
    let expected = "
slips past the shim (1)
  opens  1 name to look up, 1 must be held
    lookup-slips       opens the runtime by name and looks up hipMalloc with dlsym, which the shim does not answer

no runtime in sight (1)
  plain

2 files, 2 ELF files: 1 reach a runtime, 0 held, 1 slip, 0 unknown
FAIL  1 deny, 0 warn, 0 note
";
    assert_eq!(rest, expected);
    assert!(done.stderr.is_empty(), "no progress bar in a pipe");
}

#[test]
fn the_report_keeps_its_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), OPENS, "opens", &[]);
    let schema = serde_json::from_str(&std::fs::read_to_string("../docs/report.schema.json").expect("the schema")).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    for shim in [OWN, REFERENCE] {
        let mut report = audit(&["consumers", program.to_str().expect("text"), shim[0], shim[1]]).report;
        let errors: Vec<String> = schema.iter_errors(&report).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert_eq!((errors, report["audit"].as_str()), (Vec::new(), Some("consumers")));
        report["subjects"][0]["verdict"] = Value::from("fine");
        assert!(!schema.is_valid(&report), "a verdict that there is not");
    }
}

/// A path that is not there is said, and does not end the others; inside a root as well.
#[test]
fn a_path_that_is_not_there_does_not_end_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), OPENS, "program", &[]);
    let root = folder.path().to_str().expect("text");
    for more in [&["consumers", "/absent", "/program", "--root", root][..], &["consumers", "/absent", &format!("{root}/program")]] {
        let outcome = audit(&[more, &REFERENCE].concat());
        assert_eq!((outcome.exit, outcome.report["subjects"].as_array().map(Vec::len)), (2, Some(1)), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("/absent"), "{}", outcome.stderr);
    }
}

/// Who names a file names it for no terminal: control characters are shown as numbers, and a line stays one. Programs get the name as it is.
#[test]
fn names_of_files_move_no_cursor() {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = "a\u{1b}[2Jb\nPASS\u{9b}m";
    let program = compile(folder.path(), OPENS, "program", &[]);
    let mut damaged = std::fs::read(&program).expect("read");
    damaged[32..40].fill(0x7f);
    std::fs::write(folder.path().join("bad\u{1b}[2J.so"), damaged).expect("written");
    std::fs::rename(program, folder.path().join(odd)).expect("renamed");
    let run = |format: &str| {
        let arguments = ["consumers", folder.path().to_str().expect("text"), "--format", format];
        let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(arguments).args(REFERENCE).output().expect("it runs");
        (String::from_utf8(done.stdout).expect("text"), String::from_utf8(done.stderr).expect("text"))
    };
    for format in ["text", "github", "markdown", "html"] {
        let (out, err) = run(format);
        assert!([&out, &err].iter().all(|text| !text.contains(|letter: char| letter.is_control() && letter != '\n')), "{format}: {out}{err}");
        assert!(!err.contains("\n[2J") && err.lines().count() == 1, "{format}: {err}");
    }
    assert!(run("text").0.contains("a\\u{1b}[2Jb\\u{a}PASS\\u{9b}m  "), "{}", run("text").0);
    let report: Value = serde_json::from_str(&run("json").0).expect("JSON");
    assert!(report["subjects"][0]["file"].as_str().is_some_and(|file| file.ends_with(odd)), "{report}");
}
