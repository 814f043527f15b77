//! Rule `undefined-provider`.

use super::facts::{Bound, Facts, Import};
use super::policy::Policy;
use super::{Rule, systems, version_floor};
use crate::finding::{Check, Finding, Severity};
use crate::manifest::glibc::{self, Libc, Node, System};

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "undefined-provider",
        severity: Severity::Deny,
        what: "Every undefined symbol is defined by a needed library on every system that the policy's version limit stands for.",
        why: "A low version can be bought with a symbol that an old libc.so.6 does not have: dlsym@GLIBC_2.2.5 is in libdl.so.2 before glibc 2.34. Bound at load it stops every program; bound at the first call, it ends the program there.",
        fix: "Do without the symbol (dl_iterate_phdr finds what dlsym would), make the reference weak and test it, or need the library that has it.",
        source: "manifests/glibc/symbols-x86_64.txt, made from glibc 2.31 to 2.44; measured (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, policy, found| {
        // No limit, no claim about old systems.
        let Some(limit) = policy.max_versions.get("GLIBC") else { return };
        let from = glibc::sort_key(limit).unwrap_or(0);
        let concerned = |system: &&System| system.libc == Libc::Glibc && system.key >= from;
        let systems: Vec<&System> = policy.glibc.systems.iter().filter(concerned).collect();
        let oldest = systems.iter().map(|system| system.key).min().unwrap_or(u64::MAX);
        for import in facts.imports.iter().filter(|import| import.since > oldest) {
            if let Some(finding) = judge(facts, policy, import, limit, &systems) {
                found.push(finding);
            }
        }
    },
};

/// `all` are the systems that the limit stands for.
fn judge(facts: &Facts<'_>, policy: &Policy, import: &Import<'_>, limit: &str, all: &[&System]) -> Option<Finding> {
    // A version above the limit, or one that exists nowhere, is a finding of `version-floor`; one without a number of `version-marker`.
    if let Some(version) = import.version {
        let named = Node::parse(version)
            .is_none_or(|node| glibc::compare(node.number, limit).is_gt() || version_floor::exists_nowhere(facts, policy, node.number));
        if named {
            return None;
        }
    }
    // What a GPU runtime defines is the business of `undefined-runtime`.
    if policy.is_runtime_name(import.name) {
        return None;
    }
    let lacking: Vec<&System> = all.iter().filter(|system| system.key < import.since).copied().collect();
    let newest = lacking.iter().max_by_key(|system| system.key)?;

    let known = import.providers;
    let shown = import.shown();
    let binding = if import.weak { "weak" } else { "strong" };
    let version = if import.version.is_none() { ", unversioned" } else { "" };
    let whence = match known.iter().find(|row| row.first_release() <= newest.key && row.library != "libc.so.6") {
        Some(row) => {
            let since = known.iter().filter(|row| row.library == "libc.so.6").filter_map(|row| row.since).min_by(|a, b| glibc::compare(a, b));
            let later = since.map_or_else(String::new, |since| format!(", and libc.so.6 has it only since glibc {since}"));
            format!("it is in {}, which is not in DT_NEEDED{later}", row.library)
        }
        None if known.is_empty() => "no library of glibc defines it, and no other is needed".into(),
        None => format!("libc.so.6 of glibc {} and older does not have it", newest.version),
    };
    let outcome = import.when_missing();
    let (severity, effect) = match (import.weak, import.bound) {
        (true, _) => (Severity::Note, "There it stays without a definition, which the code must test".to_string()),
        (false, Bound::AtLoad) => {
            let why = if facts.image.dynamic.binds_now() { "DF_BIND_NOW" } else { "through the GOT or in data" };
            (Severity::Deny, format!("It is bound at load ({why}): there no program starts that has not loaded a library with it itself"))
        }
        (false, Bound::AtCall) => {
            (Severity::Warn, "It is bound at the first call: there the program ends when it calls it, and with LD_BIND_NOW it does not start".into())
        }
        (false, Bound::Never) => (Severity::Note, "No relocation uses it".into()),
    };
    let on = if lacking.len() == all.len() { "any known system".into() } else { systems::name_some(&lacking) };
    let message = format!("{shown} ({binding}{version}) is missing on {on}: {whence}. {effect}");
    let lacking: Vec<&str> = lacking.iter().map(|system| system.name.as_str()).collect();
    Some(
        facts
            .found(&RULE.check, outcome, message)
            .symbol(import.name)
            .severity(severity)
            .evidence("bound", import.bound.word())
            .evidence("lacking", lacking),
    )
}
