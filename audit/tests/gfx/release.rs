//! Evidence for a release.

use vrocm_audit::gfx::identity::Identity;
use vrocm_audit::gfx::release;
use vrocm_audit::manifest::minors::{embedded, read};

use crate::stand_in::{HIP, ROCR, StandIn, scan};
use crate::support;

fn version(path: &std::path::Path) -> Option<String> {
    scan(path).release.map(|release| release.version)
}

#[test]
fn names_paths_and_files_beside() {
    let library = StandIn::compile("libhsa-runtime64.so.1", ROCR);
    assert_eq!(version(&library.path), None);
    let root = tempfile::tempdir().unwrap();
    let lib = root.path().join("rocm-6.4.1/lib");
    std::fs::create_dir_all(&lib).unwrap();
    let named = |name: &str| {
        let path = lib.join(name);
        std::fs::copy(&library.path, &path).unwrap();
        path
    };
    assert_eq!(version(&named("libhsa-runtime64.so.1.14.60301")).as_deref(), Some("6.3.1"));
    assert_eq!(version(&named("libhsa-runtime64.so.1")).as_deref(), Some("6.4.1"));
    // A link leads to the file's own name.
    std::os::unix::fs::symlink("libhsa-runtime64.so.1.14.60301", lib.join("libhsa-runtime64.so")).unwrap();
    assert_eq!(version(&lib.join("libhsa-runtime64.so")).as_deref(), Some("6.3.1"));
    let info = root.path().join("rocm-6.4.1/.info");
    std::fs::create_dir(&info).unwrap();
    for (text, expected) in [("7.0.2-56\n", "7.0.2"), ("7.1.0", "7.1.0"), ("7.1", "7.1"), ("7", "6.3.1"), ("\n", "6.3.1"), ("unknown", "6.3.1")] {
        std::fs::write(info.join("version"), text).unwrap();
        assert_eq!(version(&lib.join("libhsa-runtime64.so")).as_deref(), Some(expected), "{text:?}");
    }
    // A FIFO of that name is not opened: nobody would write.
    std::fs::remove_file(info.join("version")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(info.join("version")).status().unwrap().success());
    assert_eq!(version(&lib.join("libhsa-runtime64.so")).as_deref(), Some("6.3.1"));
    for (folder, expected) in [("rocm-6.4", Some("6.4")), ("rocm-6", None), ("rocm-x", None)] {
        let lib = root.path().join(folder);
        std::fs::create_dir(&lib).unwrap();
        std::fs::copy(&library.path, lib.join("libhsa-runtime64.so.1")).unwrap();
        assert_eq!(version(&lib.join("libhsa-runtime64.so.1")).as_deref(), expected, "{folder}");
    }
}

#[test]
fn the_minor_of_a_name_or_of_the_build_id() {
    let dir = tempfile::tempdir().unwrap();
    let plain = StandIn::compile("libhsa-runtime64.so.1", ROCR);
    for (name, expected) in [
        ("libhsa-runtime64.so.1.18", Some("7.0-7.2")),
        ("libhsa-runtime64.so.1.18.0", Some("7.0-7.2")),
        ("libhsa-runtime64.so.1.13.0", Some("6.1")),
        ("libhsa-runtime64.so.1.99.0", None),
    ] {
        let path = dir.path().join(name);
        std::fs::copy(&plain.path, &path).unwrap();
        assert_eq!(version(&path).as_deref(), expected, "{name}");
    }
    for (id, expected) in [("1.15.0-local-build-unknown", Some("6.4")), ("1.15-local", Some("6.4")), ("1-local", None)] {
        let stamp = format!("__attribute__((used)) static const char id[]=\"ROCR BUILD ID: \\\"{id}\\\"\";\n");
        let stamped = StandIn::compile("libhsa-runtime64.so.1", &format!("{ROCR}{stamp}"));
        assert_eq!(version(&stamped.path).as_deref(), expected, "{id}");
    }
}

#[test]
fn hip_by_its_name() {
    let library = StandIn::compile("libamdhip64.so.7", HIP);
    assert_eq!(version(&library.path), None);
    let path = library.path.with_file_name("libamdhip64.so.7.2.53211");
    std::fs::copy(&library.path, &path).unwrap();
    assert_eq!(version(&path).as_deref(), Some("7.2"));
    let short = library.path.with_file_name("libamdhip64.so.7.1");
    std::fs::copy(&library.path, &short).unwrap();
    assert_eq!(version(&short).as_deref(), Some("7.1"));
    // A node that is newer than the file's name: somebody renamed the file. A node of one number is none.
    let dir = tempfile::tempdir().unwrap();
    let map = "hip_4.2 { global: hipInit; }; hip_7.3 { global: hipGetDeviceCount; } hip_4.2; hip_9 { global: hipOther; } hip_7.3;";
    let names = ["hipInit", "hipGetDeviceCount", "hipOther"];
    let noded = |file: &str| {
        let path = support::stub(dir.path(), file, &names, Some(map), &["-nostdlib", "-Wl,-soname,libamdhip64.so.7"]);
        scan(&path).release.map(|release| (release.version, release.evidence))
    };
    assert_eq!(noded("libamdhip64.so.7.2.53211"), Some(("7.3".into(), "its newest version node is hip_7.3".into())));
    let (version, evidence) = noded("libamdhip64.so.7.3.1").unwrap();
    assert!(version == "7.3" && evidence.contains("called libamdhip64.so.7.3.1") && evidence.contains("hip_7.3"), "{evidence}");
}

/// What is no runtime has no release, wherever it stands.
#[test]
fn another_library_has_none() {
    let facts = |identity| release::Facts { identity, path: std::path::Path::new("/opt/rocm-6.4.1/lib/libx.so.1"), build_id: None, nodes: &[] };
    let version = |identity| release::find(facts(identity)).unwrap().map(|release| release.version);
    assert_eq!((version(Identity::Other), version(Identity::Rocr).as_deref()), (None, Some("6.4.1")));
}

#[test]
fn a_bad_table_is_refused_by_file_entry_and_rule() {
    assert!(embedded().is_ok_and(|table| table.len() >= 13));
    let row = |minor: &str, release: &str, source: &str| {
        format!("{{\"library\":\"libhsa-runtime64\",\"minor\":\"{minor}\",\"release\":\"{release}\",\"source\":\"{source}\"}}")
    };
    let good = row("1.5", "5.0-5.2", "x");
    for (text, entry, rule) in [
        ("[{}]".to_owned(), "line 1", "library"),
        ("not json".to_owned(), "line 1", "expected"),
        (format!("[{}]", good.replace("libhsa-runtime64", "libx")), "entry 1", "library is"),
        (format!("[{}]", row("1.x", "5.0", "x")), "entry 1", "two numbers"),
        (format!("[{}]", row("1", "5.0", "x")), "entry 1", "two numbers"),
        (format!("[{}]", row("1.5", "5.2-5.0", "x")), "entry 1", "release is"),
        (format!("[{}]", row("1.5", "5", "x")), "entry 1", "release is"),
        (format!("[{}]", row("1.5", "5.0", " ")), "entry 1", "source"),
        (format!("[{good},{good}]"), "entry 2", "ascending"),
    ] {
        let error = read("t.json", &text).unwrap_err();
        assert!(error.file == "t.json" && error.entry.contains(entry) && error.rule.contains(rule), "{text}: {error}");
    }
}
