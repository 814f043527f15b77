//! Rule `needed-missing`.

use super::{Outcome, Rule, list};
use crate::finding::{Check, Severity};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "needed-missing",
        severity: Severity::Deny,
        what: "Every library that a version is asked of, or that defines an imported symbol of libc, is in DT_NEEDED.",
        why: "The loader looks for the version in a library it has loaded; where none has loaded it, an assertion of the loader stops every program. A symbol without its library gets whatever else the process has under that name.",
        fix: "Link against the library instead of leaving its symbols undefined, and do not remove DT_NEEDED entries afterwards.",
        source: "glibc elf/dl-version.c; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, _, found| {
        let needed = |file: &str| facts.names.needed.iter().any(|name| name == file);
        let mut files: Vec<&str> = facts.table.versions.requirements.iter().map(|requirement| requirement.file.as_str()).collect();
        files.dedup();
        // A path in DT_NEEDED is a finding of its own; the requirement then names the library's soname.
        for file in files.iter().filter(|&&file| !needed(file)) {
            let message = if *file == "libc.so.6" {
                "versions are asked of libc.so.6, which is not in DT_NEEDED: it works in programs that load it themselves, and stops all others"
                    .to_string()
            } else {
                format!(
                    "versions are asked of {file}, which is not in DT_NEEDED: no program starts that has not loaded it itself (an assertion in the loader)"
                )
            };
            found.push(facts.found(&RULE.check, Outcome::StopsEveryProgram, message).evidence("name", *file));
        }
        if needed("libc.so.6") || files.contains(&"libc.so.6") {
            return;
        }
        let borrowed: Vec<&str> = facts
            .imports
            .iter()
            .filter(|import| !import.weak && import.version.is_none() && import.providers.in_library("libc.so.6"))
            .map(|import| import.name)
            .collect();
        if !borrowed.is_empty() {
            let message = format!(
                "{} of libc.so.6 imported, and libc.so.6 is not in DT_NEEDED: whatever the process has under that name is taken",
                list(&borrowed)
            );
            found.push(facts.found(&RULE.check, Outcome::Depends, message).severity(Severity::Warn).evidence("symbols", borrowed));
        }
    },
};
