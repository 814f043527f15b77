//! Whether a shim loads everywhere, and what it imposes on every process when it does.
//!
//! A preload is in every process of a container, so a fault of its linkage is a fault of them all: some stop every program, some make the loader leave
//! the shim out so that no quota holds, some wait for a call. Each rule says which; what the loaders do was measured
//! (`docs/measurements/loader-outcomes.md`).
//!
//! [`facts`] is read once, then every rule of [`RULES`] looks at it: one file per rule, named by the rule's id. To add one, write the file, add a
//! line to the registry and a fixture under `fixtures/linkage/<id>/`; a test demands it. [`policy`] has the settings, [`systems`] the
//! verdict for each distribution.

mod audit_filter;
mod byte_order;
mod dynamic_flags;
mod elf_ident;
mod exec_stack;
mod export_set;
mod export_version;
pub mod facts;
mod file_type;
mod init_functions;
mod isa_level;
mod machine;
mod needed_list;
mod needed_missing;
mod needed_unused;
mod packed_relocations;
pub mod policy;
mod relocations;
mod relro;
mod rpath;
mod runpath;
mod segments;
mod soname;
mod static_tls;
pub mod systems;
mod text_relocations;
mod undefined_provider;
mod undefined_runtime;
mod version_floor;
mod version_marker;
mod version_weak;
mod word_size;

use std::collections::BTreeMap;

use serde::Serialize;

pub use facts::{Bound, Facts, Import};
pub use policy::Policy;
pub use systems::LoadsOn;

use crate::elf::{Binding, Elf, Kind, Result, Symbol, Visibility};
use crate::finding::{self, Check, Finding};
use crate::manifest::InterposedList;
use crate::manifest::glibc::{self, Node};

/// What a fault does to the processes of a container. Ordered: later is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Nothing today.
    Nothing,
    /// It hangs on what else is in the process or on the system.
    Depends,
    /// `dlopen` refuses the library; a preload works.
    RefusedByDlopen,
    /// Every process gets something it did not ask for.
    ImposedOnAll,
    /// Programs start, and end when they make the call.
    KillsTheCall,
    /// The loader prints a message, leaves the shim out, and runs the program: no quota.
    LosesTheShim,
    /// The shim is loaded and the runtime's own function runs, without a word: no quota.
    LosesSilently,
    /// No program of the container starts.
    StopsEveryProgram,
}

impl Outcome {
    /// The word that JSON uses, in a finding's evidence under `outcome`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Depends => "depends",
            Self::RefusedByDlopen => "refused-by-dlopen",
            Self::ImposedOnAll => "imposed-on-all",
            Self::KillsTheCall => "kills-the-call",
            Self::LosesTheShim => "loses-the-shim",
            Self::LosesSilently => "loses-silently",
            Self::StopsEveryProgram => "stops-every-program",
        }
    }
}

/// A rule: its text and its code.
#[derive(Debug)]
pub struct Rule {
    /// Id, severity and texts.
    pub check: Check,
    /// Looks at the facts and adds what it finds.
    pub run: fn(&Facts<'_>, &Policy, &mut Vec<Finding>),
}

/// All rules, by id.
pub static RULES: &[&Rule] = &[
    &audit_filter::RULE,
    &byte_order::RULE,
    &dynamic_flags::RULE,
    &elf_ident::RULE,
    &exec_stack::RULE,
    &export_set::RULE,
    &export_version::RULE,
    &file_type::RULE,
    &init_functions::RULE,
    &isa_level::RULE,
    &machine::RULE,
    &needed_list::RULE,
    &needed_missing::RULE,
    &needed_unused::RULE,
    &packed_relocations::RULE,
    &relocations::RULE,
    &relro::RULE,
    &rpath::RULE,
    &runpath::RULE,
    &segments::RULE,
    &soname::RULE,
    &static_tls::RULE,
    &text_relocations::RULE,
    &undefined_provider::RULE,
    &undefined_runtime::RULE,
    &version_floor::RULE,
    &version_marker::RULE,
    &version_weak::RULE,
    &word_size::RULE,
];

/// The rule of an id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.binary_search_by(|rule| rule.check.id.cmp(id)).ok().map(|at| RULES[at])
}

/// One audited library: the facts as the report shows them.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// The file as the user named it.
    pub file: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// GNU build-id.
    pub build_id: Option<String>,
    /// `x86_64`, `aarch64`, …
    pub machine: String,
    /// What it was judged as.
    pub policy: String,
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// What it asks of others.
    pub requirements: Vec<Required>,
    /// The highest version asked for, by namespace; numbers without it.
    pub floors: BTreeMap<String, String>,
    /// Undefined symbols, by name.
    pub imports: Vec<Imported>,
    /// Exports, by name.
    pub exports: Vec<Exported>,
    /// Whether it loads, for every system of the table.
    pub loads_on: Vec<LoadsOn>,
}

