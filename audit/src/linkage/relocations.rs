//! Rule `relocations`.

use super::{Outcome, Rule};
use crate::elf::RelocationKind;
use crate::finding::{Check, Severity};

/// Relocation numbers of x86-64 that glibc applies beside those with a [`RelocationKind`] of their own: none, PC32, 32, PC64, SIZE32, SIZE64,
/// RELATIVE64.
const TAKEN_X86_64: [u32; 7] = [0, 2, 10, 24, 32, 33, 38];

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "relocations",
        severity: Severity::Deny,
        what: "The library has no copy relocation, and none that the loader does not know.",
        why: "A copy relocation belongs into a program: in a library it copies another library's data over the shim's own. An unknown relocation stops every program.",
        fix: "Compile with -fPIC; keep linker relaxations to final programs.",
        source: "x86-64 psABI, relocation types; glibc sysdeps/x86_64/dl-machine.h",
    },
    run: |facts, _, found| {
        let mut odd: Vec<u32> = Vec::new();
        for relocation in &facts.relocations {
            let symbol = facts.table.get(relocation.symbol).map(|symbol| symbol.name.to_string()).unwrap_or_default();
            match relocation.kind {
                RelocationKind::Copy => {
                    let message =
                        format!("a COPY relocation of {symbol} at {:#x}: the loader copies another library's data into the shim", relocation.place);
                    found.push(facts.found(&RULE.check, Outcome::ImposedOnAll, message).symbol(symbol));
                }
                RelocationKind::Other(number) if facts.machine == "x86_64" && !TAKEN_X86_64.contains(&number) && !odd.contains(&number) => {
                    odd.push(number);
                    let message = format!("relocation type {number} at {:#x} is unknown to the loader, which stops every program", relocation.place);
                    found.push(facts.found(&RULE.check, Outcome::StopsEveryProgram, message));
                }
                _ => {}
            }
        }
        if facts.irelative > 0 {
            let message = format!(
                "{} IRELATIVE relocations: functions of the shim run inside the loader of every process, before libc is ready",
                facts.irelative
            );
            found.push(facts.found(&RULE.check, Outcome::ImposedOnAll, message).severity(Severity::Note).evidence("count", facts.irelative));
        }
    },
};
