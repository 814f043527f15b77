//! Arguments only: what the command line may say. What follows from it is in [`crate::commands`].

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::report::Format;

/// Static auditor for GPU interposers: which doors a shim leaves open, and whether it loads everywhere.
#[derive(Debug, Parser)]
#[command(name = "vrocm-audit", version, arg_required_else_help = true, max_term_width = 110)]
pub struct Cli {
    /// What to audit.
    #[command(subcommand)]
    pub command: Command,
}

/// The audits.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Everything a runtime exports, classified, minus what the shim interposes.
    #[command(after_help = COVERAGE_EXAMPLES)]
    Coverage(Coverage),
    /// Which files reach a GPU runtime, and which of them slip past the shim.
    #[command(after_help = CONSUMERS_EXAMPLES)]
    Consumers(Consumers),
    /// What one program would load, and which definition each of its references to a runtime gets with these preloads.
    #[command(after_help = BINDINGS_EXAMPLES)]
    Bindings(Bindings),
    /// Whether a shim loads everywhere, and what it imposes on every process.
    #[command(after_help = LINKAGE_EXAMPLES)]
    Linkage(Linkage),
    /// Everything a configuration names, in one process and with one result: what CI runs.
    #[command(after_help = GATE_EXAMPLES)]
    Gate(Gate),
    /// What a newer runtime, shim or manifest adds and takes away, doors first.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(Diff),
    /// What the machine code of a runtime says about each export, against the manifest.
    #[command(after_help = EVIDENCE_EXAMPLES)]
    Evidence(Evidence),
    /// What a check, a class or a word of a report means; what an export does, how that is known, what to paste.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// A completion script for a shell: bash, zsh, fish, elvish or powershell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
        /// Whose.
        #[arg(long, value_enum, default_value = "vrocm-audit")]
        program: Program,
    },
    /// The manual page, for man: vrocm-audit man | man -l -
    Man {
        /// Whose.
        #[arg(value_enum, default_value = "vrocm-audit")]
        program: Program,
    },
    /// Lists and judgements inside the program.
    #[command(subcommand)]
    Manifest(Manifest),
}

/// The programs that completions and manual pages are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// vrocm-audit.
    VrocmAudit,
    /// gfx-scan.
    GfxScan,
}

