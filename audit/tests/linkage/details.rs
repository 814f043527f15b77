//! What a subject and its findings say in detail: order, severities of a policy, flags, systems, and what is not said.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use vrocm_audit::finding::{Finding, Severity};
use vrocm_audit::linkage::Subject;
use vrocm_audit::manifest::InterposedList;

use super::fixture::{audit, compiler, policy, run, stub};
use super::{made, patch};

const HIP: &str = "int hipMalloc(void **memory, unsigned long size) { return 2; }\nint hipFree(void *memory) { return 0; }\n";

/// A shim of two functions and more source, linked against these stubs of libraries.
pub fn shim(folder: &Path, more: &str, libraries: &[(&str, &[&str])], flags: &[&str]) -> PathBuf {
    let (source, out) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&source, format!("{HIP}{more}")).expect("writable");
    let libraries: Vec<PathBuf> = libraries.iter().map(|(soname, symbols)| stub(folder, &soname.replace('/', "-"), soname, symbols)).collect();
    let mut command = compiler();
    command.args(["-fPIC", "-shared", "-o"]).arg(&out).arg(&source).args(["-Wl,-z,lazy", "-Wl,--no-as-needed"]).args(libraries).args(flags);
    run(&mut command);
    out
}

pub fn look(path: &Path, keys: &str) -> (Subject, Vec<Finding>) {
    audit(path, &policy(keys), None)
}

pub fn of<'f>(findings: &'f [Finding], check: &str) -> Vec<&'f Finding> {
    findings.iter().filter(|finding| finding.check == check).collect()
}

#[test]
fn lists_are_sorted_whatever_the_order_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let symbols = ["zeta@V_1", "mu@V_2", "alpha@V_1", "kappa@V_2", "beta@V_2"];
    let more = "void zeta(void), mu(void), alpha(void), kappa(void), beta(void);
        int hipInit(void) { mu(); zeta(); kappa(); beta(); alpha(); return 0; } int hipZ(void) { return 1; } int hipA(void) { return 1; } int hipK(void) { return 1; }";
    let (subject, findings) = look(&shim(folder.path(), more, &[("libother.so.1", &symbols)], &["-Wl,-rpath,/a", "-Wl,-z,norelro"]), "{}");
    let imports: Vec<&str> = subject.imports.iter().map(|import| import.name.as_str()).collect();
    assert_eq!(imports, ["alpha", "beta", "kappa", "mu", "zeta"]);
    let exports: Vec<&str> = subject.exports.iter().map(|export| export.name.as_str()).collect();
    assert_eq!(exports, ["hipA", "hipFree", "hipInit", "hipK", "hipMalloc", "hipZ"]);
    assert!(findings.len() > 2 && findings.is_sorted_by(|a, b| a.severity >= b.severity), "{findings:?}");
    let first = subject.requirements.iter().find(|requirement| requirement.version == "V_2").expect("asked for");
    assert_eq!(first.symbols.len(), 3, "{:?}", first.symbols);
}

#[test]
fn a_policy_sets_severities() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = shim(folder.path(), "", &[("libc.so.6", &["strlen@GLIBC_2.2.5"])], &["-Wl,-z,norelro"]);
    let severity = |keys: &str| of(&look(&path, keys).1, "relro").first().map(|finding| finding.severity);
    assert_eq!(severity("{}"), Some(Severity::Note));
    assert_eq!(severity(r#"{"severities": {"relro": "deny"}}"#), Some(Severity::Deny));
}

#[test]
fn flags_of_the_command_replace_the_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "double sin(double); int hipInit(void) { return sin(1) > 0; }";
    let path = shim(folder.path(), more, &[("libm.so.6", &["sin@GLIBC_2.14"])], &[]);
    let denied = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vrocm-audit"));
        let done = command.arg("linkage").arg(&path).args(arguments).args(["--format", "json"]).output().expect("runs");
        let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("findings").clone();
        findings
            .iter()
            .filter(|finding| finding["severity"] == "deny")
            .map(|finding| finding["check"].as_str().expect("text").to_string())
            .collect::<Vec<_>>()
    };
    let (needed, floor) = ("needed-list".to_string(), "version-floor".to_string());
    let plain = denied(&[]);
    assert!(plain.contains(&needed) && plain.contains(&floor), "{plain:?}");
    let allowed = denied(&["--allow-needed", "libm.so.6", "--allow-needed", "libabsent.so"]);
    assert!(!allowed.contains(&needed) && allowed.contains(&floor), "what may be needed need not be: {allowed:?}");
    let other = denied(&["--allow-needed", "libc.so.6", "--max-version", "GLIBC_2.14"]);
    assert!(other.contains(&needed) && !other.contains(&floor), "{other:?}");
}

