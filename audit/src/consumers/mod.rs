//! `consumers`: which files reach a GPU runtime, by which way, and whether the shim stands in that way.
//!
//! Reading order: [`words`] (what is looked for, from the manifests), [`scan`] (one pass over the bytes; nearly every file ends here), [`facts`]
//! (imports, strings, how libraries are opened), `python` (sources that open a runtime), [`judge`] (held, slips, unknown, each with its reasons), [`checks`] (the reasons' texts).

pub mod checks;
mod facts;
mod judge;
mod python;
mod scan;
mod words;

use serde::Serialize;

use crate::elf::{Elf, Result, Source};
use crate::finding::{Check, Finding, Severity};
use crate::loader::shim::Shim;
use crate::manifest::{Acceptances, Class, ClassTable, Family};
use words::Words;

/// The answer about one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It has nothing to do with any family.
    Untouched,
    /// Every way to the runtime that the file has passes the shim.
    Held,
    /// At least one way cannot be judged from the file.
    Unknown,
    /// At least one way goes past the shim.
    Slips,
}

impl Verdict {
    /// The word that JSON and text use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Untouched => "untouched",
            Self::Held => "held",
            Self::Unknown => "unknown",
            Self::Slips => "slips",
        }
    }
}

/// One function that a file reaches, by import or by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reached {
    /// The function.
    pub name: String,
    /// The version it is asked for; none for a look-up by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its class, the strictest of all releases; none if no manifest knows it.
    pub class: Option<Class>,
    /// True if its class has to be interposed.
    pub must_interpose: bool,
    /// True if the shim's function is what the file gets, or the class need not be held.
    pub held: bool,
}

/// Why a file got its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// Id of the check.
    pub code: &'static str,
    /// What it makes of the file.
    pub verdict: Verdict,
    /// One sentence.
    pub message: String,
    /// Functions it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<String>,
}

/// One file.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// The file; `container!/path` inside one.
    pub file: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// GNU build-id.
    pub build_id: Option<String>,
    /// Machine by its short name; `Python source` for one.
    pub machine: String,
    /// The answer.
    pub verdict: Verdict,
    /// Families whose runtime this file is; what it does is for `coverage`, what it takes from a runtime beneath is judged here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtime_of: Vec<String>,
    /// Families that it reaches.
    pub families: Vec<String>,
    /// Imports that a family defines.
    pub imports: Vec<Reached>,
    /// Names in it that it can look up by itself.
    pub lookups: Vec<Reached>,
    /// Strings that name a runtime's library.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<String>,
    /// Functions with which it opens libraries and looks names up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dynamic: Vec<String>,
    /// Whether it opens any library with `RTLD_DEEPBIND`: `no`, `yes`, or `unknown`.
    pub deepbind: &'static str,
    /// A program without interpreter: no preload reaches it.
    #[serde(rename = "static")]
    pub is_static: bool,
    /// Device files and functions of the kernel's interface in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernel: Vec<String>,
    /// Why the verdict is what it is; empty for a file that is held without more to say.
    pub reasons: Vec<Reason>,
}

/// What files are judged by.
pub struct Auditor<'a> {
    families: &'a [Family],
    table: &'a ClassTable,
    shim: &'a Shim<'a>,
    /// Word size and machine of the shim, where it is a library.
    platform: Option<(u64, u16)>,
    acceptances: &'a Acceptances,
    today: jiff::civil::Date,
    words: Words<'a>,
}

impl<'a> Auditor<'a> {
    /// Prepares the search for the families' words.
    pub fn new(
        families: &'a [Family],
        table: &'a ClassTable,
        shim: &'a Shim<'a>,
        image: Option<&Elf>,
        acceptances: &'a Acceptances,
        today: jiff::civil::Date,
    ) -> Self {
        let platform = image.map(|image| (image.header.word_size(), image.header.machine));
        Self { families, table, shim, platform, acceptances, today, words: Words::new(families) }
    }

    /// Audits one ELF file; `None` if it has nothing to do with any family, unless `always`.
    pub fn audit(&self, source: Source, always: bool) -> Result<Option<Subject>> {
        let found = scan::words(&source, &self.words)?;
        if found.is_empty() && !always {
            return Ok(None);
        }
        let image = Elf::parse(source)?;
        if !facts::is_mapped(&image) && !always {
            return Ok(None);
        }
        let facts = facts::gather(&image, found, self.families)?;
        Ok((always || facts.touches()).then(|| judge::subject(self, image.file(), facts)))
    }
}

impl Auditor<'_> {
    /// Audits one Python source; `None` if it reaches no family, unless `always`.
    pub fn audit_python(&self, source: &Source, always: bool) -> Result<Option<Subject>> {
        python::audit(self, source, always)
    }
}

/// What the reasons of a file become in the report.
pub fn findings(subject: &Subject) -> impl Iterator<Item = Finding> + '_ {
    subject.reasons.iter().filter_map(|reason| {
        let check: &Check = checks::ALL.into_iter().find(|check| check.id == reason.code)?;
        let severity = if reason.verdict == Verdict::Slips { Severity::Deny } else { check.severity };
        let mut finding = check.finding(&subject.file, &reason.message).severity(severity);
        if let [symbol] = reason.symbols.as_slice() {
            finding = finding.symbol(symbol);
        }
        Some(if reason.symbols.is_empty() { finding } else { finding.evidence("symbols", reason.symbols.clone()) })
    })
}
