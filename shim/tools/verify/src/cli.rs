//! Arguments, and what is looked for where none are given.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Parser;

use crate::bench::{Bench, Runtime, Settings};
use crate::cases::{self, CASES, Case};
use crate::row::Tally;
use crate::{paths, report};

/// Proves on this host that libvrocm.so holds every process to its quota. Exit status: 0 all that could be tried holds, 1 something does not or nothing could
/// be tried, 2 the run was not possible.
#[derive(Debug, Parser)]
#[command(name = "vrocm-verify", version)]
struct Arguments {
    /// The library under test; else $VROCM_SHIM, libvrocm.so beside this program, /usr/local/vrocm/libvrocm.so
    #[arg(long, value_name = "LIB")]
    shim: Option<PathBuf>,
    /// A libamdhip64.so to run under, several for several releases; else those of $ROCM_PATH, /opt/rocm and /opt/rocm-*
    #[arg(long, value_name = "LIB")]
    runtime: Vec<PathBuf>,
    /// A mock libhsa-runtime64.so.1 in place of the real one: no card of silicon is used
    #[arg(long, value_name = "LIB")]
    hsa: Option<PathBuf>,
    /// A folder in which the loader looks before the runtime's own
    #[arg(long, value_name = "DIR")]
    library_path: Vec<PathBuf>,
    /// rocm-cumask-check; else beside this program, and in PATH
    #[arg(long, value_name = "PROGRAM")]
    mask_check: Option<PathBuf>,
    /// The quota that probes run with, in MiB; requests over it are of twice as much
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(64..=65536))]
    quota: u64,
    /// How long a probe may take for one call, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// How long each measurement of compute lasts, in seconds; there are about ten
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = soak)]
    soak: Duration,
    /// Where device nodes and the kernel's topology are looked for
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    host_root: PathBuf,
    /// Only this case, several for several
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Only this way to take memory, several for several; the cases about them that have it not are SKIP
    #[arg(long, value_name = "NAME")]
    path: Vec<String>,
    /// Names the cases and runs none
    #[arg(long)]
    list: bool,
    /// The rows as JSON on standard output
    #[arg(long)]
    json: bool,
    /// The rows as JUnit into a file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

fn soak(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .filter(|seconds| (0.05..=600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "a number of seconds from 0.05 to 600".to_owned())
}

/// The program, but for its probes.
pub fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.list {
        for case in CASES {
            println!("{:<11}  {}", case.name, case.what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let cases = choose(&arguments.case)?;
    for name in &arguments.path {
        if !paths::all().iter().any(|path| path.name == name) {
            let names: Vec<&str> = paths::all().iter().map(|path| path.name).collect();
            bail!("--path {name}: there is no such way; those are: {}", names.join("; "));
        }
    }
    let bench = bench(&arguments)?;
    let begun = Instant::now();
    let rows = cases::run(&bench, &cases, |rows| {
        if !arguments.json {
            // Nobody reads any more: the exit status still says it.
            let _ = report::text(rows, &mut std::io::stdout());
        }
    });
    if arguments.json {
        println!("{}", report::json(&rows)?);
    } else {
        println!("{}", report::summary(&rows));
    }
    if let Some(path) = &arguments.junit {
        std::fs::write(path, report::junit(&rows, begun.elapsed())?).with_context(|| path.display().to_string())?;
    }
    Ok(if Tally::of(&rows).passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn choose(names: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    for name in names {
        if !CASES.iter().any(|case| case.name == name) {
            bail!("--case {name}: there is no such case; --list names them");
        }
    }
    Ok(CASES.iter().filter(|case| names.is_empty() || names.iter().any(|name| name == case.name)).collect())
}

fn bench(arguments: &Arguments) -> anyhow::Result<Bench> {
    let shim = match &arguments.shim {
        Some(path) => path.clone(),
        None => find_shim().context("no libvrocm.so: not in $VROCM_SHIM, not beside this program, not in /usr/local/vrocm; --shim names one")?,
    };
    let file = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
    let mut runtimes: Vec<Runtime> = Vec::new();
    for path in &arguments.runtime {
        // Its name is kept: what lies beside a link need not lie beside what it points to.
        let folder = file(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        file(path)?;
        runtimes.push(Runtime::new(folder.join(path.file_name().unwrap_or_default())));
    }
    if runtimes.is_empty() {
        runtimes = installed();
    }
    let mut folders = Vec::new();
    if let Some(hsa) = &arguments.hsa {
        folders.push(file(hsa)?.parent().map(Path::to_owned).unwrap_or_default());
    }
    for folder in &arguments.library_path {
        folders.push(file(folder)?);
    }
    let settings = Settings {
        shim: file(&shim)?,
        runtimes,
        folders,
        mock: arguments.hsa.is_some(),
        quota: arguments.quota,
        patience: Duration::from_secs(arguments.timeout),
        mask_check: arguments.mask_check.clone().or_else(find_mask_check),
        soak: arguments.soak,
        chosen: arguments.path.clone(),
        root: arguments.host_root.clone(),
    };
    Bench::new(settings).map_err(|trouble| anyhow::anyhow!(trouble.0))
}

/// `$VROCM_SHIM`, then beside this program, then where it is installed.
fn find_shim() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("VROCM_SHIM").filter(|value| !value.is_empty()) {
        return Some(named.into());
    }
    beside("libvrocm.so").into_iter().chain([PathBuf::from("/usr/local/vrocm/libvrocm.so")]).find(|path| path.is_file())
}

fn beside(name: &str) -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.join(name))
}

fn find_mask_check() -> Option<PathBuf> {
    let name = "rocm-cumask-check";
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside(name).into_iter().chain(std::env::split_paths(&path).map(|folder| folder.join(name))).find(|path| path.is_file())
}

/// The runtimes of `$ROCM_PATH`, `/opt/rocm` and `/opt/rocm-*`, each file once.
fn installed() -> Vec<Runtime> {
    let mut roots: Vec<PathBuf> = std::env::var_os("ROCM_PATH").map(PathBuf::from).into_iter().collect();
    roots.push("/opt/rocm".into());
    let mut others: Vec<PathBuf> = std::fs::read_dir("/opt").into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    others.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rocm-")));
    others.sort();
    roots.extend(others);
    let mut folders: Vec<PathBuf> = roots.iter().map(|root| root.join("lib")).collect();
    folders.push("/usr/lib/x86_64-linux-gnu".into());
    let mut found: Vec<Runtime> = Vec::new();
    for folder in folders {
        let names = (5..=9).rev().map(|major| folder.join(format!("libamdhip64.so.{major}"))).filter(|path| path.exists());
        for runtime in names.map(Runtime::new) {
            if !found.iter().any(|known| known.is(&runtime)) {
                found.push(runtime);
            }
        }
    }
    found
}
