//! What comes of a fault, said fault by fault: the outcome word, how often it is said, and where a rule has to be silent.

use std::path::{Path, PathBuf};

use vrocm_audit::elf::Elf;
use vrocm_audit::finding::{Finding, Severity};

use super::details::{look, of, shim};
use super::patch;

/// The good shim, changed by these steps.
fn patched(folder: &Path, more: &str, libraries: &[(&str, &[&str])], flags: &[&str], steps: &[&str]) -> PathBuf {
    let path = shim(folder, more, libraries, flags);
    std::fs::write(&path, patch::file(&path, steps)).expect("writable");
    path
}

/// Severity and outcome of what a rule says.
fn said(findings: &[Finding], rule: &str) -> Vec<(Severity, String)> {
    of(findings, rule).iter().map(|finding| (finding.severity, finding.evidence["outcome"].as_str().expect("a word").to_owned())).collect()
}

fn one(severity: Severity, outcome: &str) -> Vec<(Severity, String)> {
    vec![(severity, outcome.to_owned())]
}

const LIBC: &[(&str, &[&str])] = &[("libc.so.6", &["strlen@GLIBC_2.2.5"])];
const STRLEN: &str = "unsigned long strlen(const char *); unsigned long hipInit(void) { return strlen(\"x\"); }\n";
const ALLOWED: &str = r#"{"needed": {"allowed": ["libc.so.6", "libm.so.6", "libx.so.1"], "exact": false}}"#;

#[test]
fn filters_and_auditors_have_outcomes_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    for (flag, outcome) in [("-F,libx.so", "stops-every-program"), ("-f,libx.so", "loses-silently"), ("--audit,/a.so", "depends")] {
        let (_, findings) = look(&shim(folder.path(), "", LIBC, &[&format!("-Wl,{flag}")]), "{}");
        assert_eq!(said(&findings, "audit-filter"), one(Severity::Deny, outcome), "{flag}");
    }
}

#[test]
fn relocations_are_judged_by_their_type() {
    let folder = tempfile::tempdir().expect("a folder");
    // Two through the GOT.
    let more = "extern void *stdout, *stderr; int hipInit(void) { return stdout == stderr; }\n";
    let libraries: &[(&str, &[&str])] = &[("libc.so.6", &["stdout@GLIBC_2.2.5", "stderr@GLIBC_2.2.5"])];
    let with = |steps: &[&str]| said(&look(&patched(folder.path(), more, libraries, &[], steps), "{}").1, "relocations");
    assert_eq!(with(&[]), []);
    assert_eq!(with(&["relocation 6 10"]), [], "one that glibc applies");
    assert_eq!(with(&["relocation 6 200"]), one(Severity::Deny, "stops-every-program"), "one type, said once");
    assert_eq!(with(&["relocation 6 200", "header 18 2 183"]), [], "another machine's numbers are not known");
    let chosen = "static int mine(void) { return 1; }\nstatic void *choose(void) { return mine; }\nstatic int pick(void) __attribute__((ifunc(\"choose\")));\nint hipInit(void) { return pick(); }\n";
    let (_, findings) = look(&shim(folder.path(), chosen, LIBC, &[]), "{}");
    let found = of(&findings, "relocations");
    assert!(found.len() == 1 && found[0].message.starts_with("1 IRELATIVE") && found[0].severity == Severity::Note, "{found:?}");
}

#[test]
fn an_unwanted_library_is_in_every_process_or_stops_them_all() {
    let folder = tempfile::tempdir().expect("a folder");
    for (soname, outcome, effect) in [
        ("libm.so.6", "imposed-on-all", "it is loaded into every process"),
        ("libother.so.1", "stops-every-program", "where it is missing, no program starts"),
        ("./build/libm.so.6", "stops-every-program", "where it is missing, no program starts"),
    ] {
        let more = "double sin(double); int hipInit(void) { return sin(1); }\n";
        let (_, findings) = look(&shim(folder.path(), more, &[(soname, &["sin"]), LIBC[0]], &[]), "{}");
        assert_eq!(said(&findings, "needed-list"), one(Severity::Deny, outcome), "{soname}");
        assert!(of(&findings, "needed-list")[0].message.ends_with(effect), "{findings:?}");
    }
    // Needed twice: not allowed once, and said to be there again once.
    let more = "void helper(void); int hipInit(void) { helper(); return 0; }\n";
    let twice = patched(folder.path(), more, &[("libother.so.1", &["helper"]), LIBC[0]], &["-Wl,-soname,libother.so.1"], &["dynamic 14 1 ="]);
    let mut both = said(&look(&twice, "{}").1, "needed-list");
    both.sort();
    assert_eq!(both, [one(Severity::Warn, "nothing"), one(Severity::Deny, "stops-every-program")].concat());
}

