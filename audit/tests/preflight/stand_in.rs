//! A program and runtimes in a folder, all built here: what they register is known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use vrocm_audit::gfx::preflight::ask::Wanted;
use vrocm_audit::loader::Request;

const IDS: [&str; 10] = ["900", "906", "908", "90a", "1030", "1100", "1101", "1102", "1200", "1201"];
const EXPORTS: &str = "int hsa_init(void){return 0;} int hsa_iterate_agents(void){return 0;} int hsa_isa_from_name(void){return 0;}\n";

/// The folder; `app` links libhsa-runtime64.so.1 and searches the folder `lib` beside it.
pub struct Bench(TempDir);

impl Bench {
    pub fn new() -> Self {
        let bench = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir(bench.at("lib")).expect("made");
        bench.rocr("lib/libhsa-runtime64.so.1", &["1150"]);
        fs::write(bench.at("main.c"), "int main(void){return 0;}").expect("written");
        bench.cc(&["-o", "app", "main.c", "-Wl,--no-as-needed", "lib/libhsa-runtime64.so.1", "-Wl,-rpath,$ORIGIN/lib"]);
        bench
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the C compiler in the folder.
    pub fn cc(&self, arguments: &[&str]) {
        let done = Command::new("cc").current_dir(self.path()).arg("-w").args(arguments).output().expect("a C compiler");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A runtime that registers a few targets and `more`.
    pub fn rocr(&self, at: &str, more: &[&str]) {
        let with_features = IDS.iter().flat_map(|id| match *id {
            "906" | "908" | "90a" => ["", ":xnack-", ":xnack+"].map(|suffix| format!("gfx{id}{suffix}")).to_vec(),
            "900" => ["", ":xnack-", ":xnack+"].map(|suffix| format!("gfx900{suffix}")).to_vec(),
            id => vec![format!("gfx{id}")],
        });
        let ids = with_features.chain(more.iter().map(|id| format!("gfx{id}"))).map(|id| format!("\"{id}\",")).collect::<String>();
        let source = format!("{EXPORTS}static const char *const t[]={{{ids}0}}; const char *at(int i){{return t[i];}}\n");
        self.library(at, "libhsa-runtime64.so.1", &source);
    }

    /// Any library.
    pub fn library(&self, at: &str, soname: &str, source: &str) {
        let path = self.at(at);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(self.at("source.c"), source).expect("written");
        let (path, soname) = (path.display().to_string(), format!("-Wl,-soname,{soname}"));
        self.cc(&["-shared", "-fPIC", "-nostdlib", "-O1", "-fasynchronous-unwind-tables", &soname, "-o", &path, "source.c"]);
    }

    /// A question about the program.
    pub fn request(&self, environment: &[(&str, &str)]) -> Request {
        Request {
            command: self.at("app").display().to_string(),
            environment: environment.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            ..Request::from_this_process()
        }
    }
}

/// A target that no runtime of these tests registers.
pub fn wanted() -> [Wanted; 1] {
    [Wanted::named("gfx1250".parse().expect("a target"))]
}
