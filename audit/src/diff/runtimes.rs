//! Two builds of a runtime: what the newer one adds and takes away.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Set, Side, checks};
use crate::coverage::checks::UNCLASSIFIED;
use crate::coverage::{self, Label, Runtime};
use crate::evidence;
use crate::finding::{Finding, Severity};
use crate::manifest::{Class, ClassTable, Release};

/// One build to compare.
#[derive(Debug)]
pub struct Build<'a> {
    /// What it exports and imports.
    pub runtime: Runtime<'a>,
    /// What its machine code says, or why nothing is known of that.
    pub code: Result<evidence::Subject, String>,
}

/// One build, as the report names it.
#[derive(Debug, Clone, Serialize)]
pub struct Counted {
    /// File, soname, build-id.
    #[serde(flatten)]
    pub side: Side,
    /// The release.
    pub release: Option<Release>,
    /// Exported functions, by name.
    pub exports: usize,
    /// Those that must be interposed.
    pub must_interpose: usize,
}

/// An export that one build has and the other has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    /// Name without version.
    pub name: String,
    /// Its version nodes.
    pub nodes: Vec<String>,
    /// Its class in the build that has it; absent for one in no manifest.
    pub class: Option<Class>,
    /// True if the class must be interposed.
    pub must_interpose: bool,
}

/// An export that both builds have and that does something else now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reclassified {
    /// Name without version.
    pub name: String,
    /// Its class in the older build.
    pub old: Class,
    /// Its class in the newer one.
    pub new: Class,
    /// True if it must be interposed in the newer one.
    pub must_interpose: bool,
}

/// A door that the newer build has and the older had not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Door {
    /// Name without version.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// Its class in the older build, where that exports it.
    pub was: Option<Class>,
    /// What the shim makes of it, where one was named.
    pub label: Option<Label>,
}

/// An export that both builds have under other version nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Renoded {
    /// Name without version.
    pub name: String,
    /// Nodes gained and lost.
    pub nodes: Set,
}

/// An export whose slot in the dispatch table moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Name without version.
    pub name: String,
    /// Offset of its slot in the older build.
    pub old: String,
    /// And in the newer one.
    pub new: String,
}

/// Dispatch tables, where the machine code of both builds was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Slots {
    /// Exports of the older build that jump through a slot.
    pub old: usize,
    /// And of the newer one.
    pub new: usize,
    /// Exports in both whose slot moved.
    pub moved: Vec<Moved>,
    /// Why nothing was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// What changed between two builds of a runtime.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// The family.
    pub family: String,
    /// The older build.
    pub old: Counted,
    /// The newer one.
    pub new: Counted,
    /// Doors that are new.
    pub doors: Vec<Door>,
    /// Doors of the older build that are gone, with their export or because it does something else.
    pub doors_gone: Vec<String>,
    /// Exports that are new.
    pub added: Vec<Named>,
    /// Exports that are gone.
    pub removed: Vec<Named>,
    /// Exports that do something else.
    pub reclassified: Vec<Reclassified>,
    /// Exports under other version nodes.
    pub renoded: Vec<Renoded>,
    /// Version nodes that have exports.
    pub nodes: Set,
    /// Imports that the family beneath defines.
    pub imports: Set,
    /// Dispatch tables.
    pub slots: Slots,
}

/// What is known of one export of a build.
struct Known {
    nodes: BTreeSet<String>,
    class: Option<Class>,
    must: bool,
}

fn known(runtime: &Runtime<'_>, table: &ClassTable) -> BTreeMap<String, Known> {
    let mut all: BTreeMap<String, Known> = BTreeMap::new();
    for export in &runtime.exports {
        let known = all.entry(export.name.to_string()).or_insert_with(|| {
            let judged = runtime.family.judge(&export.name, runtime.release, table);
            let must = judged.is_some_and(|judged| table.rule(judged.class, judged.size).must_interpose);
            Known { nodes: BTreeSet::new(), class: judged.map(|judged| judged.class), must }
        });
        known.nodes.extend(export.node.as_deref().map(str::to_string));
    }
    all
}

/// Compares two builds of one family. `judged` is what a shim makes of the newer one.
pub fn compare(old: &Build<'_>, new: &Build<'_>, table: &ClassTable, judged: Option<&coverage::Subject>, findings: &mut Vec<Finding>) -> Change {
    let (before, after) = (known(&old.runtime, table), known(&new.runtime, table));
    let only = |these: &BTreeMap<String, Known>, others: &BTreeMap<String, Known>| -> Vec<Named> {
        let fresh = these.iter().filter(|(name, _)| !others.contains_key(*name));
        let named = fresh.map(|(name, known)| Named {
            name: name.clone(),
            nodes: known.nodes.iter().cloned().collect(),
            class: known.class,
            must_interpose: known.must,
        });
        named.collect()
    };
    let both: Vec<(&String, &Known, &Known)> = after.iter().filter_map(|(name, new)| Some((name, before.get(name)?, new))).collect();
    let reclassified = both.iter().filter_map(|(name, old, new)| {
        let (was, is) = (old.class?, new.class?);
        ((was, old.must) != (is, new.must)).then(|| Reclassified { name: (*name).clone(), old: was, new: is, must_interpose: new.must })
    });
    let renoded = both.iter().filter_map(|(name, old, new)| {
        let nodes = Set::between(&old.nodes, &new.nodes);
        (!nodes.is_empty()).then(|| Renoded { name: (*name).clone(), nodes })
    });
    let nodes = |all: &BTreeMap<String, Known>| all.values().flat_map(|known| known.nodes.iter().cloned()).collect::<BTreeSet<_>>();
    let imports = |runtime: &Runtime<'_>| runtime.imports.iter().map(|import| import.name.clone()).collect::<Vec<_>>();
    let gone = before.iter().filter(|(name, known)| known.must && !after.get(*name).is_some_and(|now| now.must));
    let change = Change {
        family: new.runtime.family.name().into(),
        old: counted(&old.runtime, &before),
        new: counted(&new.runtime, &after),
        doors: doors(&before, &after, judged),
        doors_gone: gone.map(|(name, _)| name.clone()).collect(),
        added: only(&after, &before),
        removed: only(&before, &after),
        reclassified: reclassified.collect(),
        renoded: renoded.collect(),
        nodes: Set::between(nodes(&before), nodes(&after)),
        imports: Set::between(imports(&old.runtime), imports(&new.runtime)),
        slots: slots(&old.code, &new.code),
    };
    report(&change, findings);
    change
}

