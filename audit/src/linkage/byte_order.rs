//! Rule `byte-order`.

use super::{Outcome, Rule};
use crate::elf::Endianness;
use crate::finding::{Check, Severity};

/// Machines whose programs are big-endian; those of the others are little-endian.
const BIG_ENDIAN: [&str; 2] = ["s390x", "sparc64"];

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "byte-order",
        severity: Severity::Deny,
        what: "The library has the byte order of the programs it is preloaded into.",
        why: "The loader prints a message, leaves the library out and runs the program: no quota.",
        fix: "Build for the machine of the container.",
        source: "gABI, e_ident[EI_DATA]; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        let wanted = if BIG_ENDIAN.contains(&policy.machine.as_str()) { Endianness::Big } else { Endianness::Little };
        if facts.image.header.endian == wanted {
            return;
        }
        let word = |order| if order == Endianness::Big { "big-endian" } else { "little-endian" };
        let message = format!(
            "{} where {} programs are {}: the loader leaves it out with a message, and programs run without a quota",
            word(facts.image.header.endian),
            policy.machine,
            word(wanted)
        );
        found.push(facts.found(&RULE.check, Outcome::LosesTheShim, message));
    },
};