/// glibc's releases in the table, with what is said of each.
fn on_glibc(subject: &Subject) -> Vec<(u32, &str, bool)> {
    let number = |libc: &str| libc.strip_prefix("glibc 2.").and_then(|minor| minor.parse().ok());
    subject.loads_on.iter().filter_map(|row| Some((number(&row.libc)?, row.outcome, row.loads))).collect()
}

#[test]
fn systems_are_told_apart_by_what_they_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let asks = |version: &str, flags: &[&str]| {
        let more = "int vr_new(void); int hipInit(void) { return vr_new(); }";
        look(&shim(folder.path(), more, &[("libc.so.6", &[&format!("vr_new@{version}")])], flags), "{}").0
    };
    let subject = asks("GLIBC_2.34", &["-Wl,-z,now"]);
    let rows = on_glibc(&subject);
    assert!(rows.len() > 20 && rows.iter().any(|(minor, ..)| *minor < 34) && rows.iter().any(|(minor, ..)| *minor >= 34), "{rows:?}");
    for (minor, outcome, loads) in rows {
        assert!(!loads && outcome == "stops-every-program", "nothing defines vr_new: 2.{minor} {outcome}");
    }
    let more = "int dlclose(void *); int hipInit(void) { return dlclose(0); }";
    for (flags, before) in [(&["-Wl,-z,now"][..], "stops-every-program"), (&[][..], "stops-every-program")] {
        let path = shim(folder.path(), more, &[("libc.so.6", &["dlclose@GLIBC_2.34"])], flags);
        for (minor, outcome, loads) in on_glibc(&look(&path, "{}").0) {
            let expected = if minor >= 34 { ("loads", true) } else { (before, false) };
            assert_eq!((outcome, loads), expected, "glibc 2.{minor}");
        }
    }
    // The symbol is asked for without a version: what decides is where it is defined, and when it is bound.
    for (flags, before) in [(&["-Wl,-z,now"][..], ("stops-every-program", false)), (&[][..], ("kills-the-call", true))] {
        let path = shim(folder.path(), more, &[("libc.so.6", &["dlclose"])], flags);
        for (minor, outcome, loads) in on_glibc(&look(&path, "{}").0) {
            assert_eq!((outcome, loads), if minor >= 34 { ("loads", true) } else { before }, "glibc 2.{minor}");
        }
    }
}

/// A library that is no part of glibc may define what has no version; glibc's own names are asked for by exactly theirs.
#[test]
fn who_may_define_a_name_decides() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "void helper(void); int hipInit(void) { helper(); return 0; }";
    for symbol in ["helper", "helper@OTHER_1"] {
        let path = shim(folder.path(), more, &[("libother.so.1", &[symbol])], &["-Wl,-z,now"]);
        assert!(on_glibc(&look(&path, "{}").0).iter().all(|row| (row.1, row.2) == ("depends", true)), "{symbol}");
    }
    let more = "int dlclose(void *); int hipInit(void) { return dlclose(0); }";
    let path = shim(folder.path(), more, &[("libc.so.6", &["dlclose@GLIBC_2.3"])], &["-Wl,-z,now"]);
    assert!(
        on_glibc(&look(&path, "{}").0).iter().all(|row| (row.1, row.2) == ("stops-every-program", false)),
        "no release has it under that version"
    );
}

