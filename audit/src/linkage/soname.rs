//! Rule `soname`.

use super::{Outcome, Rule};
use crate::finding::{Check, Severity};
use crate::manifest::glibc;

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "soname",
        severity: Severity::Deny,
        what: "The soname is the policy's, where it demands one, and never that of libc or of a runtime.",
        why: "A loaded library answers to its soname: a shim called libc.so.6 is taken for libc and no program starts; one called like the runtime is taken for it, and everything it does not define is undefined.",
        fix: "Link with -soname and the shim's own name, or without a soname.",
        source: "gABI, DT_SONAME; glibc elf/dl-load.c; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        let soname = facts.names.soname.as_deref();
        if let Some(wanted) = policy.soname.as_deref().filter(|&wanted| soname != Some(wanted)) {
            let has = soname.unwrap_or("none");
            found.push(facts.found(&RULE.check, Outcome::Depends, format!("the soname is {has}, and the policy demands {wanted}")));
        }
        let Some(soname) = soname else { return };
        if glibc::is_glibc(soname) {
            let message = format!("the soname is {soname}: programs that need it get the shim instead, and do not start");
            found.push(facts.found(&RULE.check, Outcome::StopsEveryProgram, message));
        } else if let Some(runtime) = policy.family_of_soname(soname) {
            let message = format!(
                "the soname is {soname}, that of {runtime}: programs that need it get the shim instead, and end at the first function it lacks"
            );
            found.push(facts.found(&RULE.check, Outcome::KillsTheCall, message));
        }
    },
};
