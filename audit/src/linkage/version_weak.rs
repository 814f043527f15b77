//! Rule `version-weak`.

use super::version_floor::blame;
use super::{Outcome, Rule};
use crate::finding::{Check, Severity};
use crate::manifest::glibc::{self, Node};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "version-weak",
        severity: Severity::Warn,
        what: "No weak requirement (VER_FLG_WEAK) is above the policy's limit while a strong symbol depends on it.",
        why: "Where the version is missing the loader only warns, in every process, and goes on; a strong symbol of that version then stops the program at load, or ends it at the call.",
        fix: "Make the symbols weak as well and test them, or do without them.",
        source: "gABI supplement, Elf_Vernaux; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        for requirement in facts.table.versions.requirements.iter().filter(|requirement| requirement.weak) {
            let above = match Node::parse(&requirement.version) {
                Some(node) => policy.max_versions.get(node.namespace).is_some_and(|limit| glibc::compare(node.number, limit).is_gt()),
                None => false,
            };
            if !above {
                continue;
            }
            let outcome = facts.causes(requirement).map(super::Import::when_missing).max().unwrap_or(Outcome::Nothing);
            let (severity, effect) = match outcome {
                Outcome::StopsEveryProgram => (Severity::Deny, "a strong symbol of it is bound at load, so no program starts"),
                Outcome::KillsTheCall => (Severity::Warn, "programs start with a warning, and end when they call a strong symbol of it"),
                _ => (Severity::Note, "programs start with a warning, and its weak symbols stay without a definition"),
            };
            let message = format!("{} of {} is a weak requirement: where it is missing, {effect}", requirement.version, requirement.file);
            found.push(blame(facts, requirement, facts.found(&RULE.check, outcome, message).severity(severity)));
        }
    },
};
