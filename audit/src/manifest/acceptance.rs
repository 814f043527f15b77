//! `accepted.json`: doors left open on purpose, each with a reason, since when, and for which releases.

use serde::{Deserialize, Serialize};

use super::schema::{BadManifest, Class, Release, Rules};

/// One acceptance.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// The runtime family.
    pub family: String,
    /// The export; or `class`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
    /// Every export of a class; the report counts what it covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Why the door stays open.
    pub reason: String,
    /// Day it was accepted, `YYYY-MM-DD`.
    pub since: jiff::civil::Date,
    /// Last day it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<jiff::civil::Date>,
    /// Releases it holds for; empty for all.
    #[serde(default)]
    pub releases: Vec<Release>,
}

impl Acceptance {
    /// True if it covers this export.
    pub fn covers(&self, family: &str, name: &str, class: Class, release: Option<Release>) -> bool {
        let named = match (&self.export, self.class) {
            (Some(export), _) => export == name,
            (None, Some(accepted)) => accepted == class,
            (None, None) => false,
        };
        let in_release = self.releases.is_empty() || release.is_some_and(|release| self.releases.iter().any(|held| held.line() == release.line()));
        self.family == family && named && in_release
    }

    /// True if its last day is over.
    pub fn expired(&self, today: jiff::civil::Date) -> bool {
        self.until.is_some_and(|until| until < today)
    }

    /// What it is about, for messages.
    pub fn subject(&self) -> String {
        self.export.clone().or_else(|| self.class.map(|class| format!("class {class}"))).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema_version: u32,
    accepted: Vec<Acceptance>,
}

/// All acceptances of a file.
#[derive(Debug, Clone, Default)]
pub struct Acceptances {
    /// The file they stand in, for messages.
    pub file: String,
    /// In file order.
    pub entries: Vec<Acceptance>,
}

impl Acceptances {
    /// Those inside the program, which hold for our own libvrocm.so alone.
    pub fn embedded() -> Result<Self, BadManifest> {
        Self::read("manifests/accepted.json", include_str!("../../../manifests/accepted.json"))
    }

    /// Reads a file and checks it.
    pub fn read(file: &str, text: &str) -> Result<Self, BadManifest> {
        let rules = Rules { file };
        let parsed: File = rules.parse(text)?;
        rules.version(parsed.schema_version)?;
        Self::checked(file, parsed.accepted)
    }

    /// Checks entries that stand in `file`.
    pub fn checked(file: &str, entries: Vec<Acceptance>) -> Result<Self, BadManifest> {
        let rules = Rules { file };
        for (number, entry) in entries.iter().enumerate() {
            let which = format!("entry {} ({})", number + 1, entry.subject());
            if entry.export.is_some() == entry.class.is_some() {
                return Err(rules.broken(which, "names either an export or a class"));
            }
            if entry.reason.trim().is_empty() {
                return Err(rules.broken(which, "has a reason"));
            }
            if entry.until.is_some_and(|until| until < entry.since) {
                return Err(rules.broken(which, "ends before it begins"));
            }
        }
        Ok(Self { file: file.into(), entries })
    }
}
