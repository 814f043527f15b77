//! The one bounded, blocking call: a command with its environment and devices in, a verdict with its reason out. Nothing is run.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Serialize;

use super::decide::{self, Candidate, DeviceVerdict};
use super::device::{self, Device, Version};
use super::{python, reasons, replaced};
use crate::elf::Elf;
use crate::finding::Check;
use crate::gfx::identity::Identity;
use crate::gfx::override_version;
use crate::gfx::target::{Features, Name, Target};
use crate::gfx::verdict::{Answer as Judged, Verdict};
use crate::gfx::{self, Library};
use crate::loader::environment::effective;
use crate::loader::versions::Lack;
use crate::loader::{self, Found, Linking, Request, Resolution, Unknown};

/// Names of the two runtimes as programs ask for them, without a version.
pub const LIBRARIES: [&str; 2] = ["libhsa-runtime64", "libamdhip64"];
/// What a `dlopen` of a runtime asks for.
const OPENED: [&str; 6] =
    ["libhsa-runtime64.so.1", "libhsa-runtime64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// Variables that put other devices in place of KFD's, when not empty.
const MODELS: [&str; 4] = ["HSA_MODEL_TOPOLOGY", "HSA_MODEL_LIB", "HSA_ENABLE_DTIF", "HSA_ENABLE_DXG_DETECTION"];

/// A device that the workload will be shown.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// As the kernel describes it.
    pub device: Device,
    /// The name that was asked for, where it was one: it may have features, or be a generic's.
    pub name: Option<Name>,
}

impl Wanted {
    /// A target by its name.
    pub fn named(name: Name) -> Self {
        let gfx_target_version = match name {
            Name::Target(target) => device::pack(target.triple),
            Name::Generic(_) => 0,
        };
        Self { device: Device { from: "--target".into(), node: None, gfx_target_version, device_id: None }, name: Some(name) }
    }

    /// What to call it.
    pub fn id(&self) -> String {
        let packed = self.device.gfx_target_version;
        match (self.name, device::named(packed / 10_000, packed / 100 % 100, packed % 100)) {
            (Some(name), _) => name.to_string(),
            (None, Version::Target(triple)) if packed != 0 => triple.to_string(),
            _ => self.device.device_id.map_or("a device without a version".into(), |id| format!("device 0x{id:04x}")),
        }
    }
}

/// The answer.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// The command as given.
    pub command: Vec<String>,
    /// The program that would run.
    pub program: String,
    /// The runtimes that it could load, for each device.
    pub candidates: Vec<Candidate>,
    /// One verdict a device.
    pub devices: Vec<DeviceVerdict>,
    /// All together.
    pub verdict: Verdict,
    /// Why there is no answer, if there is none.
    pub unknowns: Vec<Unknown>,
    /// What to say before the workload starts.
    pub notice: Option<String>,
}

impl Answer {
    /// Why the verdict is what it is, in one line.
    pub fn reason(&self) -> String {
        let unknown = self.unknowns.first().map(|unknown| format!("{} ({}): {}", unknown.code, unknown.object, unknown.detail));
        let linked =
            || self.candidates.iter().filter(|candidate| candidate.linked).map(|candidate| format!("{}: {}", candidate.runtime, candidate.message));
        self.notice.clone().or(unknown).unwrap_or_else(|| linked().collect::<Vec<_>>().join("; "))
    }
}

/// A runtime in a package that is not installed.
#[derive(Debug)]
pub struct Packed {
    /// `package!/path`.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
}

/// Asks. An error means that the command does not start at all. Without a device there is no question, and nothing is looked at.
pub fn ask(request: &Request, wanted: &[Wanted]) -> Result<Answer, loader::Error> {
    ask_with_packages(request, wanted, Vec::new())
}

