//! Rows from facts. Exit statuses come from rows and from nothing else.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::family::Family;
use crate::grammar::{self, Limits, ranges};
use crate::hwid::Unit;
use crate::place;
use crate::topology::Topology;

/// What a row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// As it should be.
    Pass,
    /// Not so: the mask is not effective.
    Fail,
    /// Effective, and not what one would want.
    Warn,
    /// A fact.
    Info,
}

impl Status {
    /// The word of reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Fail => "FAIL",
            Self::Warn => "WARN",
            Self::Info => "INFO",
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its status.
    pub status: Status,
    /// What was checked.
    pub check: &'static str,
    /// What was found.
    pub detail: String,
}

fn row(status: Status, check: &'static str, detail: impl Into<String>) -> Row {
    Row { status, check, detail: detail.into() }
}

/// The variables that ROCr and HIP read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Variables {
    /// `HSA_CU_MASK`.
    pub hsa: Option<String>,
    /// `ROC_GLOBAL_CU_MASK`.
    pub global: Option<String>,
    /// `HSA_CU_MASK_SKIP_INIT` is 1.
    pub skip: bool,
}

/// What a mask asks for, with the rows about its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Bits of `HSA_CU_MASK` that are meant for the card; `None`: the card is not restricted.
    pub bits: Option<BTreeSet<u32>>,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Reads the variables for the card at position `device`.
pub fn read(family: Family, topology: &Topology, variables: &Variables, device: u32, limits: Limits) -> Asked {
    let mut rows = Vec::new();
    if variables.skip {
        rows.push(row(Status::Fail, "skip-init", "HSA_CU_MASK_SKIP_INIT=1: ROCr sets no mask when it makes a queue"));
    }
    let hsa = variables.hsa.as_deref().and_then(|text| read_hsa(text, device, limits, &mut rows));
    let global = variables.global.as_deref().and_then(|text| match grammar::read_global(text, topology.units(family)) {
        Ok(units) => {
            rows.push(row(
                Status::Pass,
                "grammar",
                format!("ROC_GLOBAL_CU_MASK: {} {}s; it holds for HIP's queues, not for other users of ROCr", units.len(), family.unit()),
            ));
            let step = family.bits_per_unit();
            Some(units.into_iter().flat_map(|unit| unit * step..(unit + 1) * step).collect::<BTreeSet<u32>>())
        }
        Err(why) => {
            rows.push(row(Status::Fail, "grammar", format!("ROC_GLOBAL_CU_MASK={text}: {why}")));
            None
        }
    });
    // Both are set on one queue: what both allow is left.
    let bits = match (hsa, global) {
        (Some(one), Some(other)) => Some(one.intersection(&other).copied().collect()),
        (one, other) => one.or(other),
    };
    if let Some(bits) = &bits {
        rows.extend(rules(family, topology, bits));
    }
    Asked { bits, rows }
}

fn read_hsa(text: &str, device: u32, limits: Limits, rows: &mut Vec<Row>) -> Option<BTreeSet<u32>> {
    let mask = grammar::read(text, limits);
    let bits = mask.gpus.get(&device).cloned();
    match (&mask.stop, &bits) {
        (None, _) => rows.push(row(Status::Pass, "grammar", format!("HSA_CU_MASK={text}: read to its end, {} card(s)", mask.gpus.len()))),
        // The sets before the error count.
        (Some(stop), Some(_)) => rows.push(row(
            Status::Warn,
            "grammar",
            format!("HSA_CU_MASK: {stop}; this set and all that follow are ignored, the one of card {device} stands before"),
        )),
        (Some(stop), None) => rows.push(row(Status::Fail, "grammar", format!("HSA_CU_MASK: {stop}; this set and all that follow are ignored"))),
    }
    if bits.is_none() {
        rows.push(row(Status::Fail, "names-card", format!("no set that counts names card {device}: it is not restricted")));
    }
    bits
}

/// Rows about bits that were read well: what the platform does with them.
fn rules(family: Family, topology: &Topology, bits: &BTreeSet<u32>) -> Vec<Row> {
    let mut rows = Vec::new();
    let beyond = bits.iter().filter(|&&bit| bit >= topology.cu).count();
    if beyond != 0 && beyond != bits.len() {
        rows.push(row(
            Status::Warn,
            "within-card",
            format!("{beyond} bit(s) at or above {} name no CU of this card and are dropped: was the mask made for another card?", topology.cu),
        ));
    }
    if let Some(why) = place::fault(family, topology, bits) {
        rows.push(row(Status::Fail, "kept-by-platform", why));
        return rows;
    }
    rows.push(row(Status::Pass, "kept-by-platform", format!("CUs {} of {}", ranges(bits), topology.cu)));
    let count = u32::try_from(bits.len() - beyond).unwrap_or(0) / family.bits_per_unit();
    let (step, each) = match family {
        Family::Cdna => (topology.xcc, "XCC"),
        Family::Rdna => (topology.se, "shader engine"),
    };
    if !count.is_multiple_of(step) {
        rows.push(row(
            Status::Warn,
            "even",
            format!(
                "{count} {}s are not the same number in every {each}: work is spread evenly, so it gets what {} would",
                family.unit(),
                count / step * step
            ),
        ));
    }
    rows
}

