//! The JSON report. `docs/report.schema.json` describes it; tests hold every report against it.

use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::{Report, SCHEMA_VERSION, Scanned, Subjects, Verdict};
use crate::bindings::{Binding, Loaded};
use crate::diff::{Difference, manifests, runtimes, shims};
use crate::finding::Finding;
use crate::gate::{Checked, Gate, Row};
use crate::gfx::preflight::decide::Candidate;
use crate::gfx::verdict::Answer;
use crate::loader::Unknown;
use crate::manifest::beyond::Way;
use crate::{coverage, gfx, linkage};

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    tool: Tool,
    audit: &'static str,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a Answer>,
    #[serde(flatten)]
    preflight: Option<Preflight<'a>>,
    #[serde(flatten)]
    process: Option<Process<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scanned: Option<Scanned>,
    subjects: &'a Subjects,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    beyond_preload: Vec<&'static Way>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unread: &'a [String],
}

/// What `preflight` adds.
#[derive(Serialize)]
struct Preflight<'a> {
    command: &'a [String],
    program: &'a str,
    candidates: &'a [Candidate],
    unknowns: &'a [Unknown],
}

/// What `bindings` adds.
#[derive(Serialize)]
struct Process<'a> {
    objects: &'a [Loaded],
    bindings: &'a [Binding],
}

/// A subject of a gate, which says of what kind it is.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Part<'a> {
    Row(&'a Row),
    Linkage(&'a linkage::Subject),
    Coverage(&'a coverage::Subject),
    Gfx(&'a gfx::audit::Subject),
    Change(&'a shims::Doors),
    Manifests(&'a Checked),
}

fn parts(gate: &Gate) -> impl Iterator<Item = Part<'_>> {
    let rows = gate.table.iter().map(Part::Row).chain(gate.linkage.iter().map(Part::Linkage));
    let runtimes = gate.coverage.iter().map(Part::Coverage).chain(gate.gfx.iter().map(Part::Gfx));
    rows.chain(runtimes).chain(gate.since.iter().map(Part::Change)).chain([Part::Manifests(&gate.checked)])
}

/// A subject of a difference, which says of what kind it is.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Compared<'a> {
    Runtimes(&'a runtimes::Change),
    Shims(&'a shims::Change),
    Manifests(&'a manifests::Change),
}

fn compared(difference: &Difference) -> Vec<Compared<'_>> {
    match difference {
        Difference::Runtimes(changes) => changes.iter().map(Compared::Runtimes).collect(),
        Difference::Shims(change) => vec![Compared::Shims(change)],
        Difference::Manifests(change) => vec![Compared::Manifests(change)],
    }
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

impl Serialize for Subjects {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Coverage(subjects) => subjects.serialize(serializer),
            Self::Evidence(subjects) => subjects.serialize(serializer),
            Self::Bindings(subject) => [subject].serialize(serializer),
            Self::Consumers { subjects, .. } => subjects.serialize(serializer),
            Self::Linkage(subjects) => subjects.serialize(serializer),
            Self::Gfx { subjects, .. } => subjects.serialize(serializer),
            Self::Preflight(answer) => answer.devices.serialize(serializer),
            Self::Diff(difference) => serializer.collect_seq(compared(difference)),
            Self::Gate(gate) => serializer.collect_seq(parts(gate)),
        }
    }
}

/// Writes the report with a newline at the end.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let document = Document {
        schema_version: SCHEMA_VERSION,
        tool: Tool { name: report.program, version: env!("CARGO_PKG_VERSION") },
        audit: report.subjects.audit(),
        verdict: report.verdict(),
        target: match &report.subjects {
            Subjects::Gfx { target, .. } => target.as_ref(),
            _ => None,
        },
        preflight: match &report.subjects {
            Subjects::Preflight(answer) => {
                Some(Preflight { command: &answer.command, program: &answer.program, candidates: &answer.candidates, unknowns: &answer.unknowns })
            }
            _ => None,
        },
        process: match &report.subjects {
            Subjects::Bindings(subject) => Some(Process { objects: &subject.objects, bindings: &subject.bindings }),
            _ => None,
        },
        scanned: match &report.subjects {
            Subjects::Consumers { scanned, .. } => Some(*scanned),
            _ => None,
        },
        subjects: &report.subjects,
        findings: &report.findings,
        beyond_preload: report.beyond_preload(),
        unread: &report.unread,
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}
