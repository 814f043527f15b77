//! What the shim says: nothing until something is refused, why it was, and at level 2 the counters of each entry point when the process ends.

use std::path::Path;
use std::process::Command;

use vrocm_tests::corpus;
use vrocm_tests::driver::{Driver, End, Outcome};
use vrocm_tests::mock::Mock;
use vrocm_tests::paths::fixture;
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim;

fn run(level: u32, commands: &[&str]) -> Outcome {
    let mock = Mock::new();
    let outcome = Driver::alone(&mock).shim(&mock, 4096).env("LIBVROCM_LOG_LEVEL", &level).run(commands);
    assert_eq!(outcome.end, End::Exit(0), "{outcome:?}");
    outcome
}

/// The stand-in has 1 GiB: of three requests one is granted, one fails in the driver, one is the shim's to refuse.
const THREE: [&str; 4] = ["hipMalloc,48M", "hipMalloc,2G", "hipMalloc,8G", "hipFree"];

#[test]
fn refusals_and_failures_of_the_driver_are_counted_apart() {
    let said = run(2, &THREE).stderr;
    let line = |part: &str| said.lines().filter(|line| line.contains(part)).collect::<Vec<_>>();
    assert_eq!(line("]: loaded").len(), 1, "{said}");
    assert!(line("counter hipMalloc ").iter().all(|line| line.ends_with("calls=3 refused=1 failed=1")), "{said}");
    assert!(line("counter hipFree ").iter().all(|line| line.ends_with("calls=1 refused=0 failed=0")), "{said}");
    assert_eq!((line("counter hipMalloc ").len(), line("counter hipFree ").len()), (1, 1), "{said}");
    assert!(line("counter hipMallocManaged ").is_empty(), "what was not called is not said: {said}");
    assert!(line("hipMalloc <- ").len() <= 3 && !line("hipMalloc <- ").is_empty(), "the first callers: {said}");
    assert!(line("counter card ").iter().any(|line| line.ends_with("quota=4294967296 used=0")), "{said}");
}

#[test]
fn level_1_says_what_is_refused_and_nothing_else() {
    assert_eq!(run(1, &["hipMalloc,48M", "hipMalloc,2G", "hipFree"]).stderr, "", "the driver's own failure is not ours to tell");
    let said = run(1, &THREE).stderr;
    assert!(said.lines().count() == 1 && said.contains("refused 8192 MiB") && said.contains("quota of 4096 MiB"), "{said}");
    assert_eq!(run(0, &THREE).stderr, "");
}

/// There is no way to answer a registration: without room nothing is taken, it is said, and the process lives on.
#[test]
fn a_managed_variable_without_room_is_not_registered_and_that_is_said() {
    for runtime in Runtime::present().into_iter().filter(|runtime| runtime.comgr) {
        let mock = Mock::new();
        let image = format!("__hipRegisterFatBinary,{}", fixture("managed.hsaco").display());
        let commands = ["hipInit,0", &image, "__hipRegisterManagedVar,managed_big,64M", "__hipUnregisterFatBinary", "hipMalloc,4K", "hipFree"];
        let outcome = Driver::new(runtime, &mock).shim(&mock, 32).run(&commands);
        let context = format!("{}: {outcome:?}", runtime.version);
        assert_eq!(outcome.end, End::Exit(0), "{context}");
        assert!(outcome.stderr.contains("refused 64 MiB"), "{context}");
        assert!(outcome.first("hipMalloc").is_ok() && outcome.first("hipFree").is_ok(), "{context}");
        assert!(mock.card(0).highest_asked <= 32 << 20, "{context}");
    }
}

/// A program of musl's, started by its loader, with the library as it is shipped.
#[test]
fn musl_loads_it() {
    const PROGRAM: &str = r#"
int __libc_start_main(int (*)(), int, char **, void (*)(), void (*)(), void (*)());
int main() { return 7; }
__attribute__((used)) void start_c(long *stack) { __libc_start_main(main, stack[0], (char **)(stack + 1), 0, 0, 0); }
__asm__(".globl _start\n_start: xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall start_c\n");
"#;
    let Some(musl) = corpus::package("musl_") else {
        return corpus::not_tested(&corpus::missing("musl", &["musl_"]));
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, program) = (folder.path().join("program.c"), folder.path().join("program"));
    std::fs::write(&source, PROGRAM).expect("it can be written");
    let loader = musl.join("lib/x86_64-linux-musl/libc.so");
    let built = Command::new("cc").args(["-nostdlib", "-fPIE", "-pie", "-o"]).args([&program, &source, &loader]).status().expect("a C compiler");
    assert!(built.success());
    let start = |preload: Option<&Path>| {
        let mut command = Command::new(&loader);
        if let Some(preload) = preload {
            command.arg("--preload").arg(preload);
        }
        let output = command.arg(&program).env("LIBVROCM_LOG_LEVEL", "2").output().expect("musl's loader runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(start(None), (Some(7), String::new()));
    let (code, said) = start(Some(shim::library()));
    assert!(code == Some(7) && said.starts_with("libvrocm[") && said.contains("]: loaded"), "{code:?} {said}");
}
