//! Ids, severities and texts of what `consumers` finds: reasons why a file slips out, and reasons why nobody can say.

use crate::finding::{Check, Severity};

/// Where most of these come from.
const MEASURED: &str = "gABI, symbol resolution; glibc elf/dl-lookup.c; measured with AMD's libamdhip64 7.2.4 under a preload";

/// An import that the shim does not hold.
pub const IMPORT_SLIPS: Check = Check {
    id: "import-slips",
    severity: Severity::Deny,
    what: "A file imports a function that has to be interposed, and the shim does not hold it.",
    why: "The loader binds the call to the runtime's own function: memory is taken past the quota, a charge is left behind, or the whole card is reported.",
    fix: "Add a row for the function to the shim's table; `vrocm-audit explain NAME` says what it does.",
    source: MEASURED,
};

/// A look-up that the shim does not answer.
pub const LOOKUP_SLIPS: Check = Check {
    id: "lookup-slips",
    severity: Severity::Deny,
    what: "A file opens the runtime and looks functions up by name, and the shim does not answer the look-up with its own.",
    why: "dlsym on a handle searches that library and what it needs, not the preload: the program gets the runtime's own function.",
    fix: "Interpose dlsym (and dlvsym) and answer the names that the shim wraps with its own entry points; or hold the runtime from beneath.",
    source: MEASURED,
};

/// A program without a loader.
pub const STATIC_SLIPS: Check = Check {
    id: "static-slips",
    severity: Severity::Deny,
    what: "A statically linked program reaches the card through the kernel.",
    why: "Without a program interpreter there is no loader, and neither LD_PRELOAD nor /etc/ld.so.preload is ever read: no shim is in that process.",
    fix: "Link the program dynamically, or keep the device file out of its container.",
    source: "ld.so(8); gABI, PT_INTERP; measured with static and static-pie programs",
};

/// A static program with names in it.
pub const STATIC_UNKNOWN: Check = Check {
    id: "static-unknown",
    severity: Severity::Warn,
    what: "A statically linked program holds names of a runtime, and nothing says what it does with them.",
    why: "No preload reaches such a program. If it opens the runtime after all, nothing holds it.",
    fix: "Look at what the names are for; a dynamically linked build can be held.",
    source: "ld.so(8); gABI, PT_INTERP",
};

/// A library opened past the global scope.
pub const DEEPBIND_SLIPS: Check = Check {
    id: "deepbind-slips",
    severity: Severity::Deny,
    what: "A file opens the runtime with RTLD_DEEPBIND.",
    why: "What is opened so looks into itself and its own dependencies first: the runtime's calls to the runtime beneath go past the preload.",
    fix: "Open it without RTLD_DEEPBIND; some projects have a switch for it.",
    source: "dlopen(3); measured (testbed: RTLD_DEEPBIND of libamdhip64 hides its hsa_* calls)",
};

/// A library opened past the global scope, which one cannot be seen.
pub const DEEPBIND_UNKNOWN: Check = Check {
    id: "deepbind-unknown",
    severity: Severity::Warn,
    what: "A file may open a library with RTLD_DEEPBIND: the flags of a call of dlopen are not a constant that can be read, or which library they are for cannot.",
    why: "What is opened with RTLD_DEEPBIND binds past the preload.",
    fix: "Look at the calls of dlopen in the program's source.",
    source: "dlopen(3)",
};

/// A hook of which nothing is known.
pub const HOOK_UNKNOWN: Check = Check {
    id: "hook-unknown",
    severity: Severity::Warn,
    what: "A file looks functions up by name, and the shim has a dlsym of which no list says what it answers.",
    why: "A dlsym that only counts or logs leaves the door open; its machine code is not judged here.",
    fix: "Give the shim a list of its rows with their actions (interposed.json).",
    source: "manifests/classes.json, column actions",
};

/// A runtime opened without names in sight.
pub const NAMES_UNSEEN: Check = Check {
    id: "names-unseen",
    severity: Severity::Warn,
    what: "A file names the runtime's library, but no function of it: what it looks up cannot be seen.",
    why: "Names may be put together at run time or come from elsewhere (a configuration, another file).",
    fix: "Look at what the program does with the library; a shim that answers dlsym holds whatever name is asked for.",
    source: "strings of the file",
};

/// Names without a library.
pub const LOOKUP_UNSEEN: Check = Check {
    id: "lookup-unseen",
    severity: Severity::Warn,
    what: "A file holds names of functions that have to be interposed and looks names up, but nothing says that it opens the runtime.",
    why: "On a handle of the runtime the look-up would go past the preload; in the global scope it would meet it.",
    fix: "Interpose dlsym, or look at which handle the program asks.",
    source: "dlsym(3)",
};

/// A namespace of its own.
pub const NAMESPACE_UNKNOWN: Check = Check {
    id: "namespace-unknown",
    severity: Severity::Warn,
    what: "A file that reaches the runtime opens libraries in a namespace of their own (dlmopen).",
    why: "A preload is in the first namespace alone: what a library in another one calls binds there.",
    fix: "Look at what is opened so.",
    source: "dlmopen(3); measured",
};

/// The kernel's interface inside the file.
pub const THUNK_UNKNOWN: Check = Check {
    id: "thunk-unknown",
    severity: Severity::Warn,
    what: "A file that is no runtime talks to the kernel's device itself, or holds the library that does.",
    why: "Memory taken by ioctl passes no runtime and no shim; whether these functions are ever called cannot be read from the file.",
    fix: "Find out whether the code is reached; keep the device file out of containers that need no GPU.",
    source: "strings and symbols of the file; the device is that of manifests/<family>/family.json",
};

/// A function that no manifest knows.
pub const IMPORT_UNKNOWN: Check = Check {
    id: "import-unknown",
    severity: Severity::Warn,
    what: "A file imports a function from a runtime that no manifest classifies.",
    why: "What it does to GPU memory is unknown.",
    fix: "Add an entry with evidence to manifests/<family>/classes.json.",
    source: "manifests/<family>/classes.json",
};

/// A file for another machine.
pub const MACHINE_UNKNOWN: Check = Check {
    id: "machine-unknown",
    severity: Severity::Warn,
    what: "A file reaches the runtime and is for another machine than the shim.",
    why: "The loader passes over a preload of the wrong class or machine: that process would need a shim of its own.",
    fix: "Audit it with the shim built for that machine.",
    source: "ld.so(8); measured",
};

/// A Python source that opens a runtime.
pub const PYTHON_UNKNOWN: Check = Check {
    id: "python-unknown",
    severity: Severity::Warn,
    what: "A Python source names the runtime's library and has what it takes to open it (ctypes, cffi).",
    why: "ctypes looks each function up on a handle of the library. Only a shim that answers dlsym is asked then, and which names come cannot be read from the source.",
    fix: "Look at what the module is for; a shim that answers dlsym holds whatever name is asked for.",
    source: "Python's ctypes calls dlopen and dlsym; strings and words of the source, which is not run",
};

/// All checks of this audit, by id.
pub const ALL: [&Check; 14] = [
    &DEEPBIND_SLIPS,
    &DEEPBIND_UNKNOWN,
    &HOOK_UNKNOWN,
    &IMPORT_SLIPS,
    &IMPORT_UNKNOWN,
    &LOOKUP_SLIPS,
    &LOOKUP_UNSEEN,
    &MACHINE_UNKNOWN,
    &NAMES_UNSEEN,
    &NAMESPACE_UNKNOWN,
    &PYTHON_UNKNOWN,
    &STATIC_SLIPS,
    &STATIC_UNKNOWN,
    &THUNK_UNKNOWN,
];