/// One version asked of one file.
#[derive(Debug, Clone, Serialize)]
pub struct Required {
    /// The file.
    pub file: String,
    /// The version.
    pub version: String,
    /// True if the loader only warns when it is missing.
    pub weak: bool,
    /// The symbols that ask for it.
    pub symbols: Vec<String>,
}

/// One undefined symbol.
#[derive(Debug, Clone, Serialize)]
pub struct Imported {
    /// Name without version.
    pub name: String,
    /// The version it asks for.
    pub version: Option<String>,
    /// True if it may stay without a definition.
    pub weak: bool,
    /// `at-load`, `at-call` or `never`.
    pub bound: &'static str,
}

/// One export.
#[derive(Debug, Clone, Serialize)]
pub struct Exported {
    /// Name without version.
    pub name: String,
    /// Version node.
    pub node: Option<String>,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Global, weak or unique.
    pub binding: Binding,
    /// Who may see it.
    pub visibility: Visibility,
}

/// Audits one library. `expected` is the exact set of its exports; the policy's own where absent, and none where both are.
pub fn audit(image: &Elf, policy: &Policy, expected: Option<&InterposedList>) -> Result<(Subject, Vec<Finding>)> {
    let names = image.names()?;
    let table = image.symbols()?;
    let facts = Facts::read(image, &names, &table, expected.or(policy.exports.as_ref()))?;
    let mut findings = Vec::new();
    for rule in RULES {
        let before = findings.len();
        (rule.run)(&facts, policy, &mut findings);
        for finding in &mut findings[before..] {
            policy.weigh(finding, rule.check.severity);
        }
    }
    finding::sort(&mut findings);
    let subject = describe(&facts, policy, &findings)?;
    Ok((subject, findings))
}

fn describe(facts: &Facts<'_>, policy: &Policy, findings: &[Finding]) -> Result<Subject> {
    let mut floors: BTreeMap<String, String> = BTreeMap::new();
    let mut requirements = Vec::new();
    for requirement in &facts.table.versions.requirements {
        let symbols = facts.causes(requirement).map(|import| import.name.to_string()).collect();
        requirements.push(Required { file: requirement.file.clone(), version: requirement.version.clone(), weak: requirement.weak, symbols });
        // A GLIBC_* node of a library that is no part of glibc says nothing about the release of glibc.
        let Some(node) = Node::parse(&requirement.version).filter(|node| node.namespace != "GLIBC" || glibc::is_glibc(&requirement.file)) else {
            continue;
        };
        let highest = floors.entry(node.namespace.into()).or_insert_with(|| node.number.into());
        if glibc::compare(node.number, highest).is_gt() {
            *highest = node.number.into();
        }
    }
    let mut imports: Vec<&Import<'_>> = facts.imports.iter().collect();
    imports.sort_unstable_by_key(|import| (import.name, import.version));
    let imports = imports.iter().map(|import| Imported {
        name: import.name.into(),
        version: import.version.map(Into::into),
        weak: import.weak,
        bound: import.bound.word(),
    });
    let mut exports: Vec<(&str, Option<&str>, &Symbol<'_>)> =
        facts.exports().map(|symbol| (&*symbol.name, facts.table.version(symbol).map(|version| version.node), symbol)).collect();
    exports.sort_unstable_by_key(|&(name, node, _)| (name, node));
    let exports = exports.iter().map(|(name, node, symbol)| Exported {
        name: (*name).into(),
        node: node.map(Into::into),
        kind: symbol.kind,
        binding: symbol.binding,
        visibility: symbol.visibility,
    });
    Ok(Subject {
        file: facts.image.file().into(),
        soname: facts.names.soname.clone(),
        build_id: facts.image.build_id()?,
        machine: facts.machine.clone(),
        policy: policy.title.clone(),
        needed: facts.names.needed.clone(),
        requirements,
        floors,
        imports: imports.collect(),
        exports: exports.collect(),
        loads_on: systems::judge(facts, &policy.glibc, findings),
    })
}

/// `a, b and c`, the rest counted where there are many.
fn list(items: &[&str]) -> String {
    const SHOWN: usize = 6;
    match items {
        [] => "nothing".into(),
        [one] => (*one).into(),
        [most @ .., last] if items.len() <= SHOWN => format!("{} and {last}", most.join(", ")),
        _ => format!("{} and {} more", items[..SHOWN].join(", "), items.len() - SHOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_by_id() {
        assert!(RULES.is_sorted_by(|a, b| a.check.id < b.check.id));
        for one in RULES {
            assert!(std::ptr::eq(rule(one.check.id).expect("found by its id"), *one));
        }
    }

    #[test]
    fn lists_are_short() {
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(list(&["1", "2", "3", "4", "5", "6"]), "1, 2, 3, 4, 5 and 6");
        assert_eq!(list(&["1", "2", "3", "4", "5", "6", "7", "8"]), "1, 2, 3, 4, 5, 6 and 2 more");
    }
}
