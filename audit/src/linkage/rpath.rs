//! Rule `rpath`.

use super::{Outcome, Rule};
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "rpath",
        severity: Severity::Deny,
        what: "The library has no DT_RPATH.",
        why: "What the shim needs, and what those libraries need in turn, is looked for in these folders first, before LD_LIBRARY_PATH: whoever can write there puts code into every process.",
        fix: "Link without -rpath, and unset LD_RUN_PATH; patchelf --remove-rpath takes it out of a finished file.",
        source: "ld.so(8); measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, _, found| {
        let Some(path) = &facts.names.rpath else { return };
        let message = format!(
            "DT_RPATH {path}: these folders are searched first, before LD_LIBRARY_PATH, for what the shim and the libraries it needs ask for, in every process"
        );
        found.push(facts.found(&RULE.check, Outcome::ImposedOnAll, message).evidence("path", path.as_str()));
    },
};