/// Data under a listed name ends the process at the call; a hidden function is passed over.
#[test]
fn what_does_not_serve_says_what_comes_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = InterposedList::read("the list", "hipFree\nhipMalloc\nhipMemCreate").expect("a list");
    for (more, outcome) in [
        ("int hipMemCreate = 7;", "kills-the-call"),
        ("__attribute__((visibility(\"hidden\"))) int hipMemCreate(void) { return 0; }", "loses-silently"),
    ] {
        let (_, findings) = audit(&shim(folder.path(), more, &[], &[]), &policy("{}"), Some(&list));
        let found = of(&findings, "export-set");
        assert!(found.len() == 1 && found[0].evidence["outcome"] == outcome, "{more}: {found:?}");
    }
}

#[test]
fn a_file_of_another_kind_loads_nowhere_and_a_milder_fault_does_not_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other.so");
    std::fs::write(&path, made::write("class=64 order=little machine=183")).expect("writable");
    let (subject, _) = look(&path, "{}");
    assert!(subject.loads_on.len() > 50);
    assert!(subject.loads_on.iter().all(|row| !row.loads && row.because.as_ref().is_some_and(|why| why.starts_with("machine: "))));
    // Denied as well, but of no consequence for the loader.
    let (subject, findings) = look(&shim(folder.path(), "int optind = 7;", &[], &[]), "{}");
    assert!(findings.iter().any(|finding| finding.severity == Severity::Deny));
    assert!(subject.loads_on.iter().all(|row| row.loads), "{:?}", subject.loads_on.first());
}

#[test]
fn what_compilers_leave_behind_is_nobodys_requirement() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = ["_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__", "_Jv_RegisterClasses"];
    let uses = |names: &[&str]| -> String {
        let all = names.iter().map(|name| format!("void {name}(void) __attribute__((weak)); void *use_{name}(void) {{ return {name}; }}\n"));
        all.collect()
    };
    let hidden = "#pragma GCC visibility push(default)\n";
    let said = |names: &[&str]| {
        let (_, findings) = look(&shim(folder.path(), &format!("{hidden}{}", uses(names)), &[], &[]), "{}");
        of(&findings, "undefined-provider").iter().map(|finding| finding.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(said(&names), [""; 0]);
    assert_eq!(said(&["vr_tested"]).len(), 1, "another weak name is said");
}

#[test]
fn writes_into_code_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "__asm__(\".text\\nhere: .quad here, here, here\\n\");";
    let (_, findings) = look(&shim(folder.path(), more, &[], &["-Wl,-z,notext"]), "{}");
    let found = of(&findings, "text-relocations");
    assert!(found.len() == 1 && found[0].message.contains('3'), "{found:?}");
}

#[test]
fn functions_that_run_before_main_are_counted_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = |name: &str| format!("static volatile int {name}_on; __attribute__((constructor)) static void {name}(void) {{ {name}_on = 1; }}\n");
    for (more, says) in [(before("a"), "1 function runs in"), (before("a") + &before("b"), "2 functions run in")] {
        let (_, findings) = look(&shim(folder.path(), &more, &[], &[]), "{}");
        assert!(of(&findings, "init-functions").iter().any(|finding| finding.message.contains(says)), "{says}: {findings:?}");
    }
}

#[test]
fn machines_are_named_by_their_words_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = |recipe: &str| {
        let path = folder.path().join("made.so");
        std::fs::write(&path, made::write(recipe)).expect("writable");
        look(&path, "{}").0.machine
    };
    assert_eq!(machine("class=64 order=little machine=62"), "x86_64");
    assert_eq!(machine("class=32 order=little machine=62"), "x32");
    assert_ne!(machine("class=32 order=little machine=3"), "x32");
}

