//! Ids, severities and texts of what `bindings` finds.

use crate::finding::{Check, Severity};

/// The rules behind all of these.
const LOADER: &str = "glibc elf/dl-lookup.c; held against LD_DEBUG=bindings of glibc 2.31, 2.36 and 2.44 (docs/measurements/loader-oracle.md)";

/// A reference past the shim.
pub const SLIPS: Check = Check {
    id: "binding-slips",
    severity: Severity::Deny,
    what: "An object of the process gets the runtime's own function where it had to get the shim's.",
    why: "Each such call takes memory past the quota, leaves a charge behind, or reports the whole card.",
    fix: "Preload the shim (LD_PRELOAD, --preload, /etc/ld.so.preload); if it is preloaded, the message says why the loader passes over it.",
    source: LOADER,
};

/// A reference to a third party's function.
pub const ELSEWHERE: Check = Check {
    id: "binding-elsewhere",
    severity: Severity::Warn,
    what: "An object gets a function of a runtime's name from a file that is neither the shim nor the runtime.",
    why: "Another interposer, a stub or the program itself stands before both. What it does with the call, and whether it reaches the shim, is in its code.",
    fix: "Find out what that file is for; `vrocm-audit consumers FILE` says how it reaches a runtime itself.",
    source: LOADER,
};

/// Two runtimes of one family.
pub const CROSSES: Check = Check {
    id: "binding-crosses",
    severity: Severity::Warn,
    what: "An object asks one runtime for a function and gets it from another one of the same family.",
    why: "Two releases are in one process, and the first in the load order answers for both: structures and behaviour may not be those that the object was built for.",
    fix: "Build everything in the process against one release.",
    source: LOADER,
};

/// A reference to nothing.
pub const UNDEFINED: Check = Check {
    id: "binding-undefined",
    severity: Severity::Warn,
    what: "An object asks for a function of a runtime, and no object of the process has it.",
    why: "The process ends with a symbol lookup error, at its start or at the first call, unless something that defines it is opened before.",
    fix: "Install a release of the runtime that has the function.",
    source: LOADER,
};

/// A reference that can go two ways.
pub const UNCLEAR: Check = Check {
    id: "binding-unclear",
    severity: Severity::Warn,
    what: "Which definition an object gets depends on the CPU, on the loader's version or on the order in which objects are relocated.",
    why: "One of the ways may lead past the shim. A unique symbol (STB_GNU_UNIQUE) is one for the process: the reference that is relocated first decides for all, and that order depends on the loader's sorting, on a tunable, and on when a late call is made.",
    fix: "Leave one of the definitions away, or ask for the system at hand.",
    source: LOADER,
};

/// A preload that is not loaded.
pub const DROPPED: Check = Check {
    id: "preload-dropped",
    severity: Severity::Warn,
    what: "A preload is named that the loader drops.",
    why: "It prints a line on standard error and starts the program without it: nothing holds the process, and its exit status says nothing.",
    fix: "Give the path of a library of the program's word size and machine that exists where the program runs.",
    source: "glibc elf/rtld.c, do_preload",
};

/// A static program.
pub const NO_LOADER: Check = Check {
    id: "no-loader",
    severity: Severity::Warn,
    what: "The program has no interpreter: no loader, no libraries, no preload.",
    why: "Whatever it does with the card, no shim is in the process.",
    fix: "`vrocm-audit consumers PROGRAM` says whether it knows a runtime or the kernel's device.",
    source: "gABI, PT_INTERP; ld.so(8)",
};

/// All checks of this audit, by id.
pub const ALL: [&Check; 7] = [&CROSSES, &ELSEWHERE, &SLIPS, &UNCLEAR, &UNDEFINED, &NO_LOADER, &DROPPED];
