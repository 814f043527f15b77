//! Rule `file-type`.

use super::{Outcome, Rule};
use crate::elf::constants as elf;
use crate::elf::segment_type;
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "file-type",
        severity: Severity::Deny,
        what: "The file is a shared object, and no program, object file or core dump.",
        why: "The loader prints a message, leaves the file out and runs the program: no quota. A PIE is no exception since glibc 2.30.",
        fix: "Link with -shared.",
        source: "gABI, e_type; glibc elf/dl-load.c; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, _, found| {
        let image = facts.image;
        let interpreter = image.segment(segment_type::INTERP).is_some();
        let pie = image.dynamic.flags_1() & elf::DF_1_PIE.0 != 0;
        let what = match elf::FileType(image.header.file_type) {
            elf::ET_DYN if pie => {
                let also = if interpreter { ", PT_INTERP" } else { "" };
                format!("a position-independent executable (DF_1_PIE{also})")
            }
            elf::ET_DYN if interpreter && facts.names.soname.is_none() => {
                let message = "PT_INTERP and no soname: this looks like a program, although loaders take it for a library";
                found.push(facts.found(&RULE.check, Outcome::Nothing, message).severity(Severity::Warn));
                return;
            }
            elf::ET_DYN => return,
            elf::ET_EXEC => "a program (ET_EXEC)".into(),
            elf::ET_REL => "an object file (ET_REL)".into(),
            elf::ET_CORE => "a core dump (ET_CORE)".into(),
            other => format!("e_type {}", other.0),
        };
        let message = format!("{what}, not a shared object: the loader leaves it out with a message, and programs run without a quota");
        found.push(facts.found(&RULE.check, Outcome::LosesTheShim, message));
    },
};