/// The same, with runtimes that a package would install: candidates without a say, as those of installed Python packages are.
pub fn ask_with_packages(request: &Request, wanted: &[Wanted], packed: Vec<Packed>) -> Result<Answer, loader::Error> {
    if wanted.is_empty() {
        let unknown = Unknown::new(&reasons::NO_DEVICE, request.command.as_str(), "no device");
        return Ok(Answer {
            command: command(request),
            program: request.command.clone(),
            candidates: Vec::new(),
            devices: Vec::new(),
            verdict: Verdict::Unknown,
            unknowns: vec![unknown],
            notice: None,
        });
    }
    Ok(judge(&loader::resolve(request)?, request, wanted, packed))
}

/// The same about a command that has been resolved before. What has changed since makes the answer unknown.
pub fn about(resolution: &Resolution, request: &Request, wanted: &[Wanted]) -> Answer {
    judge(resolution, request, wanted, Vec::new())
}

fn judge(resolution: &Resolution, request: &Request, wanted: &[Wanted], packed: Vec<Packed>) -> Answer {
    let environment = &resolution.environment;
    let mut unknowns = resolution.unknowns.clone();
    unknowns.extend(resolution.failures.iter().map(|failure| Unknown::new(&reasons::NO_START, failure.name.as_str(), failure.problem.as_str())));
    let (unmet, unread) = resolution.unmet_versions();
    unknowns.extend(unmet.iter().filter(|unmet| unmet.lack != Lack::Weak).map(|unmet| {
        let problem = format!("version {} not found (required by {})", unmet.version, unmet.required_by);
        Unknown::new(&reasons::NO_START, unmet.provider.as_str(), problem)
    }));
    unknowns.extend(unread);
    unknowns.extend(variables(environment, wanted));
    let mut runtimes = runtimes(resolution, &mut unknowns);
    let mut scanned = HashMap::new();
    for member in packed {
        runtimes.extend(unpack(member, &mut scanned));
    }
    let mut candidates = Vec::new();
    for wanted in wanted {
        for runtime in &runtimes {
            candidates.extend(candidate(runtime, wanted, environment, &mut scanned, &mut unknowns));
        }
    }
    unknowns.extend(resolution.changed());
    unknowns.dedup();
    let devices: Vec<_> = wanted.iter().map(|wanted| decide::device(&wanted.id(), &wanted.device.from, &candidates, &unknowns)).collect();
    let verdict = decide::together(&devices, &mut unknowns);
    let notice = decide::notice(&devices, &candidates);
    Answer { command: command(request), program: resolution.program.clone(), candidates, devices, verdict, unknowns, notice }
}

fn command(request: &Request) -> Vec<String> {
    std::iter::once(&request.command).chain(&request.arguments).cloned().collect()
}

/// Asks equal questions once: the ranks of a job differ in variables that no loader and no runtime reads. It lives as long as one job: what it remembers is
/// as of the first question.
#[derive(Debug, Default)]
pub struct Memory {
    answers: HashMap<String, Result<Answer, loader::Error>>,
}

impl Memory {
    /// Asks, or remembers.
    pub fn ask(&mut self, request: &Request, wanted: &[Wanted]) -> Result<Answer, loader::Error> {
        let relevant = |name: &str| {
            ["LD_", "HSA_", "GLIBC_"].iter().any(|prefix| name.starts_with(prefix)) || ["PATH", "HOME", "VIRTUAL_ENV", "PYTHONPATH"].contains(&name)
        };
        let mut variables = effective(&request.environment);
        variables.retain(|(name, _)| relevant(name));
        // Destructured, so that a new field of a request has to find its place here.
        let Request { root, command, arguments, environment: _, cwd, preloads, cpu, interpreter, limits } = request;
        let key = format!("{:?}", (root, command, arguments, cwd, preloads, cpu, interpreter, limits, variables, wanted));
        self.answers.entry(key).or_insert_with(|| ask(request, wanted)).clone()
    }

    /// How many different questions were asked.
    pub fn asked(&self) -> usize {
        self.answers.len()
    }
}

