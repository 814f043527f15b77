//! Prints `manifests/interposed.json`: what each export of libvrocm.so does, from the table of entry points.
//!
//! `cargo run -q -p vrocm-core --example interposed > manifests/interposed.json`

use vrocm_core::interpose::{Action, TABLE};

fn main() {
    let mut rows: Vec<(&str, &str)> = TABLE.iter().map(|row| (row.name, row.action.word())).collect();
    // The loader's own look-ups have no row: they are of no runtime.
    rows.extend(["dlsym", "dlvsym"].map(|name| (name, Action::HandOut.word())));
    rows.sort_unstable();
    let lines: Vec<String> = rows.iter().map(|(name, action)| format!("{{\"name\": \"{name}\", \"action\": \"{action}\"}}")).collect();
    println!("{{\n\"schema_version\": 1,\n\"title\": \"libvrocm.so\",\n\"exports\": [\n{}\n]\n}}", lines.join(",\n"));
}