/// How a report is written: shared by the commands that write one.
#[derive(Debug, Args)]
pub struct Output {
    /// How the report is written.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Families of the user's own: shared by the commands that judge exports.
#[derive(Debug, Args)]
pub struct Families {
    /// Families of runtimes beside those inside the program: a folder as under manifests/, or a folder of such folders.
    #[arg(long, value_name = "DIR")]
    pub manifests: Vec<PathBuf>,
}

/// Doors left open on purpose: shared by the commands that find doors.
#[derive(Debug, Args)]
pub struct Accepted {
    /// Doors left open on purpose, with reasons; those inside the program are for libvrocm.so alone.
    #[arg(long, value_name = "FILE")]
    pub accept: Option<PathBuf>,
}

const COVERAGE_EXAMPLES: &str = "\
Examples:
  vrocm-audit coverage                                   the export lists inside the program
  vrocm-audit coverage libamdhip64.so.7 --shim libvrocm.so
  vrocm-audit coverage /opt/rocm/lib --shim libvrocm.so  every runtime in a directory
  vrocm-audit coverage --interposed names.txt --format json

Exit status: 0 no finding denies, 1 at least one does, 2 no audit was possible.";

/// Arguments of `coverage`.
#[derive(Debug, Args)]
pub struct Coverage {
    /// Runtime libraries, or directories that hold some; without any, the export lists inside the program.
    #[arg(value_name = "RUNTIME")]
    pub runtimes: Vec<PathBuf>,
    /// The shim whose exports are subtracted. Without it: $`VROCM_SHIM`, libvrocm.so beside this program, /usr/local/vrocm/libvrocm.so.
    #[arg(long, value_name = "LIB")]
    pub shim: Option<PathBuf>,
    /// Subtract a list of names instead (one a line, or interposed.json); with --shim it tells the action of each row.
    #[arg(long, value_name = "LIST")]
    pub interposed: Option<PathBuf>,
    /// Acceptances.
    #[command(flatten)]
    pub accepted: Accepted,
    /// Known families.
    #[command(flatten)]
    pub families: Families,
    /// The report.
    #[command(flatten)]
    pub output: Output,
}

const LINKAGE_EXAMPLES: &str = "\
Examples:
  vrocm-audit linkage libvrocm.so
  vrocm-audit linkage libshim.so --interposed names.txt --max-version GLIBC_2.17
  vrocm-audit linkage libshim.so --policy policy.json --format json

Without --policy a library is judged as libvrocm.so is: 64-bit x86-64, libc.so.6 alone needed, nothing above GLIBC_2.4.
Exit status: 0 no finding denies, 1 at least one does, 2 no audit was possible.";

/// Arguments of `linkage`.
#[derive(Debug, Args)]
pub struct Linkage {
    /// Shim libraries, or directories that hold some.
    #[arg(value_name = "SHIM", required = true)]
    pub shims: Vec<PathBuf>,
    /// The rules' settings; see manifests/linkage.json for those inside the program.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The exact set of exports: one name a line, or interposed.json. For a file called libvrocm.so the list inside the program.
    #[arg(long, value_name = "LIST")]
    pub interposed: Option<PathBuf>,
    /// Highest version that may be required, per namespace.
    #[arg(long, value_name = "GLIBC_2.4")]
    pub max_version: Vec<String>,
    /// A library that may be needed; replaces the policy's list.
    #[arg(long, value_name = "NAME")]
    pub allow_needed: Vec<String>,
    /// The report.
    #[command(flatten)]
    pub output: Output,
}

const GATE_EXAMPLES: &str = "\
Examples:
  vrocm-audit gate --init                       writes vrocm-gate.jsonc, with comments
  vrocm-audit gate
  vrocm-audit gate ci/gate.jsonc --format github
  vrocm-audit gate --since old/libshim.so       what this change opened and closed

Exit status: 0 no finding denies, 1 at least one does, 2 something named could not be audited.";

/// Arguments of `gate`.
#[derive(Debug, Args)]
pub struct Gate {
    /// The configuration; vrocm-gate.jsonc without it.
    #[arg(value_name = "CONFIG")]
    pub config: Option<PathBuf>,
    /// Write a commented start to CONFIG instead; never over a file that is there.
    #[arg(long)]
    pub init: bool,
    /// Say as well which doors were opened and closed since this older build of the shim.
    #[arg(long, value_name = "OLD_SHIM")]
    pub since: Option<PathBuf>,
    /// How the report on standard output is written.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

const DIFF_EXAMPLES: &str = "\
Examples:
  vrocm-audit diff 'hip 6.4.3' 'hip 7.2.4'               lists inside the program
  vrocm-audit diff libamdhip64-6.deb /opt/rocm/lib --shim libvrocm.so
  vrocm-audit diff old/libshim.so libshim.so             what this change opens and closes
  vrocm-audit diff main/manifests manifests              judgements, for review

The kind is found from the files; two of different kinds are no comparison.
Exit status: 0 no finding denies, 1 at least one does (a new door, one that was opened), 2 no comparison was possible.";

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The older: a runtime or shim (a file, the folder or package that holds it), a list inside the program (`hip 7.2.4`), a manifest or folder of them.
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// The newer, of the same kind.
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Between runtimes: say which new doors this shim holds; those that it holds are notes.
    #[arg(long, value_name = "LIB")]
    pub shim: Option<PathBuf>,
    /// Acceptances.
    #[command(flatten)]
    pub accepted: Accepted,
    /// Known families.
    #[command(flatten)]
    pub families: Families,
    /// The report.
    #[command(flatten)]
    pub output: Output,
}

const EVIDENCE_EXAMPLES: &str = "\
Examples:
  vrocm-audit evidence libamdhip64.so.7
  vrocm-audit evidence libamdhip64.so.7 --export hipMalloc   its ways, step by step: to what allocates, and to HSA beneath
  vrocm-audit evidence /opt/rocm/lib --format json       bodies, ways and addresses of every export
  vrocm-audit evidence libamdhip64.so.7 --debug          with names, where the distribution's debug information is installed

Nothing is run. An export of which nothing is seen may allocate all the same.
Exit status: 0 no finding denies, 1 at least one does, 2 no audit was possible.";

/// Arguments of `evidence`.
#[derive(Debug, Args)]
pub struct Evidence {
    /// Runtime libraries, or directories that hold some.
    #[arg(value_name = "RUNTIME", required = true)]
    pub runtimes: Vec<PathBuf>,
    /// Names and prototypes from this file of debug information; without FILE from where it belongs: the runtime itself, /usr/lib/debug by build-id, its debug link.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub debug: Option<Option<PathBuf>>,
    /// Only this export, with its ways: instruction and function of each step. May be given several times.
    #[arg(long = "export", value_name = "NAME")]
    pub exports: Vec<String>,
    /// Known families.
    #[command(flatten)]
    pub families: Families,
    /// The report.
    #[command(flatten)]
    pub output: Output,
}

const CONSUMERS_EXAMPLES: &str = "\
Examples:
  vrocm-audit consumers /usr /opt                        every ELF file below, and packages among them
  vrocm-audit consumers hashcat_7.1.2_amd64.deb torch.whl --shim libvrocm.so
  vrocm-audit consumers image.tar                        docker save, an OCI archive, or the folder of an OCI layout
  vrocm-audit consumers / --root /mnt/rootfs --format json

held: every way to a runtime passes the shim. slips, unknown: each with its reason; `vrocm-audit explain REASON` says more.
Exit status: 0 nothing slips, 1 something does, 2 something could not be read.";

/// Arguments of `consumers`.
#[derive(Debug, Args)]
pub struct Consumers {
    /// Files, directories, packages (.deb, wheel, tarball), images (docker save, OCI).
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// The shim that is to hold them. Without it: $`VROCM_SHIM`, libvrocm.so beside this program, /usr/local/vrocm/libvrocm.so.
    #[arg(long, value_name = "LIB")]
    pub shim: Option<PathBuf>,
    /// A list of what the shim interposes (one name a line, or interposed.json); with --shim it tells the action of each row.
    #[arg(long, value_name = "LIST")]
    pub interposed: Option<PathBuf>,
    /// Acceptances.
    #[command(flatten)]
    pub accepted: Accepted,
    /// Take each PATH, and every link on the way to it, inside this directory.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// The report.
    #[command(flatten)]
    pub output: Output,
}

const BINDINGS_EXAMPLES: &str = "\
Examples:
  vrocm-audit bindings ./train --preload /usr/local/vrocm/libvrocm.so
  vrocm-audit bindings python3 --env LD_PRELOAD=/usr/local/vrocm/libvrocm.so
  vrocm-audit bindings /usr/bin/rocminfo --root /mnt/rootfs --format json

Nothing is run: it reads the files and decides as glibc's loader does. LD_PRELOAD, LD_LIBRARY_PATH and PATH are those of this shell unless --env says
otherwise; /etc/ld.so.preload is read below --root. What a program opens while it runs is listed apart, as far as files tell.
Exit status: 0 nothing slips, 1 something does, 2 the program would not start, or its loader is not glibc's.";

/// Arguments of `bindings`.
#[derive(Debug, Args)]
pub struct Bindings {
    /// The program: a path, or a name for PATH.
    #[arg(value_name = "PROGRAM")]
    pub program: String,
    /// A library to preload, as the loader's own --preload takes it; several in order.
    #[arg(long = "preload", value_name = "LIB")]
    pub preloads: Vec<String>,
    /// A variable of the program's environment.
    #[arg(long = "env", value_name = "K=V")]
    pub variables: Vec<String>,
    /// Root file system of the program, such as an unpacked image; preloads are looked up in it too.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Acceptances.
    #[command(flatten)]
    pub accepted: Accepted,
    /// The report.
    #[command(flatten)]
    pub output: Output,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  vrocm-audit explain open-door           a check: what, why, fix, what to paste, source
  vrocm-audit explain hipGraphLaunch      an export: class and evidence per release, a row to paste
  vrocm-audit explain unknown-script      why an answer is unknown
  vrocm-audit explain capacity-query      a class; labels, verdicts, actions and reasons as well";

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Id of a check (`open-door`), name of an export (`hipMalloc`), a class, or a word of a report.
    #[arg(value_name = "CHECK|EXPORT")]
    pub topic: String,
    /// Known families.
    #[command(flatten)]
    pub families: Families,
}

/// Subcommands of `manifest`.
#[derive(Debug, Subcommand)]
pub enum Manifest {
    /// Writes the export list of a known build, as kept under manifests/<family>/exports/.
    Exports(ManifestExports),
    /// Proposes an entry for each export that no manifest knows, with what the machine code says; a person decides.
    Add(ManifestAdd),
    /// Writes what the machine code of a known build says, to be stored under manifests/<family>/readings/.
    Reading(ManifestAdd),
}

/// Arguments of `manifest add` and `manifest reading`.
#[derive(Debug, Args)]
pub struct ManifestAdd {
    /// The runtime library.
    #[arg(value_name = "RUNTIME")]
    pub runtime: PathBuf,
    /// Known families.
    #[command(flatten)]
    pub families: Families,
}

/// Arguments of `manifest exports`.
#[derive(Debug, Args)]
pub struct ManifestExports {
    /// The runtime library.
    #[arg(value_name = "RUNTIME")]
    pub runtime: PathBuf,
    /// Known families.
    #[command(flatten)]
    pub families: Families,
    /// Which release it is a build of, such as 7.2.4.
    #[arg(long)]
    pub release: crate::manifest::Release,
    /// Where the build comes from: distribution, package, version.
    #[arg(long)]
    pub source: String,
}

/// Which GPU targets does a ROCm runtime know? Read from the file; nothing is run, and no GPU is needed.
#[derive(Debug, Parser)]
#[command(name = "gfx-scan", version, max_term_width = 110, after_help = GFX_EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct GfxScan {
    /// Another question than that of a library.
    #[command(subcommand)]
    pub command: Option<GfxCommand>,
    /// Runtime libraries (libhsa-runtime64.so.1, libamdhip64.so), directories that hold some, wheels, `.deb` or images; without any, those in the usual places.
    #[arg(value_name = "LIB")]
    pub libraries: Vec<PathBuf>,
    /// Is this target known? gfx942, gfx90a:xnack+, amdgcn-amd-amdhsa--gfx1100.
    #[arg(long, value_name = "gfxNNN")]
    pub target: Option<String>,
    /// The report.
    #[command(flatten)]
    pub output: Output,
}

