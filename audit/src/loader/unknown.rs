//! Why a resolution leaves something open: one constant a reason, with the texts that `vrocm-audit explain` and `docs/checks/` show.

use serde::Serialize;

use crate::finding::{Check, Severity};

/// A reason: its id is what reports call the code.
pub type Code = Check;

/// One thing left open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// Id of the reason.
    pub code: &'static str,
    /// The file, directory or variable that causes it.
    pub object: String,
    /// What about it, in a sentence.
    pub detail: String,
}

impl Unknown {
    /// A reason about an object.
    pub fn new(code: &Code, object: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code: code.id, object: object.into(), detail: detail.into() }
    }
}

const fn code(id: &'static str, what: &'static str, why: &'static str, fix: &'static str, source: &'static str) -> Code {
    Check { id, severity: Severity::Note, what, why, fix, source }
}

/// The command is a script.
pub const SCRIPT: Code = code(
    "unknown-script",
    "The command is a script, so its interpreter was resolved and not what the script starts or loads.",
    "A shell or Python program decides while it runs which programs and libraries it uses. That the interpreter links no GPU runtime says nothing about the script.",
    "Ask about the program that the script starts, or about the extension modules that it imports.",
    "Linux execve(2): the first line names the interpreter.",
);

/// The interpreter is not glibc's.
pub const INTERPRETER: Code = code(
    "unknown-interpreter",
    "The program is started by a loader other than glibc's, or by none that can be read.",
    "musl and others search other places in another order and have no /etc/ld.so.preload, so glibc's rules would give a wrong answer.",
    "Install the loader that the program names, or ask about a build for glibc. Nothing is concluded about this one.",
    "PT_INTERP of the program; musl ldso/dynlink.c.",
);

/// Default directories are not known.
pub const DEFAULT_DIRECTORIES: Code = code(
    "unknown-default-directories",
    "The default directories or the value of a token could not be read from the interpreter.",
    "They are compiled into each loader. Without them a library that is in no other place cannot be looked for where this loader looks.",
    "Report the loader's build: its constant of directories has an unusual form.",
    "glibc elf/dl-load.c: system_dirs.",
);

/// A candidate or directory cannot be read by us.
pub const UNREADABLE: Code = code(
    "unknown-unreadable",
    "A file or directory on the search path may not be read by the user who asks.",
    "The loader of a process with other rights may read it and then takes what lies there. Passing over it would be a guess.",
    "Ask as the user who runs the program.",
    "glibc elf/dl-load.c: EACCES ends one candidate, not the search.",
);

/// A candidate contradicts itself.
pub const DAMAGED: Code = code(
    "unknown-damaged-object",
    "A file under the right name is damaged in a way that loaders treat differently.",
    "Depending on the field, the loader stops with a message or maps the file and crashes. Either way the process does not get this library in working order.",
    "Reinstall the file; `vrocm-audit linkage` shows field and offset.",
    "Measured, docs/measurements/loader-outcomes.md.",
);

/// Audit libraries.
pub const AUDIT: Code = code(
    "unknown-audit-library",
    "An audit library is loaded: by LD_AUDIT, DT_AUDIT or DT_DEPAUDIT.",
    "Its code sees each name before the loader does and may answer with another file (la_objsearch) or another function (la_symbind). Only running it would tell.",
    "Ask without LD_AUDIT, or relink without --audit and --depaudit.",
    "rtld-audit(7); glibc elf/dl-audit.c.",
);

/// Filters.
pub const FILTER: Code = code(
    "unknown-filter",
    "An object has DT_FILTER or DT_AUXILIARY.",
    "The loader puts the filtee before the object itself into the search order. That is not modelled.",
    "Relink without -f and -F.",
    "glibc elf/dl-deps.c.",
);

/// Tunables and masks.
pub const TUNABLES: Code = code(
    "unknown-loader-variable",
    "A variable that changes the loader's search is set: GLIBC_TUNABLES with a rtld or cpu setting, LD_HWCAP_MASK, LD_ASSUME_KERNEL, LD_PREFER_MAP_32BIT_EXEC.",
    "These switch capability subdirectories on and off, or refuse libraries made for another kernel. Their effect differs between versions.",
    "Ask without the variable.",
    "glibc manual, Tunables; ld.so(8).",
);

/// Set-user-id programs.
pub const SECURE: Code = code(
    "unknown-secure-mode",
    "The program has a set-user-id or set-group-id bit or file capabilities, and the answer depends on whether they take effect.",
    "In secure mode the loader drops LD_LIBRARY_PATH, preloads with a slash and most uses of $ORIGIN. Whether it applies depends on who starts the program. The answer given is the one for secure mode.",
    "Ask about a copy without the mark, or without the variables.",
    "ld.so(8): secure-execution mode; getauxval(3): AT_SECURE; capabilities(7).",
);

/// A path without UTF-8.
pub const NAME: Code = code(
    "unknown-name",
    "A library name or search path holds bytes that are not text.",
    "Such a name cannot be asked for without loss, so the file that the loader finds may be another.",
    "Rename the directory or relink the object.",
    "Names in DT_STRTAB are bytes.",
);

/// Another machine.
pub const MACHINE: Code = code(
    "unknown-machine-directories",
    "The capability subdirectories of this machine are not known, and a directory that may be one exists.",
    "A library in such a subdirectory goes before the plain one on CPUs that have the capability.",
    "Ask on x86-64 or without the subdirectory.",
    "glibc sysdeps/*/dl-hwcaps_subdirs.c and dl-procinfo.c.",
);

/// The cache.
pub const CACHE: Code = code(
    "unknown-cache",
    "/etc/ld.so.cache exists and cannot be understood, or its entry depends on a capability that is not known.",
    "Most libraries are found through the cache. A wrong reading of it would name the wrong file.",
    "Run ldconfig in that root.",
    "glibc elf/dl-cache.c, sysdeps/generic/dl-cache.h.",
);

/// Bounds.
pub const BOUND: Code = code(
    "unknown-bound",
    "The resolution stopped at a bound: objects, files asked for, or the size of a file that is read whole.",
    "The loader has no such bound, so what lies behind it is not known.",
    "Raise the bound in the request where the layout is really that large.",
    "docs/ARCHITECTURE.md.",
);

/// A file changed while it was read.
pub const CHANGED: Code = code(
    "unknown-changed",
    "A file that decides was replaced or written while the question was asked.",
    "What was read of it and what the loader will find are no longer the same file.",
    "Ask again when the installation is done.",
    "Device, inode, size and time of modification, before and after.",
);

/// Every reason.
pub const ALL: [&Code; 14] = [
    &SCRIPT,
    &INTERPRETER,
    &DEFAULT_DIRECTORIES,
    &UNREADABLE,
    &DAMAGED,
    &AUDIT,
    &FILTER,
    &TUNABLES,
    &SECURE,
    &NAME,
    &MACHINE,
    &CACHE,
    &BOUND,
    &CHANGED,
];
