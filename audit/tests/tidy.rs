//! The repository's own rules: arrows point one way, one crate reads ELF, files stay readable.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// What each module of the library may name, from the ground up. `commands` and `cli` stand on top and may name everything.
const FLOORS: &[(&str, &[&str])] = &[
    ("root", &[]),
    ("archive", &["root", "parallel"]),
    ("elf", &[]),
    ("finding", &[]),
    ("manifest", &[]),
    ("parallel", &[]),
    ("code", &["elf", "parallel"]),
    ("loader", &["root", "elf", "manifest", "finding"]),
    ("coverage", &["elf", "loader", "manifest", "code", "finding"]),
    ("evidence", &["elf", "loader", "manifest", "code", "finding"]),
    ("linkage", &["elf", "loader", "manifest", "code", "finding"]),
    ("gfx", &["elf", "loader", "manifest", "code", "finding"]),
    ("consumers", &["elf", "loader", "manifest", "code", "finding"]),
    ("bindings", &["elf", "loader", "manifest", "finding"]),
    ("diff", &["coverage", "evidence", "linkage", "manifest", "finding"]),
    ("gate", &["diff", "coverage", "linkage", "gfx", "manifest", "finding"]),
    ("report", &["loader", "gate", "diff", "bindings", "consumers", "coverage", "evidence", "linkage", "gfx", "manifest", "finding", "elf"]),
    ("cli", &["report", "manifest", "gfx"]),
    (
        "commands",
        &[
            "root",
            "parallel",
            "archive",
            "cli",
            "report",
            "gate",
            "diff",
            "bindings",
            "consumers",
            "coverage",
            "evidence",
            "linkage",
            "gfx",
            "manifest",
            "loader",
            "finding",
            "elf",
        ],
    ),
];

/// Longest file of the library that is still one idea, in lines.
const MOST_LINES: usize = 600;

#[derive(Default)]
struct Paths {
    seen: BTreeSet<(String, Option<String>)>,
}

impl Paths {
    fn add<'a>(&mut self, mut segments: impl Iterator<Item = &'a syn::Ident>) {
        if let Some(first) = segments.next() {
            self.seen.insert((first.to_string(), segments.next().map(ToString::to_string)));
        }
    }

    fn add_tree(&mut self, before: &[syn::Ident], tree: &syn::UseTree) {
        let mut path = before.to_vec();
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.clone());
                self.add_tree(&path, &step.tree);
            }
            syn::UseTree::Name(name) => {
                path.push(name.ident.clone());
                self.add(path.iter());
            }
            syn::UseTree::Rename(name) => {
                path.push(name.ident.clone());
                self.add(path.iter());
            }
            syn::UseTree::Glob(_) => self.add(path.iter()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(before, item)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(&[], &item.tree);
        // A crate that is named alone, as no variable is.
        if let syn::UseTree::Name(syn::UseName { ident }) | syn::UseTree::Rename(syn::UseRename { ident, .. }) = &item.tree {
            self.seen.insert((ident.to_string(), Some("self".to_string())));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path.segments.iter().map(|segment| &segment.ident));
        syn::visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        // Unit tests may look further than the code they stand beside.
        if module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }
}

/// Names a source file mentions in code, as (first segment, second segment). Comments and strings are no code.
fn names(source: &str) -> BTreeSet<(String, Option<String>)> {
    let mut paths = Paths::default();
    paths.visit_file(&syn::parse_file(source).expect("Rust"));
    paths.seen
}

/// What a file of `module` names and must not.
fn strangers(module: &str, source: &str) -> Vec<String> {
    let allowed = FLOORS.iter().find(|(name, _)| *name == module).map_or(&[][..], |(_, allowed)| allowed);
    let modules: Vec<&str> = FLOORS.iter().map(|(name, _)| *name).collect();
    let mut strangers = Vec::new();
    for (first, second) in names(source) {
        if first == "object" && second.is_some() && module != "elf" {
            strangers.push("the ELF crate".to_string());
        }
        if let ("crate", Some(named)) = (first.as_str(), second)
            && modules.contains(&named.as_str())
            && named != module
            && !allowed.contains(&named.as_str())
        {
            strangers.push(named);
        }
    }
    strangers
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn arrows_point_one_way_and_files_stay_readable() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 20, "only {} sources found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(&file).expect("readable");
        let relative = file.strip_prefix(&root).expect("below");
        let first = relative.components().next().expect("a name").as_os_str().to_string_lossy();
        let module = first.strip_suffix(".rs").unwrap_or(&first);
        assert!(FLOORS.iter().any(|(name, _)| *name == module) || ["lib", "main", "bin"].contains(&module), "{module} has no floor: name one");
        if !["lib", "main", "bin"].contains(&module) {
            wrong.extend(strangers(module, &source).into_iter().map(|stranger| format!("{}: names {stranger}", relative.display())));
        }
        let lines = source.lines().count();
        if lines > MOST_LINES {
            wrong.push(format!("{}: {lines} lines", relative.display()));
        }
        if !source.starts_with("//!") {
            wrong.push(format!("{}: no head that says what it knows", relative.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_rule_sees_code_and_only_code() {
    assert_eq!(strangers("coverage", "use crate::linkage::Rule;"), ["linkage"]);
    assert_eq!(strangers("gfx", "fn f() { crate::coverage::audit() }"), ["coverage"]);
    assert_eq!(strangers("loader", "use {std::fmt, crate::{elf::Elf, report::Report}};"), ["report"]);
    assert_eq!(strangers("coverage", "use object::elf;"), ["the ELF crate"]);
    assert_eq!(strangers("coverage", "use object as o;"), ["the ELF crate"]);
    assert_eq!(strangers("coverage", "fn f() { object::elf::f() }"), ["the ELF crate"]);
    assert!(strangers("coverage", "fn f(object: u8) -> u8 { object }").is_empty());
    assert!(strangers("coverage", "// use crate::linkage\nconst S: &str = \"use object::elf; crate::linkage::x\"; use crate::elf::Elf;").is_empty());
    assert!(strangers("elf", "use object::elf;").is_empty());
}

#[test]
fn the_architecture_note_stays_short() {
    let note = std::fs::read_to_string("../docs/ARCHITECTURE.md").expect("docs/ARCHITECTURE.md");
    assert!(note.lines().count() <= 80, "{} lines", note.lines().count());
}
