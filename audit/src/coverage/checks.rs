//! Ids, severities and texts of what `coverage` finds.

pub use crate::finding::Check;
use crate::finding::Severity;

/// A door that is open.
pub const OPEN_DOOR: Check = Check {
    id: "open-door",
    severity: Severity::Deny,
    what: "An export whose class must be interposed is not.",
    why: "Code that calls it gets the runtime's own function: memory is taken past the quota, a charge is left behind, the whole card is reported, or pointers to all other functions are handed out.",
    fix: "Add a row for it to the shim's table, or accept it in a file given by --accept, with a reason.",
    source: "manifests/classes.json (which classes must be interposed), manifests/<family>/classes.json (the class and its evidence)",
};

/// An export that no manifest knows.
pub const UNCLASSIFIED: Check = Check {
    id: "unclassified",
    severity: Severity::Deny,
    what: "The runtime exports a function that no manifest classifies.",
    why: "What it does to GPU memory is unknown, so nothing can be said about it; a new release of the runtime stays red until somebody has looked.",
    fix: "Read its source or its machine code and add an entry with evidence to manifests/<family>/classes.json.",
    source: "manifests/<family>/classes.json",
};

/// A name that does not bind.
pub const NOT_BOUND: Check = Check {
    id: "not-bound",
    severity: Severity::Deny,
    what: "The shim defines the name, but the loader would not bind a reference to it.",
    why: "The wrapper looks present in every listing and is never called: the runtime's own function runs.",
    fix: "Export it as a global or weak function with default or protected visibility, and without a version node (no version script nodes, no .symver).",
    source: "glibc elf/dl-lookup.c; measured on glibc 2.31, 2.36 and 2.44 (docs/measurements/loader-outcomes.md)",
};

/// A wrapper of a must-interpose export that holds nothing.
pub const ACTION_MISMATCH: Check = Check {
    id: "action-mismatch",
    severity: Severity::Deny,
    what: "A row interposes an export that must be held, but its action does not hold it.",
    why: "The door counts as interposed while it is open: the wrapper passes the call on.",
    fix: "Charge what allocates, refund what frees, report the quota, hand out the shim's own entry points.",
    source: "manifests/classes.json, column actions",
};

/// A wrapper that does nothing, of an export that need not be held.
pub const IDLE_ROW: Check = Check {
    id: "idle-row",
    severity: Severity::Warn,
    what: "A row interposes an allocating or importing export and only passes the call on.",
    why: "It reads like coverage and is none.",
    fix: "Hold what it allocates, or drop the row.",
    source: "manifests/classes.json, column actions",
};

/// A name another release exports.
pub const ABSENT_NAME: Check = Check {
    id: "absent-name",
    severity: Severity::Note,
    what: "The shim interposes a name that this runtime does not export, but another release does.",
    why: "Harmless as a call; but a program that probes for the function finds the shim's and takes the feature for present.",
    fix: "None needed if the wrapper answers as a runtime without the function would.",
    source: "manifests/<family>/exports/",
};

/// A name nobody exports, close to one that exists.
pub const NEAR_MISS: Check = Check {
    id: "near-miss",
    severity: Severity::Deny,
    what: "The shim interposes a name that no runtime exports and that differs from an export by a character or two.",
    why: "Most likely a typing error: the wrapper is never called, and the door it was written for is open.",
    fix: "Correct the name.",
    source: "edit distance of at most 2 to an export of the audited runtime",
};

/// A name nobody exports.
pub const STRAY_NAME: Check = Check {
    id: "stray-name",
    severity: Severity::Note,
    what: "The shim exports a function that no known runtime exports.",
    why: "Whatever a preload exports it imposes on every process: a helper named `lock` or `log_init` replaces another library's.",
    fix: "Give it local visibility (-fvisibility=hidden, or a version script with `local: *`).",
    source: "gABI, symbol resolution; measured",
};

/// Own calls of the runtime that meet an interposer.
pub const REENTRY: Check = Check {
    id: "reentry",
    severity: Severity::Note,
    what: "The runtime calls an interposed export through its own PLT.",
    why: "The interposer then runs inside another call of the runtime: a lock held across the real call deadlocks, and bytes may be charged twice.",
    fix: "Hold no lock across a call of the runtime, and mark nested calls per thread.",
    source: "JUMP_SLOT and GLOB_DAT relocations of the runtime against its own exports",
};

/// An acceptance that matches nothing.
pub const STALE_ACCEPTANCE: Check = Check {
    id: "stale-acceptance",
    severity: Severity::Warn,
    what: "An acceptance matches no open door in any audited runtime.",
    why: "It would hide the door if it opened again, and nobody would have argued for that one.",
    fix: "Remove it.",
    source: "the file given by --accept, or manifests/accepted.json",
};

/// An acceptance whose last day is over.
pub const EXPIRED_ACCEPTANCE: Check = Check {
    id: "expired-acceptance",
    severity: Severity::Warn,
    what: "An acceptance has ended; it no longer covers its door.",
    why: "Acceptances that end are promises to look again.",
    fix: "Close the door, or accept it anew with a reason.",
    source: "the file given by --accept, or manifests/accepted.json",
};

/// All checks of this audit, by id.
pub const ALL: [&Check; 11] = [
    &ABSENT_NAME,
    &ACTION_MISMATCH,
    &EXPIRED_ACCEPTANCE,
    &IDLE_ROW,
    &NEAR_MISS,
    &NOT_BOUND,
    &OPEN_DOOR,
    &REENTRY,
    &STALE_ACCEPTANCE,
    &STRAY_NAME,
    &UNCLASSIFIED,
];
