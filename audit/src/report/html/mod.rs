//! One HTML page that needs nothing else: the matrix exports × releases coloured by label, with filters and the evidence on click; the findings below.
//!
//! The table is there without a script; `page.js` filters it and shows evidence. A policy in the page forbids it the network.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Checks, Report};
use crate::coverage::{Export, Label, Subject};
use crate::finding::Severity;
use crate::manifest::{Class, Family};

/// Every reason once, by text; cells name its number.
#[derive(Default)]
struct Reasons<'a> {
    numbers: BTreeMap<&'a str, usize>,
    texts: Vec<&'a str>,
}

impl<'a> Reasons<'a> {
    fn number(&mut self, text: &'a str) -> usize {
        *self.numbers.entry(text).or_insert_with(|| {
            self.texts.push(text);
            self.texts.len() - 1
        })
    }
}

/// The row of an export: what each runtime of the matrix says of it.
type Cells<'a> = Vec<Option<&'a Export>>;

pub(super) fn write(report: &Report, checks: Checks, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("{} {}", report.program, report.subjects.audit());
    let verdict = if report.unread.is_empty() { format!("{:?}", report.verdict()).to_lowercase() } else { "incomplete".into() };
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{title}: {verdict}</title>\n<style>\n{}</style></head><body>",
        include_str!("page.css")
    )?;
    let count = |severity| report.findings.iter().filter(|finding| finding.severity == severity).count();
    writeln!(
        out,
        "<h1>{title} <span class=\"verdict {verdict}\">{verdict}</span></h1>\n<p>{} deny, {} warn, {} note · version {}</p>",
        count(Severity::Deny),
        count(Severity::Warn),
        count(Severity::Note),
        env!("CARGO_PKG_VERSION")
    )?;
    for what in &report.unread {
        writeln!(out, "<p><b>not audited:</b> {}</p>", escape(what))?;
    }
    let mut reasons = Reasons::default();
    let mut families: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let matrices = matrices(report.subjects.coverage());
    if !matrices.is_empty() {
        write_filter(out)?;
    }
    for ((family, shim), subjects) in matrices {
        let rows = write_matrix(family, shim, &subjects, &mut reasons, out)?;
        families.entry(family).or_default().extend(rows);
    }
    write_beyond(report, out)?;
    writeln!(out, "<section id=\"evidence\" aria-live=\"polite\" hidden></section>")?;
    write_findings(report, checks, out)?;
    let data = json!({"reasons": reasons.texts, "evidence": evidence(report, &families)?});
    // The only sequences that could end the element or open a comment in it begin with `<`.
    writeln!(out, "<script type=\"application/json\" id=\"data\">{}</script>", data.to_string().replace('<', "\\u003c"))?;
    writeln!(out, "<script>\n{}</script></body></html>", include_str!("page.js"))
}

/// What the matrix does not speak of, however green it is.
fn write_beyond(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let ways: Vec<String> =
        report.beyond_preload().iter().map(|way| format!("<abbr title=\"{}\">{}</abbr>", escape(way.what), escape(way.id))).collect();
    if ways.is_empty() {
        return Ok(());
    }
    writeln!(out, "<p class=\"beyond\">No preload closes: {}. <span class=\"faint\">vrocm-audit explain beyond-preload</span></p>", ways.join(", "))
}

/// Runtimes of one family against one shim stand side by side.
fn matrices(subjects: &[Subject]) -> BTreeMap<(&str, &str), Vec<&Subject>> {
    let mut matrices: BTreeMap<(&str, &str), Vec<&Subject>> = BTreeMap::new();
    for subject in subjects {
        matrices.entry((&subject.family, &subject.shim)).or_default().push(subject);
    }
    matrices
}

fn write_filter(out: &mut dyn Write) -> io::Result<()> {
    let option = |word: &str| format!("<option>{word}</option>");
    let classes: String = Class::ALL.iter().map(|class| option(class.word())).collect();
    let labels: String = Label::ALL.iter().map(|label| option(label.word())).collect();
    let legend: String = Label::ALL.iter().map(|label| format!("<span class=\"{0}\">{1} {0}</span>", label.word(), sign(*label))).collect();
    writeln!(
        out,
        "<form id=\"filter\" hidden><label>class <select name=\"kind\"><option value=\"\">all</option>{classes}</select></label>\
         <label>label <select name=\"label\"><option value=\"\">all</option>{labels}</select></label>\
         <label>name <input type=\"search\" name=\"text\"></label>\
         <label><input type=\"checkbox\" name=\"must\" checked> only what must be interposed</label><span id=\"shown\" class=\"faint\"></span></form>\n\
         <p class=\"legend\">{legend}</p>"
    )
}

/// A colour alone is no label.
fn sign(label: Label) -> &'static str {
    match label {
        Label::Interposed => "✓",
        Label::CoveredBelow => "↓",
        Label::Open => "✗",
        Label::Accepted => "~",
        Label::OutOfScope => "·",
        Label::Unclassified => "?",
        Label::NotBound => "!",
    }
}

