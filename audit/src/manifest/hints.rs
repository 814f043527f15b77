//! `manifests/<family>/evidence.json`: what reading the machine code of a family starts from, and contradictions that somebody has explained.

use serde::Deserialize;

use super::schema::{BadManifest, Release, Rules};

/// Where the reading of a family's machine code starts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hints {
    /// Version of the file's schema.
    pub schema_version: u32,
    /// The family.
    pub family: String,
    /// Exports that allocate for certain, at least one of each kind of memory: few.
    pub seeds: Vec<String>,
    /// Exports that allocate nothing for certain: few, because one wrong name hides every allocator it reaches.
    pub negatives: Vec<String>,
    /// Exports whose business is another one: more than the negatives, since only what lies close by counts of them.
    #[serde(default)]
    pub bystanders: Vec<String>,
    /// Imports that look up functions by name.
    pub lookups: Vec<String>,
    /// Contradictions between class and code that somebody has looked at.
    pub explained: Vec<Explained>,
}

/// A contradiction that is none on a closer look.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explained {
    /// The export.
    pub name: String,
    /// Releases that were looked at.
    pub releases: Vec<Release>,
    /// What the code says: the verdict's word.
    pub verdict: String,
    /// Why the class stands all the same.
    pub because: String,
}

impl Hints {
    /// Reads and checks a file.
    pub fn read(file: &str, text: &str) -> Result<Self, BadManifest> {
        let rules = Rules { file };
        let hints: Self = rules.parse(text)?;
        rules.version(hints.schema_version)?;
        for list in [&hints.seeds, &hints.negatives, &hints.bystanders, &hints.lookups] {
            rules.sorted(list.iter().map(String::as_str))?;
        }
        rules.sorted(hints.explained.iter().map(|entry| entry.name.as_str()))?;
        if let Some(both) = hints.seeds.iter().find(|seed| hints.negatives.contains(seed) || hints.bystanders.contains(seed)) {
            return Err(rules.broken(both, "either allocates for certain or does not"));
        }
        if let Some(empty) = hints.explained.iter().find(|entry| entry.releases.is_empty() || entry.because.is_empty()) {
            return Err(rules.broken(&empty.name, "names the releases that were looked at, and says why the class stands"));
        }
        Ok(hints)
    }

    /// Why a contradiction in this release is none, if somebody has said so.
    pub fn explanation(&self, name: &str, release: Option<Release>, verdict: &str) -> Option<&str> {
        let at = self.explained.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok()?;
        let entry = &self.explained[at];
        let looked_at = release.is_some_and(|release| entry.releases.iter().any(|other| other.line() == release.line()));
        (looked_at && entry.verdict == verdict).then_some(entry.because.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Hints;

    #[test]
    fn a_name_is_seed_or_negative_and_an_explanation_says_where() {
        let file = |seeds: &str, explained: &str| {
            let text = format!(r#"{{"schema_version":1,"family":"f","seeds":[{seeds}],"negatives":["b"],"lookups":[],"explained":[{explained}]}}"#);
            Hints::read("f", &text)
        };
        assert!(file(r#""a""#, "").is_ok());
        assert!(file(r#""b""#, "").is_err());
        assert!(file(r#""c","a""#, "").is_err());
        assert!(file(r#""a""#, r#"{"name":"x","releases":[],"verdict":"allocates","because":"y"}"#).is_err());
        let hints = file(r#""a""#, r#"{"name":"x","releases":["7.2.4"],"verdict":"allocates","because":"y"}"#).unwrap();
        let of = |release: &str, verdict: &str| hints.explanation("x", Some(release.parse().unwrap()), verdict);
        assert_eq!(of("7.2.4", "allocates"), Some("y"));
        assert_eq!(of("6.4.3", "allocates"), None);
        assert_eq!(of("7.2.4", "nothing-seen"), None);
    }
}
