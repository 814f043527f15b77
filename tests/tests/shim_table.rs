//! The table of entry points, its list in the manifests, and what the library exports are one and the same.

use std::collections::BTreeSet;

use vrocm_audit::elf::Elf;
use vrocm_core::interpose::TABLE;
use vrocm_tests::shim;

/// What the library exports besides the rows: look-ups of the loader.
const BESIDES: [&str; 2] = ["dlsym", "dlvsym"];

fn listed() -> Vec<(String, String)> {
    let text = include_str!("../../manifests/interposed.json");
    let field = |line: &str, key: &str| line.split(&format!("\"{key}\": \"")).nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned);
    text.lines().filter_map(|line| Some((field(line, "name")?, field(line, "action")?))).collect()
}

#[test]
fn the_list_in_the_manifests_is_the_table() {
    let mut rows: Vec<(String, String)> = TABLE.iter().map(|row| (row.name.to_owned(), row.action.word().to_owned())).collect();
    rows.extend(BESIDES.map(|name| (name.to_owned(), "hand-out".to_owned())));
    rows.sort();
    assert_eq!(listed(), rows, "cargo run -q -p vrocm-core --example interposed > manifests/interposed.json");
}

#[test]
fn the_library_exports_the_table_and_no_name_besides() {
    let image = Elf::open(shim::library()).unwrap();
    let symbols = image.symbols().unwrap();
    let exports: BTreeSet<String> = symbols.exports().map(|symbol| symbol.name.to_string()).collect();
    let wanted: BTreeSet<String> = TABLE.iter().map(|row| row.name).chain(BESIDES).map(str::to_owned).collect();
    assert_eq!(exports, wanted);
}

#[test]
fn no_name_comes_twice() {
    let names: BTreeSet<&str> = TABLE.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), TABLE.len());
}
