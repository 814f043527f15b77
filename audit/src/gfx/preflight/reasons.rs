//! Why a preflight has no answer: beside the loader's own reasons ([`crate::loader::unknown`]), those of the GPU's side. The same mechanism: a
//! constant a reason, with the texts that `explain` and `docs/checks/` show.

use crate::finding::{Check, Severity};

const fn reason(id: &'static str, what: &'static str, why: &'static str, fix: &'static str, source: &'static str) -> Check {
    Check { id, severity: Severity::Note, what, why, fix, source }
}

/// The program links no ROCr.
pub const NOT_LINKED: Check = reason(
    "unknown-not-linked",
    "The program does not link libhsa-runtime64, directly or through another library.",
    "It may still open it while it runs, as Python and many engines do. Candidates are what such a call would find, and nobody knows whether it comes.",
    "Ask about the library or extension module that the program opens.",
    "dlopen(3); the candidates are those of the program's own search path and of its Python packages.",
);

/// Tools libraries.
pub const TOOLS: Check = reason(
    "unknown-tools-library",
    "HSA_TOOLS_LIB is set.",
    "ROCr loads the libraries it names and lets them replace entries of its API table, so that a program may see other agents.",
    "Ask without the variable.",
    "ROCr core/util/flag.h and core/runtime/runtime.cpp, LoadTools.",
);

/// Another topology or thunk.
pub const MODEL: Check = reason(
    "unknown-model-topology",
    "A variable replaces KFD's topology or the thunk: HSA_MODEL_TOPOLOGY, HSA_MODEL_LIB, HSA_ENABLE_DTIF or HSA_ENABLE_DXG_DETECTION.",
    "The devices that ROCr sees then do not come from the kernel, and the target that was asked about may not be among them.",
    "Ask without the variable.",
    "ROCr 7.x and libhsakmt: names of the variables in the libraries; their effect is not modelled.",
);

/// A refused override.
pub const OVERRIDE_REFUSED: Check = reason(
    "unknown-override-refused",
    "HSA_OVERRIDE_GFX_VERSION has a value that the thunk refuses.",
    "The node then cannot be read and hsa_init fails with a message: a loud failure, not a GPU that is missing without a word.",
    "Give three decimal numbers with dots between (11.0.0), or unset it; an empty value counts as a bad one.",
    "libhsakmt topology.c, topology_sysfs_get_node_props.",
);

/// An override for a node, and a device whose node is not known.
pub const OVERRIDE_NODE: Check = reason(
    "unknown-override-node",
    "HSA_OVERRIDE_GFX_VERSION_<node> is set, and the device's KFD node is not known.",
    "The variable replaces the version of that one node. A target from the command line or from a configuration has no node number.",
    "Ask without the variable, or on the machine itself, where KFD tells the nodes.",
    "libhsakmt topology.c after ROCm 6.2.",
);

/// A version that is no target's.
pub const ODD_VERSION: Check = reason(
    "unknown-version",
    "The device's version is none that a target has, or the device has none.",
    "A generic's entry is kept as 9.255.255, and 0 means no GPU. What a runtime makes of such a number was not read.",
    "Correct gfx_target_version or the override.",
    "ROCr isa.cpp; libhsakmt topology.c.",
);

/// The loader stops.
pub const NO_START: Check = reason(
    "unknown-does-not-start",
    "The loader would stop: a library is missing, is no library, or lacks a version that another asks of it.",
    "The process ends with a message before it looks for a GPU.",
    "Install the library; `ldd` names it too.",
    "glibc elf/dl-load.c.",
);

/// A runtime that cannot be read.
pub const RUNTIME: Check = reason(
    "unknown-runtime",
    "A runtime that the program would load cannot be scanned, or does not let one say.",
    "The verdict needs every candidate.",
    "Scan it alone with gfx-scan for the details.",
    "self-checks of the structural reading.",
);

/// Candidates or devices disagree.
pub const DISAGREE: Check = reason(
    "unknown-disagreement",
    "The candidates, or the devices, do not have one answer.",
    "Which of them counts depends on the CPU, the release or the device that the program picks.",
    "Ask about one device, or about one runtime.",
    "docs/NO_GPU.md.",
);

/// Somebody else answers.
pub const REPLACED: Check = reason(
    "unknown-replaced",
    "An object before the runtime, such as a preload, defines the functions by which a program asks for its devices.",
    "The loader binds the program's calls to the first definition. What that one answers is in its code, not in the runtime's registry.",
    "Ask without the preload.",
    "ELF symbol lookup: the first definition in load order wins.",
);

/// No device was asked about.
pub const NO_DEVICE: Check = reason(
    "unknown-no-device",
    "No device was asked about, so nothing was looked at.",
    "Whether a runtime knows a target is a question about a target.",
    "Name one: --target, --config, or a machine with a GPU.",
    "docs/NO_GPU.md.",
);

/// Every reason.
pub const ALL: [&Check; 11] =
    [&NOT_LINKED, &TOOLS, &MODEL, &OVERRIDE_REFUSED, &OVERRIDE_NODE, &ODD_VERSION, &NO_START, &RUNTIME, &DISAGREE, &REPLACED, &NO_DEVICE];
