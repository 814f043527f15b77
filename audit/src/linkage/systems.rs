//! On which distributions the library loads, and because of what not.
//!
//! The verdict holds for a preload into a program that needs nothing but `libc.so.6`, which is what a container's every process comes down
//! to. What no row of the table can know (a library that is no part of glibc) is said, and left open.

use serde::Serialize;

use super::Outcome;
use super::facts::{Facts, Import};
use crate::elf::Requirement;
use crate::elf::constants as elf;
use crate::finding::{Finding, Severity};
use crate::manifest::glibc::{self, Glibc, Libc, Marker, Node, System};

/// What happens on one system.
#[derive(Debug, Clone, Serialize)]
pub struct LoadsOn {
    /// The system.
    pub system: String,
    /// Its C library: `glibc 2.31`.
    pub libc: String,
    /// True if programs start with the library preloaded.
    pub loads: bool,
    /// `loads`, `stops-every-program`, `loses-the-shim`, `kills-the-call`, or `depends` on a library that is not everywhere.
    pub outcome: &'static str,
    /// The requirement or symbol that decides; absent where nothing stands against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// Rules about the file as such: what they deny is loaded nowhere.
const ANYWHERE: [&str; 5] = ["byte-order", "elf-ident", "file-type", "machine", "word-size"];

/// The verdict for every system of the table, in its order. `findings` are what the rules found.
pub(super) fn judge(facts: &Facts<'_>, known: &Glibc, findings: &[Finding]) -> Vec<LoadsOn> {
    let refused = findings.iter().find(|finding| finding.severity == Severity::Deny && ANYWHERE.contains(&finding.check));
    // Systems with the same library are judged once: there are several of each release.
    let mut judged: Vec<(Libc, u64, (Outcome, Option<String>))> = Vec::new();
    let missing: Vec<&Import<'_>> = facts.imports.iter().filter(|import| import.since > 0).collect();
    let strong = facts.glibc_requirements().filter(|requirement| !requirement.weak);
    let asked: Vec<(&Requirement, Since<'_>)> =
        strong.map(|requirement| (requirement, Since::of(known, &facts.machine, &requirement.version))).collect();
    known
        .systems
        .iter()
        .map(|system| {
            if let Some(refused) = refused {
                let because = Some(format!("{}: {}", refused.check, refused.message));
                return LoadsOn { system: system.name.clone(), libc: shown(system), loads: false, outcome: Outcome::LosesTheShim.word(), because };
            }
            let found = judged.iter().find(|(libc, version, _)| *libc == system.libc && *version == system.key);
            let (outcome, because) = if let Some((_, _, verdict)) = found {
                verdict.clone()
            } else {
                let verdict = judge_one(facts, &asked, &missing, system);
                judged.push((system.libc, system.key, verdict.clone()));
                verdict
            };
            let (name, loads) = match outcome {
                Outcome::Nothing => ("loads", true),
                Outcome::Depends => ("depends", true),
                Outcome::KillsTheCall => ("kills-the-call", true),
                other => (other.word(), false),
            };
            LoadsOn { system: system.name.clone(), libc: shown(system), loads, outcome: name, because }
        })
        .collect()
}

/// `glibc 2.31`.
fn shown(system: &System) -> String {
    let name = match system.libc {
        Libc::Glibc => "glibc",
        Libc::Musl => "musl",
    };
    format!("{name} {}", system.version)
}

fn judge_one(facts: &Facts<'_>, asked: &[(&Requirement, Since<'_>)], missing: &[&Import<'_>], system: &System) -> (Outcome, Option<String>) {
    match system.libc {
        Libc::Glibc => on_glibc(facts, asked, missing, system),
        Libc::Musl => on_musl(facts, &system.version),
    }
}

fn on_glibc(facts: &Facts<'_>, asked: &[(&Requirement, Since<'_>)], missing: &[&Import<'_>], system: &System) -> (Outcome, Option<String>) {
    let release = system.version.as_str();
    let absent = asked.iter().filter(|(_, since)| !since.is_in(system)).map(|(requirement, _)| requirement);
    // The highest is named: it is what has to go first.
    if let Some(worst) = absent.max_by(|a, b| by_number(&a.version, &b.version)) {
        let symbols: Vec<&str> = facts.causes(worst).map(|import| import.name).collect();
        let because = if symbols.is_empty() { worst.version.clone() } else { format!("{} ({})", worst.version, symbols.join(", ")) };
        return (Outcome::StopsEveryProgram, Some(because));
    }
    if facts.image.dynamic.has(elf::DT_RELR) && glibc::compare(release, "2.36").is_lt() {
        return (Outcome::StopsEveryProgram, Some("DT_RELR, which this loader passes over".into()));
    }
    if let Some(worst) = missing.iter().filter(|import| import.since > system.key).max_by_key(|import| import.when_missing()) {
        match worst.when_missing() {
            Outcome::Nothing => {}
            outcome => return (outcome, Some(worst.shown())),
        }
    }
    if let Some(private) = facts.imports.iter().find(|import| !import.weak && import.version == Some("GLIBC_PRIVATE")) {
        return (Outcome::Depends, Some(private.shown()));
    }
    depends(facts, |name| glibc::is_glibc(name) && !name.contains('/'))
}

