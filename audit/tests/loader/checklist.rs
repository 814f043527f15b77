//! The checklist of edge cases, line by line: E is the command and its environment, L the loader. What random layouts show against the real
//! loader as well stands here once more in its plainest form; `searches` has the lines that are held against the real loader one by one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use vrocm_audit::loader::{self, Linking, Request, Resolution, unknown};

use crate::support::{compile, stub};

/// A root with glibc's loader of this machine, and a program /bin/app that needs libx.so.
pub fn root() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = folder.path();
    for name in ["bin", "lib64", "lib", "etc", "opt", "srv"] {
        fs::create_dir(root.join(name)).expect("made");
    }
    fs::copy("/lib64/ld-linux-x86-64.so.2", root.join("lib64/ld-linux-x86-64.so.2")).expect("the loader of this machine");
    library(root, "lib/libx.so");
    compile(root, "int f(void); int main(void){return f();}", "bin/app", &["lib/libx.so", "-nostdlib", "-e", "main", "-Wl,-rpath,$ORIGIN/../opt"]);
    folder
}

pub fn library(root: &Path, at: &str) {
    stub(root, at, &["f"], None, &["-nostdlib", "-Wl,-soname,libx.so"]);
}

pub fn request(root: &Path, command: &str, environment: &[(&str, &str)]) -> Request {
    Request {
        root: root.to_path_buf(),
        command: command.into(),
        environment: environment.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        cwd: "/srv".into(),
        ..Request::from_this_process()
    }
}

pub fn resolved(root: &Path, command: &str, environment: &[(&str, &str)]) -> Resolution {
    loader::resolve(&request(root, command, environment)).expect("resolved")
}

pub fn path(resolution: &Resolution) -> Option<&str> {
    resolution.objects.iter().find(|object| object.name.contains("libx.so")).map(|object| object.path.as_str())
}

pub fn codes(resolution: &Resolution) -> Vec<&str> {
    resolution.unknowns.iter().map(|unknown| unknown.code).collect()
}

#[test]
fn e1_path_of_the_given_environment_and_non_executable_entries_are_skipped() {
    let root = root();
    fs::write(root.path().join("opt/app"), "no program").expect("written");
    let found = resolved(root.path(), "app", &[("PATH", "/opt:/nowhere:/bin")]);
    assert_eq!(found.program, "/bin/app");
    assert!(loader::resolve(&request(root.path(), "app", &[("PATH", "/opt")])).is_err());
    assert_eq!(resolved(root.path(), "app", &[]).program, "/bin/app", "without PATH /bin and /usr/bin");
}

#[test]
fn e2_e3_a_command_with_a_slash_has_no_other_place_and_needs_an_x_bit() {
    let root = root();
    fs::copy(root.path().join("bin/app"), root.path().join("srv/app")).expect("copied");
    let set = |mode| fs::set_permissions(root.path().join("srv/app"), fs::Permissions::from_mode(mode)).expect("set");
    set(0o644);
    let error = loader::resolve(&request(root.path(), "./app", &[("PATH", "/bin")])).expect_err("not executable");
    assert!(error.problem.contains("not executable"), "{error}");
    set(0o645);
    assert_eq!(resolved(root.path(), "./app", &[]).program, "./app");
}

#[test]
fn e5_a_relative_directory_counts_from_the_working_directory() {
    let root = root();
    fs::create_dir(root.path().join("srv/l")).expect("made");
    library(root.path(), "srv/l/libx.so");
    assert_eq!(path(&resolved(root.path(), "app", &[("LD_LIBRARY_PATH", "l")])), Some("l/libx.so"));
}

#[test]
fn e6_e7_variables_are_modelled_or_unknown() {
    let root = root();
    for harmless in
        [("LD_LIBRARY_PATH", ""), ("LD_PRELOAD", ""), ("LD_AUDIT", ""), ("LD_ORIGIN_PATH", "/opt"), ("GLIBC_TUNABLES", "glibc.malloc.check=1")]
    {
        let found = resolved(root.path(), "app", &[harmless]);
        assert_eq!((path(&found), codes(&found)), (Some("/lib/libx.so"), vec![]), "{harmless:?}");
    }
    assert_eq!(codes(&resolved(root.path(), "app", &[("LD_AUDIT", "a.so")])), [unknown::AUDIT.id]);
    let tunable = ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2_Usable");
    assert_eq!(codes(&resolved(root.path(), "app", &[tunable])), [unknown::TUNABLES.id]);
}

