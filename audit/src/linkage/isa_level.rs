//! Rule `isa-level`.

use super::{Outcome, Rule};
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "isa-level",
        severity: Severity::Deny,
        what: "The x86-64 level that the library says it needs is not above the policy's.",
        why: "On a processor below that level no program of the container starts since glibc 2.33; before, the library is loaded and ends in an illegal instruction.",
        fix: "Build with -march=x86-64 and link without -z x86-64-v2, -v3 or -v4.",
        source: "x86-64 psABI, GNU_PROPERTY_X86_ISA_1_NEEDED; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        let Some(bits) = facts.isa_needed.filter(|&bits| bits != 0) else { return };
        let highest = 32 - bits.leading_zeros();
        if highest <= u32::from(policy.isa_level) {
            return;
        }
        let level = match highest {
            1..=4 => format!("x86-64-v{highest}"),
            _ => format!("a level that no processor has (bits {bits:#x})"),
        };
        let message = format!("the library says it needs {level}: on a processor without it no program starts since glibc 2.33");
        found.push(facts.found(&RULE.check, Outcome::StopsEveryProgram, message).evidence("bits", bits));
    },
};
