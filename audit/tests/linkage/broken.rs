//! A corpus of broken shims that this test makes itself: every rule, several ways to break it. It prints the share that is caught; one that is not fails
//! the test and is named.
//!
//! Each shim is the good one with one fault. What counts as caught: the rule that is about the fault says so, with at least the severity that is named, whatever
//! others say as well. The good shim itself must be silent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::fixture::{audit, compiler, policy, run, stub};
use super::{made, patch};
use vrocm_audit::elf::Elf;
use vrocm_audit::finding::Severity::{self, Deny, Note, Warn};
use vrocm_audit::linkage::{self, RULES};
use vrocm_audit::manifest::InterposedList;

/// The good shim: two wrappers, libc alone, a soname of its own.
const SOURCE: &str = "unsigned long strlen(const char *);\nint hipMalloc(void **memory, unsigned long size) { return strlen(\"x\") == size; }\nint hipFree(void *memory) { return 0; }\n";
const LIBC: &[&str] = &["strlen@GLIBC_2.2.5"];

/// One fault.
struct Broken {
    rule: &'static str,
    way: String,
    least: Severity,
    make: Make,
    /// Keys that replace those of the policy.
    policy: &'static str,
}

/// How a shim is made.
enum Make {
    /// The good shim's bytes, changed.
    Patched(Vec<String>),
    /// Compiled anew.
    Compiled {
        more: String,
        change: Option<(&'static str, &'static str)>,
        flags: Vec<String>,
        libc: Vec<String>,
        stubs: Vec<(String, String)>,
        patches: Vec<String>,
    },
    /// Written byte by byte.
    Written(String),
}

fn patched(rule: &'static str, least: Severity, steps: &[&str]) -> Broken {
    Broken { rule, way: steps.join("; "), least, make: Make::Patched(steps.iter().map(ToString::to_string).collect()), policy: "{}" }
}

fn written(rule: &'static str, recipe: &str) -> Broken {
    Broken { rule, way: recipe.into(), least: Deny, make: Make::Written(recipe.into()), policy: "{}" }
}

fn compiled(rule: &'static str, least: Severity, way: impl Into<String>) -> Broken {
    let libc = LIBC.iter().map(ToString::to_string).collect();
    let make = Make::Compiled { more: String::new(), change: None, flags: Vec::new(), libc, stubs: Vec::new(), patches: Vec::new() };
    Broken { rule, way: way.into(), least, make, policy: "{}" }
}

impl Broken {
    fn with(mut self, set: impl FnOnce(&mut String, &mut Option<(&'static str, &'static str)>, &mut Vec<String>, &mut Vec<String>)) -> Self {
        if let Make::Compiled { more, change, flags, libc, .. } = &mut self.make {
            set(more, change, flags, libc);
        }
        self
    }

    fn flags(self, words: &str) -> Self {
        self.with(|_, _, flags, _| flags.extend(words.split_whitespace().map(ToString::to_string)))
    }

    fn more(self, source: &str) -> Self {
        self.with(|more, _, _, _| more.push_str(source))
    }

    /// Imports a function with a version of libc.
    fn imports(self, name: &str, version: &str) -> Self {
        let node = if version.is_empty() { String::new() } else { format!("@{version}") };
        self.with(|more, _, _, libc| {
            libc.push(format!("{name}{node}"));
            *more += &format!("void {name}(void);\nvoid hipInit(void) {{ {name}(); }}\n");
        })
    }

    fn stub(mut self, soname: &str, symbol: &str) -> Self {
        if let Make::Compiled { stubs, .. } = &mut self.make {
            stubs.push((soname.into(), symbol.into()));
        }
        self
    }

    fn patch(mut self, step: &str) -> Self {
        if let Make::Compiled { patches, .. } = &mut self.make {
            patches.push(step.into());
        }
        self
    }

    fn judged_by(mut self, policy: &'static str) -> Self {
        self.policy = policy;
        self
    }
}

