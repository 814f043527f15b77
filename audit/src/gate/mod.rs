//! The gate: every shim of a configuration against every runtime of it, as one result.
//!
//! [`config`] is the file that says what is gated, [`checks`] what the gate itself finds. The audits do the work; here their subjects become one table
//! (a row per shim and runtime), and two runs of it become what a change opened and closed.

pub mod checks;
pub mod config;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::coverage::{self, Label};
use crate::diff::shims::Doors;
use crate::finding::Finding;
use crate::gfx;
use crate::linkage;
use crate::manifest::{Acceptances, Class, Family, Release};

pub use config::Config;

/// All that was gated.
#[derive(Debug, Default)]
pub struct Gate {
    /// A row per shim and runtime.
    pub table: Vec<Row>,
    /// A subject per shim.
    pub linkage: Vec<linkage::Subject>,
    /// A subject per shim and runtime, in the order of the table.
    pub coverage: Vec<coverage::Subject>,
    /// A subject per runtime file that has a table of GPU targets.
    pub gfx: Vec<gfx::audit::Subject>,
    /// What changed since an older shim, where one was named.
    pub since: Vec<Doors>,
    /// How many manifests and lists the self-check went through.
    pub checked: Checked,
}

/// What the self-check of the manifests looked at.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Families.
    pub families: usize,
    /// Judgements in them.
    pub judgements: usize,
    /// Lists of known builds.
    pub lists: usize,
    /// Acceptances.
    pub acceptances: usize,
}

/// One shim against one runtime.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The shim.
    pub shim: String,
    /// The runtime: its file, or which list.
    pub runtime: String,
    /// Runtime family.
    pub family: String,
    /// Its release.
    pub release: Option<Release>,
    /// Exported functions.
    pub exports: usize,
    /// Those that must be interposed.
    pub must_interpose: usize,
    /// Of them, interposed or covered below.
    pub held: usize,
    /// Of them, left open on purpose.
    pub accepted: usize,
    /// Of them, open or not bound, by class; every class that has any to hold is there.
    pub doors: BTreeMap<Class, usize>,
    /// Exports that nobody has classified.
    pub unclassified: usize,
}

impl Row {
    /// Counts one audited runtime.
    pub fn of(subject: &coverage::Subject) -> Self {
        let count =
            |wanted: &[Label]| -> usize { subject.by_class.values().flatten().filter(|(label, _)| wanted.contains(label)).map(|(_, n)| n).sum() };
        let open = |labels: &BTreeMap<Label, usize>| labels.iter().filter(|(label, _)| is_open(**label)).map(|(_, n)| n).sum();
        Self {
            shim: subject.shim.clone(),
            runtime: subject.file.clone(),
            family: subject.family.clone(),
            release: subject.release,
            exports: subject.denominators.exports,
            must_interpose: subject.denominators.must_interpose,
            held: count(&[Label::Interposed, Label::CoveredBelow]),
            accepted: count(&[Label::Accepted]),
            doors: subject.by_class.iter().map(|(class, labels)| (*class, open(labels))).collect(),
            unclassified: subject.labels[&Label::Unclassified],
        }
    }

    /// All open doors.
    pub fn open(&self) -> usize {
        self.doors.values().sum()
    }
}

/// True for what lets code past the shim.
fn is_open(label: Label) -> bool {
    matches!(label, Label::Open | Label::NotBound)
}

/// Whether the judgements fit the lists they are about, and the acceptances fit the judgements.
pub fn self_check(families: &[Family], acceptances: &[&Acceptances], findings: &mut Vec<Finding>) -> Checked {
    let mut checked = Checked::default();
    for family in families {
        checked.families += 1;
        checked.judgements += family.rows().len();
        checked.lists += family.builds.len();
        let folder = format!("manifests/{}", family.name());
        for build in family.builds {
            for export in build.exports().filter(|export| family.row(export.name).is_none()) {
                let message = format!("{} is in the list of {} {} and has no judgement", export.name, family.name(), build.release);
                findings.push(checks::MANIFEST_GAP.finding(&folder, message).symbol(export.name));
            }
            for anchor in family.identity.anchors.iter().filter(|anchor| build.exports().all(|export| export.name != anchor.as_str())) {
                let message = format!("{anchor} is an anchor of {}, and release {} does not export it", family.name(), build.release);
                findings.push(checks::MANIFEST_GAP.finding(&folder, message).symbol(anchor.as_str()));
            }
        }
        if let Some(beneath) = family.identity.beneath.as_deref().filter(|beneath| families.iter().all(|other| other.name() != *beneath)) {
            findings.push(checks::MANIFEST_GAP.finding(&folder, format!("the family beneath, {beneath}, has no manifest")));
        }
    }
    for (file, entry) in acceptances.iter().flat_map(|list| list.entries.iter().map(|entry| (list.file.as_str(), entry))) {
        checked.acceptances += 1;
        let family = families.iter().find(|family| family.name() == entry.family);
        let unknown = entry.export.as_deref().filter(|name| family.is_some_and(|family| family.row(name).is_none()));
        let message = match (family, unknown) {
            (None, _) => format!("the acceptance of {} is for family {}, which has no manifest", entry.subject(), entry.family),
            (_, Some(name)) => format!("{name} is accepted, and no release of {} exports it", entry.family),
            (Some(_), None) => continue,
        };
        findings.push(checks::MANIFEST_GAP.finding(file, message).symbol(entry.subject()));
    }
    checked
}
