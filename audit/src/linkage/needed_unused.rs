//! Rule `needed-unused`.

use super::{Outcome, Rule};
use crate::finding::{Check, Severity};
use crate::manifest::glibc;

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "needed-unused",
        severity: Severity::Warn,
        what: "Something is bound to every allowed library in DT_NEEDED.",
        why: "A library that nothing is bound to is loaded into every process for nothing, and is one more file whose absence stops them all.",
        fix: "Link with --as-needed.",
        source: "gABI, shared object dependencies; ld(1), --as-needed",
    },
    run: |facts, policy, found| {
        for name in facts.names.needed.iter().filter(|name| policy.needed.allowed.contains(name)) {
            let required = facts.table.versions.requirements.iter().any(|requirement| requirement.file == **name);
            // Without versions nobody can tell which library a symbol is meant to come from, unless glibc's lists know it.
            let unversioned = |import: &super::Import<'_>| {
                import.version.is_none() && !import.made_by_compiler() && (!glibc::is_glibc(name) || import.providers.in_library(name))
            };
            if required || facts.imports.iter().any(unversioned) {
                continue;
            }
            // libc.so.6 is in every process already.
            let (severity, effect) =
                if name == "libc.so.6" { (Severity::Note, "harmless") } else { (Severity::Warn, "loaded into every process for nothing") };
            let message = format!("{name} is needed, and nothing is bound to it: {effect}");
            let outcome = if severity == Severity::Note { Outcome::Nothing } else { Outcome::ImposedOnAll };
            found.push(facts.found(&RULE.check, outcome, message).severity(severity).evidence("name", name.as_str()));
        }
    },
};
