//! Builds the shims that `fixtures/` describes: small C files compiled here and now, and files of other machines written byte by byte.
//!
//! A fixture says in its own source what it is and what is expected of it, in lines that begin with `//#`:
//!
//! | line | meaning |
//! |---|---|
//! | `fires: SEVERITY RULE: TEXT` | this rule finds something with this severity, and a message of it holds the text |
//! | `judge: {…} => VERDICT` | the same file under a policy changed by these keys: `fail` (a deny), `warn`, or `pass` (notes at most) |
//! | `policy: {…}` | keys that replace those of `manifests/linkage.json` for all `fires` |
//! | `list: NAME…` | the exact set of exports |
//! | `floor: NAMESPACE NUMBER` | what the subject's `floors` must say |
//! | `cc: FLAG…` | more flags for compiler and linker |
//! | `link: shared, pie, exec or object` | what is made; `shared` where the line is absent |
//! | `libc: NAME@VERSION…` | symbols of the stub `libc.so.6`; `none` for no libc. `strlen@GLIBC_2.2.5` where the line is absent |
//! | `stub: SONAME NAME@VERSION…` | one more library to link against |
//! | `version-script: …` | its text |
//! | `patch: …` | bytes changed afterwards, see [`super::patch::apply`] |
//! | `made: …` | no C at all: see [`super::made::write`] |

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{made, patch};
use vrocm_audit::elf::Elf;
use vrocm_audit::finding::{Finding, Severity};
use vrocm_audit::linkage::{self, Policy, Subject};
use vrocm_audit::manifest::InterposedList;

/// The top of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// One `fires` line.
pub struct Fires {
    pub severity: Severity,
    pub rule: String,
    pub text: String,
}

/// A fixture's source and what it says of itself.
pub struct Fixture {
    pub path: PathBuf,
    directives: Vec<(String, String)>,
}

impl Fixture {
    /// Reads the `//#` lines of a source.
    pub fn read(path: &Path) -> Self {
        const KNOWN: [&str; 12] = ["fires", "judge", "policy", "list", "floor", "cc", "link", "libc", "stub", "version-script", "patch", "made"];
        let source = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines = source.lines().filter_map(|line| line.trim().strip_prefix("//#"));
        let directives: Vec<(String, String)> = lines
            .map(|line| line.split_once(':').unwrap_or_else(|| panic!("{}: {line}", path.display())))
            .map(|(key, value)| (key.trim().to_string(), value.trim().to_string()))
            .collect();
        if let Some((unknown, _)) = directives.iter().find(|(key, _)| !KNOWN.contains(&key.as_str())) {
            panic!("{}: no directive is called {unknown}", path.display());
        }
        Self { path: path.into(), directives }
    }

