//! Rule `packed-relocations`.

use super::{Outcome, Rule};
use crate::elf::constants as elf;
use crate::finding::{Check, Severity};
use crate::manifest::glibc;

/// The first glibc whose loader applies `DT_RELR`.
const RELR_SINCE: &str = "2.36";

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "packed-relocations",
        severity: Severity::Deny,
        what: "The library has no packed relocations that a loader of the policy's glibc passes over.",
        why: "A loader before glibc 2.36 (musl before 1.2.4) passes over DT_RELR: every pointer it holds stays wrong, and every program crashes at start. Without the version GLIBC_ABI_DT_RELR, glibc 2.36 and later refuse the file. Android's form is unknown to both.",
        fix: "Link with -Wl,-z,nopack-relative-relocs (GNU ld), or without --pack-dyn-relocs (lld).",
        source: "glibc elf/dynamic-link.h and NEWS 2.36; measured on glibc 2.31 to 2.44 and musl 1.2.3 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        let dynamic = &facts.image.dynamic;
        let android = [elf::DT_ANDROID_REL, elf::DT_ANDROID_RELA, elf::DT_ANDROID_RELR];
        if android.into_iter().any(|tag| dynamic.has(tag)) {
            let message = "relocations in Android's packed form, which neither glibc nor musl applies: every program crashes at start";
            found.push(facts.found(&RULE.check, Outcome::StopsEveryProgram, message));
        }
        if !dynamic.has(elf::DT_RELR) {
            return;
        }
        let allowed = policy.max_versions.get("GLIBC").is_none_or(|highest| glibc::compare(highest, RELR_SINCE).is_ge());
        let versioned = facts.glibc_requirements().any(|requirement| requirement.file == "libc.so.6");
        let marked = facts.glibc_requirements().any(|requirement| requirement.version == "GLIBC_ABI_DT_RELR");
        if versioned && !marked {
            let message = "DT_RELR without the version GLIBC_ABI_DT_RELR: glibc 2.36 and later refuse the file, and with older ones every program crashes at start";
            found.push(facts.found(&RULE.check, Outcome::StopsEveryProgram, message));
        } else if !allowed && !marked {
            let message = "DT_RELR: with glibc before 2.36 every program crashes at start";
            found.push(facts.found(&RULE.check, Outcome::StopsEveryProgram, message));
        } else if !allowed {
            // With the marker the loader says so itself, and `version-marker` is the finding that stops.
            let message = "DT_RELR, which glibc before 2.36 would pass over; the version GLIBC_ABI_DT_RELR keeps the file off those systems";
            found.push(facts.found(&RULE.check, Outcome::Nothing, message).severity(Severity::Note));
        }
    },
};
