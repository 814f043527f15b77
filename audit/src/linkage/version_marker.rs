//! Rule `version-marker`.

use super::version_floor::blame;
use super::{Outcome, Rule, list};
use crate::finding::{Check, Severity};
use crate::manifest::glibc::{self, Node};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "version-marker",
        severity: Severity::Deny,
        what: "No version without a number is asked of glibc: neither GLIBC_PRIVATE nor GLIBC_ABI_DT_RELR and its kin.",
        why: "They are floors without a number, and no tool that sorts versions sees them. A glibc without the marker starts no program; a symbol of GLIBC_PRIVATE comes and goes with any update, and ends the program at load or at the call.",
        fix: "Each marker has the option that keeps it out: see manifests/glibc/versions.json, or the finding.",
        source: "manifests/glibc/versions.json; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        for requirement in facts.glibc_requirements().filter(|requirement| Node::parse(&requirement.version).is_none()) {
            let version = requirement.version.as_str();
            let Some(marker) = policy.glibc.marker(version) else {
                let message = format!("{version} of {} is no version that any known glibc defines: no program starts", requirement.file);
                found.push(blame(facts, requirement, facts.found(&RULE.check, Outcome::StopsEveryProgram, message)));
                continue;
            };
            let Some(since) = &marker.since else {
                let names: Vec<&str> = facts.causes(requirement).map(|import| import.name).collect();
                let message = format!(
                    "{version}, because of {}: {}. Put there by {}; kept out by {}",
                    list(&names),
                    marker.meaning,
                    marker.caused_by,
                    marker.avoided_by
                );
                let outcome = facts.causes(requirement).map(super::Import::when_missing).max().unwrap_or(Outcome::Depends);
                found.push(blame(facts, requirement, facts.found(&RULE.check, outcome, message)));
                continue;
            };
            let allowed = policy.max_versions.get("GLIBC").is_none_or(|limit| glibc::compare(since, limit).is_le());
            let backports = if marker.backports.is_empty() {
                String::new()
            } else {
                format!(" (some distributions have it in {})", list(&marker.backports.iter().map(String::as_str).collect::<Vec<_>>()))
            };
            let message = format!(
                "{version} of {} exists since glibc {since}{backports}; with an older one no program starts. It stands for {}. Put there by {}; kept out by {}",
                requirement.file, marker.meaning, marker.caused_by, marker.avoided_by
            );
            let finding = facts.found(&RULE.check, Outcome::StopsEveryProgram, message).evidence("since", since.as_str());
            let finding = if allowed { finding.severity(Severity::Note) } else { finding };
            found.push(blame(facts, requirement, finding));
        }
    },
};
