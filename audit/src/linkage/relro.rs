//! Rule `relro`.

use super::{Outcome, Rule};
use crate::elf::segment_type;
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "relro",
        severity: Severity::Note,
        what: "Relocated data is read-only after loading (PT_GNU_RELRO).",
        why: "Without it the table of addresses that the shim calls through stays writable in every process.",
        fix: "Link with -z relro, and -z now for the PLT's part of it.",
        source: "ld(1), -z relro; glibc elf/dl-reloc.c",
    },
    run: |facts, _, found| {
        if !facts.image.dynamic.is_empty() && facts.image.segment(segment_type::GNU_RELRO).is_none() {
            found.push(facts.found(
                &RULE.check,
                Outcome::ImposedOnAll,
                "no PT_GNU_RELRO: the shim's relocated pointers stay writable in every process",
            ));
        }
    },
};