/// Other questions of `gfx-scan`.
#[derive(Debug, Subcommand)]
pub enum GfxCommand {
    /// Does the runtime that a command would load know the GPU? Nothing is run.
    #[command(after_help = PREFLIGHT_EXAMPLES)]
    Preflight(Preflight),
}

/// Arguments of `gfx-scan preflight`.
#[derive(Debug, Args)]
pub struct Preflight {
    /// The GPU: gfx942, gfx90a:xnack+. Without it and --config: the GPUs of this machine, from KFD.
    #[arg(long, value_name = "gfxNNN", conflicts_with = "config")]
    pub target: Option<String>,
    /// A rocjitsu simulator configuration, or a `config_path` hand-over file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A variable of the command's environment.
    #[arg(long = "env", value_name = "K=V")]
    pub variables: Vec<String>,
    /// Start from an empty environment instead of this one.
    #[arg(long)]
    pub clear_env: bool,
    /// Root file system of the command, such as an unpacked image.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// A wheel, Debian package or image that is not installed: the runtimes in it are candidates, too.
    #[arg(long = "package", value_name = "FILE")]
    pub packages: Vec<PathBuf>,
    /// Only warn: exit status 0 whatever comes out.
    #[arg(long)]
    pub warn_only: bool,
    /// The report.
    #[command(flatten)]
    pub output: Output,
    /// The command and its arguments.
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub words: Vec<String>,
}

const PREFLIGHT_EXAMPLES: &str = "\
Examples:
  gfx-scan preflight --target gfx1250 -- ./train --epochs 3
  gfx-scan preflight --config mi455x.json --root /images/rocm -- rocminfo
  gfx-scan preflight --target gfx1250 --package torch-2.9.0-cp312-linux_x86_64.whl -- python3 train.py
  gfx-scan preflight --warn-only --env HSA_OVERRIDE_GFX_VERSION=11.0.0 -- ./train

Exit status: 0 supported, 1 unsupported, 2 no such command or a malformed argument, 3 unknown.";

const GFX_EXAMPLES: &str = "\
Examples:
  gfx-scan /opt/rocm/lib/libhsa-runtime64.so.1
  gfx-scan /opt/rocm/lib --target gfx1250            ROCr and HIP must both know a GPU
  gfx-scan libhsa-runtime64.so.1 --target gfx90a:xnack+ --format json

Exit status: 0 supported (or a plain scan), 1 unsupported, 2 no scan was possible or the target is malformed, 3 unknown.";
