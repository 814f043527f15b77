//! Rule `elf-ident`.

use super::{Outcome, Rule};
use crate::finding::{Check, Severity};

/// `ELFOSABI_NONE` and `ELFOSABI_GNU`: the two that glibc takes.
const TAKEN: [u8; 2] = [0, 3];

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "elf-ident",
        severity: Severity::Deny,
        what: "The ELF header names an operating system, an ABI version and padding that Linux loaders take.",
        why: "The loader prints a message, leaves the library out and runs the program: no quota.",
        fix: "Build with the toolchain of the target; EI_OSABI is 0 or 3, EI_ABIVERSION and the padding are 0.",
        source: "gABI, ELF identification; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, _, found| {
        let header = &facts.image.header;
        let mut refuse = |what: String| {
            let message = format!("{what}: the loader leaves the library out with a message, and programs run without a quota");
            found.push(facts.found(&RULE.check, Outcome::LosesTheShim, message));
        };
        if !TAKEN.contains(&header.os_abi) {
            refuse(format!("EI_OSABI is {}, neither 0 (System V) nor 3 (GNU)", header.os_abi));
        }
        if header.abi_version != 0 {
            refuse(format!("EI_ABIVERSION is {}, not 0", header.abi_version));
        }
        if let Ok(padding) = facts.image.bytes("e_ident", 9, 7)
            && padding.iter().any(|&byte| byte != 0)
        {
            refuse("the padding of e_ident is not zero".into());
        }
    },
};
