//! Evidence for a release.

use vrocm_audit::manifest::minors::{embedded, read};

use crate::stand_in::{HIP, ROCR, StandIn, scan};

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
    for (text, expected) in [("7.0.2-56\n", "7.0.2"), ("7.1.0", "7.1.0"), ("\n", "6.3.1"), ("unknown", "6.3.1")] {
        std::fs::write(info.join("version"), text).unwrap();
        assert_eq!(version(&lib.join("libhsa-runtime64.so")).as_deref(), Some(expected), "{text:?}");
    }
}

#[test]
fn the_minor_of_a_name_or_of_the_build_id() {
    let dir = tempfile::tempdir().unwrap();
    let plain = StandIn::compile("libhsa-runtime64.so.1", ROCR);
    for (name, expected) in
        [("libhsa-runtime64.so.1.18.0", Some("7.0-7.2")), ("libhsa-runtime64.so.1.13.0", Some("6.1")), ("libhsa-runtime64.so.1.99.0", None)]
    {
        let path = dir.path().join(name);
        std::fs::copy(&plain.path, &path).unwrap();
        assert_eq!(version(&path).as_deref(), expected, "{name}");
    }
    let stamp = "__attribute__((used)) static const char id[]=\"ROCR BUILD ID: \\\"1.15.0-local-build-unknown\\\"\";\n";
    let stamped = StandIn::compile("libhsa-runtime64.so.1", &format!("{ROCR}{stamp}"));
    assert_eq!(version(&stamped.path).as_deref(), Some("6.4"));
}

#[test]
fn hip_by_its_name() {
    let library = StandIn::compile("libamdhip64.so.7", HIP);
    assert_eq!(version(&library.path), None);
    let path = library.path.with_file_name("libamdhip64.so.7.2.53211");
    std::fs::copy(&library.path, &path).unwrap();
    assert_eq!(version(&path).as_deref(), Some("7.2"));
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
