//! Rule `exec-stack`.

use super::{Outcome, Rule};
use crate::elf::segment_type;
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "exec-stack",
        severity: Severity::Deny,
        what: "PT_GNU_STACK is there and asks for no executable stack.",
        why: "A preload that asks for one, or does not say, makes the stack of every process executable; dlopen refuses it since glibc 2.41; where the kernel denies such memory, or glibc.rtld.execstack=0 is set, the loader leaves the library out with a message: no quota.",
        fix: "Link with -z noexecstack, and give assembler files a .note.GNU-stack section.",
        source: "Measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md); glibc elf/dl-load.c",
    },
    run: |facts, _, found| {
        let what = match facts.image.segment(segment_type::GNU_STACK) {
            Some(stack) if stack.executable() => {
                format!("PT_GNU_STACK has flags {} (RWE): the library asks for an executable stack", stack.flags)
            }
            Some(_) => return,
            None => "there is no PT_GNU_STACK, which asks for an executable stack".to_string(),
        };
        let message = format!("{what}. Every process gets one; dlopen refuses the library since glibc 2.41");
        found.push(facts.found(&RULE.check, Outcome::ImposedOnAll, message));
    },
};