#[test]
fn a_library_that_is_not_needed_is_missed_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "void one(void), two(void); int hipInit(void) { one(); two(); return 0; }\n";
    // Its DT_NEEDED becomes DT_DEBUG.
    let path = patched(folder.path(), more, &[("libother.so.1", &["one@V_1", "two@V_2"])], &[], &["dynamic 1 21 ="]);
    assert_eq!(said(&look(&path, "{}").1, "needed-missing"), one(Severity::Deny, "stops-every-program"));
    let unversioned: &[(&str, &[&str])] = &[("libc.so.6", &["strlen"])];
    assert_eq!(said(&look(&shim(folder.path(), STRLEN, unversioned, &[]), "{}").1, "needed-missing"), [], "libc is needed");
    let path = patched(folder.path(), STRLEN, unversioned, &[], &["dynamic 1 21 ="]);
    assert_eq!(said(&look(&path, "{}").1, "needed-missing"), one(Severity::Warn, "depends"));
    // Its version is asked for: that finding is enough.
    let path = patched(folder.path(), STRLEN, LIBC, &[], &["dynamic 1 21 ="]);
    assert_eq!(said(&look(&path, "{}").1, "needed-missing"), one(Severity::Deny, "stops-every-program"));
}

#[test]
fn a_library_is_used_if_something_may_come_from_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let unused = |more: &str, libraries: &[(&str, &[&str])]| said(&look(&shim(folder.path(), more, libraries, &[]), ALLOWED).1, "needed-unused");
    let helper = "void helper(void); int hipFor(void) { helper(); return 0; }\n";
    let sine = "double sin(double); int hipSine(void) { return sin(1); }\n";
    let libx: (&str, &[&str]) = ("libx.so.1", &["helper"]);
    let maths: (&str, &[&str]) = ("libm.so.6", &["sin"]);
    assert_eq!(unused(helper, &[libx]), [], "an unversioned name may be of any library that is not glibc's");
    assert_eq!(unused(sine, &[maths]), [], "glibc keeps sin there");
    assert_eq!(unused(&format!("{STRLEN}{helper}"), &[LIBC[0], libx, maths]), one(Severity::Warn, "imposed-on-all"), "helper is none of libm's");
    assert_eq!(unused(STRLEN, &[LIBC[0], libx]), one(Severity::Warn, "imposed-on-all"), "strlen has libc's version");
    let left =
        "#pragma GCC visibility push(default)\nvoid __gmon_start__(void) __attribute__((weak)); void *hipUse(void) { return __gmon_start__; }\n";
    assert_eq!(unused(&format!("{STRLEN}{left}"), &[LIBC[0], libx]), one(Severity::Warn, "imposed-on-all"), "compilers leave that behind");
    assert_eq!(unused("", &[("libc.so.6", &[])]), one(Severity::Note, "nothing"), "libc is in every process");
}

#[test]
fn functions_before_main_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let count = |flags: &[&str]| {
        let more = "static volatile int on;\nvoid start(void) { on = 1; }\n";
        let (_, findings) = look(&shim(folder.path(), more, LIBC, flags), "{}");
        of(&findings, "init-functions").first().map_or(0, |finding| finding.evidence["count"].as_u64().expect("a number"))
    };
    let without = count(&["-nostartfiles"]);
    assert_eq!((without, count(&["-nostartfiles", "-Wl,-init,start"])), (0, 1));
    let constructor = "static volatile int on;\n__attribute__((constructor)) static void start(void) { on = 1; }\n";
    let denied = |size: &str| {
        let path = patched(folder.path(), constructor, LIBC, &[], &["dynamic 25 32 =", &format!("dynamic 27 33 {size}")]);
        of(&look(&path, "{}").1, "init-functions").iter().any(|finding| finding.severity == Severity::Deny)
    };
    assert!(denied("=") && !denied("0"), "an empty DT_PREINIT_ARRAY sets up nothing");
}