fn on_musl(facts: &Facts<'_>, release: &str) -> (Outcome, Option<String>) {
    // musl's loader answers for the libraries whose contents it holds itself, whatever follows the name.
    let inside = |name: &str| ["libc.", "libpthread.", "librt.", "libm.", "libdl.", "libutil.", "libxnet."].iter().any(|own| name.starts_with(own));
    if let Some(absent) = facts.names.needed.iter().find(|name| glibc::is_glibc(name) && !inside(name)) {
        return (Outcome::StopsEveryProgram, Some(format!("{absent} does not exist there")));
    }
    if facts.image.dynamic.has(elf::DT_RELR) && glibc::compare(release, "1.2.4").is_lt() {
        return (Outcome::StopsEveryProgram, Some("DT_RELR, which this loader passes over".into()));
    }
    let foreign = facts.names.needed.iter().any(|name| !glibc::is_glibc(name));
    let unknown = |import: &&Import<'_>| !foreign && import.when_missing() != Outcome::Nothing && !glibc::is_musl_name(import.name);
    // musl binds every function when it loads a library, so a missing one stops the program even where glibc would bind it late.
    if let Some(missing) = facts.imports.iter().find(unknown) {
        return (Outcome::StopsEveryProgram, Some(format!("{}, which musl does not have", missing.name)));
    }
    depends(facts, inside)
}

fn depends(facts: &Facts<'_>, known: impl Fn(&str) -> bool) -> (Outcome, Option<String>) {
    let others: Vec<&str> = facts.names.needed.iter().map(String::as_str).filter(|name| !known(name)).collect();
    if others.is_empty() { (Outcome::Nothing, None) } else { (Outcome::Depends, Some(format!("needs {}", others.join(", ")))) }
}

/// Systems for a message, newest C library first, the best known one for each release: `Ubuntu 20.04 (2.31), RHEL 8 (2.28) and 5 more`.
pub(super) fn name_some(systems: &[&System]) -> String {
    const BEST_KNOWN: [&str; 5] = ["Ubuntu", "RHEL", "Debian", "Amazon", "SLES"];
    const SHOWN: usize = 4;
    let rank = |system: &System| BEST_KNOWN.iter().position(|start| system.name.starts_with(start)).unwrap_or(BEST_KNOWN.len());
    let mut sorted = systems.to_vec();
    sorted.sort_by_cached_key(|system| (std::cmp::Reverse(system.key), rank(system)));
    sorted.dedup_by_key(|system| system.key);
    let named: Vec<String> = sorted.iter().take(SHOWN).map(|system| format!("{} ({})", system.name, system.version)).collect();
    match systems.len() - named.len() {
        0 => named.join(", "),
        rest => format!("{} and {rest} more", named.join(", ")),
    }
}

fn by_number(left: &str, right: &str) -> std::cmp::Ordering {
    let number = |name| Node::parse(name).map_or("0", |node| node.number);
    glibc::compare(number(left), number(right))
}

/// From which release on a version exists.
#[derive(Debug, Clone, Copy)]
enum Since<'a> {
    /// The release of this number, by [`glibc::sort_key`].
    Number(u64),
    /// As the marker says.
    Marker(&'a Marker),
    /// No release that anybody knows.
    Never,
}

impl<'a> Since<'a> {
    fn of(known: &'a Glibc, machine: &str, version: &str) -> Self {
        let Some(node) = Node::parse(version) else { return known.marker(version).map_or(Self::Never, Self::Marker) };
        let above_base = known.base(machine).is_none_or(|base| glibc::compare(node.number, base).is_ge());
        match glibc::sort_key(node.number) {
            Some(key) if above_base && known.may_exist(machine, node.number) => Self::Number(key),
            _ => Self::Never,
        }
    }

    fn is_in(self, system: &System) -> bool {
        match self {
            Self::Number(key) => key <= system.key,
            Self::Marker(marker) => {
                let since = marker.since.as_deref().is_none_or(|since| glibc::compare(since, &system.version).is_le());
                since || marker.backports.contains(&system.version)
            }
            Self::Never => false,
        }
    }
}
