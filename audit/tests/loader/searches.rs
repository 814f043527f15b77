//! Lines of the checklist that the real loader of this machine answers as well: each is built, traced and resolved.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use vrocm_audit::loader::{self, Found, How, Request, Resolution, unknown};

use crate::checklist::{codes, library, path, request, resolved, root};
use crate::machine::{real, this_cpu};
use crate::support::{compile, stub};

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
const MAIN: &str = "int f(void); int main(void){return f();}";

/// A folder with a real path, and in it `opt/libx.so`.
pub fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().canonicalize().expect("a path");
    for name in ["opt", "srv", "bin"] {
        fs::create_dir(path.join(name)).expect("made");
    }
    library(&path, "opt/libx.so");
    (folder, path)
}

/// `bin/app`, which needs libx.so.
fn app(dir: &Path, options: &[&str]) -> PathBuf {
    compile(dir, MAIN, "bin/app", &[&["opt/libx.so"], options].concat())
}

/// What the resolver finds, with this machine's CPU, which has to be what the loader lists.
fn same(app: &Path, cwd: &Path) -> Resolution {
    let request = Request {
        command: app.display().to_string(),
        environment: Vec::new(),
        cwd: cwd.display().to_string(),
        cpu: this_cpu(),
        ..Request::from_this_process()
    };
    let resolution = loader::resolve(&request).expect("resolved");
    let mut command = Command::new(app);
    command.env_clear().current_dir(cwd);
    let listed = real(command, LOADER).expect("the loader lists it");
    let mine = resolution.objects.iter().filter(|object| !matches!(object.how, How::Program | How::Interpreter));
    let mut mine: Vec<_> = mine.map(|object| (object.name.clone(), object.path.clone())).collect();
    mine.extend(resolution.failures.iter().map(|failure| (failure.name.clone(), "not found".into())));
    mine.sort();
    let mut listed = listed;
    listed.sort();
    assert_eq!(mine, listed, "{}", app.display());
    resolution
}

fn found(resolution: &Resolution, dir: &Path) -> Option<String> {
    path(resolution).map(|path| path.strip_prefix(&format!("{}/", dir.display())).unwrap_or(path).to_string())
}

#[test]
fn l4_audit_libraries_of_the_program_are_unknown_and_those_of_its_libraries_are_not_loaded() {
    let (_folder, dir) = folder();
    let run = |app: &Path| {
        let done = Command::new(app).env_clear().output().expect("started");
        String::from_utf8_lossy(&done.stderr).contains("cannot be loaded as audit interface")
    };
    let runpath = "-Wl,-rpath,$ORIGIN/../opt";
    for (options, tag) in [(&[runpath, "-Wl,--audit=/nowhere/a.so"], "DT_AUDIT"), (&[runpath, "-Wl,--depaudit=/nowhere/a.so"], "DT_DEPAUDIT")] {
        let app = app(&dir, options);
        let found = same(&app, &dir);
        assert_eq!(codes(&found), [unknown::AUDIT.id], "{tag}");
        assert!(found.unknowns[0].detail.contains(tag) && found.unknowns[0].detail.contains("/nowhere/a.so"), "{}", found.unknowns[0].detail);
        assert!(run(&app), "the loader looks for it, too");
    }
    // A library that asks for one when the program is linked: the linker copies it into the program.
    let plain = app(&dir, &[runpath]);
    let before = fs::read(&plain).expect("built");
    stub(&dir, "opt/libx.so", &["f"], None, &["-nostdlib", "-Wl,-soname,libx.so", "-Wl,--audit=/nowhere/a.so"]);
    let linked = app(&dir, &[runpath]);
    assert!(codes(&same(&linked, &dir)) == [unknown::AUDIT.id] && run(&linked));
    // And one that asks for it when the program has been linked: nobody looks.
    fs::write(&plain, before).expect("written");
    assert!(codes(&same(&plain, &dir)).is_empty() && !run(&plain));
}

