//! The JSON report. `docs/report.schema.json` describes it; tests hold every report against it.

use std::io::{self, Write};

use serde::Serialize;

use super::{Report, SCHEMA_VERSION, Subjects, Verdict};
use crate::finding::Finding;

#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    tool: Tool,
    audit: &'static str,
    verdict: Verdict,
    subjects: &'a Subjects,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    unread: &'a [String],
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// Writes the report with a newline at the end.
pub(super) fn write(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let document = Document {
        schema_version: SCHEMA_VERSION,
        tool: Tool { name: report.program, version: env!("CARGO_PKG_VERSION") },
        audit: report.subjects.audit(),
        verdict: Verdict::of(&report.findings),
        subjects: &report.subjects,
        findings: &report.findings,
        unread: &report.unread,
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}
