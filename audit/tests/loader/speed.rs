//! A program of a hundred objects: the same objects as the real loader lists, in single-digit milliseconds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use vrocm_audit::loader::{self, Request};

use crate::layouts::{Spec, real, templates};
use crate::machine::this_cpu;

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
const OBJECTS: usize = 100;
/// Each library needs three others, found in the last of three directories of its own list.
const LIST: &str = "/nowhere:$ORIGIN/../empty:$ORIGIN";

fn name(number: usize) -> String {
    format!("lib{number:03}.so")
}

#[test]
fn a_hundred_objects_take_milliseconds() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dir = folder.path().canonicalize().expect("a path");
    let (library, program) = templates(&dir, LOADER);
    for name in ["d0", "empty"] {
        fs::create_dir(dir.join(name)).expect("made");
    }
    for number in 0..OBJECTS {
        let needed = (1..=3).map(|next| number * 3 + next).filter(|&next| next < OBJECTS).map(name).collect();
        let spec = Spec { needed, soname: Some(name(number)), path: Some(LIST.into()), ..Spec::default() };
        fs::write(dir.join("d0").join(name(number)), library.patch(&spec)).expect("written");
    }
    let path = dir.join("d0/program");
    fs::write(&path, program.patch(&Spec { needed: vec![name(0)], path: Some("$ORIGIN".into()), ..Spec::default() })).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    let said = real(&path, &dir, &[], LOADER);
    let request = Request { command: path.display().to_string(), environment: Vec::new(), cpu: this_cpu(), ..Request::from_this_process() };
    let times = |act: &dyn Fn()| {
        let mut all: Vec<Duration> = (0..21)
            .map(|_| {
                let start = Instant::now();
                act();
                start.elapsed()
            })
            .collect();
        all.sort();
        (all[0], all[10])
    };
    let resolution = loader::resolve(&request).expect("a program");
    let mine: Vec<_> = resolution.objects[1..].iter().map(|object| (object.name.clone(), object.path.clone())).collect();
    assert_eq!((mine.len(), said.stopped), (OBJECTS, false));
    assert_eq!(mine, said.objects);
    let resolve = times(&|| drop(loader::resolve(&request).expect("a program")));
    let versions = times(&|| drop(resolution.unmet_versions()));
    let loader = times(&|| drop(real(&path, &dir, &[], LOADER)));
    println!(
        "{OBJECTS} objects: resolved in {:?} (median {:?}), versions held against one another in {:?} (median {:?}) by this build; ld.so lists them in {:?} (median {:?})",
        resolve.0, resolve.1, versions.0, versions.1, loader.0, loader.1
    );
    // Ten times the goal: this build is not optimized, and the machine has other work.
    assert!(resolve.0 < Duration::from_millis(100), "{resolve:?}");
}