#[test]
fn l5_rpath_reaches_what_libraries_need_and_runpath_does_not() {
    let (_folder, dir) = folder();
    let rpath = |new: &str| vec![format!("-Wl,--{new}-new-dtags,-rpath,{}/opt", dir.display()), "-Wl,--allow-shlib-undefined".into()];
    let build = |of_program: &str, middle: &[&str]| {
        stub(&dir, "opt/libm1.so", &["g"], None, &[&["-nostdlib", "-Wl,-soname,libm1.so", "-Wl,--no-as-needed", "opt/libx.so"], middle].concat());
        let options = rpath(of_program);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        compile(&dir, "int g(void); int main(void){return g();}", "bin/app", &[&["opt/libm1.so"], &options[..]].concat())
    };
    let transitive = same(&build("disable", &[]), &dir);
    assert_eq!(found(&transitive, &dir).as_deref(), Some("opt/libx.so"));
    assert!(transitive.objects.iter().any(|object| object.how == How::Rpath && object.name == "libx.so"));
    assert_eq!(found(&same(&build("enable", &[]), &dir), &dir), None, "the program's RUNPATH is for its own needs");
    assert_eq!(found(&same(&build("disable", &["-Wl,--enable-new-dtags,-rpath,/nowhere"]), &dir), &dir), None, "nor for a library with its own");
    // dlopen asks on behalf of the object that calls.
    let program = same(&build("disable", &[]), &dir);
    fs::copy(dir.join("opt/libx.so"), dir.join("opt/liby.so")).expect("copied");
    assert!(matches!(&program.search("libnowhere.so", 0)[..], [Found::Missing]));
    assert!(matches!(&program.search("liby.so", 0)[..], [Found::File { how: How::Rpath, .. }]));
}

