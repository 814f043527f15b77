//! What the rules judge by: `manifests/linkage.json` for our own libvrocm.so, or a file of the same form given by `--policy`.
//!
//! `docs/linkage-policy.md` describes every key.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::RULES;
use crate::finding::{Finding, Severity};
use crate::manifest::glibc::{self, Glibc, Node};
use crate::manifest::schema::{BadManifest, Rules};
use crate::manifest::{Family, InterposedList};

/// `DT_NEEDED` entries a shim may have.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needed {
    /// The names, spelt as in the file, in the order they must stand in.
    pub allowed: Vec<String>,
    /// True if all of them must be there.
    pub exact: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema_version: u32,
    title: String,
    machine: String,
    needed: Needed,
    max_versions: BTreeMap<String, String>,
    soname: Option<String>,
    isa_level: u8,
    runtime_prefixes: Vec<String>,
    exports: Option<Vec<String>>,
    severities: BTreeMap<String, Severity>,
}

/// The settings of all rules, and the facts about distributions they are held against.
#[derive(Debug)]
pub struct Policy {
    /// What kind of library it is for.
    pub title: String,
    /// The machine it must be built for, as [`crate::elf::Header::machine_name`] says it.
    pub machine: String,
    /// What `DT_NEEDED` may hold.
    pub needed: Needed,
    /// Highest version allowed, by namespace (`GLIBC`).
    pub max_versions: BTreeMap<String, String>,
    /// The soname it must have; any if absent.
    pub soname: Option<String>,
    /// Highest x86-64 level it may ask of the processor, 1 to 4.
    pub isa_level: u8,
    /// How names begin that only a GPU runtime defines, beside those of the known families.
    pub runtime_prefixes: Vec<String>,
    /// The exact set of exports, where the caller has no list.
    pub exports: Option<InterposedList>,
    severities: BTreeMap<String, Severity>,
    /// Which system has which symbols.
    pub glibc: Glibc,
    families: Vec<Family>,
}

impl Policy {
    /// The policy inside the program: how libvrocm.so is to be judged.
    pub fn embedded() -> Result<Self, BadManifest> {
        Self::read("manifests/linkage.json", include_str!("../../../manifests/linkage.json"))
    }

    /// Reads a policy and checks it.
    pub fn read(file: &str, text: &str) -> Result<Self, BadManifest> {
        let rules = Rules { file };
        let parsed: File = rules.parse(text)?;
        rules.version(parsed.schema_version)?;
        for (namespace, number) in &parsed.max_versions {
            if namespace.is_empty() || !glibc::is_number(number) {
                return Err(rules.broken("max_versions", format!("{namespace:?}: {number:?} is not a number like 2.4")));
            }
        }
        if !(1..=4).contains(&parsed.isa_level) {
            return Err(rules.broken("isa_level", format!("{} is not one of the x86-64 levels 1 to 4", parsed.isa_level)));
        }
        if parsed.needed.allowed.iter().any(String::is_empty) || parsed.runtime_prefixes.iter().any(String::is_empty) {
            return Err(rules.broken("needed or runtime_prefixes", "an empty name would allow, or forbid, anything"));
        }
        if let Some(unknown) = parsed.severities.keys().find(|id| super::rule(id).is_none()) {
            let known: Vec<&str> = RULES.iter().map(|rule| rule.check.id).collect();
            return Err(rules.broken("severities", format!("{unknown:?} is no linkage rule; there are {}", known.join(", "))));
        }
        let exports = match parsed.exports {
            Some(names) => {
                rules.sorted(names.iter().map(String::as_str))?;
                Some(InterposedList::read(file, &names.join("\n"))?)
            }
            None => None,
        };
        Ok(Self {
            title: parsed.title,
            machine: parsed.machine,
            needed: parsed.needed,
            max_versions: parsed.max_versions,
            soname: parsed.soname,
            isa_level: parsed.isa_level,
            runtime_prefixes: parsed.runtime_prefixes,
            exports,
            severities: parsed.severities,
            glibc: Glibc::embedded()?,
            families: Family::embedded()?,
        })
    }

    /// Sets a highest version from its full name, as `--max-version GLIBC_2.4` gives it.
    pub fn with_max_version(mut self, node: &str) -> Result<Self, BadManifest> {
        let Some(parsed) = Node::parse(node) else {
            return Err(Rules { file: "--max-version" }.broken(node, "is a namespace, an underscore and a number, such as GLIBC_2.4"));
        };
        self.max_versions.insert(parsed.namespace.into(), parsed.number.into());
        Ok(self)
    }

    /// Replaces the libraries that may be needed, as `--allow-needed NAME` gives them.
    #[must_use]
    pub fn with_needed(mut self, allowed: Vec<String>) -> Self {
        self.needed = Needed { allowed, exact: false };
        self
    }