fn counted(runtime: &Runtime<'_>, known: &BTreeMap<String, Known>) -> Counted {
    Counted {
        side: Side { file: runtime.file.clone(), soname: runtime.soname.clone(), build_id: runtime.build_id.clone() },
        release: runtime.release,
        exports: known.len(),
        must_interpose: known.values().filter(|known| known.must).count(),
    }
}

fn doors(before: &BTreeMap<String, Known>, after: &BTreeMap<String, Known>, judged: Option<&coverage::Subject>) -> Vec<Door> {
    // The worst of a name's versions: a shim that holds one and not the other does not hold it.
    let open = |label: Label| matches!(label, Label::Open | Label::NotBound);
    let label = |name: &str| {
        let labels = judged?.exports.iter().filter(|export| &*export.name == name).map(|export| export.label);
        labels.max_by_key(|label| open(*label))
    };
    let fresh = after.iter().filter(|(name, known)| known.must && !before.get(*name).is_some_and(|was| was.must));
    let mut doors: Vec<Door> = fresh
        .filter_map(|(name, known)| {
            let was = before.get(name).and_then(|was| was.class);
            Some(Door { name: name.clone(), class: known.class?, was, label: label(name) })
        })
        .collect();
    doors.sort_by(|a, b| (a.class, &a.name).cmp(&(b.class, &b.name)));
    doors
}

/// Slots are compared by name. Offsets in tables that differ in kind say nothing of each other, but a name has one slot in each.
fn slots(old: &Result<evidence::Subject, String>, new: &Result<evidence::Subject, String>) -> Slots {
    let because = |why: &str| Slots { because: Some(why.into()), ..Slots::default() };
    let (old, new) = match (old, new) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(why), _) | (_, Err(why)) => return because(why),
    };
    if let Some(why) = old.tables.iter().chain(&new.tables).find_map(|table| table.refused.as_deref()) {
        return because(&format!("a dispatch table could not be read: {why}"));
    }
    let of = |subject: &evidence::Subject| -> BTreeMap<String, u64> {
        subject.exports.iter().filter_map(|export| Some((export.name.clone(), export.slot?.0))).collect()
    };
    let (before, after) = (of(old), of(new));
    let moved = after.iter().filter_map(|(name, now)| {
        let was = before.get(name).filter(|was| *was != now)?;
        Some(Moved { name: name.clone(), old: format!("{was:#x}"), new: format!("{now:#x}") })
    });
    Slots { old: before.len(), new: after.len(), moved: moved.collect(), because: None }
}

fn report(change: &Change, findings: &mut Vec<Finding>) {
    let file = change.new.side.file.as_str();
    let release = |counted: &Counted| counted.release.map_or_else(|| "the older one".to_string(), |release| format!("{} {release}", change.family));
    let before = release(&change.old);
    for door in &change.doors {
        let held = match door.label {
            None => String::new(),
            Some(label) => format!(", and {} under this shim", label.word()),
        };
        let how = door.was.map_or_else(|| format!("{before} does not export it"), |was| format!("{was} in {before}"));
        let message = format!("{} is a door that must be interposed ({}): {how}{held}", door.name, door.class);
        let severity = if door.label.is_some_and(|label| !matches!(label, Label::Open | Label::NotBound)) { Severity::Note } else { Severity::Deny };
        findings.push(checks::NEW_DOOR.finding(file, message).symbol(&door.name).evidence("class", door.class.word()).severity(severity));
    }
    for export in change.added.iter().filter(|export| export.class.is_none()) {
        let message = format!("{} is new and in no manifest of family {}: what it does to GPU memory is unknown", export.name, change.family);
        findings.push(UNCLASSIFIED.finding(file, message).symbol(&export.name));
    }
    let same_soname = change.old.side.soname.is_some() && change.old.side.soname == change.new.side.soname;
    let severity = if same_soname { Severity::Warn } else { Severity::Note };
    let under = if same_soname { ", under the same soname" } else { "" };
    for export in &change.removed {
        let message = format!("{} is exported by {before} and no longer{under}", export.name);
        findings.push(checks::EXPORT_GONE.finding(file, message).symbol(&export.name).severity(severity));
    }
    for export in change.renoded.iter().filter(|export| !export.nodes.lost.is_empty()) {
        let message = format!("{} is no longer exported as {}{under}", export.name, export.nodes.lost.join(", "));
        findings.push(checks::EXPORT_GONE.finding(file, message).symbol(&export.name).severity(severity));
    }
    for slot in &change.slots.moved {
        let message = format!("{} jumps through slot {} of the dispatch table, and through {} in {before}", slot.name, slot.new, slot.old);
        findings.push(checks::SLOT_MOVED.finding(file, message).symbol(&slot.name));
    }
}
