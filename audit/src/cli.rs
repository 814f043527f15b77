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
    /// Whether a shim loads everywhere, and what it imposes on every process.
    #[command(after_help = LINKAGE_EXAMPLES)]
    Linkage(Linkage),
    /// What the machine code of a runtime says about each export, against the manifest.
    #[command(after_help = EVIDENCE_EXAMPLES)]
    Evidence(Evidence),
    /// What a check means, or what an export does and how that is known.
    Explain(Explain),
    /// Lists and judgements inside the program.
    #[command(subcommand)]
    Manifest(Manifest),
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
    /// Doors left open on purpose, with reasons.
    #[arg(long, value_name = "FILE")]
    pub accept: Option<PathBuf>,
    /// Families of runtimes beside those inside the program: a folder as under manifests/, or a folder of such folders.
    #[arg(long, value_name = "DIR")]
    pub manifests: Vec<PathBuf>,
    /// How the report is written.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
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
    /// How the report is written.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

const EVIDENCE_EXAMPLES: &str = "\
Examples:
  vrocm-audit evidence libamdhip64.so.7
  vrocm-audit evidence /opt/rocm/lib --format json       bodies, ways and addresses of every export

Nothing is run. An export of which nothing is seen may allocate all the same.
Exit status: 0 no finding denies, 1 at least one does, 2 no audit was possible.";

/// Arguments of `evidence`.
#[derive(Debug, Args)]
pub struct Evidence {
    /// Runtime libraries, or directories that hold some.
    #[arg(value_name = "RUNTIME", required = true)]
    pub runtimes: Vec<PathBuf>,
    /// Families of runtimes beside those inside the program: a folder as under manifests/, or a folder of such folders.
    #[arg(long, value_name = "DIR")]
    pub manifests: Vec<PathBuf>,
    /// How the report is written.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
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
    /// Take each PATH, and every link on the way to it, inside this directory.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// How the report is written.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// Id of a check (`open-door`) or name of an export (`hipMalloc`).
    #[arg(value_name = "CHECK|EXPORT")]
    pub topic: String,
}

/// Subcommands of `manifest`.
#[derive(Debug, Subcommand)]
pub enum Manifest {
    /// Writes the export list of a known build, as kept under manifests/<family>/exports/.
    Exports(ManifestExports),
    /// Proposes an entry for each export that no manifest knows, with what the machine code says; a person decides.
    Add(ManifestAdd),
}

/// Arguments of `manifest add`.
#[derive(Debug, Args)]
pub struct ManifestAdd {
    /// The runtime library.
    #[arg(value_name = "RUNTIME")]
    pub runtime: PathBuf,
}

/// Arguments of `manifest exports`.
#[derive(Debug, Args)]
pub struct ManifestExports {
    /// The runtime library.
    #[arg(value_name = "RUNTIME")]
    pub runtime: PathBuf,
    /// Which release it is a build of, such as 7.2.4.
    #[arg(long)]
    pub release: crate::manifest::Release,
    /// Where the build comes from: distribution, package, version.
    #[arg(long)]
    pub source: String,
}

/// Which GPU targets does a ROCm runtime know? Read from the file; nothing is run, and no GPU is needed.
#[derive(Debug, Parser)]
#[command(name = "gfx-scan", version, max_term_width = 110, after_help = GFX_EXAMPLES)]
pub struct GfxScan {
    /// Runtime libraries (libhsa-runtime64.so.1, libamdhip64.so), or directories that hold some; without any, those in the usual places.
    #[arg(value_name = "LIB")]
    pub libraries: Vec<PathBuf>,
    /// Is this target known? gfx942, gfx90a:xnack+, amdgcn-amd-amdhsa--gfx1100.
    #[arg(long, value_name = "gfxNNN")]
    pub target: Option<String>,
    /// How the report is written.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

const GFX_EXAMPLES: &str = "\
Examples:
  gfx-scan /opt/rocm/lib/libhsa-runtime64.so.1
  gfx-scan /opt/rocm/lib --target gfx1250            ROCr and HIP must both know a GPU
  gfx-scan libhsa-runtime64.so.1 --target gfx90a:xnack+ --format json

Exit status: 0 supported (or a plain scan), 1 unsupported, 2 no scan was possible or the target is malformed, 3 unknown.";