    /// Every source in the folders below one that says anything of itself, sorted.
    pub fn all_below(folder: &Path) -> Vec<Self> {
        let mut paths = Vec::new();
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_dir()) {
            let files = fs::read_dir(entry).expect("readable").map(|file| file.expect("readable").path());
            paths.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "c" || extension == "made")));
        }
        paths.sort();
        paths.iter().map(|path| Self::read(path)).filter(|fixture| !fixture.directives.is_empty()).collect()
    }

    /// `exec-stack/rwe`.
    pub fn name(&self) -> String {
        let folder = self.path.parent().and_then(Path::file_name).unwrap_or_default();
        format!("{}/{}", folder.to_string_lossy(), self.path.file_stem().unwrap_or_default().to_string_lossy())
    }

    /// The folder's name: the rule's id, or the case's.
    pub fn folder(&self) -> String {
        self.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
    }

    fn values<'a>(&'a self, key: &'static str) -> impl Iterator<Item = &'a str> {
        self.directives.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    fn words(&self, key: &'static str) -> Vec<&str> {
        self.values(key).flat_map(str::split_whitespace).collect()
    }

    /// What it is expected to find.
    pub fn fires(&self) -> Vec<Fires> {
        let parse = |line: &str| {
            let (severity, rest) = line.split_once(' ').expect("a severity");
            let (rule, text) = rest.split_once(':').expect("a rule and a text");
            let severity = match severity {
                "deny" => Severity::Deny,
                "warn" => Severity::Warn,
                "note" => Severity::Note,
                other => panic!("{}: {other} is no severity", self.name()),
            };
            Fires { severity, rule: rule.trim().into(), text: text.trim().into() }
        };
        self.values("fires").map(parse).collect()
    }

    /// Changed policies, each with the verdict under it.
    pub fn judgements(&self) -> Vec<(String, String)> {
        let parse = |line: &str| line.split_once("=>").map(|(keys, verdict)| (keys.trim().to_string(), verdict.trim().to_string()));
        self.values("judge").map(|line| parse(line).expect("{…} => verdict")).collect()
    }

    /// The keys of the policy it is judged by.
    pub fn policy_keys(&self) -> String {
        self.values("policy").next().unwrap_or("{}").to_string()
    }

    /// Namespaces and their highest versions.
    pub fn floors(&self) -> Vec<(String, String)> {
        let parse = |line: &str| line.split_once(' ').map(|(namespace, number)| (namespace.to_string(), number.to_string()));
        self.values("floor").map(|line| parse(line).expect("namespace and number")).collect()
    }

    /// The exact set of exports, where it has one.
    pub fn list(&self) -> Option<InterposedList> {
        let names = self.words("list");
        (!names.is_empty()).then(|| InterposedList::read("the list", &names.join("\n")).expect("a good list"))
    }

    /// Makes the file in `folder`.
    pub fn build(&self, folder: &Path) -> PathBuf {
        self.build_with(folder, &[])
    }

    /// The same with more flags, after all others; a version script among them takes the place of the fixture's own.
    pub fn build_with(&self, folder: &Path, flags: &[String]) -> PathBuf {
        let out = folder.join(self.name().replace('/', "-") + ".so");
        if let Some(recipe) = self.values("made").next() {
            fs::write(&out, made::write(recipe)).expect("writable");
        } else {
            self.compile(folder, &out, flags);
        }
        let steps: Vec<&str> = self.values("patch").collect();
        if !steps.is_empty() {
            fs::write(&out, patch::file(&out, &steps)).expect("writable");
        }
        out
    }

    fn compile(&self, folder: &Path, out: &Path, flags: &[String]) {
        let stem = self.name().replace('/', "-");
        let mut libraries = Vec::new();
        let libc = self.words("libc");
        if libc != ["none"] {
            let symbols = if libc.is_empty() { vec!["strlen@GLIBC_2.2.5"] } else { libc };
            libraries.push(stub(folder, &format!("{stem}-libc"), "libc.so.6", &symbols));
        }
        for (index, line) in self.values("stub").enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            libraries.push(stub(folder, &format!("{stem}-stub{index}"), words[0], &words[1..]));
        }
        let link = self.values("link").next().unwrap_or("shared");
        let mut command = compiler();
        match link {
            "shared" => command.args(["-fPIC", "-shared"]),
            "pie" => command.args(["-fPIE", "-pie", "-Wl,-e,hipMalloc"]),
            "exec" => command.args(["-fno-pie", "-no-pie", "-Wl,-e,hipMalloc"]),
            "object" => command.args(["-fPIC", "-c"]),
            other => panic!("{}: nothing is linked as {other}", self.name()),
        };
        let scripted = flags.iter().any(|flag| flag.contains("--version-script"));
        if let Some(script) = self.values("version-script").next().filter(|_| !scripted) {
            let path = folder.join(format!("{stem}.map"));
            fs::write(&path, script).expect("writable");
            command.arg(format!("-Wl,--version-script={}", path.display()));
        }
        command.arg("-o").arg(out).arg(&self.path);
        if link != "object" {
            command.args(["-Wl,-z,lazy", "-Wl,--no-as-needed"]).args(&libraries);
        }
        // Last, so that a fixture's flags win.
        command.args(self.words("cc")).args(flags);
        run(&mut command);
    }
}

