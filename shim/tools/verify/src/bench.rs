//! What a run works with: the library, the runtimes, how probes are started, and what was found out before the first case.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rocm_cumask::topology::Topology;
use tempfile::TempDir;

use crate::child::{Session, Trouble};
use crate::host::Host;
use crate::kernels::Code;
use crate::probe::{self, Status, Way};

/// A runtime, and where the loader is to look for what it needs.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// `libamdhip64.so.7`, with its folder unless the loader is to find it.
    pub library: PathBuf,
    /// The loader to start the probe with: `ld-linux-x86-64.so.2` beside the runtime, where a folder has a C library of its own.
    pub loader: Option<PathBuf>,
}

impl Runtime {
    /// A runtime by its path or soname.
    pub fn new(library: PathBuf) -> Self {
        let loader = library.parent().map(|folder| folder.join("ld-linux-x86-64.so.2")).filter(|loader| loader.is_file());
        Self { library, loader }
    }

    /// For rows.
    pub fn name(&self) -> String {
        self.library.display().to_string()
    }

    /// Whether it is the same file.
    pub fn is(&self, other: &Self) -> bool {
        match (self.library.canonicalize(), other.library.canonicalize()) {
            (Ok(one), Ok(two)) => one == two,
            _ => self.library == other.library,
        }
    }
}

/// Everything that cases work with.
#[derive(Debug)]
pub struct Bench {
    /// The library under test.
    pub shim: PathBuf,
    /// The runtimes; the first one is the one that most cases use.
    pub runtimes: Vec<Runtime>,
    /// Folders in front of the runtime's own: that of a mock HSA.
    pub folders: Vec<PathBuf>,
    /// What the host offers.
    pub host: Host,
    /// Whether the runtime runs over something else than a card.
    pub mock: bool,
    /// Quota of most cases, in MiB.
    pub quota: u64,
    /// How long a probe may take for one answer.
    pub patience: Duration,
    /// `rocm-cumask-check`, where it was found.
    pub mask_check: Option<PathBuf>,
    /// How long one measurement of compute lasts.
    pub soak: Duration,
    /// Names of the ways to take memory that are tried; none: all.
    pub chosen: Vec<String>,
    /// This program, which is started again as a probe.
    pub program: PathBuf,
    /// The file that the loader preloads into every process has the library in it: nothing can be tried without.
    pub everywhere: bool,
    folder: TempDir,
    ledgers: AtomicU32,
    codes: Mutex<HashMap<Code, Result<PathBuf, String>>>,
}

/// What the caller of [`Bench::new`] chooses.
#[derive(Debug)]
pub struct Settings {
    /// [`Bench::shim`]
    pub shim: PathBuf,
    /// [`Bench::runtimes`]
    pub runtimes: Vec<Runtime>,
    /// [`Bench::folders`]
    pub folders: Vec<PathBuf>,
    /// [`Bench::mock`]
    pub mock: bool,
    /// [`Bench::quota`]
    pub quota: u64,
    /// [`Bench::patience`]
    pub patience: Duration,
    /// [`Bench::mask_check`]
    pub mask_check: Option<PathBuf>,
    /// [`Bench::soak`]
    pub soak: Duration,
    /// [`Bench::chosen`]
    pub chosen: Vec<String>,
    /// Where device nodes and the kernel's topology are looked for: `/`.
    pub root: PathBuf,
}

impl Bench {
    /// Looks at the host and makes a folder for ledgers.
    pub fn new(settings: Settings) -> Result<Self, Trouble> {
        let Settings { shim, runtimes, folders, mock, quota, patience, mask_check, soak, chosen, root } = settings;
        let listed = std::fs::read_to_string("/etc/ld.so.preload").unwrap_or_default();
        let everywhere = listed.split_whitespace().any(|path| Path::new(path).file_name() == shim.file_name());
        // Where the default ledger is too: a file system that keeps locks of mappings.
        let folder = TempDir::with_prefix_in("vrocm-verify-", "/dev/shm").or_else(|_| TempDir::with_prefix("vrocm-verify-"))?;
        let (host, program) = (Host::read(&root), std::env::current_exe()?);
        let (ledgers, codes) = (AtomicU32::new(0), Mutex::default());
        Ok(Self { shim, runtimes, folders, host, mock, quota, patience, mask_check, soak, chosen, program, everywhere, folder, ledgers, codes })
    }

    /// A card of silicon: what is said of compute needs one.
    pub fn has_card(&self) -> bool {
        !self.mock && self.host.kfd
    }

    /// A ledger that nobody has used.
    pub fn ledger(&self) -> PathBuf {
        self.folder.path().join(format!("ledger-{}", self.ledgers.fetch_add(1, Ordering::Relaxed)))
    }

    /// The first card, as HSA reports it to a process without the library and without a mask.
    pub fn card(&self) -> Result<Topology, Trouble> {
        let answer = self.probe()?.start()?.must("card")?;
        let word = |key| answer.word(key).to_owned();
        let count = |key| u32::try_from(answer.number(key)).unwrap_or(0);
        Ok(Topology {
            gfx: word("gfx"),
            name: word("name"),
            pci: word("pci"),
            cu: count("cu"),
            se: count("se"),
            sa_per_se: count("sa"),
            xcc: count("xcc"),
        })
    }

