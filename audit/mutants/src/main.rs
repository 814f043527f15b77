//! Puts every mutant of some of the auditor's modules into one copy of its sources, each behind a switch, so that all are built at once.
//!
//! `vrocm-mutants ORIGINAL COPY STATE MODULE...`: reads `ORIGINAL/MODULE/**.rs`, writes the same files below COPY, and in the folder STATE `mutants.json` (what
//! each number changes) and `places.json` (which bytes of the copy belong to which numbers). Numbers in `STATE/unviable.json` do not compile: they are left out.
//! The copy asks `STATE/active` which mutant is on; `scripts/mutate-audit.py` drives all of it.

mod edit;
mod mutate;
mod values;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::json;

/// What every copy gets as `crate::mutant`.
const SWITCH: &str = include_str!("switch.rs");

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Unit variants of all enums of the sources.
fn enums(files: &[PathBuf]) -> Result<values::Enums> {
    struct Seen(values::Enums);
    impl<'ast> syn::visit::Visit<'ast> for Seen {
        fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
            let units = item.variants.iter().filter(|variant| variant.fields.is_empty()).map(|variant| variant.ident.to_string()).collect();
            self.0.insert(item.ident.to_string(), units);
        }
    }
    let mut seen = Seen(values::Enums::new());
    for file in files {
        syn::visit::Visit::visit_file(&mut seen, &syn::parse_file(&std::fs::read_to_string(file)?)?);
    }
    Ok(seen.0)
}

/// Written only where it changes, so that nothing is built twice.
fn write(path: &Path, text: &str) -> Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [original, copy, state, modules @ ..] = arguments.as_slice() else { bail!("usage: vrocm-mutants ORIGINAL COPY STATE MODULE...") };
    let skipped: BTreeSet<u32> = match std::fs::read_to_string(state.join("unviable.json")) {
        Ok(text) => serde_json::from_str::<Vec<u32>>(&text)?.into_iter().collect(),
        Err(_) => BTreeSet::new(),
    };
    let mut all = Vec::new();
    sources(original, &mut all)?;
    let enums = enums(&all)?;
    let mut mutator = mutate::Mutator::new(&enums, &skipped);
    let mut places = Vec::new();
    for path in all.iter().filter(|path| modules.iter().any(|module| path.starts_with(original.join(module)))) {
        let name = path.strip_prefix(original)?.to_string_lossy().into_owned();
        let edits = mutator.file(&name, &std::fs::read_to_string(path)?).with_context(|| name.clone())?;
        let (text, of_file) = edits.apply(&std::fs::read_to_string(path)?);
        places.extend(of_file.into_iter().map(|place| json!([name, place.range.start, place.range.end, place.mutants])));
        write(&copy.join(&name), &text)?;
    }
    let switch = SWITCH.replace("{STATE}", &state.canonicalize()?.to_string_lossy());
    write(&copy.join("mutant.rs"), &switch)?;
    let library = std::fs::read_to_string(original.join("lib.rs"))?;
    write(&copy.join("lib.rs"), &format!("{library}\n#[doc(hidden)]\npub mod mutant;\n"))?;
    let mutants: Vec<_> = mutator
        .mutants
        .iter()
        .map(|mutant| json!({ "number": mutant.number, "site": mutant.site, "file": mutant.file, "line": mutant.line, "within": mutant.within, "change": mutant.change }))
        .collect();
    std::fs::write(state.join("mutants.json"), serde_json::to_string(&json!({ "mutants": mutants, "constant": mutator.constant }))?)?;
    std::fs::write(state.join("places.json"), serde_json::to_string(&places)?)?;
    Ok(())
}
