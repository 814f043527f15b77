//! Reports: every format reads the same subjects and findings.
//!
//! [`json`] is the machine's, keys as in `docs/report.schema.json`; [`text`] is for people; the others are for what shows results to people: code
//! scanning, test reports, annotations, comments, a page. A format of another program takes what it needs from the check's texts.

mod fingerprint;
pub mod github;
mod gitlab;
mod html;
pub mod json;
mod junit;
mod markdown;
pub mod printable;
mod sarif;
pub mod text;

use std::io::{self, Write};

use serde::Serialize;

use self::printable::Printable;

use crate::bindings;
use crate::consumers;
use crate::coverage;
use crate::diff::Difference;
use crate::evidence;
use crate::finding::{self, Check, Finding};
use crate::gate;
use crate::gfx;
use crate::linkage;
use crate::manifest::beyond::Way;
use crate::manifest::{Family, beyond_preload};

/// Version of the JSON report. Keys may be added within a version, never changed.
pub const SCHEMA_VERSION: u32 = 1;

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people; colour on a terminal only.
    Text,
    /// For programs; see docs/report.schema.json.
    Json,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// `JUnit` XML, for test reports.
    Junit,
    /// GitHub workflow commands; in a step, the summary too.
    Github,
    /// Markdown, for comments and summaries.
    Markdown,
    /// GitLab code quality.
    Gitlab,
    /// One page with the coverage matrix, which needs no network.
    Html,
}

impl Format {
    /// True for formats that people look at as they are; the others have rules of their own for control characters.
    fn is_shown(self) -> bool {
        matches!(self, Self::Text | Self::Github | Self::Markdown | Self::Html)
    }
}

/// Where the texts of all checks are, for the formats that show them; read only there.
pub type Checks = fn() -> Vec<&'static Check>;

/// The result of an audit as one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No finding that denies.
    Pass,
    /// At least one.
    Fail,
    /// A target is registered in every library asked.
    Supported,
    /// In none.
    Unsupported,
    /// The files do not let one say, or disagree.
    Unknown,
}

impl Verdict {
    /// What follows from the findings, and from nothing else.
    pub fn of(findings: &[Finding]) -> Self {
        if finding::any_deny(findings) { Self::Fail } else { Self::Pass }
    }
}

/// How much `consumers` looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Scanned {
    /// Files on disk.
    pub files: usize,
    /// ELF files, those inside containers included.
    pub elf: usize,
    /// Python sources, those inside containers included.
    pub python: usize,
    /// Packages, tarballs and images that were opened.
    pub containers: usize,
}

/// What was audited, one variant per kind of audit.
#[derive(Debug)]
pub enum Subjects {
    /// Runtimes.
    Coverage(Vec<coverage::Subject>),
    /// Runtimes and what their machine code says.
    Evidence(Vec<evidence::Subject>),
    /// One program, its objects and what they bind.
    Bindings(Box<bindings::Subject>),
    /// Files that reach a runtime.
    Consumers {
        /// One per file that does, and per file that was named.
        subjects: Vec<consumers::Subject>,
        /// How much was looked at.
        scanned: Scanned,
        /// What they were held against.
        shim: String,
    },
    /// Shims and how they load.
    Linkage(Vec<linkage::Subject>),
    /// Runtimes and the GPU targets they know.
    Gfx {
        /// One per library.
        subjects: Vec<gfx::audit::Subject>,
        /// The answer of all together, where a target was asked for.
        target: Option<gfx::verdict::Answer>,
    },
    /// A command and the runtimes that it could load.
    Preflight(Box<gfx::preflight::ask::Answer>),
    /// What a newer file adds and takes away.
    Diff(Difference),
    /// All of them, of one configuration.
    Gate(Box<gate::Gate>),
}

