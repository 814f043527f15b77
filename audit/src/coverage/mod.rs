//! `coverage`: everything a runtime exports, classified, minus what a shim really interposes.
//!
//! Reading order: [`runtime`] (what is audited: a library or a list that ships inside the program), [`shim`] (what is subtracted: a
//! library or a list of names), [`beneath`] (whether the runtime's own imports hold what the exports leave open), [`label`] (the one
//! label each export gets), [`checks`] (ids and texts of the findings), [`names`] (near misses).

pub mod beneath;
pub mod checks;
pub mod label;
pub mod names;
pub mod runtime;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use crate::finding::Finding;
use crate::manifest::{Acceptances, Class, ClassTable, Family, Release, Size};

pub use crate::loader::shim::{self, Shim};
pub use label::Label;
pub use runtime::Runtime;

/// One audited runtime, as the report shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// The file, or the list inside the program.
    pub file: String,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// GNU build-id.
    pub build_id: Option<String>,
    /// Runtime family.
    pub family: String,
    /// Release, as exactly as it is known.
    pub release: Option<Release>,
    /// What the release was read from.
    pub release_evidence: String,
    /// What was subtracted.
    pub shim: String,
    /// Named, counted sets.
    pub denominators: Denominators,
    /// How many exports carry each label; they add up to `denominators.exports`.
    pub labels: BTreeMap<Label, usize>,
    /// Of the exports that must be interposed, how many carry each label, by class.
    pub by_class: BTreeMap<Class, BTreeMap<Label, usize>>,
    /// Every exported function.
    pub exports: Vec<Export>,
    /// Own exports that the runtime reaches through its own PLT, where an interposer stands in between.
    pub reentry: Vec<String>,
    /// Names the shim interposes that this runtime does not export.
    pub absent: Vec<String>,
    /// What is new against the release before, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_since: Option<NewSince>,
    /// Whether the imports beneath hold what is open above, and why.
    pub beneath: beneath::Verdict,
}

/// Named, counted sets.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Denominators {
    /// Exported functions with GLOBAL or WEAK binding.
    pub exports: usize,
    /// Those whose class must be interposed.
    pub must_interpose: usize,
}

/// One exported function with its judgement and label.
#[derive(Debug, Clone, Serialize)]
pub struct Export {
    /// Name without version.
    pub name: Arc<str>,
    /// Version node.
    pub node: Option<Arc<str>>,
    /// Class in this runtime's release; absent for an export in no manifest.
    pub class: Option<Class>,
    /// For `indirect-alloc`: who decides the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// True if the class must be interposed.
    pub must_interpose: bool,
    /// The one label.
    pub label: Label,
    /// Why this label.
    pub reason: Arc<str>,
}

/// Exports that the newest known release before this one does not have.
#[derive(Debug, Clone, Serialize)]
pub struct NewSince {
    /// The release compared with.
    pub release: Release,
    /// Names, sorted.
    pub exports: Vec<Arc<str>>,
}

/// Everything an audit of coverage needs to know beside the files.
#[derive(Debug)]
pub struct Context<'a> {
    /// Which classes must be interposed.
    pub table: &'a ClassTable,
    /// All known families.
    pub families: &'a [Family],
    /// Acceptances that apply to this shim.
    pub acceptances: &'a Acceptances,
    /// Day of the audit, for acceptances that end.
    pub today: jiff::civil::Date,
}

