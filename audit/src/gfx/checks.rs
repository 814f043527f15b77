//! Ids, severities and texts of what `gfx-scan` finds.

pub use crate::finding::Check;
use crate::finding::Severity;

/// The target is not registered.
pub const UNSUPPORTED_TARGET: Check = Check {
    id: "unsupported-target",
    severity: Severity::Deny,
    what: "The runtime does not register the target that was asked for.",
    why: "ROCr skips a device whose ISA it does not know without a word: the program sees no GPU at all and may still exit with status 0.",
    fix: "Use a ROCm release that knows the target, or a GPU that this release knows.",
    source: "ROCr, GpuAgent construction and isa registry (isa.cpp); CLR, device/rocm/rocdevice.cpp for the HIP layer",
};

/// The file does not let one say.
pub const UNKNOWN_TARGET: Check = Check {
    id: "unknown-target",
    severity: Severity::Warn,
    what: "Whether the runtime registers the target cannot be told from the file.",
    why: "A guess would be worse: the reason says what is missing.",
    fix: "Give the library that the workload really loads; for a generic target, ask for the GPU itself.",
    source: "self-checks of the structural reading; docs/ARCHITECTURE.md",
};

/// The registry could not be read.
pub const NO_REGISTRY: Check = Check {
    id: "no-registry",
    severity: Severity::Warn,
    what: "The library is a ROCm runtime, but the code or array that is its registry could not be read.",
    why: "Names that merely stand in the file prove nothing: ROCr mentions targets that it does not register.",
    fix: "Report the build: the reading rests on its structure and refuses what it does not recognise.",
    source: "self-checks of the structural reading",
};

/// The library is no ROCm runtime.
pub const NOT_A_RUNTIME: Check = Check {
    id: "not-a-runtime",
    severity: Severity::Note,
    what: "The library is no ROCm runtime: it has no registry of GPU targets.",
    why: "Which targets it names says nothing about which GPUs a program will see.",
    fix: "Give libhsa-runtime64.so.1 or libamdhip64.so.",
    source: "exports and soname of the file",
};

/// An override is in force in this environment.
pub const OVERRIDE_SET: Check = Check {
    id: "override-set",
    severity: Severity::Note,
    what: "HSA_OVERRIDE_GFX_VERSION is set in this environment; the answer here is about the target itself.",
    why: "With the variable ROCr takes every device (with _N: KFD node N) for the version it names, so a workload started here is judged by that one.",
    fix: "Unset the variable, or judge the command with `gfx-scan preflight`, which applies it.",
    source: "libhsakmt, topology.c: three unsigned decimals, at most 63, 255 and 255",
};

/// All checks of this audit, by id.
pub const ALL: [&Check; 5] = [&NO_REGISTRY, &NOT_A_RUNTIME, &OVERRIDE_SET, &UNKNOWN_TARGET, &UNSUPPORTED_TARGET];
