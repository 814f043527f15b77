//! Two builds of a shim: the names they interpose, what they ask of the system, and the doors that the change opens and closes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Set, Side, checks};
use crate::coverage::{self, Export, Label};
use crate::finding::Finding;
use crate::linkage;

/// What one runtime's doors did between two shims.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Doors {
    /// The older shim.
    pub old: String,
    /// The newer one.
    pub new: String,
    /// The runtime.
    pub runtime: String,
    /// Exports whose door is open now and was not.
    pub opened: Vec<String>,
    /// Exports whose door was open and is not.
    pub closed: Vec<String>,
}

/// What changed between two shims.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// The older one.
    pub old: Side,
    /// The newer one.
    pub new: Side,
    /// Exported functions.
    pub names: Set,
    /// Libraries needed.
    pub needed: Set,
    /// Requirements, as `FILE VERSION`.
    pub requirements: Set,
    /// Doors, one entry per runtime.
    pub doors: Vec<Doors>,
}

/// Compares the same runtimes under two shims, in the same order.
pub fn doors(old: &[coverage::Subject], new: &[coverage::Subject]) -> Vec<Doors> {
    let pairs = old.iter().zip(new);
    pairs
        .map(|(before, after)| {
            let set = Set::between(open_doors(before), open_doors(after));
            Doors { old: before.shim.clone(), new: after.shim.clone(), runtime: after.file.clone(), opened: set.gained, closed: set.lost }
        })
        .collect()
}

fn open_doors(subject: &coverage::Subject) -> Vec<&str> {
    let open = |export: &&Export| export.must_interpose && matches!(export.label, Label::Open | Label::NotBound);
    subject.exports.iter().filter(open).map(|export| &*export.name).collect()
}

/// Compares two shims, each with what `linkage` says of it and with its coverage of the same runtimes in the same order.
pub fn compare(
    (old, covered): (&linkage::Subject, &[coverage::Subject]),
    (new, covers): (&linkage::Subject, &[coverage::Subject]),
    findings: &mut Vec<Finding>,
) -> Change {
    let names = |subject: &linkage::Subject| subject.exports.iter().map(|export| export.name.clone()).collect::<Vec<_>>();
    let asked = |subject: &linkage::Subject| subject.requirements.iter().map(|asked| format!("{} {}", asked.file, asked.version)).collect::<Vec<_>>();
    let side = |subject: &linkage::Subject| Side { file: subject.file.clone(), soname: subject.soname.clone(), build_id: subject.build_id.clone() };
    let doors = doors(covered, covers);
    let mut opened: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for door in &doors {
        door.opened.iter().for_each(|name| opened.entry(name).or_default().push(&door.runtime));
    }
    for (name, runtimes) in opened {
        let which: Vec<&str> = runtimes.iter().map(|runtime| runtime.split(" (").next().unwrap_or(runtime)).collect();
        let message = format!("{name} is open now in {}; {} held it", which.join(", "), old.file);
        findings.push(checks::DOOR_OPENED.finding(&new.file, message).symbol(name).evidence("runtimes", which));
    }
    Change {
        names: Set::between(names(old), names(new)),
        needed: Set::between(&old.needed, &new.needed),
        requirements: Set::between(asked(old), asked(new)),
        old: side(old),
        new: side(new),
        doors,
    }
}