/// Faults of the file's head and of its dynamic section, by changing bytes. The good shim's `DT_SONAME` is the entry that becomes another.
fn by_bytes() -> Vec<Broken> {
    let mut all = Vec::new();
    for (tag, word) in [("0x6ffffefc", "DT_AUDIT"), ("0x6ffffefb", "DT_DEPAUDIT"), ("0x7ffffffd", "DT_AUXILIARY"), ("0x7fffffff", "DT_FILTER")] {
        let mut one = patched("audit-filter", Deny, &[&format!("dynamic 14 {tag} =")]);
        one.way = word.into();
        all.push(one);
    }
    for (bit, least) in [(0x20, Warn), (0x40, Warn), (0x800, Warn), (0x400_0000, Warn), (0x400, Note), (0x20 | 0x800, Warn)] {
        all.push(patched("dynamic-flags", least, &[&format!("dynamic 14 0x6ffffffb {bit:#x}")]));
    }
    all.push(patched("dynamic-flags", Note, &["dynamic 14 30 2"]));
    for abi in [1, 2, 6, 9, 12, 64, 97, 255] {
        all.push(patched("elf-ident", Deny, &[&format!("header 7 1 {abi}")]));
    }
    for version in [1, 5, 255] {
        all.push(patched("elf-ident", Deny, &[&format!("header 8 1 {version}")]));
    }
    for at in 9..16 {
        all.push(patched("elf-ident", Deny, &[&format!("header {at} 1 {}", at * 7)]));
    }
    for flags in [7, 5, 1, 3] {
        all.push(patched("exec-stack", Deny, &[&format!("segment stack 0 flags {flags}")]));
    }
    for kind in ["0x6ffffff7", "0", "4"] {
        all.push(patched("exec-stack", Deny, &[&format!("segment stack 0 type {kind}")]));
    }
    for kind in [0, 1, 4, 5, 0xfe00, 0xffff] {
        all.push(patched("file-type", Deny, &[&format!("header 16 2 {kind}")]));
    }
    all.push(patched("file-type", Deny, &["dynamic 14 0x6ffffffb 0x8000000"]));
    for machine in [2, 3, 8, 20, 21, 22, 40, 43, 183, 243, 258] {
        all.push(patched("machine", Deny, &[&format!("header 18 2 {machine}")]));
    }
    all.push(patched("rpath", Deny, &["dynamic 14 15 ="]));
    all.push(patched("runpath", Deny, &["dynamic 14 29 ="]));
    all.push(patched("needed-list", Deny, &["dynamic 14 1 ="]));
    all.push(patched("needed-missing", Deny, &["dynamic 1 21 0"]));
    all.push(patched("text-relocations", Deny, &["dynamic 14 22 0"]));
    all.push(patched("text-relocations", Deny, &["dynamic 14 30 4"]));
    all.push(patched("static-tls", Warn, &["dynamic 14 30 0x10"]));
    all.push(patched("relro", Note, &["segment 0x6474e552 0 type 0"]));
    all.push(patched("export-version", Deny, &["symbol hipMalloc version 0x8001"]));
    all.push(patched("export-set", Deny, &["symbol hipMalloc section 0xfff1"]));
    for align in ["16", "8", "0x800", "0x1008"] {
        all.push(patched("segments", Deny, &[&format!("segment load 1 align {align}")]));
    }
    for (step, least) in [
        ("segment load 3 align 0x10000", Deny),
        ("segment load 3 align 0x200000", Deny),
        ("segment load 1 align 0x3000", Warn),
        ("segment load 1 flags 4", Deny),
        ("segment load 1 flags 6", Deny),
        ("segment load 1 flags 7", Deny),
        ("segment load 3 flags 7", Deny),
        ("segment load 3 memsz 0x10000000000", Deny),
        ("segment load 3 memsz 0x40000000", Warn),
        ("segment load 1 offset +8", Deny),
        ("segment load 0 memsz 0x2000", Deny),
        ("segment load 1 memsz 0x2000", Deny),
    ] {
        all.push(patched("segments", least, &[step]));
    }
    all
}

