//! Small libraries, one for each rule, under every loader at hand: what we say is what `LD_DEBUG=bindings` says, and it is what the rule means.

use std::path::{Path, PathBuf};

use vrocm_audit::elf::{Elf, constants as elf};

use crate::oracle::{Ours, differences, lines, ours, resolve, this_cpu, traced};
use crate::support::{compile, library, loaders};

/// One file to build: name, source, version script, arguments, and a change of the finished file.
struct File {
    name: &'static str,
    source: &'static str,
    map: Option<&'static str>,
    arguments: &'static [&'static str],
    edit: Option<fn(&Path)>,
}

const fn file(name: &'static str, source: &'static str) -> File {
    File { name, source, map: None, arguments: &[], edit: None }
}

/// A rule: files in order of building (the last is the program), preloads, and what must come out: (from, name, to).
struct Case {
    rule: &'static str,
    files: &'static [File],
    environment: &'static [(&'static str, &'static str)],
    expected: &'static [(&'static str, &'static str, &'static str)],
}

/// A program without libc, so that any loader binds it.
const PROGRAM: &str = "void _start(void){ f(); }";

const SYMBOLIC: fn(&Path) = |file| set_flags(file, elf::DF_SYMBOLIC.0);

const CASES: &[Case] = &[
    Case {
        rule: "a preload comes first",
        files: &[file("a.so", "int f(void){return 1;}"), file("pre.so", "int f(void){return 2;}"), file("program", PROGRAM)],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("program", "f", "pre.so")],
    },
    Case {
        rule: "the program comes before a preload",
        files: &[
            file("a.so", "int f(void){return 1;} int g(void){return f();}"),
            file("pre.so", "int f(void){return 2;}"),
            File { arguments: &["-rdynamic"], ..file("program", "int f(void){return 3;} void _start(void){ g(); }") },
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("a.so", "f", "program")],
    },
    Case {
        rule: "a weak definition is as good as a strong one",
        files: &[
            file("a.so", "__attribute__((weak)) int f(void){return 1;}"),
            file("b.so", "int f(void){return 2;}"),
            File { arguments: &["-Wl,--no-as-needed"], ..file("program", PROGRAM) },
        ],
        environment: &[],
        expected: &[("program", "f", "a.so")],
    },
    Case {
        rule: "unless LD_DYNAMIC_WEAK is set",
        files: &[
            file("a.so", "__attribute__((weak)) int f(void){return 1;}"),
            file("b.so", "int f(void){return 2;}"),
            File { arguments: &["-Wl,--no-as-needed"], ..file("program", PROGRAM) },
        ],
        environment: &[("LD_DYNAMIC_WEAK", "1")],
        expected: &[("program", "f", "b.so")],
    },
    Case {
        rule: "a version is asked for by its node, and an unversioned definition satisfies it",
        files: &[
            File { map: Some("V1 { f; }; V2 { g; };"), ..file("a.so", "int f(void){return 1;} int g(void){return 1;}") },
            file("pre.so", "int f(void){return 2;} int g(void){return 2;}"),
            file("program", "void _start(void){ f(); g(); }"),
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("program", "f", "pre.so"), ("program", "g", "pre.so")],
    },
    Case {
        rule: "a definition of another node is passed over",
        files: &[
            File { map: Some("V1 { f; }; V2 { g; };"), ..file("a.so", "int f(void){return 1;} int g(void){return 1;}") },
            File { map: Some("V9 { f; }; V2 { g; };"), ..file("pre.so", "int f(void){return 2;} int g(void){return 2;}") },
            file("program", "void _start(void){ f(); g(); }"),
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("program", "f", "a.so"), ("program", "g", "pre.so")],
    },
    Case {
        rule: "a hidden version is reached by its node alone",
        files: &[
            File {
                map: Some("V1 { }; V2 { f; } V1;"),
                ..file("a.so", "int one(void){return 1;} int f(void){return 2;} __asm__(\".symver one,f@V1\");")
            },
            File { map: Some("V1 { }; V2 { };"), ..file("b.so", "int one(void){return 1;} __asm__(\".symver one,f@V1\");") },
            file("program", "int old(void); __asm__(\".symver old,f@V1\"); void _start(void){ old(); f(); }"),
        ],
        environment: &[("LD_PRELOAD", "./b.so")],
        expected: &[("program", "f", "b.so"), ("program", "f", "a.so")],
    },
    Case {
        rule: "a reference without version takes the file's first node, hidden or not, and no later hidden one",
        files: &[
            file("stub.so", "int f(void){return 0;} int g(void){return 0;} int h(void){return 0;}"),
            file("program", "void _start(void){ f(); g(); h(); }"),
            // The program was linked against the stub; these take its place.
            File {
                map: Some("V1 { }; V2 { f; } V1; V3 { h; } V2;"),
                ..file(
                    "a.so",
                    "int one(void){return 1;} int two(void){return 2;} int three(void){return 3;} int f(void){return 4;} int h(void){return 5;} \
                     __asm__(\".symver one,f@V1\"); __asm__(\".symver two,g@V2\"); __asm__(\".symver three,h@V2\");",
                )
            },
            file("b.so", "int g(void){return 0;}"),
        ],
        environment: &[("LD_PRELOAD", "./a.so ./b.so")],
        expected: &[("program", "f", "a.so"), ("program", "g", "b.so"), ("program", "h", "a.so")],
    },
    Case {
        rule: "the file that a version is asked of is only a hint",
        files: &[
            File { map: Some("V1 { f; };"), ..file("a.so", "int f(void){return 1;}") },
            file("program", PROGRAM),
            // The node is still there, the function is not: it is behind, as what moved from libpthread to libc is.
            file("b.so", "int f(void){return 2;}"),
            File { arguments: &["-Wl,--no-as-needed", "./b.so"], map: Some("V1 { g; };"), ..file("a.so", "int g(void){return 1;}") },
        ],
        environment: &[],
        expected: &[("program", "f", "b.so")],
    },
    Case {
        rule: "DT_SYMBOLIC puts a library before everything for itself",
        files: &[
            File { edit: Some(SYMBOLIC), arguments: &["-Wl,-z,now"], ..file("a.so", "int f(void){return 1;} int g(void){return f();}") },
            file("pre.so", "int f(void){return 2;} int g(void){return 2;}"),
            file("program", "void _start(void){ f(); g(); }"),
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("a.so", "f", "a.so"), ("program", "f", "pre.so"), ("program", "g", "pre.so")],
    },
    Case {
        rule: "a self-call through the PLT meets the preload",
        files: &[
            file("a.so", "int f(void){return 1;} int g(void){return f();}"),
            file("pre.so", "int f(void){return 2;}"),
            file("program", "void _start(void){ g(); }"),
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("a.so", "f", "pre.so")],
    },
    Case {
        rule: "a protected function is the library's own, also where a relocation names it",
        files: &[
            File {
                edit: Some(|file| set_visibility(file, "f", 3)),
                ..file("a.so", "int f(void){return 1;} int g(void){return f();} int (*p)(void) = f;")
            },
            file("pre.so", "int f(void){return 2;}"),
            file("program", "void _start(void){ f(); g(); }"),
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("a.so", "f", "a.so"), ("program", "f", "pre.so")],
    },
    Case {
        rule: "data is copied into the program, and the library uses the copy",
        files: &[
            file("a.so", "int v = 1; int f(void){return v;}"),
            File { arguments: &["-no-pie", "-fno-pic"], ..file("program", "extern int v; void _start(void){ v = f(); }") },
        ],
        environment: &[],
        expected: &[("program", "v", "a.so"), ("a.so", "v", "program")],
    },
    Case {
        rule: "the address of a function is the program's PLT entry, and a call goes to the function",
        files: &[
            file("a.so", "int f(void){return 1;} int (*p)(void) = f; int g(void){return f();}"),
            file("pre.so", "int f(void){return 2;}"),
            File {
                arguments: &["-no-pie", "-fno-pic"],
                ..file("program", "int f(void), (*volatile q)(void); void _start(void){ q = f; f(); g(); }")
            },
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("a.so", "f", "program"), ("a.so", "f", "pre.so"), ("program", "f", "pre.so")],
    },
    Case {
        rule: "a unique symbol is one in the process",
        files: &[
            file("a.so", "int v; __asm__(\".type v, @gnu_unique_object\"); int *f(void){return &v;}"),
            file("b.so", "int v; __asm__(\".type v, @gnu_unique_object\"); int *g(void){return &v;}"),
            file("program", "void _start(void){ f(); g(); }"),
        ],
        environment: &[],
        expected: &[("a.so", "v", "a.so"), ("b.so", "v", "a.so")],
    },
    Case {
        rule: "an indirect function binds like any other",
        files: &[
            file("a.so", "int f(void){return 1;}"),
            file("pre.so", "static int two(void){return 2;} static void *pick(void){return two;} int f(void) __attribute__((ifunc(\"pick\")));"),
            file("program", PROGRAM),
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("program", "f", "pre.so")],
    },
    Case {
        rule: "thread-local data binds by name, too",
        files: &[
            File { arguments: &["-ftls-model=initial-exec"], ..file("a.so", "__thread int t; int f(void){return t;}") },
            File { arguments: &["-ftls-model=initial-exec"], ..file("b.so", "extern __thread int t; int g(void){return t;}") },
            file("program", "void _start(void){ f(); g(); }"),
        ],
        environment: &[],
        expected: &[("b.so", "t", "a.so"), ("a.so", "t", "a.so")],
    },
    Case {
        rule: "two runtimes in one process: the first answers for both where their nodes are the same",
        files: &[
            File { map: Some("hip_4.2 { f; };"), arguments: &["-Wl,-soname,a.so"], ..file("a.so", "int f(void){return 1;}") },
            File { map: Some("hip_4.2 { f; };"), arguments: &["-Wl,-soname,b.so"], ..file("b.so", "int f(void){return 2;}") },
            File { arguments: &["-Wl,--no-as-needed"], ..file("program", PROGRAM) },
        ],
        environment: &[],
        expected: &[("program", "f", "a.so")],
    },
    Case {
        rule: "a hidden definition ends the look-up in its file",
        files: &[
            File { edit: Some(|file| set_visibility(file, "f", 2)), ..file("a.so", "int f(void){return 1;} int g;") },
            file("b.so", "int f(void){return 2;}"),
            File { arguments: &["-Wl,--no-as-needed"], ..file("program", PROGRAM) },
        ],
        environment: &[],
        expected: &[("program", "f", "b.so")],
    },
    Case {
        rule: "the older hash table serves as well",
        files: &[
            File { arguments: &["-Wl,--hash-style=sysv"], ..file("a.so", "int f(void){return 1;} int g(void){return f();}") },
            File { arguments: &["-Wl,--hash-style=sysv"], map: Some("V1 { f; };"), ..file("pre.so", "int f(void){return 2;}") },
            file("program", "void _start(void){ f(); g(); }"),
        ],
        environment: &[("LD_PRELOAD", "./pre.so")],
        expected: &[("program", "f", "pre.so"), ("a.so", "f", "pre.so")],
    },
];

