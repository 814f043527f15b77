//! `bindings`: what one program would load, and which definition each of its references to a runtime gets with these preloads.
//!
//! [`audit`] takes a resolution of [`crate::loader`] and judges every set of objects that the process could have. What no relocation shows (`dlopen`,
//! `dlsym`, a device file) is not in here: the command adds what [`crate::loader`] and the audit of single files say of it, as [`Unseen`].
//!
//! Reading order: [`process`] (who is who among the objects), [`judge`] (held, slips, unknown, one reference at a time), [`checks`].

pub mod checks;
mod judge;
mod process;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::elf::Result;
use crate::finding::{Check, Finding, Severity};
use crate::loader::scope::{Purpose, Rules};
use crate::loader::{Failure, Found, How, Linking, Resolution, Unknown, unknown};
use crate::manifest::{Acceptance, Acceptances, Class, ClassTable, Family, InterposedList};

pub use process::Role;

/// What the judgement rests on.
#[derive(Debug)]
pub struct Context<'a> {
    /// Families of runtimes.
    pub families: &'a [Family],
    /// Which classes must be interposed.
    pub table: &'a ClassTable,
    /// Doors left open on purpose.
    pub acceptances: &'a Acceptances,
    /// What a preload does with the names it has, where that is known: by path of the object.
    pub actions: &'a BTreeMap<String, InterposedList>,
    /// For acceptances that end.
    pub today: jiff::civil::Date,
}

impl Context<'_> {
    /// The acceptance that leaves a name open, whatever the release.
    fn acceptance(&self, family: &Family, name: &str, class: Class) -> Option<&Acceptance> {
        let open = |entry: &&Acceptance| !entry.expired(self.today) && entry.covers(family.name(), name, class, None);
        self.acceptances.entries.iter().find(open)
    }
}

/// What becomes of one reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The runtime's own function, where the shim's was needed.
    Slips,
    /// It cannot be said.
    Unknown,
    /// The shim's function, or the shim holds what lies beneath.
    Held,
    /// Nothing that has to be held.
    NotNeeded,
}

impl Verdict {
    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Slips => "slips",
            Self::Unknown => "unknown",
            Self::Held => "held",
            Self::NotNeeded => "not-needed",
        }
    }
}

/// An object of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// Path as the loader forms it.
    pub path: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// Which rule found it.
    pub how: How,
    /// The rule in words.
    pub rule: String,
    /// Path of the object that asked for it first.
    pub needed_by: Option<String>,
    /// What it is to this audit.
    pub role: Role,
}

/// One reference and what it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Binding {
    /// The name.
    pub symbol: String,
    /// The version node asked for.
    pub version: Option<String>,
    /// Path of the object that asks.
    pub from: String,
    /// Path of the object whose definition it gets; none where there is none, or more than one.
    pub to: Option<String>,
    /// That definition: `hipMalloc@@hip_4.2`, with what is special about it.
    pub definition: Option<String>,
    /// What the reference is for: calls, the address, the program's copy.
    pub purposes: Vec<Purpose>,
    /// The family that defines the name.
    pub family: String,
    /// Its class, the strictest of all releases; none where no manifest has the name.
    pub class: Option<Class>,
    /// True if its class has to be interposed.
    pub must_interpose: bool,
    /// What becomes of it.
    pub verdict: Verdict,
    /// Why, in a clause.
    pub reason: String,
    /// The finding it leads to.
    #[serde(skip)]
    check: Option<&'static str>,
}

/// Something that no relocation shows: names to look up, libraries to open, a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// The object in which it stands.
    pub object: String,
    /// Id of the check.
    pub code: &'static str,
    /// `slips` or `unknown`.
    pub verdict: Verdict,
    /// One sentence.
    pub message: String,
}

/// A library that an object names, and what `dlopen` would find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// The object in which the name stands.
    pub object: String,
    /// The name.
    pub name: String,
    /// One answer per kind of CPU that matters, mostly one.
    pub found: Vec<Finds>,
}

/// What `dlopen` would do with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finds {
    /// `loaded`, `file`, `nothing`, `fails` or `unknown`.
    pub result: &'static str,
    /// The object or file.
    pub path: Option<String>,
    /// The rule that finds it, what it fails with, or the code of the reason.
    pub detail: Option<String>,
}

impl Named {
    /// A name in an object, with what the loader says of it.
    pub fn new(object: &str, name: &str, found: Vec<Found>, objects: &[Loaded]) -> Self {
        let finds = |found| {
            let (result, path, detail) = match found {
                Found::Loaded(index) => ("loaded", objects.get(index).map(|object| object.path.clone()), None),
                Found::File { path, rule, .. } => ("file", Some(path), Some(rule)),
                Found::Missing => ("nothing", None, None),
                Found::Fatal { path, problem } => ("fails", Some(path), Some(problem)),
                Found::Unknown(unknowns) => ("unknown", None, unknowns.first().map(|unknown| unknown.code.to_string())),
            };
            Finds { result, path, detail }
        };
        Self { object: object.into(), name: name.into(), found: found.into_iter().map(finds).collect() }
    }
}