#[test]
fn segments_are_judged_at_their_edges() {
    let folder = tempfile::tempdir().expect("a folder");
    let with = |steps: &[&str]| said(&look(&patched(folder.path(), STRLEN, LIBC, &["-Wl,-z,max-page-size=0x1000"], steps), "{}").1, "segments");
    assert_eq!(with(&[]), []);
    assert_eq!(with(&["segment load 0 memsz 0x1000"]), [], "one ends where the next begins");
    assert_eq!(with(&["segment load 3 align 0x3000"]), one(Severity::Warn, "nothing"), "no power of two, which glibc loads");
    let small = with(&["header 18 2 183"]);
    assert!(small.len() == 4 && small.iter().all(|row| *row == (Severity::Warn, "depends".into())), "pages of 64 KiB: {small:?}");
    let large: Vec<String> = (0..4).map(|index| format!("segment load {index} align 0x10000")).collect();
    let steps: Vec<&str> = std::iter::once("header 18 2 183").chain(large.iter().map(String::as_str)).collect();
    assert!(with(&steps).iter().all(|row| row.0 != Severity::Warn), "{:?}", with(&steps));
}

#[test]
fn a_function_at_the_very_end_of_the_code_has_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = shim(folder.path(), STRLEN, LIBC, &[]);
    let image = Elf::open(&path).expect("readable");
    let code = image.segments.iter().find(|segment| segment.executable() && segment.memory_size > 0).expect("code");
    let end = code.address + code.memory_size;
    let at = |value: u64| said(&look(&patched(folder.path(), STRLEN, LIBC, &[], &[&format!("symbol hipMalloc value {value}")]), "{}").1, "segments");
    assert_eq!((at(end), at(end - 1)), (one(Severity::Deny, "kills-the-call"), vec![]));
}

#[test]
fn thread_local_storage_is_judged_by_size_and_model() {
    let folder = tempfile::tempdir().expect("a folder");
    for (size, model, severity, outcome) in [
        (512, "global-dynamic", Severity::Note, "imposed-on-all"),
        (520, "global-dynamic", Severity::Warn, "imposed-on-all"),
        (512, "initial-exec", Severity::Warn, "refused-by-dlopen"),
        (520, "initial-exec", Severity::Warn, "refused-by-dlopen"),
    ] {
        let more =
            format!("static __thread __attribute__((tls_model(\"{model}\"))) char slots[{size}];\nchar *hipInit(int i) {{ return &slots[i]; }}\n");
        let (_, findings) = look(&shim(folder.path(), &more, &[("libc.so.6", &["__tls_get_addr@GLIBC_2.3"])], &[]), "{}");
        assert_eq!(said(&findings, "static-tls"), one(severity, outcome), "{size} {model}");
        let refused = of(&findings, "static-tls")[0].message.contains("dlopen refuses it");
        assert_eq!(refused, size > 512 && model == "initial-exec", "{findings:?}");
    }
}

#[test]
fn versions_are_glibcs_in_glibcs_libraries_only_and_each_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "void helper(void); int hipInit(void) { helper(); return 0; }\n";
    let floor = |soname: &str, symbol: &str| said(&look(&shim(folder.path(), more, &[(soname, &[symbol])], &[]), "{}").1, "version-floor");
    assert_eq!(floor("libother.so.1", "helper@GLIBC_2.34"), [], "another library's node of that name");
    assert_eq!(floor("libc.so.6", "helper@GLIBC_2.34"), one(Severity::Deny, "stops-every-program"));
    assert_eq!(floor("libc.so.6", "helper@GLIBC_2.99"), one(Severity::Deny, "stops-every-program"), "it exists nowhere and is too high: once");
    assert_eq!(floor("libc.so.6", "helper@GLIBC_2.12.2"), one(Severity::Deny, "stops-every-program"), "between two that exist");
    let weak = |version: &str| {
        let path = patched(folder.path(), more, &[("libc.so.6", &[&format!("helper@{version}")])], &[], &[&format!("weak {version}")]);
        said(&look(&path, "{}").1, "version-weak").len()
    };
    assert_eq!((weak("GLIBC_2.34"), weak("GLIBC_2.2.5")), (1, 0));
}

#[test]
fn a_wide_file_is_none_for_narrow_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = shim(folder.path(), STRLEN, LIBC, &[]);
    assert_eq!(said(&look(&path, r#"{"machine": "i386"}"#).1, "word-size"), one(Severity::Deny, "loses-the-shim"));
    assert_eq!(said(&look(&path, "{}").1, "word-size"), []);
}

/// The limit stands for the release of its own number, too.
#[test]
fn a_name_that_came_one_release_after_the_limit_is_missing_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let more = "const char *sigabbrev_np(int); const char *hipInit(void) { return sigabbrev_np(1); }\n";
    let path = shim(folder.path(), more, &[("libc.so.6", &["sigabbrev_np"])], &[]);
    let missing = |limit: &str| said(&look(&path, &format!("{{\"max_versions\": {{\"GLIBC\": \"{limit}\"}}}}")).1, "undefined-provider").len();
    assert_eq!((missing("2.31"), missing("2.32")), (1, 0));
}
