//! Rule `word-size`.

use super::{Outcome, Rule};
use crate::elf::Class;
use crate::finding::{Check, Severity};

/// Machines whose programs have 32-bit words.
const NARROW: [&str; 4] = ["arm", "i386", "mips", "ppc"];

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "word-size",
        severity: Severity::Deny,
        what: "The library has the word size of the programs it is preloaded into.",
        why: "The loader prints a message, leaves the library out and runs the program: no quota.",
        fix: "Build without -m32 and -mx32.",
        source: "gABI, e_ident[EI_CLASS]; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        let (has, wanted) = match (facts.image.header.class, NARROW.contains(&policy.machine.as_str())) {
            (Class::Elf32, false) => ("32-bit (ELFCLASS32)", "64-bit"),
            (Class::Elf64, true) => ("64-bit (ELFCLASS64)", "32-bit"),
            _ => return,
        };
        let message = format!(
            "a {has} file where {} programs are {wanted}: the loader leaves it out with a message, and programs run without a quota",
            policy.machine
        );
        found.push(facts.found(&RULE.check, Outcome::LosesTheShim, message));
    },
};