/// The answer about one program.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// The program that runs.
    pub file: String,
    /// The command as it was named.
    pub command: String,
    /// How it finds its libraries.
    pub linking: Linking,
    /// The loader that starts it.
    pub interpreter: Option<String>,
    /// References by verdict: slips, unknown, held, not-needed.
    pub counts: BTreeMap<&'static str, usize>,
    /// Libraries named for `dlopen`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<Named>,
    /// What no relocation shows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<Unseen>,
    /// Preloads that the loader drops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Failure>,
    /// What the resolution leaves open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknowns: Vec<Unknown>,
    /// Objects in load order; a key of its own in the report.
    #[serde(skip)]
    pub objects: Vec<Loaded>,
    /// References; a key of its own in the report.
    #[serde(skip)]
    pub bindings: Vec<Binding>,
    /// Who answers an object's `dlsym` and `dlvsym`: path and name to path.
    #[serde(skip)]
    pub lookups: BTreeMap<(String, String), String>,
    /// Why nothing, or not everything, is said: each ends the process at its start, or keeps this audit from judging it.
    #[serde(skip)]
    pub unable: Vec<String>,
}

/// Judges what a command would load.
pub fn audit(command: &str, resolution: &Resolution, variable: &dyn Fn(&str) -> Option<String>, context: &Context<'_>) -> Result<Subject> {
    let rules = Rules::of(resolution.interpreter.as_ref(), variable);
    let mut sets = resolution.sets();
    let first = sets.next().unwrap_or_default();
    let mut judged = judge::set(first, rules, &resolution.dropped, context)?;
    for other in sets {
        let other = judge::set(other, rules, &resolution.dropped, context)?;
        judge::agree(&mut judged.bindings, other.bindings);
        judged.unmet.extend(other.unmet);
        judged.lookups.extend(other.lookups);
    }
    judge::doubt(&mut judged.bindings, &resolution.unknowns);
    let mut subject = Subject {
        file: resolution.program.clone(),
        command: command.into(),
        linking: resolution.linking,
        interpreter: resolution.interpreter.as_ref().map(|interpreter| interpreter.path.clone()),
        counts: BTreeMap::new(),
        named: Vec::new(),
        unseen: Vec::new(),
        dropped: resolution.dropped.clone(),
        unknowns: resolution.unknowns.clone(),
        objects: judged.objects,
        bindings: judged.bindings,
        lookups: judged.lookups,
        unable: unable(resolution),
    };
    subject.unable.extend(judged.unmet);
    for verdict in [Verdict::Slips, Verdict::Unknown, Verdict::Held, Verdict::NotNeeded] {
        subject.counts.insert(verdict.word(), subject.bindings.iter().filter(|binding| binding.verdict == verdict).count());
    }
    Ok(subject)
}

/// What keeps the process from starting, or this audit from knowing its objects.
fn unable(resolution: &Resolution) -> Vec<String> {
    let ends = |failure: &Failure| {
        let by = if failure.needed_by == failure.name { String::new() } else { format!(", needed by {}", failure.needed_by) };
        format!("{}: {}{by}: {}: the process would not start", resolution.program, failure.name, failure.problem)
    };
    let all = resolution.failures.iter().chain(resolution.alternatives.iter().flat_map(|other| &other.failures));
    let mut found: Vec<String> = all.map(ends).collect();
    found.dedup();
    if matches!(resolution.linking, Linking::Musl | Linking::Other) {
        let path = resolution.interpreter.as_ref().map_or("", |interpreter| interpreter.path.as_str());
        found.push(format!("{}: is started by {path}, whose rules are not glibc's: what it loads and binds is not known", resolution.program));
    }
    found
}

/// True for a reason that leaves open which objects there are or what they bind; a script only leaves open what it starts itself.
fn shakes(unknown: &Unknown) -> bool {
    unknown.code != unknown::SCRIPT.id
}

/// What was found, one finding per object, check and reason; what cannot be seen is reported by who saw it.
pub fn findings(subject: &Subject) -> Vec<Finding> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Binding>> = BTreeMap::new();
    for binding in &subject.bindings {
        if let Some(check) = binding.check {
            groups.entry((&binding.from, check, &binding.reason)).or_default().push(binding);
        }
    }
    let mut found: Vec<Finding> = groups.into_iter().filter_map(|((from, id, reason), bindings)| grouped(from, id, reason, &bindings)).collect();
    for dropped in &subject.dropped {
        found.push(checks::DROPPED.finding(&subject.file, format!("{}: {}: the program starts without it", dropped.name, dropped.problem)));
    }
    if subject.linking == Linking::Static {
        found.push(checks::NO_LOADER.finding(&subject.file, "is a static program: no loader reads a preload, so no shim can be in it"));
    }
    for open in &subject.unknowns {
        if let Some(code) = unknown::ALL.into_iter().find(|code| code.id == open.code) {
            found.push(code.finding(&open.object, &open.detail).severity(Severity::Warn));
        }
    }
    found
}

fn grouped(from: &str, id: &str, reason: &str, bindings: &[&Binding]) -> Option<Finding> {
    let check: &Check = checks::ALL.into_iter().find(|check| check.id == id)?;
    let names: Vec<&str> = bindings.iter().map(|binding| binding.symbol.as_str()).collect();
    let finding = check.finding(from, format!("{}: {reason}", some(&names)));
    let finding = if let [name] = names.as_slice() { finding.symbol(*name) } else { finding };
    let to: Vec<&str> = bindings.iter().filter_map(|binding| binding.to.as_deref()).collect();
    let finding = finding.evidence("symbols", names);
    Some(if let Some(first) = to.first() { finding.evidence("to", *first) } else { finding })
}

/// Names that are spelled out in a sentence; all are in the report's lists.
const NAMED: usize = 6;

fn some(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", names[..names.len() - more].join(", "))
}
