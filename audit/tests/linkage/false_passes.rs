//! The eleven broken shims that today's checks let pass, and the good one beside them: each is denied for its own fault, with no stored
//! baseline, and the good shim is neither denied nor warned about.

use std::path::{Path, PathBuf};

use super::fixture::{audit, compiler, policy, run, stub};
use vrocm_audit::finding::Severity;
use vrocm_audit::manifest::InterposedList;

/// One broken shim.
struct Broken {
    name: &'static str,
    /// Appended to the good source.
    more: &'static str,
    /// Replaced in it.
    change: Option<(&'static str, &'static str)>,
    flags: &'static [&'static str],
    libc: &'static [&'static str],
    /// The rule that must deny it, and what its message must hold.
    denied_by: &'static str,
    because: &'static str,
}

const LIBC: &[&str] = &["strlen@GLIBC_2.2.5"];
const GOOD: Broken = Broken { name: "good", more: "", change: None, flags: &[], libc: LIBC, denied_by: "", because: "" };
const USES_DLSYM: &str = "void *dlsym(void *, const char *);\nstatic void *next(void) { return dlsym((void *)-1, \"hipMalloc\"); }\n__attribute__((constructor)) static void start(void) { first = next(); }\n";

static BROKEN: [Broken; 10] = [
    Broken {
        name: "dlsym-234",
        more: USES_DLSYM,
        libc: &["strlen@GLIBC_2.2.5", "dlsym@GLIBC_2.34"],
        denied_by: "version-floor",
        because: "dlsym",
        ..GOOD
    },
    Broken {
        name: "relr",
        more: "static int a, b;\nstatic int *volatile table[] = {&a, &b};\n__attribute__((constructor)) static void start(void) { first = table[1]; }\n",
        flags: &["-Wl,-z,pack-relative-relocs"],
        denied_by: "version-marker",
        because: "GLIBC_ABI_DT_RELR",
        ..GOOD
    },
    Broken {
        name: "weak-malloc",
        more: "__attribute__((weak)) void *malloc(unsigned long size) { return 0; }\n",
        denied_by: "export-set",
        because: "malloc",
        ..GOOD
    },
    Broken {
        name: "ifunc-getpid",
        more: "static int mine(void) { return 1; }\nstatic void *choose(void) { return mine; }\nint getpid(void) __attribute__((ifunc(\"choose\")));\n",
        denied_by: "export-set",
        because: "getpid",
        ..GOOD
    },
    Broken { name: "data", more: "int optind = 7;\nint environ_leak = 1;\n", denied_by: "export-set", because: "environ_leak", ..GOOD },
    Broken {
        name: "hidden",
        change: Some(("int hipMemCreate(", "__attribute__((visibility(\"hidden\"))) int hipMemCreate(")),
        denied_by: "export-set",
        because: "hipMemCreate is in",
        ..GOOD
    },
    Broken { name: "typo", change: Some(("int hipFree(", "int hipFreee(")), denied_by: "export-set", because: "hipFreee", ..GOOD },
    Broken { name: "runpath", flags: &["-Wl,--enable-new-dtags,-rpath,/opt/evil"], denied_by: "runpath", because: "/opt/evil", ..GOOD },
    Broken { name: "execstack", flags: &["-Wl,-z,execstack"], denied_by: "exec-stack", because: "RWE", ..GOOD },
    Broken { name: "own-node", flags: &["-Wl,--version-script=SCRIPT"], denied_by: "export-version", because: "of node V1", ..GOOD },
];

fn build(folder: &Path, shim: &Broken, list: &InterposedList) -> PathBuf {
    let mut source = String::from("unsigned long strlen(const char *);\nstatic void *volatile first;\n");
    for row in &list.rows {
        source = source + "int " + &row.name + "(void) { return strlen(\"x\") == 2 || first; }\n";
    }
    if let Some((from, to)) = shim.change {
        assert!(source.contains(from));
        source = source.replace(from, to);
    }
    source.push_str(shim.more);
    let (c, out, script) = (folder.join(format!("{}.c", shim.name)), folder.join(format!("{}.so", shim.name)), folder.join("V1.map"));
    std::fs::write(&c, source).expect("writable");
    std::fs::write(&script, "V1 { global: hip*; local: *; };").expect("writable");
    let libc = stub(folder, &format!("{}-libc", shim.name), "libc.so.6", shim.libc);
    let flags = shim.flags.iter().map(|flag| flag.replace("SCRIPT", &script.display().to_string()));
    run(compiler().args(["-fPIC", "-shared", "-Wl,-soname,libvrocm.so", "-o"]).arg(&out).arg(&c).arg(libc).args(flags));
    out
}

#[test]
fn the_good_shim_is_neither_denied_nor_warned_about() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let list = InterposedList::reference().expect("a good list");
    let file = build(folder.path(), &GOOD, &list);
    let (subject, findings) = audit(&file, &policy("{}"), Some(&list));
    assert!(findings.iter().all(|found| found.severity == Severity::Note), "{findings:#?}");
    assert_eq!(subject.exports.len(), list.rows.len());
    let elsewhere: Vec<_> = subject.loads_on.iter().filter(|system| !system.loads).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
}

#[test]
fn each_broken_shim_is_denied_for_its_own_fault() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let list = InterposedList::reference().expect("a good list");
    let mut missed = Vec::new();
    for shim in &BROKEN {
        let file = build(folder.path(), shim, &list);
        check(&file, shim, &list, &mut missed);
    }
    // The eleventh: the first again, without section headers. Loaders do not miss them.
    let mut bytes = std::fs::read(folder.path().join("dlsym-234.so")).expect("just built");
    super::patch::apply(&mut bytes, "no-sections");
    let stripped = folder.path().join("dlsym-234-stripped.so");
    std::fs::write(&stripped, bytes).expect("writable");
    check(&stripped, &BROKEN[0], &list, &mut missed);
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Every denial is for the fault at hand: a shim denied for something else by chance is not caught.
fn check(file: &Path, shim: &Broken, list: &InterposedList, missed: &mut Vec<String>) {
    let (_, findings) = audit(file, &policy("{}"), Some(list));
    let denied: Vec<_> = findings.iter().filter(|found| found.severity == Severity::Deny).collect();
    if !denied.iter().any(|found| found.check == shim.denied_by && found.message.contains(shim.because)) {
        missed.push(format!("{}: {findings:#?}", file.display()));
    }
    if let Some(other) = denied.iter().find(|found| found.check != shim.denied_by) {
        missed.push(format!("{}: also denied by {}: {}", file.display(), other.check, other.message));
    }
}