/// What is bound to a library that may not be needed: symbols by its versions, a version without a symbol, and unversioned names that glibc keeps there.
#[test]
fn what_binds_to_an_unwanted_library_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let bound = |path: &Path, name: &str, keys: &str| {
        let (_, findings) = look(path, keys);
        let found = findings.iter().find(|finding| finding.check == "needed-list" && finding.evidence["name"] == name).expect("found").clone();
        (found.evidence["bound"].clone(), found.message)
    };
    let more = "double sin(double); unsigned long strlen(const char *); int hipInit(void) { return sin(1) > strlen(\"\"); }";
    let path = shim(folder.path(), more, &[("libm.so.6", &["sin"]), ("libc.so.6", &["strlen"])], &[]);
    assert_eq!(bound(&path, "libm.so.6", "{}").0, serde_json::json!(["sin"]));
    let (_, message) = bound(&path, "libc.so.6", r#"{"needed": {"allowed": [], "exact": false}}"#);
    assert!(message.contains("not among the allowed nothing"), "{message}");
    let more = "void helper(void); int hipInit(void) { helper(); return 0; }";
    let path = shim(folder.path(), more, &[("libother.so.1", &["helper@OTHER_1"])], &[]);
    assert_eq!(bound(&path, "libother.so.1", "{}").0, serde_json::json!(["helper@OTHER_1"]));
    std::fs::write(&path, patch::file(&path, &["symbol helper version 1"])).expect("writable");
    assert_eq!(bound(&path, "libother.so.1", "{}").0, serde_json::json!(["OTHER_1"]));
}

/// musl's systems of the table: version, outcome, reason.
fn on_musl(subject: &Subject) -> Vec<(&str, &str, &str)> {
    let rows = subject.loads_on.iter();
    rows.filter_map(|row| Some((row.libc.strip_prefix("musl ")?, row.outcome, row.because.as_deref().unwrap_or_default()))).collect()
}

#[test]
fn musl_has_its_own_libraries_and_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let calls = |name: &str| format!("int {name}(void); int hipInit(void) {{ return {name}(); }}");
    for (more, library, symbol, outcome, because) in [
        (calls("strlen"), "libc.so.6", "strlen@GLIBC_2.2.5", "loads", ""),
        (calls("sin"), "libm.so.6", "sin@GLIBC_2.2.5", "loads", ""),
        (
            calls("gnu_get_libc_version"),
            "libc.so.6",
            "gnu_get_libc_version@GLIBC_2.2.5",
            "stops-every-program",
            "gnu_get_libc_version, which musl does not have",
        ),
        (calls("getaddrinfo_a"), "libanl.so.1", "getaddrinfo_a@GLIBC_2.2.5", "stops-every-program", "libanl.so.1 does not exist there"),
        (calls("helper"), "libother.so.1", "helper", "depends", "needs libother.so.1"),
    ] {
        let (subject, _) = look(&shim(folder.path(), &more, &[(library, &[symbol])], &[]), "{}");
        let rows = on_musl(&subject);
        assert!(rows.len() >= 2, "{rows:?}");
        assert!(rows.iter().all(|row| (row.1, row.2) == (outcome, because)), "{symbol}: {rows:?}");
    }
}

#[test]
fn packed_relocations_and_private_names_split_the_systems() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = "static int here; int *volatile hip_table[] = {&here, &here, &here, &here}; int *hipInit(void) { return hip_table[0]; }";
    let (subject, _) = look(&shim(folder.path(), table, &[], &["-Wl,-z,pack-relative-relocs"]), "{}");
    for (minor, outcome, _) in on_glibc(&subject) {
        assert_eq!(outcome, if minor < 36 { "stops-every-program" } else { "loads" }, "glibc 2.{minor}");
    }
    for (version, outcome, _) in on_musl(&subject) {
        let minor: u32 = version.rsplit('.').next().and_then(|minor| minor.parse().ok()).expect("a number");
        let older = version.starts_with("1.1.") || minor < 4;
        assert_eq!(outcome, if older { "stops-every-program" } else { "loads" }, "musl {version}");
    }
    for (weak, outcome) in [("", "depends"), ("__attribute__((weak))", "loads")] {
        let more = format!("int _dl_vr(void) {weak}; int hipInit(void) {{ return _dl_vr != 0 && _dl_vr(); }}");
        let (subject, _) = look(&shim(folder.path(), &more, &[("libc.so.6", &["_dl_vr@GLIBC_PRIVATE"])], &[]), "{}");
        assert!(on_glibc(&subject).iter().all(|row| row.1 == outcome), "{weak}: {:?}", on_glibc(&subject).first());
    }
}
