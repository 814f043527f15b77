//! Does a runtime support a target? Supported, unsupported, or unknown with a reason; never a guess.
//!
//! Supported needs a registry that was read from the structure of the file. Unsupported needs one that lacks the target, or a ROCm runtime in
//! which no form of the name stands. Everything else is unknown.

use std::fmt::Write as _;

use serde::Serialize;

use super::Library;
use super::identity::Identity;
use super::override_version::Override;
use super::registry::Registry;
use super::target::{Features, Generic, Name, Target, Triple};

/// Names that a runtime mentions at least, for an absence to mean anything: fewer, and the file is a stub or a fragment.
const FEWEST_NAMES: usize = 10;
/// Registered targets shown as near ones.
const NEAREST: usize = 3;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The runtime registers the target.
    Supported,
    /// A device of this target is skipped without a word.
    Unsupported,
    /// The file does not let one say.
    Unknown,
}

impl Verdict {
    /// The word itself.
    pub fn word(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Unsupported => "unsupported",
            Self::Unknown => "unknown",
        }
    }

    /// Exit status of `gfx-scan`.
    pub fn exit_status(self) -> u8 {
        match self {
            Self::Supported => 0,
            Self::Unsupported => 1,
            Self::Unknown => 3,
        }
    }
}

/// Why, in a word that scripts can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// In the registry.
    Registered,
    /// Not in the registry.
    NotRegistered,
    /// Not in the registry; the file names it for other ends.
    LegacyNameOnly,
    /// The target is registered, these features of it are not.
    FeatureNotRegistered,
    /// In HIP's table, but switched off there.
    NotEnabled,
    /// In no form in the file, though the registry could not be read.
    NameAbsent,
    /// Not in the registry, yet the file's code or embedded code objects hold it.
    Contradiction,
    /// The registry could not be read, and the name stands somewhere.
    NoRegistry,
    /// Too few names for a runtime.
    TooFewNames,
    /// A generic names no device.
    GenericOnly,
    /// The file is no ROCm runtime.
    NotRocr,
    /// The override names a version that is no target.
    NoSuchTarget,
    /// Libraries disagree.
    Disagreement,
}

impl Reason {
    /// The word itself.
    pub fn word(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::NotRegistered => "not-registered",
            Self::LegacyNameOnly => "legacy-name-only",
            Self::FeatureNotRegistered => "feature-not-registered",
            Self::NotEnabled => "not-enabled",
            Self::NameAbsent => "name-absent",
            Self::Contradiction => "contradiction",
            Self::NoRegistry => "no-registry",
            Self::TooFewNames => "too-few-names",
            Self::GenericOnly => "generic-only",
            Self::NotRocr => "not-rocr",
            Self::NoSuchTarget => "no-such-target",
            Self::Disagreement => "disagreement",
        }
    }
}

/// The answer for one target and one library, as the reports print it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The target asked for.
    pub id: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// One sentence for people.
    pub message: String,
    /// Registered targets like it, the nearest first; empty where it is supported or nothing is registered.
    pub nearest: Vec<String>,
}

/// What people see when a device's target is not registered: the symptom that brings them here.
pub const SYMPTOM: &str = "the device is skipped without a message: the workload sees no GPU at all and may still exit with status 0";
/// The same one layer up.
pub const SYMPTOM_HIP: &str =
    "HIP drops the device (it logs that only with AMD_LOG_LEVEL=1 or higher): HIP programs see no GPU, though ROCr lists it";

/// Judges a well-formed name by what is known of a library; [`Library::answer`] looks closer first where that matters.
pub fn judge(library: &Library, name: Name) -> Answer {
    match name {
        Name::Target(target) => judge_target(library, target),
        Name::Generic(generic) => judge_generic(library, generic),
    }
}

/// The answer for an override that names no target (9.255.255 is how ROCr spells a generic's version).
pub fn no_such_target(value: Override) -> Answer {
    Answer {
        id: value.to_string(),
        verdict: Verdict::Unknown,
        reason: Reason::NoSuchTarget,
        message: format!("{value} is the version of no target; what the runtime makes of it was not read"),
        nearest: Vec::new(),
    }
}

/// One answer for several libraries that a process may load: all agree, or unknown.
///
/// Libraries that are no runtime (`not-rocr`) have no say where another one has. `None` for no answers.
pub fn combine(answers: &[Answer]) -> Option<Answer> {
    let mut voices: Vec<_> = answers.iter().filter(|answer| answer.reason != Reason::NotRocr).collect();
    if voices.is_empty() {
        voices = answers.iter().collect();
    }
    let first = *voices.first()?;
    if voices.iter().all(|answer| answer.verdict == first.verdict) {
        return Some(first.clone());
    }
    let count = |verdict| voices.iter().filter(|answer| answer.verdict == verdict).count();
    let message = format!(
        "the libraries disagree on {}: supported by {}, unsupported by {}, unknown for {}",
        first.id,
        count(Verdict::Supported),
        count(Verdict::Unsupported),
        count(Verdict::Unknown)
    );
    Some(Answer { id: first.id.clone(), verdict: Verdict::Unknown, reason: Reason::Disagreement, message, nearest: Vec::new() })
}

