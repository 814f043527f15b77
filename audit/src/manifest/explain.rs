//! `manifests/explain.json`: what to paste against a finding, and the words of reports that are no checks.
//!
//! The checks' own texts stand beside their code; here is what somebody copies, which tests try where a flag is said to cure a rule's fixture.

use serde::Deserialize;

use super::schema::{BadManifest, Rules};

/// What to paste against the findings of a check.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// The check.
    pub check: String,
    /// Flags of the compiler and linker.
    #[serde(default)]
    pub flags: Vec<String>,
    /// A version script, which the flags name as `exports.map`.
    #[serde(default)]
    pub script: Option<String>,
    /// Lines of source, of a shell or of JSON.
    #[serde(default)]
    pub paste: Vec<String>,
    /// The fixture under `fixtures/linkage/` that the flags cure; a test tries it.
    #[serde(default)]
    pub cures: Option<String>,
}

impl Remedy {
    /// All of it, a line each.
    pub fn lines(&self) -> Vec<String> {
        let flags = if self.flags.is_empty() { None } else { Some(self.flags.join(" ")) };
        let script = self.script.iter().map(|script| format!("{script}   # exports.map: the shim's own names"));
        flags.into_iter().chain(script).chain(self.paste.iter().cloned()).collect()
    }
}

/// A word of a report that is no check: a reason, a label, a verdict, an action.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The word.
    pub word: String,
    /// What kind of word it is.
    pub is: String,
    /// What it means.
    pub what: String,
    /// Why it matters.
    pub why: String,
    /// What to do about it.
    pub fix: String,
}

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Texts {
    schema_version: u32,
    /// Sorted by check.
    pub remedies: Vec<Remedy>,
    /// Sorted by word.
    pub words: Vec<Word>,
}

impl Texts {
    /// Those inside the program.
    pub fn embedded() -> Result<Self, BadManifest> {
        Self::read("manifests/explain.json", include_str!("../../../manifests/explain.json"))
    }

    /// Reads and checks a file.
    pub fn read(file: &str, text: &str) -> Result<Self, BadManifest> {
        let rules = Rules { file };
        let texts: Self = rules.parse(text)?;
        rules.version(texts.schema_version)?;
        rules.sorted(texts.remedies.iter().map(|remedy| remedy.check.as_str()))?;
        rules.sorted(texts.words.iter().map(|word| word.word.as_str()))?;
        if let Some(empty) = texts.remedies.iter().find(|remedy| remedy.lines().is_empty()) {
            return Err(rules.broken(&empty.check, "has flags or lines to paste"));
        }
        if let Some(empty) = texts.words.iter().find(|word| [&word.what, &word.why, &word.fix].iter().any(|text| text.trim().is_empty())) {
            return Err(rules.broken(&empty.word, "says what, why and what to do"));
        }
        Ok(texts)
    }

    /// What to paste against a check's findings.
    pub fn remedy(&self, check: &str) -> Option<&Remedy> {
        self.remedies.iter().find(|remedy| remedy.check == check)
    }

    /// A word that is no check.
    pub fn word(&self, word: &str) -> Option<&Word> {
        self.words.iter().find(|other| other.word == word)
    }
}

#[cfg(test)]
mod tests {
    use super::Texts;

    #[test]
    fn an_empty_text_is_refused() {
        assert!(Texts::embedded().is_ok());
        let file = |remedies: &str, words: &str| Texts::read("f", &format!(r#"{{"schema_version":1,"remedies":[{remedies}],"words":[{words}]}}"#));
        assert!(file(r#"{"check":"a","flags":["-x"]}"#, "").is_ok());
        assert!(file(r#"{"check":"a"}"#, "").is_err());
        assert!(file(r#"{"check":"b","flags":["-x"]},{"check":"a","flags":["-x"]}"#, "").is_err());
        assert!(file("", r#"{"word":"w","is":"a word","what":"x","why":"y","fix":" "}"#).is_err());
    }
}
