//! Rule `dynamic-flags`.

use super::{Outcome, Rule};
use crate::elf::constants as elf;
use crate::finding::{Check, Severity};

/// A flag, what it does, and how much that matters.
struct Flag {
    name: &'static str,
    bit: u64,
    severity: Severity,
    outcome: Outcome,
    effect: &'static str,
}

const fn flag(name: &'static str, bit: u64, severity: Severity, outcome: Outcome, effect: &'static str) -> Flag {
    Flag { name, bit, severity, outcome, effect }
}

/// `DT_FLAGS_1`. Those that a loader passes over on a preload (`DF_1_GLOBAL`, `DF_1_ORIGIN`, `DF_1_NODELETE`, `DF_1_NOW`, …) are not listed.
static FLAGS_1: [Flag; 6] = [
    flag("DF_1_NOOPEN", elf::DF_1_NOOPEN.0, Severity::Warn, Outcome::RefusedByDlopen, "dlopen refuses the library; a preload works"),
    flag(
        "DF_1_NODEFLIB",
        elf::DF_1_NODEFLIB.0,
        Severity::Warn,
        Outcome::Depends,
        "what it needs is not looked for in the default folders: a needed library that the program has not loaded stops every program",
    ),
    flag(
        "DF_1_INITFIRST",
        elf::DF_1_INITFIRST.0,
        Severity::Warn,
        Outcome::ImposedOnAll,
        "its constructors run before those of every other library, libc.so.6 among them, and only one library of a process can have that",
    ),
    flag("DF_1_INTERPOSE", elf::DF_1_INTERPOSE.0, Severity::Note, Outcome::Nothing, "a preload interposes anyway"),
    flag("DF_1_STUB", elf::DF_1_STUB.0, Severity::Warn, Outcome::Depends, "it says that this is a stub for the linker, not the library"),
    flag("DF_1_DIRECT", elf::DF_1_DIRECT.0, Severity::Note, Outcome::Nothing, "direct binding exists on Solaris only"),
];

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "dynamic-flags",
        severity: Severity::Warn,
        what: "The library has no flag in DT_FLAGS or DT_FLAGS_1 that changes how a preload is loaded or bound.",
        why: "Each of them makes the library behave differently as a preload, under dlopen, or beside another library with the same flag.",
        fix: "Drop the -z option or -Bsymbolic that sets it; -z now, -z nodelete and -z origin do no harm.",
        source: "gABI, DT_FLAGS; Solaris Linker and Libraries Guide, DT_FLAGS_1; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, _, found| {
        let dynamic = &facts.image.dynamic;
        for flag in FLAGS_1.iter().filter(|flag| dynamic.flags_1() & flag.bit != 0) {
            let message = format!("{}: {}", flag.name, flag.effect);
            found.push(facts.found(&RULE.check, flag.outcome, message).severity(flag.severity));
        }
        if dynamic.flags() & elf::DF_SYMBOLIC.0 != 0 {
            let message = "DF_SYMBOLIC: the library's own calls go to its own definitions, past whatever is preloaded before it";
            found.push(facts.found(&RULE.check, Outcome::Nothing, message).severity(Severity::Note));
        }
    },
};