#[test]
fn e10_the_file_of_preloads_absent_blank_listed_or_unreadable() {
    let root = root();
    let list = root.path().join("etc/ld.so.preload");
    assert_eq!(resolved(root.path(), "app", &[]).objects.len(), 2);
    fs::write(&list, " \n\t\n# nothing\n").expect("written");
    assert_eq!(resolved(root.path(), "app", &[]).objects.len(), 2);
    stub(root.path(), "opt/p.so", &["g"], None, &["-nostdlib"]);
    fs::write(&list, "# a comment\n/opt/p.so /opt/absent.so # more\n").expect("written");
    let found = resolved(root.path(), "app", &[]);
    assert_eq!(found.objects[1].path, "/opt/p.so");
    assert_eq!((found.dropped.len(), found.failures.len()), (1, 0), "what is missing is dropped with a message");
    fs::remove_file(&list).expect("removed");
    fs::create_dir(&list).expect("made");
    assert_eq!(codes(&resolved(root.path(), "app", &[])), [unknown::UNREADABLE.id], "what cannot be read is no empty list");
}

#[test]
fn l1_l11_l12_runpath_with_entries_that_are_none() {
    let root = root();
    library(root.path(), "opt/libx.so");
    let list = "-Wl,-rpath,/nowhere:/etc/file:$ORIGIN/../opt";
    fs::write(root.path().join("etc/file"), "").expect("written");
    compile(root.path(), "int f(void); int main(void){return f();}", "bin/app", &["lib/libx.so", "-nostdlib", "-e", "main", list]);
    let found = resolved(root.path(), "app", &[]);
    assert_eq!(path(&found), Some("/bin/../opt/libx.so"));
    assert!(found.objects[1].rule.starts_with("RUNPATH $ORIGIN/../opt"), "{}", found.objects[1].rule);
    fs::remove_file(root.path().join("opt/libx.so")).expect("removed");
    symlink("nowhere", root.path().join("opt/libx.so")).expect("linked");
    assert_eq!(path(&resolved(root.path(), "app", &[])), Some("/lib/libx.so"), "a dangling link is passed over");
}

#[test]
fn l6_a_capability_directory_makes_a_set_also_as_a_link() {
    let root = root();
    fs::create_dir_all(root.path().join("opt/glibc-hwcaps/x86-64-v3")).expect("made");
    library(root.path(), "opt/libx.so");
    assert_eq!(resolved(root.path(), "app", &[]).sets().count(), 1);
    symlink("../../libx.so", root.path().join("opt/glibc-hwcaps/x86-64-v3/libx.so")).expect("linked");
    let found = resolved(root.path(), "app", &[]);
    let paths: Vec<&str> = found.sets().map(|objects| objects[1].path.as_str()).collect();
    assert_eq!(paths, ["/bin/../opt/libx.so", "/bin/../opt/glibc-hwcaps/x86-64-v3/libx.so"]);
    assert_eq!(found.search("libother.so", 0), [loader::Found::Missing]);
}

#[test]
fn l10_a_folder_of_assets_is_no_alternative() {
    let root = root();
    fs::create_dir_all(root.path().join("opt/hipblaslt/library")).expect("made");
    library(root.path(), "opt/libx.so");
    library(root.path(), "opt/hipblaslt/library/libx.so");
    assert_eq!(resolved(root.path(), "app", &[]).sets().count(), 1);
}

#[test]
fn l15_a_set_user_id_program_drops_the_variable_and_says_so() {
    let root = root();
    fs::set_permissions(root.path().join("bin/app"), fs::Permissions::from_mode(0o4755)).expect("set");
    assert_eq!(codes(&resolved(root.path(), "app", &[("LD_LIBRARY_PATH", "/srv")])), [""; 0], "the variable finds nothing: no doubt");
    library(root.path(), "srv/libx.so");
    fs::set_permissions(root.path().join("bin/app"), fs::Permissions::from_mode(0o4755)).expect("set");
    let found = resolved(root.path(), "app", &[("LD_LIBRARY_PATH", "/srv")]);
    assert_eq!((path(&found), codes(&found)), (Some("/lib/libx.so"), vec![unknown::SECURE.id]));
}

#[test]
fn l17_bounds_are_reasons() {
    let root = root();
    let mut bounded = request(root.path(), "app", &[]);
    bounded.limits.objects = 1;
    let found = loader::resolve(&bounded).expect("resolved");
    assert_eq!(codes(&found), [unknown::BOUND.id]);
}

#[test]
fn l18_l21_other_class_is_passed_over_and_what_is_no_library_stops() {
    let root = root();
    for (byte, value) in [(4, 1), (18, 183)] {
        library(root.path(), "opt/libx.so");
        let mut bytes = fs::read(root.path().join("opt/libx.so")).expect("built");
        bytes[byte] = value;
        fs::write(root.path().join("opt/libx.so"), bytes).expect("written");
        assert_eq!(path(&resolved(root.path(), "app", &[])), Some("/lib/libx.so"));
    }
    fs::write(root.path().join("opt/libx.so"), "a text").expect("written");
    let found = resolved(root.path(), "app", &[]);
    assert_eq!((path(&found), found.failures[0].file.as_deref()), (None, Some("/bin/../opt/libx.so")));
    fs::remove_file(root.path().join("opt/libx.so")).expect("removed");
    fs::create_dir(root.path().join("opt/libx.so")).expect("made");
    assert!(resolved(root.path(), "app", &[]).failures[0].problem.contains("directory"));
}

