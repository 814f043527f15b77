//! Rule `needed-list`.

use super::facts::Facts;
use super::policy::Policy;
use super::{Outcome, Rule, list};
use crate::finding::{Check, Finding, Severity};
use crate::manifest::glibc;

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "needed-list",
        severity: Severity::Deny,
        what: "DT_NEEDED holds the libraries that the policy allows, spelt so and in that order, and no others.",
        why: "A needed library that is missing stops every program of the container; one that is there is loaded into all of them. A name with a slash is opened as a path.",
        fix: "Link with --as-needed, without the language's runtime, and against a library whose soname is the bare name.",
        source: "gABI, shared object dependencies; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        check_names(facts, policy, found);
        check_order(facts, policy, found);
        if policy.needed.exact {
            for missing in policy.needed.allowed.iter().filter(|name| !facts.names.needed.contains(name)) {
                let message = format!("{missing} is not needed, and the policy demands it");
                found.push(facts.found(&RULE.check, Outcome::Depends, message).evidence("name", missing.as_str()));
            }
        }
    },
};

fn check_names(facts: &Facts<'_>, policy: &Policy, found: &mut Vec<Finding>) {
    for (index, name) in facts.names.needed.iter().enumerate() {
        if facts.names.needed[..index].contains(name) {
            let message = format!("{name} is needed twice");
            found.push(facts.found(&RULE.check, Outcome::Nothing, message).severity(Severity::Warn).evidence("name", name.as_str()));
            continue;
        }
        if policy.needed.allowed.contains(name) {
            continue;
        }
        let bound = bound_to(facts, name);
        let names: Vec<&str> = bound.iter().map(String::as_str).collect();
        let use_of_it = if bound.is_empty() { "nothing is bound to it".to_string() } else { format!("bound to it: {}", list(&names)) };
        let what = if name.is_empty() {
            "an empty name".to_string()
        } else if let Some((_, base)) = name.rsplit_once('/') {
            format!("{name} is a path, not {base}: it is opened as it stands, from the directory of each process if it is relative")
        } else {
            format!("{name} is not among the allowed {}", list(&policy.needed.allowed.iter().map(String::as_str).collect::<Vec<_>>()))
        };
        let everywhere = glibc::is_glibc(name) && !name.contains('/');
        let effect = if everywhere { "it is loaded into every process" } else { "where it is missing, no program starts" };
        let outcome = if everywhere { Outcome::ImposedOnAll } else { Outcome::StopsEveryProgram };
        let message = format!("{what}; {use_of_it}; {effect}");
        found.push(facts.found(&RULE.check, outcome, message).evidence("name", name.as_str()).evidence("bound", bound));
    }
}

/// The allowed ones, in the order of the policy.
fn check_order(facts: &Facts<'_>, policy: &Policy, found: &mut Vec<Finding>) {
    let place = |name: &String| policy.needed.allowed.iter().position(|allowed| allowed == name);
    let places: Vec<usize> = facts.names.needed.iter().filter_map(place).collect();
    if !places.is_sorted() {
        let message =
            format!("{} stand in another order than the policy's: names are looked up in the order of DT_NEEDED", facts.names.needed.join(", "));
        found.push(facts.found(&RULE.check, Outcome::Depends, message));
    }
}

/// The symbols whose version is asked of this library, the versions that no symbol carries, and the unversioned symbols that glibc keeps there.
fn bound_to(facts: &Facts<'_>, name: &str) -> Vec<String> {
    let mut bound = Vec::new();
    for requirement in facts.table.versions.requirements.iter().filter(|requirement| requirement.file == name) {
        let before = bound.len();
        bound.extend(facts.causes(requirement).map(super::Import::shown));
        if bound.len() == before {
            bound.push(requirement.version.clone());
        }
    }
    let unversioned = facts.imports.iter().filter(|import| import.version.is_none());
    bound.extend(unversioned.filter(|import| import.providers.in_library(name)).map(super::Import::shown));
    bound
}