/// A policy with some keys replaced.
pub fn policy(keys: &str) -> Policy {
    let mut own: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&fs::read_to_string(root().join("manifests/linkage.json")).expect("there")).expect("JSON");
    let changed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(keys).unwrap_or_else(|error| panic!("{keys}: {error}"));
    own.extend(changed);
    Policy::read("the fixture's policy", &serde_json::Value::Object(own).to_string()).unwrap_or_else(|bad| panic!("{keys}: {bad}"))
}

/// Audits a file.
pub fn audit(path: &Path, policy: &Policy, list: Option<&InterposedList>) -> (Subject, Vec<Finding>) {
    Elf::open(path).and_then(|image| linkage::audit(&image, policy, list)).unwrap_or_else(|error| panic!("{error}"))
}

/// `fail`, `warn` or `pass`.
pub fn verdict(findings: &[Finding]) -> &'static str {
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Deny) => "fail",
        Some(Severity::Warn) => "warn",
        _ => "pass",
    }
}

/// The compiler with the flags of every fixture: nothing of the machine's own libc, and nothing that a distribution adds.
pub fn compiler() -> Command {
    let mut command = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-w", "-O1", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fcf-protection=none"]);
    command.args(["-fno-asynchronous-unwind-tables", "-nostdlib", "-Wl,--build-id=none", "-Wl,-z,noexecstack", "-Wl,-z,relro"]);
    command
}

/// Links a library of empty functions under versions; a name without `@` has none.
pub fn stub(folder: &Path, stem: &str, soname: &str, symbols: &[&str]) -> PathBuf {
    let split: Vec<(&str, Option<&str>)> =
        symbols.iter().map(|symbol| symbol.split_once('@').map_or((*symbol, None), |(name, version)| (name, Some(version)))).collect();
    let source = split.iter().fold(String::new(), |source, (name, _)| source + "void " + name + "(void) {}\n");
    let (c, out) = (folder.join(format!("{stem}.c")), folder.join(format!("{stem}.so")));
    fs::write(&c, source).expect("writable");
    let mut command = compiler();
    command.args(["-fPIC", "-shared"]).arg(format!("-Wl,-soname,{soname}")).arg("-o").arg(&out).arg(&c);
    let mut versions: Vec<&str> = split.iter().filter_map(|(_, version)| *version).collect();
    versions.sort_unstable();
    versions.dedup();
    if !versions.is_empty() {
        let node = |version: &&str| {
            let names: Vec<&str> = split.iter().filter(|(_, other)| *other == Some(version)).map(|(name, _)| *name).collect();
            format!("{version} {{ global: {}; }};\n", names.join("; "))
        };
        let map = folder.join(format!("{stem}.map"));
        fs::write(&map, versions.iter().map(node).collect::<String>()).expect("writable");
        command.arg(format!("-Wl,--version-script={}", map.display()));
    }
    run(&mut command);
    out
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) {
    let Some(kept) = remembered(command) else { return run_anew(command) };
    let out = output_of(command).expect("it has one");
    if !kept.exists() {
        run_anew(command);
        fs::copy(&out, &kept).expect("writable");
    }
    fs::copy(&kept, &out).expect("writable");
}

fn run_anew(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: a C compiler and binutils are needed"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// What follows `-o`.
fn output_of(command: &Command) -> Option<PathBuf> {
    command.get_args().skip_while(|argument| *argument != "-o").nth(1).map(PathBuf::from)
}

/// Where the result of a compiler is kept when the same tests run thousands of times (`scripts/mutate-audit.py`): known by its arguments, temporary folders taken out,
/// and by the bytes of every file they name.
fn remembered(command: &Command) -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os("VROCM_COMPILED")?);
    let out = output_of(command)?;
    let temporary = out.parent()?.display().to_string();
    let mut hash = DefaultHasher::new();
    for argument in command.get_args() {
        let argument = argument.to_string_lossy();
        argument.replace(&temporary, "").hash(&mut hash);
        for file in argument.split(['=', ',']).map(Path::new).filter(|file| file.is_file() && **file != *out) {
            fs::read(file).expect("readable").hash(&mut hash);
        }
    }
    Some(folder.join(format!("{:016x}", hash.finish())))
}