impl Subjects {
    /// The audit's name, as in the report.
    pub fn audit(&self) -> &'static str {
        match self {
            Self::Coverage(_) => "coverage",
            Self::Evidence(_) => "evidence",
            Self::Bindings(_) => "bindings",
            Self::Consumers { .. } => "consumers",
            Self::Linkage(_) => "linkage",
            Self::Gfx { .. } => "gfx",
            Self::Preflight(_) => "preflight",
            Self::Diff(_) => "diff",
            Self::Gate(_) => "gate",
        }
    }

    /// The files that were audited, in order.
    pub fn files(&self) -> Vec<&str> {
        match self {
            Self::Coverage(subjects) => subjects.iter().map(|subject| subject.file.as_str()).collect(),
            Self::Evidence(subjects) => subjects.iter().map(|subject| subject.file.as_str()).collect(),
            Self::Consumers { subjects, .. } => subjects.iter().map(|subject| subject.file.as_str()).collect(),
            Self::Linkage(subjects) => subjects.iter().map(|subject| subject.file.as_str()).collect(),
            Self::Gfx { subjects, .. } => subjects.iter().map(|subject| subject.library.file.as_str()).collect(),
            Self::Preflight(answer) => vec![answer.program.as_str()],
            Self::Diff(Difference::Runtimes(changes)) => changes.iter().map(|change| change.new.side.file.as_str()).collect(),
            Self::Diff(Difference::Shims(change)) => vec![change.new.file.as_str()],
            Self::Diff(Difference::Manifests(change)) => vec![change.new.as_str()],
            Self::Bindings(subject) => vec![subject.file.as_str()],
            Self::Gate(gate) => {
                let shims = gate.linkage.iter().map(|subject| subject.file.as_str());
                shims.chain(gate.coverage.iter().map(|subject| subject.file.as_str())).collect()
            }
        }
    }

    /// Audited runtimes, for the matrix.
    fn coverage(&self) -> &[coverage::Subject] {
        match self {
            Self::Coverage(subjects) => subjects,
            Self::Gate(gate) => &gate.coverage,
            Self::Evidence(_)
            | Self::Bindings(_)
            | Self::Consumers { .. }
            | Self::Linkage(_)
            | Self::Gfx { .. }
            | Self::Preflight(_)
            | Self::Diff(_) => &[],
        }
    }
}

/// One report.
#[derive(Debug)]
pub struct Report {
    /// The program that wrote it.
    pub program: &'static str,
    /// What was audited.
    pub subjects: Subjects,
    /// What was found, in report order.
    pub findings: Vec<Finding>,
    /// Files that could not be audited; a report that leaves some out says so.
    pub unread: Vec<String>,
    /// Families whose judgements the page shows; those inside the program where there are none.
    pub families: Vec<Family>,
}

impl Report {
    /// Sorts the findings into report order.
    pub fn new(program: &'static str, subjects: Subjects, mut findings: Vec<Finding>, unread: Vec<String>) -> Self {
        finding::sort(&mut findings);
        Self { program, subjects, findings, unread, families: Vec::new() }
    }

    /// Adds the families that the audit knew.
    #[must_use]
    pub fn with_families(mut self, families: Vec<Family>) -> Self {
        self.families = families;
        self
    }

    /// The result as one word: the answer about a target, or else what follows from the findings.
    pub fn verdict(&self) -> Verdict {
        let answer = match &self.subjects {
            Subjects::Gfx { target: Some(answer), .. } => answer.verdict,
            Subjects::Preflight(answer) => answer.verdict,
            _ => return Verdict::of(&self.findings),
        };
        match answer {
            gfx::verdict::Verdict::Supported => Verdict::Supported,
            gfx::verdict::Verdict::Unsupported => Verdict::Unsupported,
            gfx::verdict::Verdict::Unknown => Verdict::Unknown,
        }
    }

    /// What no preload closes, of the families whose exports were held against a shim; it is no finding.
    pub fn beyond_preload(&self) -> Vec<&'static Way> {
        let audited = self.subjects.coverage();
        beyond_preload().iter().filter(|way| audited.iter().any(|subject| way.leads_to(&subject.family))).collect()
    }

    /// Writes it in one format for whoever asked: what people look at as it is has no control characters of anybody's names.
    pub fn show(&self, format: Format, colour: bool, checks: Checks, out: &mut dyn Write) -> io::Result<()> {
        if !format.is_shown() {
            return self.write(format, colour, checks, out);
        }
        let mut out = io::BufWriter::with_capacity(1 << 16, Printable::new(out, colour));
        self.write(format, colour, checks, &mut out)?;
        out.flush()
    }

    /// Writes it in one format, with names as they stand in files.
    pub fn write(&self, format: Format, colour: bool, checks: Checks, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Json => json::write(self, out),
            Format::Text => text::write(self, text::Style { colour }, out),
            Format::Sarif => sarif::write(self, checks, out),
            Format::Junit => junit::write(self, checks, out),
            Format::Github => github::write(self, out),
            Format::Markdown => markdown::write(self, checks, out),
            Format::Gitlab => gitlab::write(self, out),
            Format::Html => html::write(self, checks, out),
        }
    }
}
