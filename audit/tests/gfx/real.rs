//! The runtimes of four ROCm releases. Their registries are known from the sources of the same releases.

use std::collections::BTreeSet;
use std::path::PathBuf;

use vrocm_audit::gfx::identity::Identity;
use vrocm_audit::gfx::verdict::{Reason, Verdict};
use vrocm_audit::gfx::{Library, Tier};

use crate::stand_in::{TARGETS, ask, scan};
use crate::support::file;

const RELEASES: [&str; 4] = ["5.2.3-3", "6.1.2-3", "6.4.3+dfsg-5", "7.2.4+dfsg-1~exp1"];

const OLD: &str = "700 701 702 801 802 803 805 810 900 902 904 906 908 909 90a 90c 1010 1011 1012 1013 1030 1031 1032 1033 1034 1035";

fn rocr(version: &str) -> Option<PathBuf> {
    file(&format!("libhsa-runtime64-1_{version}_amd64"), "libhsa-runtime64.so.1")
}

fn ids(library: &Library) -> Vec<&str> {
    library.targets.iter().map(|target| target.id.as_str()).collect()
}

fn expect(version: &str, targets: &[String], featured: usize, generics: usize, release: &str) {
    let Some(path) = rocr(version) else { return };
    let library = scan(&path);
    assert_eq!((library.identity, library.tier), (Identity::Rocr, Tier::Registry));
    assert_eq!(ids(&library), targets);
    assert_eq!(library.mentioned_only, ["gfx600", "gfx601", "gfx602", "gfx703", "gfx704", "gfx705"]);
    assert_eq!(library.generics.len(), generics);
    assert_eq!(library.release.map(|release| release.version).as_deref(), Some(release));
    let variants = library.registry.map(|registry| registry.targets.values().flatten().filter(|features| !features.is_empty()).count());
    assert_eq!(variants, Some(featured));
}

fn sorted(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|name| u32::from_str_radix(&name[3..], 16).unwrap());
    names
}

#[test]
fn s12_registries_of_four_releases() {
    let old = OLD.split(' ').map(|digits| format!("gfx{digits}"));
    let middle = "940 941 942 1036 1100 1101 1102 1103 1150 1151".split(' ').map(|digits| format!("gfx{digits}"));
    let new = sorted(TARGETS.map(String::from));
    expect("5.2.3-3", &sorted(old.clone()), 46, 0, "5.0-5.2");
    expect("6.1.2-3", &sorted(old.chain(middle)), 70, 0, "6.1");
    expect("6.4.3+dfsg-5", &new, 62, 6, "6.4");
    expect("7.2.4+dfsg-1~exp1", &new, 62, 6, "7.0-7.2");
    // A plain search for words, as upstream's check has it, counts the six names for old code objects as well.
    for (version, words) in [("5.2.3-3", 32), ("6.1.2-3", 42), ("6.4.3+dfsg-5", 45), ("7.2.4+dfsg-1~exp1", 45)] {
        let Some(path) = rocr(version) else { continue };
        let found = words_of(&std::fs::read(&path).expect("readable"));
        assert_eq!(found.len(), words, "{version}");
        let library = scan(&path);
        let named: BTreeSet<String> = library.targets.iter().map(|target| target.id.clone()).chain(library.mentioned_only).collect();
        assert_eq!(named, found, "{version}");
    }
}

/// Whole words of at least three lower-case hex digits after `gfx`, the first a decimal one.
fn words_of(bytes: &[u8]) -> BTreeSet<String> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let words = bytes.split(|byte| !is_word(byte)).filter_map(|word| word.strip_prefix(b"gfx"));
    let fits = |rest: &&[u8]| rest.len() >= 3 && rest[0].is_ascii_digit() && rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    words.filter(fits).map(|rest| format!("gfx{}", String::from_utf8_lossy(rest))).collect()
}

#[test]
fn s2_names_for_old_code_objects_are_no_support_in_any_release() {
    for version in RELEASES {
        let Some(path) = rocr(version) else { continue };
        for name in ["gfx600", "gfx601", "gfx602", "gfx703", "gfx704", "gfx705"] {
            let answer = ask(&path, name);
            assert_eq!((answer.verdict, answer.reason), (Verdict::Unsupported, Reason::LegacyNameOnly), "{version}: {name}");
        }
        assert_eq!(ask(&path, "gfx803").verdict, Verdict::Supported, "{version}: one that is registered, too");
    }
}

#[test]
fn s16_gfx940_and_gfx941_came_and_went() {
    for (version, verdict) in RELEASES.into_iter().zip([Verdict::Unsupported, Verdict::Supported, Verdict::Unsupported, Verdict::Unsupported]) {
        let Some(path) = rocr(version) else { continue };
        for name in ["gfx940", "gfx941"] {
            assert_eq!(ask(&path, name).verdict, verdict, "{version}: {name}");
        }
    }
}

