//! Rule `version-floor`.

use super::facts::Facts;
use super::policy::Policy;
use super::{Outcome, Rule, list, systems};
use crate::elf::Requirement;
use crate::finding::{Check, Finding, Severity};
use crate::manifest::glibc::{self, Libc, Node};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "version-floor",
        severity: Severity::Deny,
        what: "No version asked of a library is above the policy's limit for its namespace, and each is one that exists.",
        why: "The loader checks every requirement before a program starts: where the version is missing, no program of the container starts. That the symbol is weak does not matter; the requirement is not.",
        fix: "Link against a stub libc.so.6 that has only old versions, or pin the symbol with .symver where the old version has it; do without the rest.",
        source: "glibc elf/dl-version.c; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        for requirement in facts.table.versions.requirements.iter().filter(|requirement| !requirement.weak) {
            let Some(node) = Node::parse(&requirement.version) else { continue };
            // GLIBC_* are releases of glibc in glibc's own libraries alone.
            if node.namespace == "GLIBC" && !glibc::is_glibc(&requirement.file) {
                continue;
            }
            if node.namespace == "GLIBC" && exists_nowhere(facts, policy, node.number) {
                let message = format!(
                    "{} of {} exists in no {} release of glibc: no program starts anywhere",
                    requirement.version, requirement.file, facts.machine
                );
                found.push(blame(facts, requirement, facts.found(&RULE.check, Outcome::StopsEveryProgram, message)));
                continue;
            }
            let Some(limit) = policy.max_versions.get(node.namespace) else { continue };
            if glibc::compare(node.number, limit).is_gt() {
                found.push(above(facts, policy, requirement, node, limit));
            }
        }
    },
};

/// True for a number that no release of glibc defines on the file's machine.
pub(super) fn exists_nowhere(facts: &Facts<'_>, policy: &Policy, number: &str) -> bool {
    let machine = &facts.machine;
    policy.glibc.base(machine).is_some_and(|base| glibc::compare(number, base).is_lt()) || !policy.glibc.may_exist(machine, number)
}

fn above(facts: &Facts<'_>, policy: &Policy, requirement: &Requirement, node: Node<'_>, limit: &str) -> Finding {
    let machine = &facts.machine;
    let (version, file) = (&requirement.version, &requirement.file);
    if node.namespace == "GLIBC" && policy.glibc.base(machine).is_some_and(|base| glibc::compare(base, node.number).is_eq()) {
        // The limit is a statement about another machine: here nothing lower exists.
        let message = format!("{version} of {file} is above {}_{limit}, and is the lowest version there is on {machine}", node.namespace);
        return blame(facts, requirement, facts.found(&RULE.check, Outcome::Nothing, message).severity(Severity::Note));
    }
    let causes: Vec<String> =
        facts.causes(requirement).map(|import| if import.weak { format!("{} (weak)", import.name) } else { import.name.into() }).collect();
    let names: Vec<&str> = causes.iter().map(String::as_str).collect();
    let because = if names.is_empty() { "no symbol carries it".to_string() } else { format!("because of {}", list(&names)) };
    let weak = if !names.is_empty() && facts.causes(requirement).all(|import| import.weak) {
        "; a weak symbol does not make a weak requirement"
    } else {
        ""
    };
    let mut message = format!("{version} of {file} is above {}_{limit}, {because}{weak}", node.namespace);
    let mut finding = facts.found(&RULE.check, Outcome::StopsEveryProgram, "");
    if node.namespace == "GLIBC" {
        let key = glibc::sort_key(node.number).unwrap_or(u64::MAX);
        let lacks = |system: &&glibc::System| system.libc == Libc::Glibc && system.key < key;
        let fails_on: Vec<&glibc::System> = policy.glibc.systems.iter().filter(lacks).collect();
        if !fails_on.is_empty() {
            message.push_str(". No program starts on ");
            message.push_str(&systems::name_some(&fails_on));
        }
        finding = finding.evidence("fails_on", fails_on.iter().map(|system| system.name.as_str()).collect::<Vec<_>>());
    } else {
        message.push_str(". Where the library is older, no program starts");
    }
    finding.message = message;
    blame(facts, requirement, finding)
}

/// Adds the symbols that cause a requirement.
pub(super) fn blame(facts: &Facts<'_>, requirement: &Requirement, finding: Finding) -> Finding {
    let symbols: Vec<&str> = facts.causes(requirement).map(|import| import.name).collect();
    let finding = finding.evidence("file", requirement.file.as_str()).evidence("version", requirement.version.as_str());
    let finding = match symbols.as_slice() {
        &[only] => finding.symbol(only),
        _ => finding,
    };
    finding.evidence("symbols", symbols)
}