/// Where a symbol's entry stands in the file.
fn entry(path: &Path, name: &str) -> usize {
    let image = Elf::open(path).expect("built");
    let index = image.symbols().expect("symbols").symbols.iter().find(|symbol| symbol.name == name).expect("the symbol").index as usize;
    image.window("DT_SYMTAB", image.dynamic.value(elf::DT_SYMTAB).expect("symbols"), 8).expect("in the file").offset as usize + index * 24
}

fn change(path: &Path, at: usize, to: impl Fn(u8) -> u8) {
    let mut bytes = std::fs::read(path).expect("built");
    bytes[at] = to(bytes[at]);
    std::fs::write(path, bytes).expect("written");
}

fn set_visibility(path: &Path, name: &str, visibility: u8) {
    change(path, entry(path, name) + 5, |_| visibility);
}

/// Adds bits to `DT_FLAGS`, which must be there: the linker would also resolve what `-Bsymbolic` names.
pub fn set_flags(path: &Path, flags: u64) {
    let at = Elf::open(path).expect("built").dynamic.offset(elf::DT_FLAGS).expect("DT_FLAGS (-z now)") as usize + 8;
    change(path, at, |byte| byte | flags as u8);
}

/// Builds a case's files; the program is the one called so.
fn build(case: &Case, dir: &Path, interpreter: &str) -> PathBuf {
    let mut built: Vec<String> = Vec::new();
    for file in case.files {
        let soname = format!("-Wl,-soname,{}", file.name);
        let mut arguments: Vec<&str> = vec!["-nostdlib"];
        let by = format!("-Wl,--dynamic-linker={interpreter}");
        if file.name == "program" {
            if !file.arguments.contains(&"-no-pie") {
                arguments.extend(["-pie", "-fPIE"]);
            }
            arguments.extend(["-Wl,-rpath,$ORIGIN", &by]);
            arguments.extend(file.arguments);
            arguments.extend(built.iter().map(String::as_str).filter(|name| !name.contains("pre.so")));
            compile(dir, file.source, file.name, &arguments);
        } else {
            arguments.extend([&soname, "-Wl,-rpath,$ORIGIN"]);
            arguments.extend(file.arguments);
            library(dir, file.source, file.name, file.map, &arguments);
            built.push(format!("./{}", file.name));
        }
        if let Some(edit) = file.edit {
            edit(&dir.join(file.name));
        }
    }
    dir.join("program")
}