#[test]
fn verdicts_on_rocr() {
    let (old, middle, new) = (rocr("5.2.3-3"), rocr("6.1.2-3"), rocr("7.2.4+dfsg-1~exp1"));
    for (path, name, verdict, reason) in [
        (&new, "gfx1250", Verdict::Unsupported, Reason::NotRegistered),
        (&new, "gfx1251", Verdict::Unsupported, Reason::NotRegistered),
        (&new, "gfx940", Verdict::Unsupported, Reason::NotRegistered),
        (&new, "gfx600", Verdict::Unsupported, Reason::LegacyNameOnly),
        (&new, "gfx703", Verdict::Unsupported, Reason::LegacyNameOnly),
        (&new, "gfx110", Verdict::Unsupported, Reason::NotRegistered),
        (&new, "gfx942", Verdict::Supported, Reason::Registered),
        (&new, "gfx90a:xnack+", Verdict::Supported, Reason::Registered),
        (&new, "gfx1100:xnack+", Verdict::Unsupported, Reason::FeatureNotRegistered),
        (&new, "gfx12-generic", Verdict::Unknown, Reason::GenericOnly),
        (&middle, "gfx940", Verdict::Supported, Reason::Registered),
        (&middle, "gfx1200", Verdict::Unsupported, Reason::NotRegistered),
        (&old, "gfx1100", Verdict::Unsupported, Reason::NotRegistered),
        (&old, "gfx942", Verdict::Unsupported, Reason::NotRegistered),
    ] {
        let Some(path) = path else { continue };
        let answer = ask(path, name);
        assert_eq!((answer.verdict, answer.reason), (verdict, reason), "{}: {name}: {}", path.display(), answer.message);
    }
}

#[test]
fn two_other_readings_confirm_the_registry() {
    use vrocm_audit::elf::Elf;
    use vrocm_audit::gfx;
    for version in ["5.2.3-3", "6.1.2-3", "6.4.3+dfsg-5", "7.2.4+dfsg-1~exp1"] {
        let Some(path) = rocr(version) else { continue };
        let image = Elf::open(&path).unwrap();
        let (library, answer) = gfx::scan_for(&image, "gfx1250".parse().unwrap()).unwrap();
        assert_eq!(answer.reason, Reason::NotRegistered);
        let registry = library.registry.unwrap();
        let registered: Vec<_> = registry.targets.keys().copied().collect();
        // Two readings that know nothing of the names: version numbers in the code, and the targets of the embedded code objects.
        assert_eq!(gfx::doubts::versions(&image, &registry).unwrap().into_iter().collect::<Vec<_>>(), registered, "{version}");
        let objects = library.doubts.expect("an absent target is looked at closely").elsewhere.code_objects;
        assert_eq!(objects.into_iter().collect::<Vec<_>>(), registered, "{version}");
    }
}

#[test]
fn hip_has_a_table_of_its_own() {
    let verdict = |path: &Option<PathBuf>, name: &str| path.as_ref().map(|path| ask(path, name).verdict);
    let (older, newer) = (file("libamdhip64-6_6.4.3-5_amd64", "libamdhip64.so.6"), file("libamdhip64-7_7.2.4-1~exp2_amd64", "libamdhip64.so.7"));
    // ROCr 6.4.3 enumerates a gfx950, and HIP 6.4.3 drops it.
    assert_ne!(verdict(&rocr("6.4.3+dfsg-5"), "gfx950"), Some(Verdict::Unsupported));
    assert_ne!(verdict(&older, "gfx950"), Some(Verdict::Supported));
    assert_ne!(verdict(&newer, "gfx950"), Some(Verdict::Unsupported));
    assert_ne!(verdict(&newer, "gfx942a"), Some(Verdict::Supported));
    if let Some(newer) = &newer {
        // In the tables since 5.2, for the Windows runtime only.
        assert_eq!(ask(newer, "gfx909").reason, Reason::NotEnabled);
    }
    let counts = [
        ("libamdhip64-5_5.2.3-8_amd64", "libamdhip64.so.5", 25, "5.2"),
        ("libamdhip64-5_5.7.1-6+deb13u1_amd64", "libamdhip64.so.5", 33, "5.7"),
        ("libamdhip64-6_6.4.3-5_amd64", "libamdhip64.so.6", 36, "6.4"),
        ("libamdhip64-7_7.2.4-1~exp2_amd64", "libamdhip64.so.7", 35, "7.2"),
    ];
    for (package, name, targets, release) in counts {
        let Some(path) = file(package, name) else { continue };
        let library = scan(&path);
        assert_eq!((library.identity, library.tier, library.targets.len()), (Identity::Hip, Tier::Registry, targets), "{package}");
        assert_eq!(library.release.map(|release| release.version).as_deref(), Some(release));
    }
}

#[test]
fn s14_comgr_is_no_runtime() {
    let Some(comgr) = file("libamd-comgr3_7.2.4+dfsg-1~exp1_amd64", "libamd_comgr.so.3") else { return };
    assert_eq!(ask(&comgr, "gfx942").reason, Reason::NotRocr);
    assert_eq!(scan(&comgr).what.as_deref(), Some("the soname is libamd_comgr.so.3"));
}
