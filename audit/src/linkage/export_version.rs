//! Rule `export-version`.

use std::collections::BTreeMap;

use super::{Outcome, Rule, list};
use crate::finding::{Check, Severity};

/// The `DT_VERSYM` entry of a symbol without a node (1) that has the hidden bit: loaders pass over it.
const HIDDEN_BASE: u16 = 0x8001;

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "export-version",
        severity: Severity::Deny,
        what: "Exports carry no version node.",
        why: "An export with a node answers references that ask for exactly this node, and no others: a program that asks for hipMalloc@hip_4.2 gets the runtime's own function, without a word.",
        fix: "Export without versions: a version script without node names ({ global: …; local: *; };), and no .symver.",
        source: "glibc elf/dl-lookup.c; measured on glibc 2.31 to 2.44 and musl (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        for symbol in facts.exports().filter(|symbol| symbol.version_index == Some(HIDDEN_BASE)) {
            let message =
                format!("{} has no node and is hidden all the same: no reference is answered, and the runtime's own function runs", symbol.name);
            found.push(facts.found(&RULE.check, Outcome::LosesSilently, message).symbol(&*symbol.name));
        }
        let mut by_node: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for symbol in facts.exports() {
            if let Some(version) = facts.table.version(symbol) {
                by_node.entry(version.node).or_default().push(&symbol.name);
            }
        }
        for (node, mut names) in by_node {
            names.sort_unstable();
            let finding = if policy.is_family_node(node) {
                let message = format!(
                    "{} of node {node}: only references to this very node are answered, and which one importers ask for differs by symbol and release",
                    list(&names)
                );
                facts.found(&RULE.check, Outcome::Depends, message).severity(Severity::Warn)
            } else {
                let message = format!(
                    "{} of node {node}: references to a runtime's node are not answered, and the runtime's own function runs, without a word",
                    list(&names)
                );
                facts.found(&RULE.check, Outcome::LosesSilently, message)
            };
            let finding = if let [only] = names[..] { finding.symbol(only) } else { finding };
            found.push(finding.evidence("node", node).evidence("symbols", names));
        }
    },
};
