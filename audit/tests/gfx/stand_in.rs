//! Small libraries that pass for a runtime: what they register is known, because it is written here.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use vrocm_audit::elf::Elf;
use vrocm_audit::gfx::{self, Library, verdict::Answer};

/// What ROCr 7.2.4 registers.
pub const TARGETS: [&str; 39] = [
    "gfx700", "gfx701", "gfx702", "gfx801", "gfx802", "gfx803", "gfx805", "gfx810", "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909",
    "gfx90a", "gfx90c", "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034",
    "gfx1035", "gfx1036", "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1200", "gfx1201",
];

/// The exports that make a library ROCr.
pub const ROCR: &str = "int hsa_init(void){return 0;} int hsa_iterate_agents(void){return 0;} int hsa_isa_from_name(void){return 0;}\n";
/// The exports that make a library HIP.
pub const HIP: &str = "int hipInit(void){return 0;} int hipGetDeviceCount(void){return 0;}\n";

/// A library in a folder of its own.
pub struct StandIn {
    /// Where it is.
    pub path: PathBuf,
    _dir: TempDir,
}

impl StandIn {
    /// Compiles C source to a shared library with a soname; the file is called like it.
    pub fn compile(soname: &str, source: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (path, input) = (dir.path().join(soname), dir.path().join("source.c"));
        std::fs::write(&input, source).unwrap();
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let output = Command::new(&compiler)
            .args(["-w", "-O1", "-shared", "-fPIC", "-fasynchronous-unwind-tables", "-nostdlib"])
            .arg(format!("-Wl,-soname,{soname}"))
            .arg("-o")
            .args([&path, &input])
            .output()
            .unwrap_or_else(|error| panic!("these tests need a C compiler, and {compiler} does not start: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { path, _dir: dir }
    }

    /// A `libhsa-runtime64.so.1`.
    pub fn rocr(source: &str) -> Self {
        Self::compile("libhsa-runtime64.so.1", &format!("{ROCR}{source}"))
    }

    /// Scans it.
    pub fn scan(&self) -> Library {
        scan(&self.path)
    }

    /// Scans it and judges a name.
    pub fn ask(&self, name: &str) -> Answer {
        ask(&self.path, name)
    }
}

/// Scans a file that must be readable.
pub fn scan(path: &Path) -> Library {
    gfx::scan(&Elf::open(path).unwrap()).unwrap()
}

/// Judges a name for a file that must be readable.
pub fn ask(path: &Path, name: &str) -> Answer {
    gfx::scan_for(&Elf::open(path).unwrap(), name.parse().unwrap()).unwrap().1
}

/// Every id that ROCr has for these targets: bare, and with each feature in each state where the target has features.
pub fn ids(targets: &[&str]) -> Vec<String> {
    let variants = |target: &&str| -> Vec<String> {
        let suffixes: &[&str] = match *target {
            "gfx906" | "gfx908" | "gfx90a" | "gfx942" | "gfx950" => {
                &["", ":sramecc-", ":sramecc+", ":xnack-", ":xnack+", ":sramecc-:xnack-", ":sramecc+:xnack-", ":sramecc-:xnack+", ":sramecc+:xnack+"]
            }
            "gfx801" | "gfx810" | "gfx900" | "gfx902" | "gfx90c" | "gfx1010" => &["", ":xnack-", ":xnack+"],
            _ => &[""],
        };
        suffixes.iter().map(|suffix| format!("{target}{suffix}")).collect()
    };
    targets.iter().flat_map(variants).collect()
}

/// A constant array of pointers to ids.
pub fn array(name: &str, ids: &[String]) -> String {
    let list = ids.iter().map(|id| format!("\"{id}\",")).collect::<Vec<_>>().concat();
    format!("static const char *const {name}[]={{{list}0}}; const char *{name}_at(int i){{return {name}[i];}}\n")
}

/// A function that registers ids one by one, as ROCr does.
pub fn builder(name: &str, ids: &[String]) -> String {
    format!("void add(const char *); void {name}(void){{{}}}\n", calls(ids))
}

/// The statements of a builder.
pub fn calls(ids: &[String]) -> String {
    ids.iter().map(|id| format!("add(\"{id}\");")).collect::<Vec<_>>().concat()
}

/// A function that writes a string with immediates only, and hides even these: the stored words are turned into the name where they stand.
pub fn hidden_immediates(name: &str, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(16, 0);
    let word = |range: std::ops::Range<usize>| u64::from_le_bytes(bytes[range].try_into().unwrap());
    let (low, high) = (word(0..8), word(8..16));
    format!(
        "void {name}(volatile unsigned long long *q){{q[0]={:#x}ull;q[1]={:#x}ull;q[0]^=0x5555555555555555ull;q[1]^=0x5555555555555555ull;}}\n",
        low ^ 0x5555_5555_5555_5555,
        high ^ 0x5555_5555_5555_5555
    )
}