/// Faults that compilers, linkers and build scripts make.
fn by_tools() -> Vec<Broken> {
    let mut all = Vec::new();
    for (flag, word) in [("-F,libx.so", "filter"), ("-f,libx.so", "auxiliary"), ("--audit,/a.so", "audit"), ("-P,/a.so", "depaudit")] {
        all.push(compiled("audit-filter", Deny, word).flags(&format!("-Wl,{flag}")));
    }
    for flag in ["-z,initfirst", "-z,interpose", "-z,nodefaultlib", "-z,nodlopen", "-Bsymbolic"] {
        all.push(compiled("dynamic-flags", Note, flag).flags(&format!("-Wl,{flag}")));
    }
    all.push(compiled("exec-stack", Deny, "-z execstack").flags("-Wl,-z,execstack"));
    all.push(compiled("relro", Note, "-z norelro").flags("-Wl,-z,norelro"));
    for (word, source) in [
        ("data", "int environ_leak = 1;\n"),
        ("data of libc's name", "int optind = 7;\n"),
        ("constant data", "const int hip_version = 7;\n"),
        ("a name of libc", "void *malloc(unsigned long size) { return 0; }\n"),
        ("a weak name of libc", "__attribute__((weak)) void free(void *memory) {}\n"),
        (
            "an IFUNC of libc's name",
            "static int mine(void) { return 1; }\nstatic void *choose(void) { return mine; }\nint getpid(void) __attribute__((ifunc(\"choose\")));\n",
        ),
        ("operator new", "void *_Znwm(unsigned long size) { return 0; }\n"),
        ("operator delete", "void _ZdlPv(void *memory) {}\n"),
        ("thread-local data", "__thread int depth;\n"),
        ("a helper", "int lock(void) { return 0; }\n"),
        ("a misspelt name", "int hipMaloc(void) { return 0; }\n"),
        ("another runtime's name", "int cuMemAlloc(void) { return 0; }\n"),
    ] {
        all.push(compiled("export-set", Deny, word).more(source));
    }
    for (word, from, to) in [
        ("hidden", "int hipFree(", "__attribute__((visibility(\"hidden\"))) int hipFree("),
        ("internal", "int hipFree(", "__attribute__((visibility(\"internal\"))) int hipFree("),
        ("static", "int hipFree(", "static __attribute__((used)) int hipFree("),
        ("renamed", "int hipFree(", "int hipFreee("),
    ] {
        all.push(compiled("export-set", Deny, word).with(|_, change, _, _| *change = Some((from, to))));
    }
    for (node, least) in [("V1", Deny), ("VROCM_1.0", Deny), ("LIBSHIM", Deny), ("GLIBC_2.2.5", Deny), ("hip_4.2", Warn), ("ROCR_1", Warn)] {
        all.push(compiled("export-version", least, node).flags(&format!("-Wl,--version-script=SCRIPT:{node}")));
    }
    all.push(
        compiled("export-version", Deny, ".symver")
            .more("__asm__(\".symver hip_new, hipNew@@V2\");\nint hip_new(void) { return 0; }\n")
            .flags("-Wl,--version-script=SCRIPT:V2"),
    );
    all.push(
        compiled("init-functions", Note, "a constructor")
            .more("static volatile int on;\n__attribute__((constructor)) static void start(void) { on = 1; }\n"),
    );
    all.push(compiled("init-functions", Note, "DT_INIT").more("static volatile int on;\nvoid start(void) { on = 1; }\n").flags("-Wl,-init,start"));
    all.push(
        compiled("init-functions", Deny, "DT_PREINIT_ARRAY")
            .more("static volatile int on;\n__attribute__((constructor)) static void start(void) { on = 1; }\n")
            .patch("dynamic 25 32 =")
            .patch("dynamic 27 33 ="),
    );
    for level in ["v2", "v3", "v4"] {
        all.push(compiled("isa-level", Deny, level).flags(&format!("-Wl,-z,x86-64-{level}")));
    }
    for (soname, symbol) in [
        ("libm.so.6", "sin@GLIBC_2.2.5"),
        ("libpthread.so.0", "pthread_once@GLIBC_2.2.5"),
        ("libdl.so.2", "dlopen@GLIBC_2.2.5"),
        ("libgcc_s.so.1", "_Unwind_Resume@GCC_3.0"),
        ("libstdc++.so.6", "_ZSt4cout@GLIBCXX_3.4"),
        ("libamdhip64.so.7", "hipInit@hip_4.2"),
        ("/opt/lib/libx.so", "x"),
        ("./build/libc.so.6", "x"),
    ] {
        all.push(compiled("needed-list", Deny, soname).stub(soname, symbol));
    }
    all.push(
        compiled("needed-list", Deny, "libc is not needed")
            .with(|more, change, _, libc| {
                libc.clear();
                *change = Some(("strlen(\"x\")", "2"));
                more.push('\n');
            })
            .judged_by(r#"{"needed": {"allowed": ["libc.so.6"], "exact": true}}"#),
    );
    all.push(compiled("needed-missing", Warn, "strlen without libc").with(|_, _, _, libc| libc.clear()));
    all.push(compiled("needed-unused", Note, "libc for nothing").with(|_, change, _, _| *change = Some(("strlen(\"x\")", "2"))));
    all.push(
        compiled("needed-unused", Warn, "libm for nothing")
            .stub("libm.so.6", "sin@GLIBC_2.2.5")
            .judged_by(r#"{"needed": {"allowed": ["libc.so.6", "libm.so.6"], "exact": false}}"#),
    );
    let table = "static int a, b;\nstatic int *volatile table[] = {&a, &b};\nint hipInit(int i) { return *table[i]; }\n";
    all.push(compiled("packed-relocations", Note, "DT_RELR, marked").more(table).flags("-Wl,-z,pack-relative-relocs"));
    all.push(compiled("packed-relocations", Deny, "DT_RELR without libc").more(table).flags("-Wl,-z,pack-relative-relocs").with(
        |_, change, _, libc| {
            libc.clear();
            *change = Some(("strlen(\"x\")", "2"));
        },
    ));
    for (tags, path) in [("--disable-new-dtags", "/opt/evil"), ("--disable-new-dtags", "$ORIGIN/lib"), ("--disable-new-dtags", "/a:/b")] {
        all.push(compiled("rpath", Deny, path).flags(&format!("-Wl,{tags},-rpath,{path}")));
    }
    for path in ["/opt/evil", "$ORIGIN", "$ORIGIN/../lib", "lib", "/a:/b:/c", "/tmp/$LIB"] {
        all.push(compiled("runpath", Deny, path).flags(&format!("-Wl,--enable-new-dtags,-rpath,{path}")));
    }
    for soname in ["libc.so.6", "libamdhip64.so.6", "libamdhip64.so.7", "libhsa-runtime64.so.1"] {
        all.push(compiled("soname", Deny, soname).flags(&format!("-Wl,-soname,{soname}")));
    }
    all.push(compiled("soname", Deny, "another than demanded").judged_by(r#"{"soname": "libvrocm.so"}"#));
    for (size, align, model, least) in [
        (64, 8, "initial-exec", Warn),
        (16384, 8, "initial-exec", Warn),
        (1 << 20, 8, "initial-exec", Deny),
        (1 << 20, 8, "global-dynamic", Deny),
        (64, 1 << 20, "global-dynamic", Deny),
        (16384, 8, "global-dynamic", Warn),
        (64, 8, "global-dynamic", Note),
    ] {
        let source = format!(
            "static __thread __attribute__((aligned({align}), tls_model(\"{model}\"))) char slots[{size}];\nchar *hipInit(int i) {{ return &slots[i]; }}\n"
        );
        let libc = if model == "global-dynamic" {
            vec!["strlen@GLIBC_2.2.5".to_string(), "__tls_get_addr@GLIBC_2.3".to_string()]
        } else {
            vec!["strlen@GLIBC_2.2.5".to_string()]
        };
        all.push(compiled("static-tls", least, format!("{size} bytes, aligned to {align}, {model}")).more(&source).with(|_, _, _, own| *own = libc));
    }
    for kind in [5, 9, 12, 19, 20, 39, 99, 200] {
        let uses = compiled("relocations", Deny, format!("a relocation of type {kind}")).imports("stdout", "GLIBC_2.2.5");
        // Through the GOT, so that the table of relocations by symbol has an entry.
        all.push(uses.flags("-fno-plt").patch(&format!("relocation 6 {kind}")));
    }
    all.push(compiled("text-relocations", Deny, "a table in the code").more("__asm__(\".text\\nhere: .quad here\\n\");\n").flags("-Wl,-z,notext"));
    all.push(
        compiled("text-relocations", Deny, "without its flag")
            .more("__asm__(\".text\\nhere: .quad here\\n\");\n")
            .flags("-Wl,-z,notext")
            .patch("dynamic 22 21 0")
            .patch("dynamic 30 21 0"),
    );
    for name in ["hipSetDevice", "hsa_init", "__hipRegisterFatBinary", "hsaKmtOpenKFD", "hipGetDevice"] {
        let call = format!("void {name}(void);\nvoid hipInit(void) {{ {name}(); }}\n");
        all.push(compiled("undefined-runtime", Deny, format!("{name}, bound at the call")).more(&call));
        all.push(compiled("undefined-runtime", Deny, format!("{name}, bound at load")).more(&call).flags("-Wl,-z,now"));
    }
    for name in ["vr_unknown", "log_message", "cudaMalloc"] {
        let call = format!("void {name}(void);\nvoid hipInit(void) {{ {name}(); }}\n");
        all.push(compiled("undefined-provider", Deny, format!("{name}, nowhere")).more(&call).flags("-Wl,-z,now"));
        all.push(compiled("undefined-provider", Deny, format!("{name}, through the GOT")).more(&call).flags("-fno-plt"));
    }
    all.push(compiled("undefined-provider", Deny, "dlsym of 2.34 by its old version").imports("dlsym", "GLIBC_2.2.5").flags("-Wl,-z,now"));
    // Every numbered version of glibc above the limit that x86-64 has, by a symbol that the release brought.
    for number in 5..=42 {
        all.push(compiled("version-floor", Deny, format!("GLIBC_2.{number}")).imports("vr_new", &format!("GLIBC_2.{number}")));
    }
    for number in ["2.0", "2.1", "2.99", "3.0"] {
        all.push(compiled("version-floor", Deny, format!("GLIBC_{number}, which no release has")).imports("vr_new", &format!("GLIBC_{number}")));
    }
    for marker in ["GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "GLIBC_ABI_GNU2_TLS", "GLIBC_NEXT", "GLIBC_ABI_NEW"] {
        all.push(compiled("version-marker", Deny, marker).imports("vr_new", marker));
    }
    for (flags, least) in [("", Warn), ("-Wl,-z,now", Deny)] {
        all.push(
            compiled("version-weak", least, format!("a weak version {flags}")).imports("vr_new", "GLIBC_2.99").flags(flags).patch("weak GLIBC_2.99"),
        );
    }
    all
}

/// Files of other machines.
fn by_hand() -> Vec<Broken> {
    let mut all = Vec::new();
    for machine in [2, 8, 22, 43, 62, 183] {
        all.push(written("byte-order", &format!("class=64 order=big machine={machine}")));
    }
    for machine in [3, 8, 20, 40, 62, 183] {
        all.push(written("word-size", &format!("class=32 order=little machine={machine}")));
    }
    for machine in [3, 183, 243, 258] {
        all.push(written("machine", &format!("class=64 order=little machine={machine}")));
    }
    all.push(written("packed-relocations", "class=64 order=little machine=62 tag=0x60000011:0x800"));
    all.push(written("packed-relocations", "class=64 order=little machine=62 need=libc.so.6:GLIBC_2.2.5:strlen tag=36:0x800 tag=35:0 tag=37:8"));
    all
}

fn compile(folder: &Path, number: usize, broken: &Broken) -> PathBuf {
    let Make::Compiled { more, change, flags, libc, stubs, .. } = &broken.make else { panic!("compiled") };
    let mut source = SOURCE.to_string() + more;
    if let Some((from, to)) = change {
        assert!(source.contains(from), "{from}");
        source = source.replace(from, to);
    }
    let (c, out) = (folder.join(format!("{number}.c")), folder.join(format!("{number}.so")));
    fs::write(&c, source).expect("writable");
    let mut command = compiler();
    command.args(["-fPIC", "-shared", "-Wl,-soname,libshim.so", "-Wl,-z,lazy", "-Wl,--no-as-needed", "-o"]).arg(&out).arg(&c);
    if !libc.is_empty() {
        command.arg(stub(folder, &format!("{number}-libc"), "libc.so.6", &libc.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    for (at, (soname, symbol)) in stubs.iter().enumerate() {
        command.arg(stub(folder, &format!("{number}-{at}"), soname, &[symbol]));
    }
    for flag in flags {
        let Some((before, node)) = flag.split_once("SCRIPT:") else {
            command.arg(flag);
            continue;
        };
        let script = folder.join(format!("{number}.map"));
        fs::write(&script, format!("{node} {{ global: hip*; local: *; }};")).expect("writable");
        command.arg(format!("{before}{}", script.display()));
    }
    run(&mut command);
    out
}

fn bytes(folder: &Path, number: usize, broken: &Broken, good: &[u8]) -> Vec<u8> {
    match &broken.make {
        Make::Written(recipe) => made::write(recipe),
        Make::Patched(steps) => patch::all(good.to_vec(), steps),
        Make::Compiled { patches, .. } => patch::file(&compile(folder, number, broken), patches),
    }
}

#[test]
fn every_broken_shim_is_caught_for_its_own_fault() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let list = InterposedList::read("the list", "hipFree\nhipMalloc\n").expect("a good list");
    let good = compile(folder.path(), 0, &compiled("", Note, "good"));
    let (_, findings) = audit(&good, &policy("{}"), Some(&list));
    assert!(findings.iter().all(|found| found.severity == Note), "the good shim: {findings:#?}");
    let innocent: BTreeSet<&str> = findings.iter().map(|found| found.check).collect();
    let good = fs::read(good).expect("just built");

    let all: Vec<Broken> = by_bytes().into_iter().chain(by_tools()).chain(by_hand()).collect();
    let (mut missed, mut refused, mut ways) = (Vec::new(), 0, BTreeMap::<&str, usize>::new());
    for (number, broken) in all.iter().enumerate() {
        assert!(!innocent.contains(broken.rule), "{} fires on the good shim", broken.rule);
        let file = folder.path().join("broken.so");
        fs::write(&file, bytes(folder.path(), number + 1, broken, &good)).expect("writable");
        *ways.entry(broken.rule).or_default() += 1;
        // A file that contradicts itself is refused, which no gate takes for green.
        let audited = Elf::open(&file).and_then(|image| linkage::audit(&image, &policy(broken.policy), Some(&list)));
        let Ok((_, findings)) = audited else {
            refused += 1;
            continue;
        };
        if !findings.iter().any(|found| found.check == broken.rule && found.severity >= broken.least) {
            let said: Vec<String> = findings.iter().map(|found| format!("{} {}", found.severity.word(), found.check)).collect();
            missed.push(format!("{}: {}: {}", broken.rule, broken.way, said.join(", ")));
        }
    }
    println!("broken shims caught: {} of {}, {refused} of them as unreadable ({} rules)", all.len() - missed.len(), all.len(), ways.len());
    assert!(missed.is_empty(), "{} of {} are not caught:\n{}", missed.len(), all.len(), missed.join("\n"));
    let unbroken: Vec<&str> = RULES.iter().map(|rule| rule.check.id).filter(|id| !ways.contains_key(id)).collect();
    assert!(unbroken.is_empty(), "no shim is broken in {unbroken:?}");
    let once: Vec<_> = ways.iter().filter(|(_, count)| **count < 2).collect();
    assert!(refused * 20 < all.len(), "{refused} are refused: too many to say anything of the rules");
    assert!(once.is_empty(), "broken in one way only: {once:?}");
}