/// Audits runtimes against one shim. Acceptances that match nothing in any of them are findings as well.
pub fn audit(runtimes: &[Runtime<'_>], shim: &Shim<'_>, context: &Context<'_>) -> (Vec<Subject>, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut used = vec![false; context.acceptances.entries.len()];
    let mut subjects = Vec::with_capacity(runtimes.len());
    for runtime in runtimes {
        subjects.push(audit_one(runtime, shim, context, &mut used, &mut findings));
    }
    check_acceptances(runtimes, context, &used, &mut findings);
    (subjects, findings)
}

fn audit_one(runtime: &Runtime<'_>, shim: &Shim<'_>, context: &Context<'_>, used: &mut [bool], findings: &mut Vec<Finding>) -> Subject {
    let beneath = beneath::judge(runtime, shim, context, used);
    let mut exports = Vec::with_capacity(runtime.exports.len());
    let rows = runtime.family.rows_of(runtime.exports.iter().map(|export| &*export.name));
    for (export, row) in runtime.exports.iter().zip(rows) {
        let judged = row.and_then(|row| runtime.family.judge_row(row, runtime.release, context.table));
        exports.push(label::label(export, judged, runtime, shim, &beneath, context, used, findings));
    }

    let mut labels: BTreeMap<Label, usize> = Label::ALL.into_iter().map(|label| (label, 0)).collect();
    let mut by_class: BTreeMap<Class, BTreeMap<Label, usize>> = BTreeMap::new();
    for export in &exports {
        *labels.entry(export.label).or_default() += 1;
        if let (Some(class), true) = (export.class, export.must_interpose) {
            *by_class.entry(class).or_default().entry(export.label).or_default() += 1;
        }
    }
    let absent = names::absent(runtime, shim, context, findings);
    let reentry = report_reentry(runtime, shim, findings);
    Subject {
        file: runtime.file.clone(),
        soname: runtime.soname.clone(),
        build_id: runtime.build_id.clone(),
        family: runtime.family.name().into(),
        release: runtime.release,
        release_evidence: runtime.release_evidence.clone(),
        shim: shim.describe(),
        denominators: Denominators { exports: exports.len(), must_interpose: exports.iter().filter(|export| export.must_interpose).count() },
        labels,
        by_class,
        new_since: new_since(runtime),
        exports,
        reentry,
        absent,
        beneath,
    }
}

/// Own calls of the runtime that meet an interposer: no fault, but a lock held around the real call would deadlock there.
fn report_reentry(runtime: &Runtime<'_>, shim: &Shim<'_>, findings: &mut Vec<Finding>) -> Vec<String> {
    for name in runtime.reentry.iter().filter(|name| shim.has(name)) {
        let message =
            format!("{name} is interposed, and the runtime calls it through its own PLT: the interposer runs inside another call of the runtime");
        findings.push(checks::REENTRY.finding(&runtime.file, message).symbol(name.as_str()));
    }
    runtime.reentry.clone()
}

fn new_since(runtime: &Runtime<'_>) -> Option<NewSince> {
    let release = runtime.release?;
    let before = runtime.family.builds.iter().rev().find(|build| build.release.line() < release.line())?;
    // Both lists are sorted, so one pass over them tells.
    let mut known = before.exports().peekable();
    let mut exports: Vec<Arc<str>> = Vec::new();
    for export in &runtime.exports {
        while known.next_if(|known| *known.name < *export.name).is_some() {}
        if known.peek().is_none_or(|known| known.name != &*export.name) {
            exports.push(export.name.clone());
        }
    }
    Some(NewSince { release: before.release, exports })
}

/// Acceptances that are over, and those that match nothing in the families that were audited.
fn check_acceptances(runtimes: &[Runtime<'_>], context: &Context<'_>, used: &[bool], findings: &mut Vec<Finding>) {
    for (entry, used) in context.acceptances.entries.iter().zip(used) {
        let file = context.acceptances.file.as_str();
        let subject = entry.subject();
        if entry.expired(context.today) {
            let message = format!("the acceptance of {subject} ended on {}: close the door, or argue for it anew", entry.until.unwrap_or_default());
            findings.push(checks::EXPIRED_ACCEPTANCE.finding(file, message).symbol(subject).evidence("reason", entry.reason.as_str()));
        } else if !used && runtimes.iter().any(|runtime| runtime.family.name() == entry.family) {
            let message = format!("the acceptance of {subject} ({}) matches no open door in any audited runtime: remove it", entry.family);
            findings.push(checks::STALE_ACCEPTANCE.finding(file, message).symbol(subject).evidence("reason", entry.reason.as_str()));
        }
    }
}
