//! Rule `machine`.

use super::{Outcome, Rule};
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "machine",
        severity: Severity::Deny,
        what: "The library is built for the machine of the policy.",
        why: "The loader prints a message, leaves the library out and runs the program: no quota.",
        fix: "Build for the machine of the container.",
        source: "gABI, e_machine; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        let header = &facts.image.header;
        let name = header.machine_name();
        if name == policy.machine {
            return;
        }
        let message = format!(
            "built for {name} (e_machine {}), not for {}: the loader leaves it out with a message, and programs run without a quota",
            header.machine, policy.machine
        );
        found.push(facts.found(&RULE.check, Outcome::LosesTheShim, message));
    },
};