fn judge_target(library: &Library, target: Target) -> Answer {
    let (verdict, reason, message) = match (library.identity, &library.registry) {
        (Identity::Other, _) => (Verdict::Unknown, Reason::NotRocr, other(library)),
        (_, Some(registry)) => by_registry(library, registry, target),
        (_, None) => by_mention(library, target),
    };
    let nearest = match &library.registry {
        Some(registry) if verdict != Verdict::Supported => nearest(registry, target.triple),
        _ => Vec::new(),
    };
    Answer { id: target.to_string(), verdict, reason, message, nearest }
}

fn by_registry(library: &Library, registry: &Registry, target: Target) -> (Verdict, Reason, String) {
    let triple = target.triple;
    let known = registry.targets.len();
    if let Some(features) = registry.targets.get(&triple) {
        if features.contains(&target.features) {
            return (
                Verdict::Supported,
                Reason::Registered,
                format!("{target} is one of the {known} targets that {} registers", library.short_name()),
            );
        }
        let mut message = format!("{triple} is registered, but not as {target}: ");
        let with: Vec<_> = features.iter().filter(|features| !features.is_empty()).map(|features| format!("{triple}{features}")).collect();
        if with.is_empty() {
            message.push_str("it is registered without features");
        } else {
            let _ = write!(message, "it is registered as {triple}, {}", with.join(", "));
        }
        return (Verdict::Unsupported, Reason::FeatureNotRegistered, message);
    }
    if registry.disabled.contains(&triple) {
        let message = format!("{triple} is in the table of {}, but switched off for this runtime", library.short_name());
        return (Verdict::Unsupported, Reason::NotEnabled, message);
    }
    // Two readings of one file that contradict each other on this very target: neither is believed.
    let doubt = library.doubts.as_ref().and_then(|doubts| doubts.against(triple));
    if let Some(doubt) = doubt.or_else(|| library.names.code_objects.contains(&triple).then_some("it embeds a code object for it")) {
        let message = format!("{triple} is not among the {known} registered targets that could be read, but {doubt}");
        return (Verdict::Unknown, Reason::Contradiction, message);
    }
    let name = library.short_name();
    let elsewhere = library.doubts.as_ref().is_some_and(|doubts| doubts.elsewhere.words.contains(&triple));
    if library.names.words.contains(&triple) || elsewhere {
        let message = format!("{name} registers {known} targets, not {triple}; it names {triple} for other ends only, such as code objects of old");
        return (Verdict::Unsupported, Reason::LegacyNameOnly, message);
    }
    (Verdict::Unsupported, Reason::NotRegistered, format!("{name} registers {known} targets, not {triple}"))
}

fn by_mention(library: &Library, target: Target) -> (Verdict, Reason, String) {
    let triple = target.triple;
    let names = library.names.words.len();
    let why = library.why_no_registry.as_deref().unwrap_or("no registry was found");
    if library.names.mention(triple) || library.doubts.as_ref().is_some_and(|doubts| doubts.assembled.contains(&triple)) {
        let message = format!("{triple} is named in {}, but whether it is registered could not be read ({why})", library.short_name());
        return (Verdict::Unknown, Reason::NoRegistry, message);
    }
    if names < FEWEST_NAMES {
        let message = format!("{} names {names} targets, too few to judge by ({why})", library.short_name());
        return (Verdict::Unknown, Reason::TooFewNames, message);
    }
    if library.names.crowded {
        return (Verdict::Unknown, Reason::NoRegistry, why.to_owned());
    }
    let message = format!("{triple} stands nowhere in {}, which names {names} targets ({why})", library.short_name());
    (Verdict::Unsupported, Reason::NameAbsent, message)
}

fn judge_generic(library: &Library, generic: Generic) -> Answer {
    let (reason, message) = if library.identity == Identity::Other {
        (Reason::NotRocr, other(library))
    } else {
        let base = Generic { features: Features::default(), ..generic };
        let listed = library.registry.as_ref().is_some_and(|registry| registry.generics.contains(&base));
        let name = library.short_name();
        let knows = if listed { "it is registered" } else { "it was not found among the registered ones" };
        let message = format!("{generic} names a family of code objects and no device: no GPU becomes visible by it (in {name} {knows})");
        (Reason::GenericOnly, message)
    };
    Answer { id: generic.to_string(), verdict: Verdict::Unknown, reason, message, nearest: Vec::new() }
}

fn other(library: &Library) -> String {
    let what = library.what.as_deref().unwrap_or("neither of the two runtimes");
    format!("not a ROCm runtime ({what}): names of targets in it say nothing about which GPUs are enumerated")
}

/// Registered targets that resemble one: same major, then the smallest distance in minor and step.
fn nearest(registry: &Registry, wanted: Triple) -> Vec<String> {
    let mut known: Vec<_> = registry.targets.keys().filter(|&&triple| triple != wanted).collect();
    known.sort_by_key(|triple| (triple.major.abs_diff(wanted.major), triple.minor.abs_diff(wanted.minor), triple.step.abs_diff(wanted.step)));
    known.into_iter().take(NEAREST).map(ToString::to_string).collect()
}
