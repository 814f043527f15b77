//! Rule `text-relocations`.

use super::{Outcome, Rule};
use crate::elf::constants as elf;
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "text-relocations",
        severity: Severity::Deny,
        what: "No relocation writes into read-only memory, and DT_TEXTREL is absent.",
        why: "The loader makes code of every process writable while it loads the library; where the kernel denies that (SELinux, MemoryDenyWriteExecute) no program starts. Without the flag it does not, and every program crashes at start.",
        fix: "Compile everything with -fPIC, assembler included, and link with -z text.",
        source: "gABI, DT_TEXTREL; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, _, found| {
        let flagged = facts.image.dynamic.flags() & elf::DF_TEXTREL.0 != 0;
        let finding = match (flagged, facts.text_relocations) {
            (false, None) => return,
            (true, None) => facts.found(
                &RULE.check,
                Outcome::ImposedOnAll,
                "DT_TEXTREL: the loader makes code writable while it loads the library, in every process",
            ),
            (true, Some((first, count))) => {
                let message = format!(
                    "DT_TEXTREL, and {count} relocations into read-only memory, the first at {first:#x}: code is made writable in every process"
                );
                facts.found(&RULE.check, Outcome::ImposedOnAll, message)
            }
            (false, Some((first, count))) => {
                let message =
                    format!("{count} relocations into read-only memory, the first at {first:#x}, and no DT_TEXTREL: every program crashes at start");
                facts.found(&RULE.check, Outcome::StopsEveryProgram, message)
            }
        };
        found.push(finding);
    },
};