/// Writes a table and returns the names of its rows.
fn write_matrix<'a>(
    family: &str,
    shim: &str,
    subjects: &[&'a Subject],
    reasons: &mut Reasons<'a>,
    out: &mut dyn Write,
) -> io::Result<BTreeSet<&'a str>> {
    let mut rows: BTreeMap<&str, Cells<'a>> = BTreeMap::new();
    for (column, subject) in subjects.iter().enumerate() {
        for export in &subject.exports {
            rows.entry(&export.name).or_insert_with(|| vec![None; subjects.len()])[column] = Some(export);
        }
    }
    let heads: Vec<String> =
        subjects.iter().map(|subject| subject.release.map_or_else(|| "release unknown".into(), |release| release.to_string())).collect();
    writeln!(out, "<h2>{} · <span class=\"name\">{}</span></h2>", escape(family), escape(shim))?;
    for (subject, head) in subjects.iter().zip(&heads) {
        let must = subject.denominators.must_interpose;
        let held: usize = [Label::Interposed, Label::CoveredBelow].iter().map(|label| among_must(subject, *label)).sum();
        writeln!(
            out,
            "<p>{head}: {held} / {must} (must_interpose) held, {} accepted of {} exports <span class=\"faint name\">{}</span></p>",
            subject.labels[&Label::Accepted],
            subject.denominators.exports,
            escape(&subject.file)
        )?;
    }
    let columns: String = heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escape(head))).collect();
    writeln!(
        out,
        "<div class=\"scroll\"><table class=\"matrix\"><thead><tr><th scope=\"col\">export</th><th class=\"class\" scope=\"col\">class</th>{columns}</tr></thead><tbody>"
    )?;
    for (name, cells) in &rows {
        write_row(family, name, cells, &heads, reasons, out)?;
    }
    writeln!(out, "</tbody></table></div>")?;
    Ok(rows.into_keys().collect())
}

fn among_must(subject: &Subject, label: Label) -> usize {
    subject.by_class.values().filter_map(|labels| labels.get(&label)).sum()
}

fn write_row<'a>(family: &str, name: &str, cells: &Cells<'a>, heads: &[String], reasons: &mut Reasons<'a>, out: &mut dyn Write) -> io::Result<()> {
    let there = || cells.iter().flatten();
    let class = there().filter_map(|export| export.class).min().map_or("", Class::word);
    let labels: BTreeSet<&str> = there().map(|export| export.label.word()).collect();
    let must = u8::from(there().any(|export| export.must_interpose || export.label == Label::Unclassified || export.label == Label::NotBound));
    let name = escape(name);
    write!(
        out,
        "<tr data-family=\"{}\" data-name=\"{name}\" data-class=\"{class}\" data-labels=\"{}\" data-must=\"{must}\"><th scope=\"row\"><button type=\"button\" class=\"name\">{name}</button></th><td class=\"class\">{class}</td>",
        escape(family),
        labels.into_iter().collect::<Vec<_>>().join(" ")
    )?;
    for (cell, head) in cells.iter().zip(heads) {
        match cell {
            None => write!(out, "<td class=\"cell absent\">–</td>")?,
            Some(export) => write!(
                out,
                "<td class=\"cell {0}\" data-label=\"{0}\" data-of=\"{1}\" data-node=\"{2}\" data-reason=\"{3}\">{4}<span class=\"word\"> {0}</span></td>",
                export.label.word(),
                escape(head),
                escape(export.node.as_deref().unwrap_or_default()),
                reasons.number(&export.reason),
                sign(export.label)
            )?,
        }
    }
    writeln!(out, "</tr>")
}

fn write_findings(report: &Report, checks: Checks, out: &mut dyn Write) -> io::Result<()> {
    if report.findings.is_empty() {
        return writeln!(out, "<h2>Findings</h2><p>None.</p>");
    }
    let all = checks();
    writeln!(
        out,
        "<h2>Findings</h2><div class=\"scroll\"><table class=\"findings\"><thead><tr><th>check</th><th>file</th><th>what</th></tr></thead><tbody>"
    )?;
    for finding in &report.findings {
        let fix = all.iter().find(|check| check.id == finding.check).map_or("", |check| check.fix);
        let word = finding.severity.word();
        writeln!(
            out,
            "<tr class=\"{word}\"><td>{word} <code>{}</code></td><td class=\"name\">{}</td><td>{}<br><span class=\"faint\">{}</span></td></tr>",
            finding.check,
            escape(&finding.file),
            escape(&finding.message),
            escape(fix)
        )?;
    }
    writeln!(out, "</tbody></table></div>")
}

/// The evidence of every export shown, by family and name.
fn evidence(report: &Report, shown: &BTreeMap<&str, BTreeSet<&str>>) -> io::Result<Value> {
    let embedded;
    let families: &[Family] = if report.families.is_empty() && !shown.is_empty() {
        embedded = Family::embedded().map_err(io::Error::other)?;
        &embedded
    } else {
        &report.families
    };
    let mut all = Map::new();
    for family in families {
        let mut exports = Map::new();
        for name in shown.get(family.name()).into_iter().flatten() {
            if let Some(judgement) = family.judgement(name).map_err(io::Error::other)? {
                let other = judgement.by_version.iter().flat_map(|version| &version.evidence);
                let items = judgement.evidence.iter().chain(other);
                let items: Vec<Value> = items.map(|item| json!({"kind": item.kind.word(), "at": item.at, "says": item.says})).collect();
                exports.insert((*name).into(), items.into());
            }
        }
        all.insert(family.name().into(), exports.into());
    }
    Ok(all.into())
}

/// Text for an element or a quoted attribute.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