/// What the hardware said: of a run without a mask, and of several launches with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measured {
    /// The units of the run without a mask.
    pub whole: BTreeSet<Unit>,
    /// The units of each launch with the mask.
    pub launches: Vec<BTreeSet<Unit>>,
}

impl Measured {
    /// The units of all launches.
    pub fn ran(&self) -> BTreeSet<Unit> {
        self.launches.iter().flatten().copied().collect()
    }
}

/// Rows about what ran; `bits` is what the mask means for the card. `None` in place of rows: nothing can be said, because.
pub fn judge(family: Family, topology: &Topology, bits: Option<&BTreeSet<u32>>, measured: &Measured) -> Result<Vec<Row>, String> {
    let units = topology.units(family);
    let name = family.unit();
    let (whole, ran) = (&measured.whole, measured.ran());
    if measured.launches.len() < 2 || measured.launches.iter().any(BTreeSet::is_empty) {
        return Err(format!("{} launches with at least one unit in each are too few to compare", measured.launches.len()));
    }
    if whole.len() != units as usize {
        return Err(format!(
            "without a mask {} {name}s ran where the card has {units}: nothing can be concluded from units that do not run (is the card busy, or masked by somebody else?)",
            whole.len()
        ));
    }
    let mut rows = vec![row(Status::Pass, "control", format!("without a mask all {units} {name}s ran"))];
    let Some(bits) = bits else {
        rows.push(row(Status::Fail, "units", format!("{} of {units} {name}s ran, and no mask holds for this card", ran.len())));
        return Ok(rows);
    };
    let asked = place::asked(family, topology, whole, bits);
    let strangers = ran.difference(&asked).count();
    let idle = asked.difference(&ran).count();
    let status = |good: bool| if good { Status::Pass } else { Status::Fail };
    rows.push(row(status(ran.len() == asked.len()), "units", format!("{} {name}s asked for, {} of {units} ran", asked.len(), ran.len())));
    if topology.xcc > 1 {
        let count = |set: &BTreeSet<Unit>, xcc| set.iter().filter(|unit| unit.xcc == xcc).count();
        let wrong: Vec<String> = (0..topology.xcc)
            .filter(|&xcc| count(&ran, xcc) != count(&asked, xcc))
            .map(|xcc| format!("XCC {xcc}: {} asked, {} ran", count(&asked, xcc), count(&ran, xcc)))
            .collect();
        rows.push(row(
            status(wrong.is_empty()),
            "each-xcc",
            if wrong.is_empty() { format!("each of {} XCCs ran what was asked of it", topology.xcc) } else { wrong.join("; ") },
        ));
    }
    rows.push(identity(&asked, &ran, strangers, idle, name));
    let same = measured.launches.windows(2).all(|pair| pair[0] == pair[1]);
    rows.push(if same {
        row(Status::Pass, "same-each-time", format!("{} launches on two queues ran on the same units", measured.launches.len()))
    } else {
        let counts: Vec<String> = measured.launches.iter().map(|launch| launch.len().to_string()).collect();
        row(
            if strangers == 0 { Status::Warn } else { Status::Fail },
            "same-each-time",
            format!("the launches ran on different units ({} {name}s)", counts.join(", ")),
        )
    });
    if asked.len() == whole.len() {
        rows.push(row(Status::Info, "whole-card", "the mask is the whole card: a discarded one looks the same"));
    }
    Ok(rows)
}

fn identity(asked: &BTreeSet<Unit>, ran: &BTreeSet<Unit>, strangers: usize, idle: usize, name: &str) -> Row {
    if strangers == 0 && idle == 0 {
        return row(Status::Pass, "identity", format!("they are the very {name}s that were asked for"));
    }
    let arrays = |set: &BTreeSet<Unit>| {
        let mut arrays: Vec<(u32, u32, u32)> = set.iter().map(|unit| (unit.xcc, unit.se, unit.sa)).collect();
        arrays.sort_unstable();
        arrays
    };
    if arrays(asked) == arrays(ran) {
        // How the hardware numbers units next to fused-off ones is not documented.
        return row(
            Status::Warn,
            "identity",
            format!("as many {name}s in every array as asked, but {strangers} others than the order of the driver tells"),
        );
    }
    row(Status::Fail, "identity", format!("{strangers} {name}s ran that were not asked for, {idle} that were asked for did not"))
}

/// 0 effective, 1 not effective; `None`: there is no row that could have failed.
pub fn status(rows: &[Row]) -> Option<u8> {
    if rows.iter().any(|row| row.status == Status::Fail) {
        return Some(1);
    }
    rows.iter().any(|row| row.check == "units" && row.status == Status::Pass).then_some(0)
}
