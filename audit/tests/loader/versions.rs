//! Versions that a library lacks, as the real loader complains of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use vrocm_audit::loader::versions::Lack;
use vrocm_audit::loader::{self, Request, Resolution};

use crate::searches::folder;
use crate::support::{compile, stub};

/// What the loader says is missing: (file, version, who asks, weak).
pub fn complaints(output: &[u8]) -> BTreeSet<(String, String, String, bool)> {
    let text = String::from_utf8_lossy(output);
    let parse = |line: &str| {
        let (before, rest) = line.split_once("version `")?;
        let (version, rest) = rest.split_once("' not found (required by ")?;
        let (before, weak) = before.strip_suffix("weak ").map_or((before, false), |before| (before, true));
        let file = before.trim_end_matches(": ").rsplit(": ").next()?;
        Some((file.to_string(), version.to_string(), rest.trim_end_matches(')').to_string(), weak))
    };
    text.lines().filter_map(parse).collect()
}

/// The same from the resolver.
pub fn ours(resolution: &Resolution) -> BTreeSet<(String, String, String, bool)> {
    let (unmet, unread) = resolution.unmet_versions();
    assert!(unread.is_empty(), "{unread:?}");
    let said = unmet.into_iter().filter(|unmet| unmet.lack != Lack::Unversioned);
    said.map(|unmet| (unmet.provider, unmet.version, unmet.required_by, unmet.lack == Lack::Weak)).collect()
}

fn library(dir: &Path, map: Option<&str>) {
    stub(dir, "opt/libv.so", &["v"], map, &["-nostdlib", "-Wl,-soname,libv.so"]);
}

#[test]
fn a_version_that_the_library_lacks_stops_the_program() {
    let (_folder, dir) = folder();
    library(&dir, Some("V1 { global: v; };"));
    let app = compile(&dir, "int v(void); int main(void){return v();}", "bin/app", &["opt/libv.so", "-Wl,-rpath,$ORIGIN/../opt"]);
    let ask = || {
        let request = Request { command: app.display().to_string(), environment: Vec::new(), ..Request::from_this_process() };
        let resolution = loader::resolve(&request).expect("resolved");
        let traced = Command::new(&app).env_clear().env("LD_TRACE_LOADED_OBJECTS", "1").output().expect("traced");
        let run = Command::new(&app).env_clear().output().expect("started");
        let mine = ours(&resolution);
        assert_eq!(mine, complaints(&traced.stderr));
        (mine, resolution.unmet_versions().0, run.status.code())
    };
    let nothing = (BTreeSet::new(), Vec::new(), Some(2));
    assert_eq!(ask(), nothing, "it has the version");
    library(&dir, Some("V2 { global: v; };"));
    let (missing, _, status) = ask();
    let [(file, version, by, weak)] = missing.iter().collect::<Vec<_>>()[..] else { panic!("{missing:?}") };
    assert!(file.ends_with("/bin/../opt/libv.so") && version == "V1" && by.ends_with("app") && !weak, "{missing:?}");
    assert_eq!(status, Some(1), "the process does not start");
    // A library that asks for versions and defines none has a table of them, and then the name is enough.
    crate::support::library(&dir, "#include <stdlib.h>\nint v(void){return atoi(\"2\");}", "opt/libv.so", None, &["-Wl,-soname,libv.so"]);
    assert_eq!(ask(), nothing, "without definitions the loader binds by name");
    // Without any versions it dies where it binds, which the program's first call is.
    library(&dir, None);
    let (said, unmet, status) = ask();
    assert_eq!((said, status), (BTreeSet::new(), Some(127)));
    assert_eq!(unmet.iter().map(|unmet| unmet.lack).collect::<Vec<_>>(), [Lack::Unversioned]);
}

#[test]
fn a_weak_requirement_is_said_and_stops_nothing() {
    let (_folder, dir) = folder();
    library(&dir, Some("V1 { global: v; };"));
    let app = compile(&dir, "int v(void); int main(void){return v();}", "bin/app", &["opt/libv.so", "-Wl,-rpath,$ORIGIN/../opt"]);
    // vna_flags of the entry for V1: 2 is VER_FLG_WEAK.
    let image = vrocm_audit::elf::Elf::open(&app).expect("built");
    let index = image.requirements().expect("read").into_iter().find(|one| one.version == "V1").expect("asks for V1").index;
    let at = image.dynamic.value(vrocm_audit::elf::constants::DT_VERNEED).and_then(|address| {
        let window = image.window_up_to("DT_VERNEED", address, 512).expect("in the file");
        let entry = (0..window.bytes.len() - 16).step_by(4).find(|&at| window.bytes[at + 4..at + 8] == [0, 0, index as u8, 0])?;
        Some(window.offset as usize + entry + 4)
    });
    let mut bytes = std::fs::read(&app).expect("read");
    bytes[at.expect("an entry")] = 2;
    std::fs::write(&app, bytes).expect("written");
    library(&dir, Some("V2 { global: v; };"));
    let request = Request { command: app.display().to_string(), environment: Vec::new(), ..Request::from_this_process() };
    let mine = ours(&loader::resolve(&request).expect("resolved"));
    let traced = Command::new(&app).env_clear().env("LD_TRACE_LOADED_OBJECTS", "1").output().expect("traced");
    assert_eq!(mine, complaints(&traced.stderr));
    assert!(mine.iter().any(|(_, version, _, weak)| version == "V1" && *weak), "{mine:?}");
}
