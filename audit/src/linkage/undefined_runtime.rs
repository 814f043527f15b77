//! Rule `undefined-runtime`.

use std::collections::BTreeMap;

use super::{Import, Outcome, Rule, list};
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "undefined-runtime",
        severity: Severity::Deny,
        what: "The library imports nothing of a GPU runtime.",
        why: "Most processes of a container have no runtime: a strong reference bound at load stops them all, one bound late ends the program at the call. In a process with one, the reference can be bound to the shim itself.",
        fix: "Find the runtime's function at run time, among the libraries that are loaded (dl_iterate_phdr).",
        source: "Measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md); names: manifests/<family>/classes.json and runtime_prefixes of manifests/linkage.json",
    },
    run: |facts, policy, found| {
        let of_runtime = facts.imports.iter().filter(|import| policy.is_runtime_name(import.name));
        let mut by_outcome: BTreeMap<Outcome, Vec<&Import<'_>>> = BTreeMap::new();
        for import in of_runtime {
            by_outcome.entry(import.when_missing()).or_default().push(import);
        }
        for (outcome, imports) in by_outcome {
            let names: Vec<&str> = imports.iter().map(|import| import.name).collect();
            let (severity, effect) = match outcome {
                Outcome::StopsEveryProgram => (Severity::Deny, "bound at load: no program starts that has not loaded the runtime"),
                Outcome::KillsTheCall => {
                    (Severity::Deny, "bound at the first call: without the runtime the program ends there, and dlopen refuses the library")
                }
                _ => (Severity::Warn, "weak: without the runtime there is no definition, which the code must test"),
            };
            let message = format!("{}: undefined, and {effect}", list(&names));
            let finding = facts.found(&RULE.check, outcome, message).severity(severity);
            let finding = if let [only] = names[..] { finding.symbol(only) } else { finding };
            found.push(finding.evidence("symbols", names));
        }
    },
};
