//! The unpacked packages that `scripts/corpus.sh` makes.

use std::path::PathBuf;

/// A package by the start of its folder's name: `libamdhip64-5_5.2.3-`.
pub type Package = &'static str;

/// `$VROCM_CORPUS`, or `.corpus` in the checkout.
pub fn root() -> PathBuf {
    std::env::var_os("VROCM_CORPUS").map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.corpus")), PathBuf::from)
}

/// The folder of a package, the last by name when several begin so.
pub fn package(name: Package) -> Option<PathBuf> {
    let entries = std::fs::read_dir(root()).ok()?;
    let mut found: Vec<PathBuf> =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(name)).map(|entry| entry.path()).collect();
    found.sort();
    found.pop()
}

/// True while `VROCM_REQUIRE=all` is set: a package that is not there fails the test.
pub fn is_demanded() -> bool {
    std::env::var_os("VROCM_REQUIRE").is_some_and(|value| value == "all")
}

/// Says on standard error that something is not tested, and why.
///
/// # Panics
///
/// While [`is_demanded`].
pub fn not_tested(why: &str) {
    assert!(!is_demanded(), "{why}");
    eprintln!("not tested: {why}");
}

/// What to say when packages are not there.
pub fn missing(what: &str, packages: &[Package]) -> String {
    format!("{what}: not in {}: {}; scripts/corpus.sh gets them (VROCM_CORPUS names another folder)", root().display(), packages.join(", "))
}