    /// A file with code for the first card, compiled by the first runtime's own compiler when it is first asked for; or why there is none.
    pub fn code(&self, code: Code) -> Result<PathBuf, String> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let made = codes.len();
        codes.entry(code).or_insert_with(|| self.compile(code, self.folder.path().join(format!("code-{made}"))).map_err(|Trouble(why)| why)).clone()
    }

    fn compile(&self, code: Code, file: PathBuf) -> Result<PathBuf, Trouble> {
        self.probe()?.start()?.must(&format!("compile,{},{}", code.word(), file.display()))?;
        Ok(file)
    }

    /// A probe of the first runtime.
    pub fn probe(&self) -> Result<Probe<'_>, Trouble> {
        let runtime = self.runtimes.first().ok_or_else(|| Trouble("no runtime".into()))?;
        Ok(self.probe_of(runtime))
    }

    /// A probe of that runtime, without the library.
    pub fn probe_of<'a>(&'a self, runtime: &'a Runtime) -> Probe<'a> {
        Probe { bench: self, runtime, opens: runtime.library.clone(), way: Way::Default, shim: None, environment: Vec::new() }
    }
}

/// What lets a process use the first card.
pub const READY: [&str; 4] = ["hipInit,0", "hipSetDevice,0", "hipMalloc,4K", "hipFree"];

/// A probe that is being prepared.
pub struct Probe<'a> {
    bench: &'a Bench,
    runtime: &'a Runtime,
    opens: PathBuf,
    way: Way,
    shim: Option<PathBuf>,
    environment: Vec<(String, OsString)>,
}

impl Probe<'_> {
    /// Under the library, with this ledger and a quota of so many MiB of every card.
    #[must_use]
    pub fn shim(self, ledger: &Path, quota: u64) -> Self {
        let ledger = ledger.to_owned();
        let mut probe = self.env("VROCM_LEDGER_PATH", &ledger).env("VROCM_DEVICE_MEMORY_LIMIT", quota.to_string());
        probe.shim = Some(probe.bench.shim.clone());
        probe
    }

    /// Opens another library than the runtime: one that the loader finds beside it.
    #[must_use]
    pub fn opens(mut self, library: &str) -> Self {
        self.opens = library.into();
        self
    }

    /// Another way to the entry points.
    #[must_use]
    pub fn way(mut self, way: Way) -> Self {
        self.way = way;
        self
    }

    /// One more variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Starts it.
    pub fn start(self) -> Result<Session, Trouble> {
        let mut folders: Vec<PathBuf> = self.bench.folders.clone();
        folders.extend(self.runtime.library.parent().filter(|folder| !folder.as_os_str().is_empty()).map(Path::to_owned));
        let path = std::env::join_paths(&folders).map_err(|error| Trouble(error.to_string()))?;
        let mut command = if let Some(loader) = &self.runtime.loader {
            let mut command = Command::new(loader);
            command.arg("--library-path").arg(&path);
            if let Some(shim) = &self.shim {
                command.arg("--preload").arg(shim);
            }
            command.arg(&self.bench.program);
            command
        } else {
            Command::new(&self.bench.program)
        };
        clean(&mut command);
        if self.runtime.loader.is_none() {
            let rest = std::env::var_os("LD_LIBRARY_PATH").filter(|rest| !rest.is_empty());
            let all = folders.iter().cloned().chain(rest.iter().flat_map(std::env::split_paths));
            command.env("LD_LIBRARY_PATH", std::env::join_paths(all).map_err(|error| Trouble(error.to_string()))?);
            if let Some(shim) = &self.shim {
                command.env("LD_PRELOAD", shim);
            }
        }
        command.env("LIBVROCM_LOG_LEVEL", "2").env(probe::RUNTIME, &self.opens).env(probe::WAY, self.way.word());
        command.envs(self.environment);
        Session::start(command, self.bench.patience)
    }

    /// Starts it and lets it use the first card.
    pub fn ready(self) -> Result<Session, Trouble> {
        self.after(&READY)
    }

    /// Starts it and gives it these commands, each of which has to succeed.
    pub fn after(self, commands: &[&str]) -> Result<Session, Trouble> {
        let mut session = self.start()?;
        for command in commands {
            session.must(command)?;
        }
        Ok(session)
    }
}

/// Nothing of what this process was given decides for a probe: no other preload, no figure, no mask.
fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = ["VROCM_", "LIBVROCM_", "HSA_CU_MASK", "ROC_GLOBAL_CU_MASK"].iter().any(|prefix| text.starts_with(prefix));
        if ours || text == "LD_PRELOAD" || text == "LD_AUDIT" {
            command.env_remove(&name);
        }
    }
}

/// How many cards a runtime has, asked without the library.
pub fn cards(bench: &Bench, runtime: &Runtime) -> Result<u64, Trouble> {
    let mut session = bench.probe_of(runtime).start()?;
    let answer = session.ask("hipGetDeviceCount")?;
    match answer.status {
        Status::Code(0) => Ok(answer.numbers.get("value").copied().unwrap_or(0)),
        Status::Code(100) => Ok(0),
        other => Err(Trouble(format!("hipGetDeviceCount answered {}", crate::child::show(other)))),
    }
}
