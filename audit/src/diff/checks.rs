//! Ids, severities and texts of what `diff` finds.

pub use crate::finding::Check;
use crate::finding::Severity;

/// A door that the newer runtime has and the older one had not.
pub const NEW_DOOR: Check = Check {
    id: "new-door",
    severity: Severity::Deny,
    what: "The newer runtime exports a function that must be interposed and that the older one does not export, or that did something else there.",
    why: "A shim made for the older runtime does not know it: programs built for the newer one get the runtime's own function, past the quota.",
    fix: "Interpose it before the newer runtime is rolled out (`vrocm-audit explain EXPORT` has the row), or accept it with a reason. With --shim LIB a door that the shim holds is only a note.",
    source: "exports of both runtimes; manifests/<family>/classes.json",
};

/// A name that the newer runtime no longer exports.
pub const EXPORT_GONE: Check = Check {
    id: "export-gone",
    severity: Severity::Note,
    what: "The newer runtime does not export a function, or a version of one, that the older one exports. A warning where both have the same soname.",
    why: "A program linked against it does not start, or ends at the call. Under a new soname that is announced; under the same one the loader takes the newer file for the older.",
    fix: "Rebuild the programs that use it; a shim's row for it is harmless. Keep the older runtime for those that cannot be rebuilt.",
    source: "exports of both runtimes; glibc elf/dl-lookup.c and dl-version.c",
};

/// A slot of the dispatch table that changed its place.
pub const SLOT_MOVED: Check = Check {
    id: "slot-moved",
    severity: Severity::Warn,
    what: "An export jumps through another slot of the runtime's dispatch table than before.",
    why: "Tools that are handed the table (profilers) have its layout compiled in: in a slot that moved they call or wrap another function.",
    fix: "Rebuild the tools that use the table against the newer headers.",
    source: "the machine code of both runtimes (vrocm-audit evidence); HIP's hip_api_trace.hpp: slots are only ever appended",
};

/// A door that a change of the shim opened.
pub const DOOR_OPENED: Check = Check {
    id: "door-opened",
    severity: Severity::Deny,
    what: "An export that the older shim held, or that was accepted, is open under the newer one.",
    why: "Code that was held to its quota gets the runtime's own function after the change.",
    fix: "Put the row back, or accept the door in a file given by --accept, with a reason.",
    source: "coverage of both shims over the runtimes' lists inside the program",
};

/// A judgement that asks for less than before.
pub const JUDGEMENT_WEAKENED: Check = Check {
    id: "judgement-weakened",
    severity: Severity::Warn,
    what: "A judgement no longer demands that an export be interposed, or is gone.",
    why: "The audit gets greener without any door being closed.",
    fix: "Read the evidence that the new entry gives; without any, keep the older judgement.",
    source: "manifests/<family>/classes.json and manifests/classes.json, older and newer",
};

/// A door that is newly left open on purpose.
pub const ACCEPTANCE_ADDED: Check = Check {
    id: "acceptance-added",
    severity: Severity::Warn,
    what: "An acceptance is there that was not.",
    why: "It turns a red door green by a sentence; somebody has to agree with the sentence.",
    fix: "Read the reason, and see that it ends (`until`) where the reason does.",
    source: "the file of acceptances, older and newer",
};

/// All checks of this audit, by id.
pub const ALL: [&Check; 6] = [&ACCEPTANCE_ADDED, &DOOR_OPENED, &EXPORT_GONE, &JUDGEMENT_WEAKENED, &NEW_DOOR, &SLOT_MOVED];
