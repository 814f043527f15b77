//! Ids, severities and texts of what the gate itself finds.

pub use crate::finding::Check;
use crate::finding::Severity;

/// Manifests that do not fit each other.
pub const MANIFEST_GAP: Check = Check {
    id: "manifest-gap",
    severity: Severity::Deny,
    what: "A judgement, a list or an acceptance does not fit the others: a listed export without a judgement, an anchor that a release lacks, an acceptance of what no release exports.",
    why: "The audit rests on these files; one that names nothing real protects nothing and hides the next mistake.",
    fix: "Correct the entry named, or remove it.",
    source: "manifests/<family>/, accepted entries of the configuration",
};

/// All checks of the gate, by id.
pub const ALL: [&Check; 1] = [&MANIFEST_GAP];
