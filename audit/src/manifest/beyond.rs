//! `manifests/beyond.json`: ways to a card that no preload closes, whatever it interposes. Shared with `build.rs`.
//!
//! They are no findings: nothing in a runtime or a shim shows them. `coverage` names them, so that "all held" is not read as more than it is; what a
//! program does is told by the commands that an entry names.

use serde::{Deserialize, Serialize};

use super::schema::{BadManifest, Evidence, Rules};

/// The file, for messages.
pub const FILE: &str = "manifests/beyond.json";

/// The audit that shows such a way in a program, and how it calls that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Finder {
    /// The command of `vrocm-audit`.
    pub command: &'static str,
    /// The check whose finding it is.
    pub check: &'static str,
}

/// A way as reports name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Way {
    /// Stable id in lower case with hyphens, for `explain`.
    pub id: &'static str,
    /// One sentence: what is done.
    pub what: &'static str,
    /// Runtime families that it is a way to; empty for every family.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub families: &'static [&'static str],
    /// Who finds it in a program; empty where no file shows it.
    pub found_by: &'static [Finder],
}

impl Way {
    /// True if it is a way to runtimes of this family.
    pub fn leads_to(&self, family: &str) -> bool {
        self.families.is_empty() || self.families.contains(&family)
    }
}

/// The file's form of [`Finder`].
#[allow(missing_docs, reason = "the fields are those of Finder")]
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedFinder {
    pub command: String,
    pub check: String,
}

/// An entry of the file, with what `explain` says beside a [`Way`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Id.
    pub id: String,
    /// What is done.
    pub what: String,
    /// Why no preload closes it.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// Families that it is a way to.
    #[serde(default)]
    pub families: Vec<String>,
    /// Who finds it in a program.
    pub found_by: Vec<ListedFinder>,
    /// How it is known; at least one.
    pub evidence: Vec<Evidence>,
}

impl Entry {
    /// The families in words.
    pub fn concerns(&self) -> String {
        if self.families.is_empty() { "every family of runtimes".into() } else { self.families.join(", ") }
    }

    /// Whose finding shows it in a program, in words, a line each.
    pub fn finders(&self) -> Vec<String> {
        if self.found_by.is_empty() {
            return vec!["by no command: no file of a program shows it".into()];
        }
        self.found_by.iter().map(|finder| format!("by vrocm-audit {}: {}", finder.command, finder.check)).collect()
    }

    /// How it is known, a line each.
    pub fn known(&self) -> Vec<String> {
        self.evidence.iter().map(|item| format!("{}: {} ({})", item.kind.word(), item.says, item.at)).collect()
    }

    /// The page of the way, `docs/checks/<id>.md`.
    pub fn page(&self) -> String {
        let Self { id, what, why, fix, .. } = self;
        let list = |lines: Vec<String>| -> String { lines.iter().map(|line| format!("- {line}\n")).collect() };
        let (finders, evidence) = (list(self.finders()), list(self.known()));
        format!(
            "# {id}\n\n{what}\n\nNo preload closes this, whatever it interposes. `coverage` and `gate` name it; it is no finding.\n\nIt concerns {}.\n\n## Why\n\n{why}\n\n## What to do\n\n{fix}\n\n## Found in a program\n\n{finders}\n## Evidence\n\n{evidence}",
            self.concerns()
        )
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema_version: u32,
    ways: Vec<Entry>,
}

/// The entries inside the program.
pub fn entries() -> Result<Vec<Entry>, BadManifest> {
    read(FILE, include_str!("../../../manifests/beyond.json"))
}

/// Reads and checks a file.
pub fn read(file: &str, text: &str) -> Result<Vec<Entry>, BadManifest> {
    let rules = Rules { file };
    let parsed: File = rules.parse(text)?;
    rules.version(parsed.schema_version)?;
    rules.sorted(parsed.ways.iter().map(|way| way.id.as_str()))?;
    for way in &parsed.ways {
        if [&way.what, &way.why, &way.fix].iter().any(|text| text.trim().is_empty()) {
            return Err(rules.broken(&way.id, "says what, why and what to do"));
        }
        if way.evidence.is_empty() {
            return Err(rules.broken(&way.id, "has evidence"));
        }
        rules.sorted(way.families.iter().map(String::as_str))?;
        let finders: Vec<String> = way.found_by.iter().map(|finder| format!("{} {}", finder.command, finder.check)).collect();
        rules.sorted(finders.iter().map(String::as_str))?;
    }
    Ok(parsed.ways)
}

/// What reports need of a file. Like [`rows`](super::schema::rows), the result refers to leaked memory.
pub fn ways(file: &str, text: &str) -> Result<Vec<Way>, BadManifest> {
    let leak = |text: String| -> &'static str { text.leak() };
    let way = |entry: Entry| Way {
        id: leak(entry.id),
        what: leak(entry.what),
        families: entry.families.into_iter().map(leak).collect::<Vec<_>>().leak(),
        found_by: entry
            .found_by
            .into_iter()
            .map(|finder| Finder { command: leak(finder.command), check: leak(finder.check) })
            .collect::<Vec<_>>()
            .leak(),
    };
    Ok(read(file, text)?.into_iter().map(way).collect())
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_way_without_reason_or_evidence_is_refused() {
        let way = |id: &str, why: &str, evidence: &str| {
            format!(r#"{{"id":"{id}","what":"w","why":"{why}","fix":"f","found_by":[],"evidence":[{evidence}]}}"#)
        };
        let known = r#"{"kind":"source","at":"a","says":"s"}"#;
        let file = |ways: &[String]| read("f", &format!(r#"{{"schema_version":1,"ways":[{}]}}"#, ways.join(",")));
        assert!(file(&[way("a", "y", known), way("b", "y", known)]).is_ok());
        assert!(file(&[way("b", "y", known), way("a", "y", known)]).is_err());
        assert!(file(&[way("a", " ", known)]).is_err());
        assert!(file(&[way("a", "y", "")]).is_err());
        assert!(read("f", r#"{"schema_version":2,"ways":[]}"#).is_err());
    }
}