/// Variables that forbid an answer.
fn variables(environment: &[(String, String)], wanted: &[Wanted]) -> Vec<Unknown> {
    let mut found = Vec::new();
    let no_node = wanted.iter().any(|wanted| wanted.device.node.is_none());
    for (name, value) in environment {
        let check: Option<&Check> = match name.as_str() {
            "HSA_TOOLS_LIB" if !value.is_empty() => Some(&reasons::TOOLS),
            name if MODELS.contains(&name) && !value.is_empty() => Some(&reasons::MODEL),
            name if no_node && override_version::node(name).flatten().is_some() => Some(&reasons::OVERRIDE_NODE),
            _ => None,
        };
        found.extend(check.map(|check| Unknown::new(check, name.as_str(), format!("{name}={value}"))));
    }
    found
}

/// A file that may be a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Runtime {
    pub(super) path: String,
    pub(super) file: PathBuf,
    pub(super) how: String,
    pub(super) linked: bool,
    /// The runtime that it is named as.
    pub(super) named: Identity,
    /// Who else may change it.
    pub(super) changeable: Option<String>,
}

/// The runtime that a file is named as, by its file name or its soname.
pub(super) fn named(path: &str, soname: Option<&str>) -> Option<Identity> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let is = |library: &str| soname.is_some_and(|soname| name(soname).starts_with(library)) || name(path).starts_with(library);
    LIBRARIES.into_iter().zip([Identity::Rocr, Identity::Hip]).find(|(library, _)| is(library)).map(|(_, identity)| identity)
}

/// Runtimes of every set of objects; where there is no ROCr in one, also what the program might open.
fn runtimes(resolution: &Resolution, unknowns: &mut Vec<Unknown>) -> Vec<Runtime> {
    let mut found: Vec<Runtime> = Vec::new();
    let mut add = |runtime: Runtime| {
        if !found.iter().any(|known| known.file == runtime.file) {
            found.push(runtime);
        }
    };
    let mut linked = true;
    for set in resolution.sets() {
        let set: Vec<_> = set.iter().map(|object| (object, named(&object.path, object.soname.as_deref()))).collect();
        for &(object, identity) in &set {
            if let Some(named) = identity {
                let changeable = resolution.changeable(&object.path);
                add(Runtime { path: object.path.clone(), file: object.file.clone(), how: object.rule.clone(), linked: true, named, changeable });
            }
        }
        linked &= set.iter().any(|&(_, named)| named == Some(Identity::Rocr));
        unknowns.extend(replaced::find(&set));
    }
    if linked {
        return found;
    }
    let how = if resolution.linking == Linking::Static {
        "is static: no loader, no libraries"
    } else {
        "links no libhsa-runtime64; it may open one while it runs"
    };
    unknowns.push(Unknown::new(&reasons::NOT_LINKED, resolution.program.as_str(), format!("{} {how}", resolution.program)));
    if resolution.linking == Linking::Glibc {
        for name in OPENED {
            for answer in resolution.search(name, 0) {
                if let Found::File { path, rule, .. } = answer
                    && let Some(named) = named(name, None)
                {
                    let (file, changeable) = (resolution.file(&path), resolution.changeable(&path));
                    add(Runtime { path, file, how: format!("if the program opens {name}: {rule}"), linked: false, named, changeable });
                }
            }
        }
    }
    python::packages(resolution).into_iter().for_each(add);
    found
}

type Scanned = HashMap<PathBuf, Result<(Elf, Library), String>>;

fn scan(image: crate::elf::Result<Elf>) -> Result<(Elf, Library), String> {
    let image = image.map_err(|error| error.to_string())?;
    let library = gfx::scan(&image).map_err(|error| error.to_string())?;
    Ok((image, library))
}

/// Scans a runtime of a package, and says under which name it is a candidate.
fn unpack(member: Packed, scanned: &mut Scanned) -> Option<Runtime> {
    let named = named(&member.name, None)?;
    let (path, file) = (member.name.clone(), PathBuf::from(&member.name));
    scanned.insert(file.clone(), scan(Elf::from_bytes(member.name, member.bytes)));
    Some(Runtime { path, file, how: "if the program opens what this package installs".into(), linked: false, named, changeable: None })
}