/// A cache in the new format with one library.
fn cache(name: &str, at: &str) -> Vec<u8> {
    let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
    let strings = [name.as_bytes(), b"\0", at.as_bytes(), b"\0"].concat();
    for word in [1, strings.len() as u32, 2, 0, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    let text = bytes.len() as u32 + 24;
    for word in [0x0303, text, text + name.len() as u32 + 1, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(strings);
    bytes
}

#[test]
fn l5_a_library_that_only_the_cache_knows() {
    let root = root();
    fs::remove_file(root.path().join("lib/libx.so")).expect("removed");
    library(root.path(), "srv/libx.so");
    assert_eq!(path(&resolved(root.path(), "app", &[])), None);
    fs::write(root.path().join("etc/ld.so.cache"), cache("libx.so", "/srv/libx.so")).expect("written");
    let found = resolved(root.path(), "app", &[]);
    assert_eq!((path(&found), found.objects[1].how), (Some("/srv/libx.so"), How::Cache));
    fs::write(root.path().join("etc/ld.so.cache"), "no cache").expect("written");
    assert_eq!(codes(&resolved(root.path(), "app", &[])), [unknown::CACHE.id]);
}

/// True where this machine's loader has the old capability directories.
fn legacy(resolution: &Resolution) -> bool {
    let legacy = resolution.interpreter.as_ref().is_some_and(loader::Interpreter::legacy_hwcaps);
    if !legacy {
        println!("this machine's glibc has no old capability directories: only that they are not searched is tested");
    }
    legacy
}

#[test]
fn l7_the_tls_directory_goes_first_until_it_is_gone() {
    let (_folder, dir) = folder();
    let app = app(&dir, &["-Wl,-rpath,$ORIGIN/../opt"]);
    fs::create_dir(dir.join("opt/tls")).expect("made");
    library(&dir, "opt/tls/libx.so");
    let with = same(&app, &dir);
    let expected = if legacy(&with) { "bin/../opt/tls/libx.so" } else { "bin/../opt/libx.so" };
    assert_eq!(found(&with, &dir).as_deref(), Some(expected));
    fs::remove_dir_all(dir.join("opt/tls")).expect("removed");
    assert_eq!(found(&same(&app, &dir), &dir).as_deref(), Some("bin/../opt/libx.so"));
}

#[test]
fn l8_tls_stands_before_the_platform_and_never_behind() {
    let (_folder, dir) = folder();
    let app = app(&dir, &["-Wl,-rpath,$ORIGIN/../opt"]);
    fs::create_dir_all(dir.join("opt/haswell/tls")).expect("made");
    library(&dir, "opt/haswell/tls/libx.so");
    let sets = || {
        let request = Request { command: app.display().to_string(), environment: Vec::new(), cpu: None, ..Request::from_this_process() };
        let resolution = loader::resolve(&request).expect("resolved");
        resolution.sets().map(|set| set[1].path.replace(&dir.display().to_string(), "")).collect::<Vec<_>>()
    };
    same(&app, &dir);
    assert_eq!(sets(), ["/bin/../opt/libx.so"], "no CPU searches haswell/tls");
    fs::create_dir_all(dir.join("opt/tls/haswell")).expect("made");
    library(&dir, "opt/tls/haswell/libx.so");
    if legacy(&same(&app, &dir)) {
        assert_eq!(sets(), ["/bin/../opt/libx.so", "/bin/../opt/tls/haswell/libx.so"], "and some search tls/haswell");
    }
}

#[test]
fn l9_directories_of_a_machine_whose_list_is_not_known() {
    let root = root();
    library(root.path(), "opt/libx.so");
    for file in ["bin/app", "opt/libx.so", "lib/libx.so"] {
        let mut bytes = fs::read(root.path().join(file)).expect("built");
        // EM_PPC64: the loader's strings stay, the machine is another.
        bytes[18] = 21;
        fs::write(root.path().join(file), bytes).expect("written");
    }
    let plain = resolved(root.path(), "app", &[]);
    assert_eq!((path(&plain), codes(&plain)), (Some("/bin/../opt/libx.so"), vec![]), "without such a directory there is no doubt");
    fs::create_dir(root.path().join("opt/tls")).expect("made");
    let legacy = plain.interpreter.as_ref().is_some_and(loader::Interpreter::legacy_hwcaps);
    fs::create_dir(root.path().join("opt/glibc-hwcaps")).expect("made");
    assert!(!codes(&resolved(root.path(), "app", &[])).is_empty(), "legacy: {legacy}");
    assert_eq!(codes(&resolved(root.path(), "app", &[]))[0], unknown::MACHINE.id);
}

#[test]
fn l13_what_may_not_be_read_is_unknown() {
    let (_folder, dir) = folder();
    // Somebody who may not read it: another user where the tests have all rights, or else the user of the tests.
    let gfx_scan = dir.join("gfx-scan");
    fs::copy(env!("CARGO_BIN_EXE_gfx-scan"), &gfx_scan).expect("copied");
    app(&dir, &["-Wl,-rpath,$ORIGIN/../opt"]);
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    mode(&dir, 0o755);
    let asked = || {
        let mut command = Command::new(&gfx_scan);
        command.args(["preflight", "--target", "gfx942", "--clear-env", "--format", "json", "--", &dir.join("bin/app").display().to_string()]);
        if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
            std::os::unix::process::CommandExt::uid(&mut command, 65534);
        }
        let report: serde_json::Value = serde_json::from_slice(&command.current_dir("/").output().expect("runs").stdout).expect("JSON");
        report["unknowns"].as_array().expect("a list").iter().map(|unknown| unknown["code"].as_str().expect("text").to_string()).collect::<Vec<_>>()
    };
    assert!(!asked().contains(&unknown::UNREADABLE.id.to_string()));
    mode(&dir.join("opt"), 0o000);
    let denied = asked();
    mode(&dir.join("opt"), 0o755);
    assert!(denied.contains(&unknown::UNREADABLE.id.to_string()), "{denied:?}");
}

#[test]
fn l14_an_empty_element_is_the_working_directory() {
    let (_folder, dir) = folder();
    let app = app(&dir, &["-Wl,-rpath,:/nowhere"]);
    assert_eq!(found(&same(&app, &dir.join("srv")), &dir), None, "nothing lies there");
    library(&dir, "srv/libx.so");
    assert_eq!(found(&same(&app, &dir.join("srv")), &dir).as_deref(), Some("libx.so"));
}

#[test]
fn l16_who_else_may_change_a_path_is_said() {
    let root = root();
    library(root.path(), "opt/libx.so");
    let found = resolved(root.path(), "app", &[]);
    let at = found.objects[1].path.clone();
    assert_eq!(found.changeable(&at), None);
    let mode = |name: &str, mode| fs::set_permissions(root.path().join(name), fs::Permissions::from_mode(mode)).expect("set");
    mode("opt", 0o777);
    assert_eq!(found.changeable(&at).as_deref(), Some("/bin/../opt (writable by everybody)"));
    mode("opt", 0o1777);
    assert_eq!(found.changeable(&at), None, "a sticky directory, and the file is nobody else's");
    mode("opt/libx.so", 0o666);
    assert_eq!(found.changeable(&at).as_deref(), Some("/bin/../opt/libx.so (writable by everybody)"));
    // The way through a link counts as well as where it leads.
    mode("opt", 0o755);
    mode("opt/libx.so", 0o644);
    fs::rename(root.path().join("opt/libx.so"), root.path().join("srv/libx.so")).expect("moved");
    symlink("/srv/libx.so", root.path().join("opt/libx.so")).expect("linked");
    assert_eq!(found.changeable(&at), None);
    mode("srv", 0o775);
    mode("srv", 0o777);
    assert_eq!(found.changeable(&at).as_deref(), Some("/srv (writable by everybody)"));
    if std::os::unix::fs::chown(root.path().join("bin"), Some(4242), None).is_ok() {
        assert_eq!(found.changeable(&at).as_deref(), Some("/bin (owned by user 4242)"));
    }
    // Changed while one asked: said, whoever did it.
    assert!(found.changed().is_empty(), "moved, it is still the same file");
    library(root.path(), "srv/libx.so");
    assert_eq!(found.changed().len(), 1, "written anew, it is another one");
    assert!(resolved(root.path(), "app", &[]).changed().is_empty());
}

#[test]
fn l16_a_cache_that_appears_counts_as_a_change() {
    let root = root();
    let found = loader::resolve(&request(root.path(), "app", &[])).expect("resolved");
    assert!(found.changed().is_empty());
    fs::write(root.path().join("etc/ld.so.cache"), cache("libx.so", "/lib/libx.so")).expect("written");
    let changed = found.changed();
    assert_eq!(changed.iter().map(|one| (one.code, one.object.as_str())).collect::<Vec<_>>(), [(unknown::CHANGED.id, "/etc/ld.so.cache")]);
}

#[test]
fn l20_an_earlier_library_with_the_soname_serves() {
    let (_folder, dir) = folder();
    let soname = |name: &str| format!("-Wl,-soname,{name}");
    stub(&dir, "opt/liby.so", &["g"], None, &["-nostdlib", &soname("liby.so")]);
    let source = "int f(void), g(void); int main(void){return f()+g();}";
    let app = compile(&dir, source, "bin/app", &["opt/liby.so", "opt/libx.so", "-Wl,-rpath,$ORIGIN/../opt"]);
    assert_eq!(found(&same(&app, &dir), &dir).as_deref(), Some("bin/../opt/libx.so"));
    // The first library now says that it is libx.so: the file of that name is not looked for.
    stub(&dir, "opt/liby.so", &["f", "g"], None, &["-nostdlib", &soname("libx.so")]);
    let resolution = same(&app, &dir);
    assert_eq!(found(&resolution, &dir), None);
    assert_eq!(resolution.objects[1].soname.as_deref(), Some("libx.so"));
}
