//! Reports: every format reads the same subjects and findings.
//!
//! [`json`] is the machine's, keys as in `docs/report.schema.json`; [`text`] is for people.

pub mod json;
pub mod text;

use std::io::{self, Write};

use serde::Serialize;

use crate::consumers;
use crate::coverage;
use crate::evidence;
use crate::finding::{self, Finding};
use crate::gfx;
use crate::linkage;

/// Version of the JSON report. Keys may be added within a version, never changed.
pub const SCHEMA_VERSION: u32 = 1;

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people; colour on a terminal only.
    Text,
    /// For programs; see docs/report.schema.json.
    Json,
}

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
}

impl Subjects {
    /// The audit's name, as in the report.
    pub fn audit(&self) -> &'static str {
        match self {
            Self::Coverage(_) => "coverage",
            Self::Evidence(_) => "evidence",
            Self::Consumers { .. } => "consumers",
            Self::Linkage(_) => "linkage",
            Self::Gfx { .. } => "gfx",
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
}

impl Report {
    /// Sorts the findings into report order.
    pub fn new(program: &'static str, subjects: Subjects, mut findings: Vec<Finding>, unread: Vec<String>) -> Self {
        finding::sort(&mut findings);
        Self { program, subjects, findings, unread }
    }

    /// The result as one word: the answer about a target, or else what follows from the findings.
    pub fn verdict(&self) -> Verdict {
        match &self.subjects {
            Subjects::Gfx { target: Some(answer), .. } => match answer.verdict {
                gfx::verdict::Verdict::Supported => Verdict::Supported,
                gfx::verdict::Verdict::Unsupported => Verdict::Unsupported,
                gfx::verdict::Verdict::Unknown => Verdict::Unknown,
            },
            _ => Verdict::of(&self.findings),
        }
    }

    /// Writes it in one format.
    pub fn write(&self, format: Format, colour: bool, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Json => json::write(self, out),
            Format::Text => text::write(self, text::Style { colour }, out),
        }
    }
}
