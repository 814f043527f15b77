//! Ids, severities and texts of what `evidence` finds.

pub use crate::finding::Check;
use crate::finding::Severity;

/// Class and code disagree.
pub const CLASS_CONTRADICTED: Check = Check {
    id: "class-contradicted",
    severity: Severity::Deny,
    what: "The manifest's class of an export and the runtime's machine code disagree.",
    why: "One of the two is wrong. If it is the class, an allocator counts as harmless and its door stays open unseen.",
    fix: "Follow the path with objdump. Correct manifests/<family>/classes.json, or explain in manifests/<family>/evidence.json why the class stands.",
    source: "the runtime's machine code: calls, dispatch tables, virtual tables (docs/measurements/evidence.md)",
};

/// A stub that jumps to nothing.
pub const EMPTY_SLOT: Check = Check {
    id: "empty-slot",
    severity: Severity::Warn,
    what: "An export jumps through a slot of the runtime's dispatch table that nothing fills.",
    why: "A call jumps to address 0 and ends the process. A program that probes for the function finds it.",
    fix: "Do not call it on this build; a shim that interposes it can refuse instead.",
    source: "the stores of the function that fills the table, followed symbolically",
};

/// The code could not be read so far that it says something.
pub const NO_EVIDENCE: Check = Check {
    id: "no-evidence",
    severity: Severity::Note,
    what: "The machine code of a runtime does not let one name what allocates.",
    why: "Nothing is said for or against the manifest's classes; only somebody's judgement stands behind them.",
    fix: "See the reason: another machine, no frame descriptions, no type information, or seeds that the code does not connect.",
    source: "the self-checks of the reading",
};

/// Debug information shows what looks like an allocator.
pub const SUSPICIOUS_PROTOTYPE: Check = Check {
    id: "suspicious-prototype",
    severity: Severity::Warn,
    what: "An export of class `other` takes a size and hands back a pointer, by its debug information.",
    why: "Allocators look so. If it is one, its door stays open unseen.",
    fix: "Read its source or follow its body with objdump. Correct manifests/<family>/classes.json if it takes memory of the card.",
    source: "DW_TAG_subprogram of the debug information with the same build-id",
};

/// All checks of this audit, by id.
pub const ALL: [&Check; 4] = [&CLASS_CONTRADICTED, &EMPTY_SLOT, &NO_EVIDENCE, &SUSPICIOUS_PROTOTYPE];
