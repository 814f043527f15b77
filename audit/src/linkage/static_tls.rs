//! Rule `static-tls`.

use super::{Outcome, Rule};
use crate::elf::constants as elf;
use crate::elf::segment_type;
use crate::finding::{Check, Severity};

/// Bytes of initial-exec TLS that dlopen may still find room for: 64 bytes load on glibc 2.31 to 2.44, 2 KiB do not.
const DLOPEN_ROOM: u64 = 512;

/// A preload's TLS is taken from every thread's stack. With 1 MiB, `pthread_create` refuses stacks of 128 KiB, which programs do ask for, and the 1 MiB
/// that Java gives its threads.
const FROM_STACKS: u64 = 1 << 20;

/// With an alignment of 64 KiB, `pthread_create` ends in an assertion.
const ALIGNMENT: u64 = 1 << 16;

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "static-tls",
        severity: Severity::Warn,
        what: "The library has no thread-local storage, or little, and does not need it in the static block.",
        why: "A preload's thread-local storage is taken from the stack of every thread of every process. Initial-exec storage (DF_STATIC_TLS) beyond some hundred bytes is refused by dlopen.",
        fix: "Use no thread-local variables; where one is needed, keep it small and let the compiler use the dynamic model.",
        source: "Measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md): sizes 64 B to 8 GiB, preload, dlopen and pthread_create",
    },
    run: |facts, _, found| {
        let static_model = facts.image.dynamic.flags() & elf::DF_STATIC_TLS.0 != 0;
        let Some(tls) = facts.image.segment(segment_type::TLS) else {
            if static_model {
                let message = "DF_STATIC_TLS without storage of its own: it uses another library's thread-local data by a fixed offset, which dlopen may refuse";
                found.push(facts.found(&RULE.check, Outcome::RefusedByDlopen, message));
            }
            return;
        };
        let size = tls.memory_size;
        let flag = if static_model { "DF_STATIC_TLS, " } else { "" };
        let (severity, outcome, effect) = if tls.align >= ALIGNMENT {
            (Severity::Deny, Outcome::KillsTheCall, format!("aligned to {} bytes: pthread_create ends in an assertion", tls.align))
        } else if size >= FROM_STACKS {
            (Severity::Deny, Outcome::KillsTheCall, "taken from the stack of every thread: pthread_create fails for smaller stacks".into())
        } else if static_model && size > DLOPEN_ROOM {
            (
                Severity::Warn,
                Outcome::RefusedByDlopen,
                "dlopen refuses it (cannot allocate memory in static TLS block); a preload works, and every thread's stack pays".into(),
            )
        } else if static_model {
            (Severity::Warn, Outcome::RefusedByDlopen, "a preload works, and dlopen as long as there is room".into())
        } else if size > DLOPEN_ROOM {
            (Severity::Warn, Outcome::ImposedOnAll, "taken from the stack of every thread of every process".into())
        } else {
            (Severity::Note, Outcome::ImposedOnAll, "for every thread of every process".into())
        };
        let message = format!("{flag}PT_TLS of {size} bytes: {effect}");
        found.push(facts.found(&RULE.check, outcome, message).severity(severity).evidence("size", size).evidence("static", static_model));
    },
};
