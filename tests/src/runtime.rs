//! The real libamdhip64 of each version, unmodified, in a folder with what it needs to run.
//!
//! 5.2.3 runs on the machine's own C library. The others need a newer one and are run by the loader of the suite they come from, or of the newest set
//! (`ld-linux-x86-64.so.2 --library-path …`); a program that was built here does not mind.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use crate::corpus::{self, Package};
use crate::mock;

/// The versions that Debian ships and the tests know.
pub const VERSIONS: [&str; 4] = ["5.2.3", "5.7.1", "6.4.3", "7.2.4"];

/// A runtime that can be run.
#[derive(Debug)]
pub struct Runtime {
    /// `7.2.4`
    pub version: &'static str,
    /// `libamdhip64.so.7`
    pub soname: String,
    /// Holds the runtime and what it needs, without HSA.
    pub folder: PathBuf,
    /// The loader to run it with, where the machine's own will not do.
    pub loader: Option<PathBuf>,
    /// Whether a compiler of kernels is there; without one, calls that need a kernel fail.
    pub comgr: bool,
}

/// What a version is put together from. The first library set that is whole is taken.
struct Recipe {
    runtime: Package,
    sets: &'static [&'static [Package]],
}

const BOOKWORM: &[Package] = &[
    "libamd-comgr2_5.2.3",
    "libllvm15_",
    "libedit2_3.1-20221030",
    "libxml2_2.9.14+dfsg-1.3",
    "libicu72_",
    "libz3-4_4.8.12",
    "libbsd0_0.11.7",
    "libmd0_1.0.4",
    "libffi8_3.4.4",
    "zlib1g_1%3a1.2.13",
    "liblzma5_5.4.1",
    "libtinfo6_6.4",
    "libnuma1_2.0.16",
];
const TRIXIE: &[Package] = &[
    "libc6_2.41",
    "libstdc++6_14",
    "libgcc-s1_14",
    "libnuma1_2.0.19-1_",
    "libamd-comgr2_6.0",
    "libllvm17t64_",
    "libedit2_3.1-20250104",
    "libxml2_2.12.7",
    "libz3-4_4.13.3-1_",
    "libbsd0_0.12.2-2",
    "libmd0_1.1.0",
    "libffi8_3.4.8",
    "zlib1g_1%3a1.3.dfsg+really1.3.1",
    "liblzma5_5.8.1",
    "libtinfo6_6.5",
    "libzstd1_1.5.7+dfsg-1_",
];
const NEWEST: &[Package] = &[
    "libc6_2.44",
    "libstdc++6_16",
    "libgcc-s1_16",
    "libnuma1_2.0.19-1+b2",
    "libamd-comgr3_",
    "libllvm22_",
    "libedit2_3.1-20260512",
    "libxml2-16_",
    "libz3-4_4.13.3-1.1",
    "libbsd0_0.12.2-3",
    "libmd0_1.3.0",
    "libffi8_3.8.0",
    "zlib1g_1%3a1.3.dfsg+really1.3.2",
    "liblzma5_5.8.4",
    "libtinfo6_6.6",
    "libzstd1_1.5.7+dfsg-4",
    "libhiprtc7_",
];
/// Of the machine itself; comgr is the stub.
const HOST: &[Package] = &[];

fn recipe(version: &str) -> Recipe {
    match version {
        "5.2.3" => Recipe { runtime: "libamdhip64-5_5.2.3", sets: &[BOOKWORM, HOST] },
        "5.7.1" => Recipe { runtime: "libamdhip64-5_5.7.1", sets: &[TRIXIE, NEWEST] },
        "6.4.3" => Recipe { runtime: "libamdhip64-6_6.4.3", sets: &[NEWEST] },
        "7.2.4" => Recipe { runtime: "libamdhip64-7_7.2.4", sets: &[NEWEST] },
        _ => panic!("{version} is none of {VERSIONS:?}"),
    }
}

