//! Secure mode against the real loader: a set-user-id program is started by somebody else, and its exit status tells which library it got.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use vrocm_audit::loader::{self, Request, unknown};

use crate::checklist::codes;
use crate::searches::folder;
use crate::support::{compile, library};

/// A libx.so whose function returns a number.
fn numbered(dir: &Path, at: &str, number: u8) {
    fs::create_dir_all(dir.join(at).parent().expect("a folder")).expect("made");
    library(dir, &format!("int f(void){{return {number};}}"), at, None, &["-nostdlib", "-Wl,-soname,libx.so"]);
}

/// Why this cannot be tried here; `None` where it can.
fn unable(dir: &Path) -> Option<&'static str> {
    let own = fs::metadata("/proc/self").expect("of this process");
    if std::os::unix::fs::MetadataExt::uid(&own) != 0 {
        return Some("only root can start a program as somebody else");
    }
    let probe = compile(dir, "#include <sys/auxv.h>\nint main(void){return getauxval(AT_SECURE);}", "probe", &[]);
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o4755)).expect("set");
    let secure = Command::new(&probe).uid(65534).status().is_ok_and(|status| status.code() == Some(1));
    (!secure).then_some("the set-user-id bit has no effect on this file system")
}

#[test]
fn what_a_set_user_id_program_loads() {
    let (_folder, dir) = folder();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("set");
    if let Some(why) = unable(&dir) {
        println!("not compared with the real loader: {why}");
        return;
    }
    let at = |name: &str| dir.join(name).display().to_string();
    for (folder, number) in [("opt", 1), ("a", 2), ("b", 3), ("c", 4), ("p", 5)] {
        numbered(&dir, &format!("{folder}/libx.so"), number);
    }
    library(&dir, "int f(void){return 6;}", "b/libp.so", None, &["-nostdlib", "-Wl,-soname,libp.so"]);
    library(&dir, "int f(void){return 7;}", "b/libs.so", None, &["-nostdlib", "-Wl,-soname,libs.so"]);
    fs::set_permissions(dir.join("b/libs.so"), fs::Permissions::from_mode(0o4755)).expect("set");
    let list = format!("-Wl,-rpath,$ORIGIN/../a:{}", at("b"));
    let app = compile(&dir, "int f(void); int main(void){return f();}", "bin/app", &["opt/libx.so", &list]);
    let preload = at("p/libx.so");
    let (path, bare, marked) = (at("c"), "libp.so", "libs.so");
    for (variables, plain, secure) in [
        (vec![], 2, 3),
        (vec![("LD_LIBRARY_PATH", path.as_str())], 4, 3),
        (vec![("LD_PRELOAD", preload.as_str())], 5, 3),
        (vec![("LD_PRELOAD", bare)], 6, 3),
        (vec![("LD_PRELOAD", marked)], 7, 7),
    ] {
        for (mode, expected) in [(0o755, plain), (0o4755, secure)] {
            fs::set_permissions(&app, fs::Permissions::from_mode(mode)).expect("set");
            let real = Command::new(&app).env_clear().envs(variables.iter().copied()).uid(65534).status().expect("started").code();
            assert_eq!(real, Some(expected), "the real loader: {variables:?} {mode:o}");
            let environment = variables.iter().map(|&(name, value)| (name.to_string(), value.to_string())).collect();
            let request = Request { command: app.display().to_string(), environment, ..Request::from_this_process() };
            let resolution = loader::resolve(&request).expect("resolved");
            // The first object with f in load order is the one that is called.
            let first = resolution.objects[1].path.strip_prefix(&format!("{}/", dir.display())).expect("in the folder").to_string();
            let number = match first.as_str() {
                "bin/../a/libx.so" => 2,
                "b/libx.so" => 3,
                "c/libx.so" => 4,
                "p/libx.so" => 5,
                "b/libp.so" => 6,
                "b/libs.so" => 7,
                other => panic!("{other}"),
            };
            assert_eq!(number, expected, "{variables:?} {mode:o}");
            let doubt: &[&str] = if mode == 0o4755 { &[unknown::SECURE.id] } else { &[] };
            assert_eq!(codes(&resolution), doubt, "{variables:?} {mode:o}");
        }
    }
}

#[test]
fn l15_file_capabilities_are_a_mark_as_well() {
    let (_folder, dir) = folder();
    numbered(&dir, "c/libx.so", 4);
    let app = compile(&dir, "int f(void); int main(void){return f();}", "bin/app", &["opt/libx.so", "-Wl,-rpath,/nowhere"]);
    let ask = || {
        let environment = vec![("LD_LIBRARY_PATH".to_string(), dir.join("c").display().to_string())];
        let request = Request { command: app.display().to_string(), environment, ..Request::from_this_process() };
        codes(&loader::resolve(&request).expect("resolved")).join(" ")
    };
    assert_eq!(ask(), "");
    let set = Command::new("setcap").arg("cap_net_raw+ep").arg(&app).output();
    if !set.is_ok_and(|done| done.status.success()) {
        println!("not tried: setcap is missing here, or may not set capabilities");
        return;
    }
    assert_eq!(ask(), unknown::SECURE.id);
}
