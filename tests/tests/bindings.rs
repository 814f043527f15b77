//! The real libamdhip64 under the real libvrocm.so: what the loader binds, every symbol, and what `bindings` says of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use vrocm_audit::bindings::{self, Context, Role, Verdict};
use vrocm_audit::manifest::{Acceptances, ClassTable, Family, InterposedList};
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim;

#[path = "../../audit/tests/bindings/oracle.rs"]
mod oracle;

const SOURCE: &str =
    "int hipMalloc(void **, unsigned long), hipFree(void *), hipMemGetInfo(unsigned long *, unsigned long *), hipGetDeviceCount(int *);
int (*volatile give)(void *) = hipFree;
int main(void){ void *p; unsigned long a; int n; return hipGetDeviceCount(&n) + hipMalloc(&p, 1) + hipMemGetInfo(&a, &a) + give(p); }";

/// A program linked with a runtime, started by the loader that the runtime needs.
fn program(runtime: &Runtime, dir: &Path) -> PathBuf {
    std::fs::write(dir.join("program.c"), SOURCE).unwrap();
    let mut command = Command::new("cc");
    command.current_dir(dir).args(["-o", "program", "program.c"]).arg(runtime.folder.join(&runtime.soname)).arg("-Wl,--allow-shlib-undefined");
    if let Some(loader) = &runtime.loader {
        command.arg(format!("-Wl,--dynamic-linker={}", loader.display()));
    }
    assert!(command.status().unwrap().success(), "the program cannot be linked with {}", runtime.soname);
    dir.join("program")
}

#[test]
fn the_real_runtime_binds_as_we_say() {
    let (families, table) = (Family::embedded().unwrap(), ClassTable::embedded().unwrap());
    let acceptances = Acceptances::embedded().unwrap();
    let library = shim::library().display().to_string();
    let actions = [(library.clone(), InterposedList::own().unwrap())].into();
    let today = "2026-12-01".parse().unwrap();
    let context = Context { families: &families, table: &table, acceptances: &acceptances, actions: &actions, today };
    for runtime in Runtime::present() {
        let folder = tempfile::tempdir().unwrap();
        let program = program(runtime, folder.path());
        for preload in [Some(&library), None] {
            let mut environment = vec![("LD_LIBRARY_PATH".to_owned(), runtime.library_path())];
            environment.extend(preload.map(|preload| ("LD_PRELOAD".to_owned(), preload.clone())));
            let resolution = oracle::resolve(&program, &environment, folder.path()).unwrap();
            assert!(resolution.failures.is_empty() && resolution.unknowns.is_empty(), "{:?} {:?}", resolution.failures, resolution.unknowns);
            let said = oracle::traced(&program, &environment).expect("the loader lists the objects");
            let ours = oracle::ours(&resolution, &environment).unwrap();
            let different = oracle::differences(&said.lines, &ours);
            println!("{} with {preload:?}: {} bindings, {} unclear", runtime.version, said.lines.len(), ours.unclear.len());
            assert!(!said.unmet && !ours.ends && ours.unmet.is_empty(), "{}: {:?}", runtime.version, ours.unmet);
            assert!(different.is_empty(), "{}: {} differ: {:?}", runtime.version, different.len(), &different[..different.len().min(5)]);

            let variable = |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
            let subject = bindings::audit("program", &resolution, &variable, &context).unwrap();
            let of =
                |name: &str| subject.bindings.iter().find(|binding| binding.symbol == name && binding.from.ends_with("/program")).expect("bound");
            let wanted = if preload.is_some() { Verdict::Held } else { Verdict::Slips };
            for name in ["hipMalloc", "hipFree", "hipMemGetInfo"] {
                assert_eq!(of(name).verdict, wanted, "{} {name}: {}", runtime.version, of(name).reason);
                let line = |line: &&oracle::Line| line.0.ends_with("/program") && line.2 == name;
                let real: Vec<_> = said.lines.iter().filter(line).map(|line| Some(line.1.clone())).collect();
                assert!(real.contains(&of(name).to), "{} {name}: the loader says {real:?}, the audit {:?}", runtime.version, of(name).to);
            }
            assert_eq!(subject.objects.iter().filter(|object| object.role == Role::Shim).count(), usize::from(preload.is_some()));
            assert!(subject.unable.is_empty(), "{:?}", subject.unable);
            // The runtime's own calls into HSA, which hold the memory that no HIP name shows.
            let beneath =
                subject.bindings.iter().find(|binding| binding.symbol == "hsa_amd_memory_pool_allocate" && binding.from.contains("libamdhip64"));
            assert_eq!(beneath.map(|binding| binding.verdict), Some(if preload.is_some() { Verdict::Held } else { Verdict::NotNeeded }));
        }
    }
}