impl Runtime {
    /// The runtime of that version, put together on first use; or what is missing.
    ///
    /// # Panics
    ///
    /// For a version that is none of [`VERSIONS`].
    pub fn find(version: &str) -> Result<&'static Self, String> {
        static FOUND: OnceLock<BTreeMap<&str, Result<Runtime, String>>> = OnceLock::new();
        let found = FOUND.get_or_init(|| VERSIONS.iter().map(|&version| (version, assemble(version))).collect());
        found.get(version).unwrap_or_else(|| panic!("{version} is none of {VERSIONS:?}")).as_ref().map_err(Clone::clone)
    }

    /// The runtime of that version.
    ///
    /// # Panics
    ///
    /// When it is not in the corpus, saying what is missing and how to get it.
    pub fn get(version: &str) -> &'static Self {
        Self::find(version).unwrap_or_else(|missing| panic!("{missing}"))
    }

    /// Every runtime that is there; what is missing is said on standard error.
    ///
    /// # Panics
    ///
    /// When 5.2.3 is missing, which every machine can have, or any of them while `VROCM_REQUIRE=all` is set.
    pub fn present() -> Vec<&'static Self> {
        let mut found = Vec::new();
        for version in VERSIONS {
            match Self::find(version) {
                Ok(runtime) => found.push(runtime),
                Err(missing) if corpus::is_demanded() || version == "5.2.3" => panic!("{missing}"),
                Err(missing) => eprintln!("not tested: {missing}"),
            }
        }
        found
    }

    /// Whether this version is at least that one.
    pub fn is_at_least(&self, version: &str) -> bool {
        self.version >= version
    }

    /// Where the loader is to look: the mock, then the runtime's own folder, then what the caller adds.
    pub fn library_path(&self) -> String {
        let mut folders = vec![mock::library_folder(), &self.folder];
        if !self.comgr {
            folders.push(mock::comgr_folder());
        }
        folders.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>().join(":")
    }

    /// A command that runs a program with this runtime in reach, with `preload` before everything else.
    pub fn command(&self, program: &Path, preload: Option<&Path>) -> Command {
        let Some(loader) = &self.loader else {
            let mut command = Command::new(program);
            command.env("LD_LIBRARY_PATH", self.library_path());
            if let Some(preload) = preload {
                command.env("LD_PRELOAD", preload);
            }
            return command;
        };
        let mut command = Command::new(loader);
        command.args(["--library-path", &self.library_path()]);
        if let Some(preload) = preload {
            command.arg("--preload").arg(preload);
        }
        command.arg(program);
        command
    }

    /// A driver that is linked with this runtime, made on first use.
    ///
    /// # Panics
    ///
    /// When the C compiler or the linker fails.
    pub fn linked_driver(&self) -> PathBuf {
        static BUILDING: Mutex<()> = Mutex::new(());
        // The folder outlives a change of the driver's sources.
        let mut sources = DefaultHasher::new();
        [include_str!("../probes/driver.c"), include_str!("../probes/driver.h"), include_str!("../probes/hip.h"), include_str!("../probes/calls.c")]
            .hash(&mut sources);
        let program = self.folder.join(format!("driver-linked-{:016x}", sources.finish()));
        let _one_at_a_time = BUILDING.lock();
        if program.exists() {
            return program;
        }
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/probes");
        let unfinished = self.folder.join(format!("driver-linked-unfinished.{}", std::process::id()));
        let status = Command::new("cc")
            .args(["-D_GNU_SOURCE", "-std=gnu11", "-DDIRECT", "-O1", "-fPIE", "-pie", "-o"])
            .arg(&unfinished)
            .args(["driver.c", "calls.c"].map(|file| format!("{sources}/{file}")))
            .arg("-Wl,--no-as-needed")
            .arg(self.folder.join(&self.soname))
            // The runtime's own needs are none of this program's business, and names that this version lacks stay open.
            .args(["-Wl,--allow-shlib-undefined", "-Wl,-z,dynamic-undefined-weak", "-ldl", "-pthread"])
            .status()
            .expect("a C compiler");
        assert!(status.success(), "the driver cannot be linked with {}", self.soname);
        std::fs::rename(&unfinished, &program).expect("a rename in one folder");
        program
    }
}