fn bound(here: &Ours, from: &str, name: &str, to: &str) -> bool {
    let is = |path: &str, file: &str| path.rsplit('/').next() == Some(file);
    here.lines.iter().any(|line| is(&line.0, from) && is(&line.1, to) && line.2 == name)
}

#[test]
fn each_rule_is_the_loaders() {
    if this_cpu().is_none() {
        eprintln!("not compared: /proc/cpuinfo tells no x86-64 CPU");
        return;
    }
    let mut wrong = Vec::new();
    for (version, interpreter) in loaders() {
        let (mut compared, mut unclear) = (0, 0);
        for case in CASES {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let dir = folder.path().canonicalize().expect("a path");
            std::fs::copy(&interpreter, dir.join("ld-linux-x86-64.so.2")).expect("copied");
            let program = build(case, &dir, &dir.join("ld-linux-x86-64.so.2").display().to_string());
            let absolute = |value: &str| value.replace("./", &format!("{}/", dir.display()));
            let environment: Vec<(String, String)> = case.environment.iter().map(|(key, value)| ((*key).to_string(), absolute(value))).collect();
            let resolution = resolve(&program, &environment, &dir).expect("a program");
            assert!(resolution.failures.is_empty() && resolution.unknowns.is_empty(), "{}: {resolution:?}", case.rule);
            let here = ours(&resolution, &environment).expect("readable");
            let said = traced(&program, &environment).unwrap_or_else(|| panic!("{}: glibc {version} lists nothing", case.rule));
            compared += said.lines.len();
            unclear += here.unclear.len();
            let label = format!("glibc {version}, {}", case.rule);
            wrong.extend(differences(&said.lines, &here).into_iter().map(|difference| format!("{label}: {difference}")));
            for (from, name, to) in case.expected {
                if !bound(&here, from, name, to) {
                    wrong.push(format!("{label}: {from} does not get {name} from {to}: {:?}", here.lines));
                }
            }
        }
        println!("glibc {version}: {} rules, {compared} bindings compared, {unclear} unclear", CASES.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_missing_version_stops_the_loader() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().canonicalize().expect("a path");
    let flags = ["-nostdlib", "-Wl,-soname,a.so"];
    library(&dir, "int f(void){return 1;}", "a.so", Some("V1 { f; };"), &flags);
    let program = compile(&dir, PROGRAM, "program", &["-nostdlib", "-pie", "-fPIE", "-Wl,-rpath,$ORIGIN", "./a.so"]);
    // Without any version it is an assertion that ends the process, as is measured up to 2.36; who is preloaded answers before.
    library(&dir, "int f(void){return 1;}", "a.so", None, &flags);
    library(&dir, "int f(void){return 2;}", "pre.so", None, &["-nostdlib"]);
    for (preload, ends) in [(None, true), (Some(("LD_PRELOAD".to_string(), dir.join("pre.so").display().to_string())), false)] {
        let environment: Vec<_> = preload.into_iter().collect();
        let resolution = resolve(&program, &environment, &dir).expect("a program");
        if resolution.interpreter.as_ref().and_then(|interpreter| interpreter.version).is_some_and(|version| version <= (2, 36)) {
            assert_eq!(ours(&resolution, &environment).expect("readable").ends, ends);
            assert_eq!(traced(&program, &environment).is_none(), ends, "the loader");
        }
    }
    for (map, stops) in [(Some("V2 { f; };"), true), (Some("V1 { f; }; V2 { };"), false)] {
        library(&dir, "int f(void){return 1;}", "a.so", map, &flags);
        let resolution = resolve(&program, &[], &dir).expect("a program");
        let here = ours(&resolution, &[]).expect("readable");
        let said = traced(&program, &[]).expect("a list");
        assert_eq!(!here.unmet.is_empty(), stops, "{map:?}: {:?}", here.unmet);
        assert_eq!(said.unmet, stops, "{map:?}: the loader");
    }
}

/// What a program opens with `RTLD_LOCAL` while it runs gives nothing to those who were there before.
#[test]
fn what_is_opened_later_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().canonicalize().expect("a path");
    library(&dir, "int f(void){return 1;} int g(void){return f();}", "a.so", None, &["-Wl,-soname,a.so"]);
    library(&dir, "int f(void){return 2;} int h(void){return f();}", "late.so", None, &[]);
    let source = "#include <dlfcn.h>\nint f(void), g(void);\nint main(void){ void *late = dlopen(\"./late.so\", RTLD_NOW|RTLD_LOCAL); \
                  int (*h)(void) = dlsym(late, \"h\"); return 100*h() + 10*g() + f(); }";
    let program = compile(&dir, source, "program", &["./a.so", "-Wl,-rpath,$ORIGIN", "-ldl"]);
    let done = std::process::Command::new(&program)
        .current_dir(&dir)
        .env_clear()
        .env("LD_BIND_NOW", "1")
        .env("LD_DEBUG", "bindings")
        .output()
        .expect("it runs");
    // late.so's own call goes to the program's global scope first, where a.so has the name.
    assert_eq!(done.status.code(), Some(111), "{}", String::from_utf8_lossy(&done.stderr));
    let here = ours(&resolve(&program, &[], &dir).expect("a program"), &[]).expect("readable");
    let said = lines(&done.stderr);
    assert!(here.lines.is_subset(&said), "{:?}", here.lines.difference(&said).collect::<Vec<_>>());
    let more: Vec<_> = said.difference(&here.lines).filter(|line| !line.0.ends_with("late.so") && !line.1.ends_with("late.so")).collect();
    // The loader looks up the program's malloc for itself.
    assert!(more.iter().all(|line| ["malloc", "calloc", "realloc", "free"].contains(&line.2.as_str()) || line.0.contains("ld-linux")), "{more:?}");
    assert!(bound(&here, "program", "f", "a.so"));
}