    /// True for a name that only a GPU runtime defines: an export of a known family, or one that begins like one.
    pub fn is_runtime_name(&self, name: &str) -> bool {
        self.runtime_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str())) || self.families.iter().any(|family| family.row(name).is_some())
    }

    /// The family whose libraries have sonames that begin like this one.
    pub(super) fn family_of_soname(&self, soname: &str) -> Option<&str> {
        let family = self.families.iter().find(|family| soname.starts_with(family.identity.soname_prefix.as_str()))?;
        Some(&family.identity.title)
    }

    /// True for a version node that a known family uses for its exports.
    pub(super) fn is_family_node(&self, node: &str) -> bool {
        let prefixes = self.families.iter().filter_map(|family| family.identity.node_prefix.as_deref());
        node == "ROCR_1" || prefixes.into_iter().any(|prefix| node.starts_with(prefix))
    }

    /// Applies the policy's own severity of a check. It takes the place of the check's; a case that is milder than its check stays milder.
    pub(super) fn weigh(&self, finding: &mut Finding, usual: Severity) {
        if let Some(&set) = self.severities.get(finding.check) {
            finding.severity = if finding.severity >= usual { set } else { finding.severity.min(set) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = include_str!("../../../manifests/linkage.json");

    fn changed(from: &str, to: &str) -> String {
        assert!(OWN.contains(from), "{from}");
        OWN.replace(from, to)
    }

    #[test]
    fn a_bad_policy_is_refused_with_entry_and_rule() {
        for (text, rule) in [
            (changed("\"2.4\"", "\"new\""), "p: max_versions: \"GLIBC\": \"new\" is not a number"),
            (changed("\"isa_level\": 1", "\"isa_level\": 5"), "p: isa_level: 5 is not one"),
            (changed("\"severities\": {}", "\"severities\": {\"exec-stick\": \"warn\"}"), "p: severities: \"exec-stick\" is no linkage rule"),
            (changed("\"severities\": {}", "\"severities\": {\"exec-stack\": \"off\"}"), "p: line 11"),
            (changed("[\"libc.so.6\"]", "[\"\"]"), "p: needed or runtime_prefixes: an empty name"),
            (changed("\"exports\": null", "\"exports\": [\"b\", \"a\"]"), "p: a: not sorted"),
            (changed("\"exports\": null", "\"exports\": []"), "p: file: names no symbol"),
            (changed("\"schema_version\": 1", "\"schema_version\": 2"), "p: schema_version: 2"),
            (changed("\"title\"", "\"tittle\""), "p: line 3"),
        ] {
            let bad = Policy::read("p", &text).expect_err(&text).to_string();
            assert!(bad.starts_with(rule), "{bad}");
        }
    }

    #[test]
    fn the_schema_in_docs_knows_the_same_keys() {
        let schema: serde_json::Value = serde_json::from_str(include_str!("../../../docs/linkage-policy.schema.json")).expect("JSON");
        let own: serde_json::Value = serde_json::from_str(OWN).expect("JSON");
        let keys = |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&schema["properties"]), keys(&own));
        assert_eq!(keys(&schema["properties"]["needed"]["properties"]), keys(&own["needed"]));
        let validator = jsonschema::validator_for(&schema).expect("a good schema");
        assert!(validator.is_valid(&own));
        assert!(!validator.is_valid(&serde_json::json!({"schema_version": 1})));
    }

    #[test]
    fn a_severity_replaces_the_checks_own_and_leaves_milder_cases_mild() {
        let policy = Policy::read("p", &changed("\"severities\": {}", "\"severities\": {\"exec-stack\": \"warn\"}")).expect("good");
        let check = &super::super::rule("exec-stack").expect("there").check;
        for (before, after) in [(Severity::Deny, Severity::Warn), (Severity::Warn, Severity::Warn), (Severity::Note, Severity::Note)] {
            let mut finding = check.finding("f", "m").severity(before);
            policy.weigh(&mut finding, check.severity);
            assert_eq!(finding.severity, after);
        }
    }

    #[test]
    fn max_versions_are_given_by_full_name() {
        let policy =
            Policy::embedded().expect("good").with_max_version("GLIBC_2.17").expect("a number").with_max_version("CXXABI_1.3.9").expect("a number");
        assert_eq!(policy.max_versions["GLIBC"], "2.17");
        assert_eq!(policy.max_versions["CXXABI"], "1.3.9");
        let bad = policy.with_max_version("GLIBC_PRIVATE").expect_err("no number").to_string();
        assert_eq!(bad, "--max-version: GLIBC_PRIVATE: is a namespace, an underscore and a number, such as GLIBC_2.4");
    }
}