/// Links everything a version needs into one folder. The folder's name carries what it was made from, so that another corpus or another recipe makes
/// another one; it appears whole or not at all.
fn assemble(version: &'static str) -> Result<Runtime, String> {
    let recipe = recipe(version);
    let runtime = corpus::package(recipe.runtime).ok_or_else(|| corpus::missing(version, &[recipe.runtime]))?;
    let mut lacking = Vec::new();
    let mut chosen = None;
    for &set in recipe.sets {
        let absent: Vec<Package> = set.iter().copied().filter(|&name| corpus::package(name).is_none()).collect();
        if absent.is_empty() {
            chosen = Some(set);
            break;
        }
        // What is said to be missing is what takes the least to get.
        if lacking.is_empty() || absent.len() < lacking.len() {
            lacking = absent;
        }
    }
    let set = chosen.ok_or_else(|| corpus::missing(version, &lacking))?;
    let packages: Vec<PathBuf> = std::iter::once(runtime).chain(set.iter().filter_map(|&name| corpus::package(name))).collect();
    let folder = PathBuf::from(concat!(env!("OUT_DIR"), "/runtimes")).join(format!("{version}-{:016x}", fingerprint(&packages)));
    if !folder.exists() {
        link(&packages, &folder).map_err(|error| format!("{version}: {}: {error}", folder.display()))?;
    }
    let soname = find_soname(&folder).ok_or_else(|| format!("{version}: {}: no libamdhip64", folder.display()))?;
    let loader = folder.join("ld-linux-x86-64.so.2");
    let comgr = set.iter().any(|name| name.starts_with("libamd-comgr"))
        && ["libamd_comgr.so.2", "libamd_comgr.so.3"].iter().any(|name| folder.join(name).exists())
        // 5.7.1 asks for the second comgr, which the newest set does not have.
        && (version != "5.7.1" || folder.join("libamd_comgr.so.2").exists());
    Ok(Runtime { version, soname, loader: loader.exists().then_some(loader), folder, comgr })
}

fn link(packages: &[PathBuf], folder: &Path) -> std::io::Result<()> {
    let unfinished = folder.with_extension(std::process::id().to_string());
    let _ = std::fs::remove_dir_all(&unfinished);
    std::fs::create_dir_all(&unfinished)?;
    for package in packages {
        for place in ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"] {
            let Ok(entries) = std::fs::read_dir(package.join(place)) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                if name.to_string_lossy().contains(".so") && entry.path().is_file() {
                    let _ = symlink(std::fs::canonicalize(entry.path())?, unfinished.join(&name));
                }
            }
        }
    }
    // Programs open these names, and so does hipGetProcAddress; only the -dev packages have them.
    if let Some(soname) = find_soname(&unfinished) {
        symlink(soname, unfinished.join("libamdhip64.so"))?;
    }
    if unfinished.join("libhiprtc.so.7").exists() {
        symlink("libhiprtc.so.7", unfinished.join("libhiprtc.so"))?;
    }
    // Another process may have been first, which is just as well.
    if std::fs::rename(&unfinished, folder).is_err() && !folder.exists() {
        return Err(std::io::Error::other("cannot be renamed"));
    }
    let _ = std::fs::remove_dir_all(&unfinished);
    Ok(())
}

/// Counted up when [`link`] makes something else of the same packages.
const LAYOUT: u8 = 2;

fn find_soname(folder: &Path) -> Option<String> {
    (5..=9).map(|major| format!("libamdhip64.so.{major}")).find(|name| folder.join(name).exists())
}

/// FNV-1a over the layout and the paths.
fn fingerprint(paths: &[PathBuf]) -> u64 {
    let bytes = paths.iter().flat_map(|path| path.as_os_str().as_encoded_bytes().iter().copied().chain([0]));
    std::iter::once(LAYOUT).chain(bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