fn candidate(
    runtime: &Runtime,
    wanted: &Wanted,
    environment: &[(String, String)],
    scanned: &mut Scanned,
    unknowns: &mut Vec<Unknown>,
) -> Option<Candidate> {
    let result = scanned.entry(runtime.file.clone()).or_insert_with(|| scan(Elf::open(&runtime.file)));
    let (image, library) = match result {
        Ok((image, library)) => (image, library),
        Err(problem) => {
            unknowns.push(Unknown::new(&reasons::RUNTIME, runtime.path.as_str(), problem.as_str()));
            return None;
        }
    };
    let release = library.release.as_ref().map(|release| release.version.clone());
    let answers: Vec<Judged> = match names(wanted, environment, release.as_deref()) {
        Ok(names) => names.into_iter().filter_map(|name| library.answer(image, name).ok()).collect(),
        Err(unknown) => {
            unknowns.push(unknown);
            Vec::new()
        }
    };
    let first = answers.first();
    let agree = first.filter(|first| answers.iter().all(|answer| answer.verdict == first.verdict));
    let id = wanted.id();
    if runtime.linked && library.identity != Identity::Other && library.identity != runtime.named {
        let is = library.what.as_deref().unwrap_or("the other of the two runtimes by its soname");
        unknowns.push(Unknown::new(&reasons::RUNTIME, runtime.path.as_str(), format!("is not what it is called: {is}")));
    }
    if runtime.linked
        && let Some(answer) = agree.or(first)
        && (agree.is_none() || answer.verdict == Verdict::Unknown)
    {
        unknowns.push(Unknown::new(&reasons::RUNTIME, runtime.path.as_str(), format!("{}: {}", answer.reason.word(), answer.message)));
    }
    Some(Candidate {
        runtime: runtime.path.clone(),
        how: runtime.how.clone(),
        layer: library.identity,
        linked: runtime.linked,
        changeable: runtime.changeable.clone(),
        taken_for: agree.filter(|answer| answer.id != id).map(|answer| answer.id.clone()),
        device: id,
        device_from: wanted.device.from.clone(),
        release,
        registers: library.registry.as_ref().map(|registry| registry.targets.len()),
        verdict: agree.map_or(Verdict::Unknown, |answer| answer.verdict),
        reason: agree.map_or("unknown", |answer| answer.reason.word()),
        message: agree.map_or_else(|| "no single version that it would be asked for".into(), |answer| answer.message.clone()),
    })
}

/// The names that a runtime of this release may be asked for.
fn names(wanted: &Wanted, environment: &[(String, String)], release: Option<&str>) -> Result<Vec<Name>, Unknown> {
    let overridden = environment.iter().any(|(name, _)| override_version::node(name) == Some(None));
    if let Some(name) = wanted.name.filter(|name| !overridden || matches!(name, Name::Generic(_))) {
        return Ok(vec![name]);
    }
    let from = wanted.device.from.as_str();
    let versions =
        device::versions(&wanted.device, environment, release).map_err(|error| Unknown::new(&reasons::RUNTIME, from, error.to_string()))?;
    versions
        .into_iter()
        .map(|version| match version {
            Version::Target(triple) => Ok(Name::Target(Target { triple, features: Features::default() })),
            Version::Refused => Err(Unknown::new(&reasons::OVERRIDE_REFUSED, override_version::VARIABLE, "hsa_init fails, with a message")),
            Version::Odd(major, minor, step) => {
                Err(Unknown::new(&reasons::ODD_VERSION, from, format!("{major}.{minor}.{step} is no target's version")))
            }
            Version::None => Err(Unknown::new(&reasons::ODD_VERSION, from, "the device has no version")),
        })
        .collect()
}
