//! What `explain` gives to paste cures what it is given against: the fixture that shows the fault is built once more with the flags.

use super::fixture::{Fixture, audit, policy, root};
use vrocm_audit::manifest::explain::Texts;

#[test]
fn flags_to_paste_cure_the_fixture_they_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let texts = Texts::embedded().expect("good data");
    let mut cured = 0;
    for remedy in &texts.remedies {
        let Some(name) = &remedy.cures else { continue };
        let fixture = Fixture::read(&root().join("fixtures/linkage").join(name));
        let fault = fixture.folder();
        let fires = |file: &std::path::Path| {
            let (_, findings) = audit(file, &policy(&fixture.policy_keys()), fixture.list().as_ref());
            findings.iter().filter(|found| found.check == fault).map(|found| (found.severity, found.message.clone())).collect::<Vec<_>>()
        };
        let before = fires(&fixture.build(folder.path()));
        assert!(!before.is_empty(), "{name} does not show {fault}");
        let script = remedy.script.as_ref().map(|script| {
            let path = folder.path().join("exports.map");
            std::fs::write(&path, script).expect("written");
            path
        });
        let flags: Vec<String> = remedy
            .flags
            .iter()
            .map(|flag| script.as_ref().map_or_else(|| flag.clone(), |path| flag.replace("exports.map", &path.display().to_string())))
            .collect();
        let after = fires(&fixture.build_with(folder.path(), &flags));
        assert!(after.is_empty(), "{}: {flags:?} leaves {after:?}", remedy.check);
        cured += 1;
    }
    assert!(cured >= 7, "{cured} remedies are tried");
}

/// The `.symver` line of version-floor, on the C library of this machine: the old version of the symbol is asked for.
#[test]
fn a_symver_line_lowers_the_floor() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let texts = Texts::embedded().expect("good data");
    let line = &texts.remedy("version-floor").expect("a remedy").paste[0];
    let floor = |out: &str, more: &str| {
        let source = format!("{more}\nvoid *dlsym(void *, const char *);\nvoid *hipNext(void) {{ return dlsym((void *)-1, \"hipMalloc\"); }}\n");
        let (c, file) = (folder.path().join(format!("{out}.c")), folder.path().join(format!("{out}.so")));
        std::fs::write(&c, source).expect("written");
        let done = std::process::Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&file).arg(&c).arg("-ldl").output().expect("cc");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        audit(&file, &policy("{}"), None)
            .0
            .requirements
            .iter()
            .find(|asked| asked.symbols.contains(&"dlsym".to_string()))
            .map(|asked| asked.version.clone())
    };
    let plain = floor("plain", "");
    if plain.as_deref() == Some("GLIBC_2.2.5") {
        println!("not tested: this C library is older than 2.34");
        return;
    }
    assert_eq!(plain.as_deref(), Some("GLIBC_2.34"));
    assert_eq!(floor("pinned", line).as_deref(), Some("GLIBC_2.2.5"));
}
