//! Rule `audit-filter`.

use super::{Outcome, Rule};
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "audit-filter",
        severity: Severity::Deny,
        what: "The library has no filter, auxiliary or audit tag.",
        why: "A filter hands the shim's names to another library: where that library defines hipMalloc, it answers instead of the shim, and a missing filtee stops every program. Audit tags load a second library into the loader, or are passed over.",
        fix: "Link without -F, -f, --filter, --auxiliary, --audit and -P.",
        source: "Measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md); Solaris Linker and Libraries Guide, filters; ld(1)",
    },
    run: |facts, _, found| {
        for linked in &facts.names.linked {
            let (outcome, effect) = match linked.tag {
                "DT_FILTER" => (
                    Outcome::StopsEveryProgram,
                    "where it is missing no program starts, and where it is there its definitions are taken instead of the shim's own",
                ),
                "DT_AUXILIARY" => (Outcome::LosesSilently, "where it is there, its definitions are taken instead of the shim's own, without a word"),
                _ => (
                    Outcome::Depends,
                    "glibc passes over the tag of a preload; a program linked against the library inherits it, and loads the auditor",
                ),
            };
            let message = format!("{} names {}: {effect}", linked.tag, linked.name);
            found.push(facts.found(&RULE.check, outcome, message).evidence("tag", linked.tag).evidence("name", linked.name.as_str()));
        }
    },
};