#[test]
fn l22_musl_and_static_programs() {
    let root = root();
    fs::copy("/lib64/ld-linux-x86-64.so.2", root.path().join("lib/ld-musl-x86_64.so.1")).expect("copied");
    let musl = ["lib/libx.so", "-nostdlib", "-e", "main", "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"];
    compile(root.path(), "int f(void); int main(void){return f();}", "bin/musl", &musl);
    let found = resolved(root.path(), "musl", &[]);
    assert_eq!((found.linking, codes(&found)), (Linking::Musl, vec![unknown::INTERPRETER.id]));
    for (name, option) in [("static", "-static"), ("static-pie", "-static-pie")] {
        compile(root.path(), "int main(void){return 0;}", &format!("bin/{name}"), &["-nostdlib", "-e", "main", option]);
        let found = resolved(root.path(), name, &[("LD_PRELOAD", "/opt/p.so")]);
        assert_eq!((found.linking, found.objects.len(), found.interpreter.is_none()), (Linking::Static, 1, true), "{name}");
    }
}

#[test]
fn scripts_lead_to_their_interpreter_and_are_unknown() {
    let root = root();
    let script = |name: &str, text: &str| {
        fs::write(root.path().join(name), text).expect("written");
        fs::set_permissions(root.path().join(name), fs::Permissions::from_mode(0o755)).expect("set");
    };
    fs::copy(root.path().join("bin/app"), root.path().join("bin/env")).expect("copied");
    script("bin/train", "#!/bin/env -S app -u\nprint(1)\n");
    let found = resolved(root.path(), "train", &[]);
    assert_eq!((found.program.as_str(), codes(&found)), ("/bin/app", vec![unknown::SCRIPT.id]));
    assert_eq!(found.arguments, ["-u", "/bin/train"]);
    // What the kernel runs not (ENOEXEC) is the shell's, as execvp has it; measured with env(1).
    fs::copy(root.path().join("bin/app"), root.path().join("bin/sh")).expect("copied");
    let long = format!("#!/{}sh\n", "b/".repeat(200));
    for text in ["", "#!", "#!\n", "#! \t\n", "true\n", &long] {
        script("bin/odd", text);
        assert_eq!(resolved(root.path(), "odd", &[]).program, "/bin/sh", "{text:?}");
    }
    for text in ["#!/bin/app\0/x", "#!/bin/app", "#!  /bin/app -x", "#!/bin/app\t\n"] {
        script("bin/odd", text);
        assert_eq!(resolved(root.path(), "odd", &[]).program, "/bin/app", "{text:?}");
    }
    script("bin/odd", "\u{1}\0\u{2}");
    assert!(loader::resolve(&request(root.path(), "odd", &[])).is_err(), "bytes are no script");
    // An interpreter without a slash is one of the working directory; PATH is not asked.
    script("bin/odd", "#!app\n");
    assert!(loader::resolve(&request(root.path(), "odd", &[])).is_err());
    fs::create_dir_all(root.path().join("srv")).expect("made");
    fs::copy(root.path().join("bin/app"), root.path().join("srv/app")).expect("copied");
    assert_eq!(resolved(root.path(), "odd", &[]).program, "./app");
    // Options of env end at a dash, at two, and at the first variable.
    let env = |arguments: &[&str]| {
        let arguments = arguments.iter().map(|&word| word.into()).collect();
        let found = loader::resolve(&Request { arguments, ..request(root.path(), "env", &[("A", "1")]) });
        found.map(|found| (found.program, found.environment.len())).ok()
    };
    let variables = request(root.path(), "env", &[("A", "1")]).environment.len();
    for (arguments, left) in [
        (&["/bin/app"][..], variables),
        (&["--", "/bin/app"], variables),
        (&["-", "/bin/app"], 0),
        (&["--", "-", "/bin/app"], 0),
        (&["-i", "B=2", "/bin/app"], 1),
    ] {
        assert_eq!(env(arguments), Some(("/bin/app".to_string(), left)), "{arguments:?}");
    }
    for arguments in [&["B=2", "-i", "/bin/app"][..], &["-", "-u", "A", "/bin/app"], &["--", "-i", "/bin/app"]] {
        assert_eq!(env(arguments), None, "env looks for a program of that name: {arguments:?}");
    }
    let chosen = Request { arguments: ["LD_LIBRARY_PATH=/opt", "app"].map(Into::into).into(), ..request(root.path(), "env", &[]) };
    library(root.path(), "opt/libx.so");
    assert_eq!(path(&loader::resolve(&chosen).expect("resolved")), Some("/opt/libx.so"));
}

#[test]
fn a_link_does_not_lead_out_of_the_root() {
    let root = root();
    symlink("../../../../lib/libx.so", root.path().join("opt/libx.so")).expect("linked");
    let found = resolved(root.path(), "app", &[]);
    assert_eq!(path(&found), Some("/bin/../opt/libx.so"));
    assert_eq!(found.objects[1].file, root.path().join("lib/libx.so"));
}
