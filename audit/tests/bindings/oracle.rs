//! What the real loader binds, and what we say: the same lines, or Unclear.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use vrocm_audit::loader::scope::{self, Outcome, Rules, Scope, Unmet};
use vrocm_audit::loader::{self, Cpu, How, Request, Resolution};

/// A reference and what it gets: from, to, name, version.
pub type Line = (String, String, String, Option<String>);

/// Lines of `LD_DEBUG=bindings`; those of the vdso and of other namespaces are left out.
pub fn lines(output: &[u8]) -> BTreeSet<Line> {
    let mut found = BTreeSet::new();
    for line in String::from_utf8_lossy(output).lines() {
        let parts = line.split_once("binding file ").and_then(|(_, rest)| {
            let (from, rest) = rest.split_once(" [0] to ")?;
            let (to, rest) = rest.split_once(" [0]: ")?;
            let (name, rest) = rest.split_once(" symbol `")?.1.split_once('\'')?;
            let version = rest.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            Some((from.to_string(), to.to_string(), name.to_string(), version.map(Into::into)))
        });
        found.extend(parts.filter(|(from, ..)| !from.starts_with("linux-vdso")));
    }
    found
}

/// What the loader said of a process.
pub struct Said {
    pub lines: BTreeSet<Line>,
    /// It misses a version.
    pub unmet: bool,
}

/// Asks the loader to bind everything and to run nothing but resolvers of indirect functions, as `ldd -r` does. `None` where it lists nothing.
pub fn traced(program: &Path, environment: &[(String, String)]) -> Option<Said> {
    let mut command = Command::new(program);
    command.env_clear().envs(environment.iter().cloned());
    command.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_WARN", "1").env("LD_BIND_NOW", "1").env("LD_DEBUG", "bindings");
    let done = command.output().ok()?;
    let stderr = String::from_utf8_lossy(&done.stderr);
    let unmet = stderr.lines().any(|line| line.contains("version `") && line.contains("not found (required by"));
    done.status.success().then(|| Said { lines: lines(&done.stderr), unmet })
}

/// What we say of a process.
pub struct Ours {
    pub lines: BTreeSet<Line>,
    /// Without an answer: the objects one of which it is.
    pub unclear: BTreeMap<(String, String, Option<String>), Vec<String>>,
    pub unmet: Vec<Unmet>,
    /// A version is asked of a file without any: the loader stops with an assertion.
    pub ends: bool,
}

/// Binds every symbol.
pub fn ours(resolution: &Resolution, environment: &[(String, String)]) -> Result<Ours, String> {
    let variable = |name: &str| environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let rules = Rules::of(resolution.interpreter.as_ref(), &variable);
    let images = scope::open(&resolution.objects).map_err(|error| error.to_string())?;
    let scope = Scope::new(&resolution.objects, &images, rules, &|_, _, _| true).map_err(|error| error.to_string())?;
    let path = |object: usize| resolution.objects[object].path.clone();
    let mut found = Ours { lines: BTreeSet::new(), unclear: BTreeMap::new(), unmet: scope.unmet(), ends: false };
    for (reference, outcome) in scope.bind() {
        // The loader relocates itself before anything is there to be asked, and not at all where it only traces.
        if resolution.objects[reference.from].how == How::Interpreter {
            continue;
        }
        let (from, name, version) = (path(reference.from), reference.name.clone(), reference.version.clone());
        match outcome {
            Outcome::Bound(definition) => drop(found.lines.insert((from, path(definition.object), name, version))),
            Outcome::Unclear(objects) => drop(found.unclear.insert((from, name, version), objects.into_iter().map(path).collect())),
            Outcome::Ends(_) => found.ends = true,
            Outcome::Nothing => {}
        }
    }
    Ok(found)
}

/// What differs, as text; empty where nothing does.
pub fn differences(said: &BTreeSet<Line>, ours: &Ours) -> Vec<String> {
    let unclear = |line: &Line| ours.unclear.get(&(line.0.clone(), line.2.clone(), line.3.clone()));
    let mut found: Vec<String> = Vec::new();
    for line in said.difference(&ours.lines) {
        match unclear(line) {
            Some(candidates) if candidates.contains(&line.1) => {}
            Some(candidates) => found.push(format!("the loader {line:?}, here one of {candidates:?}")),
            None => found.push(format!("only the loader: {line:?}")),
        }
    }
    found.extend(ours.lines.difference(said).filter(|line| unclear(line).is_none()).map(|line| format!("only here: {line:?}")));
    found
}

/// The CPU of this machine, without which its loader could not be compared.
pub fn this_cpu() -> Option<Cpu> {
    Cpu::from_cpuinfo(&std::fs::read_to_string("/proc/cpuinfo").ok()?)
}

/// Resolves a program for this machine.
pub fn resolve(program: &Path, environment: &[(String, String)], cwd: &Path) -> Result<Resolution, loader::Error> {
    loader::resolve(&Request {
        command: program.display().to_string(),
        environment: environment.to_vec(),
        cwd: cwd.display().to_string(),
        cpu: this_cpu(),
        ..Request::from_this_process()
    })
}
