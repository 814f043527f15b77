//! Rule `runpath`.

use super::{Outcome, Rule};
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "runpath",
        severity: Severity::Deny,
        what: "The library has no DT_RUNPATH.",
        why: "What the shim needs and the program has not loaded yet is looked for in these folders before the system's: whoever can write there puts code into every process.",
        fix: "Link without -rpath, and unset LD_RUN_PATH; patchelf --remove-rpath takes it out of a finished file.",
        source: "ld.so(8); measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, _, found| {
        let Some(path) = &facts.names.runpath else { return };
        let message = format!("DT_RUNPATH {path}: these folders are searched before the system's for what the shim needs, in every process");
        found.push(facts.found(&RULE.check, Outcome::ImposedOnAll, message).evidence("path", path.as_str()));
    },
};
