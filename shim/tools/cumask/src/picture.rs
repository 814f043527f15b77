//! A picture in text: one cell a unit, what was asked against what ran.

use std::collections::{BTreeMap, BTreeSet};

use crate::hwid::Unit;

/// What the cells mean.
pub const LEGEND: &str = "# asked and ran   ! ran and was not asked for   o asked and did not run   . neither";

/// A line for each array of the card. `paint` may colour a cell.
pub fn draw(whole: &BTreeSet<Unit>, asked: &BTreeSet<Unit>, ran: &BTreeSet<Unit>, paint: impl Fn(char) -> String) -> String {
    let mut arrays: BTreeMap<(u32, u32, u32), String> = BTreeMap::new();
    for unit in whole.union(ran) {
        let cell = match (asked.contains(unit), ran.contains(unit)) {
            (true, true) => '#',
            (false, true) => '!',
            (true, false) => 'o',
            (false, false) => '.',
        };
        arrays.entry((unit.xcc, unit.se, unit.sa)).or_default().push_str(&paint(cell));
    }
    let several = arrays.keys().any(|(xcc, _, _)| *xcc != 0);
    let halves = arrays.keys().any(|(_, _, sa)| *sa != 0);
    let mut out = String::new();
    for ((xcc, se, sa), cells) in arrays {
        let xcc = if several { format!("XCC {xcc}  ") } else { String::new() };
        let sa = if halves { format!("  SA {sa}") } else { String::new() };
        out += &format!("  {xcc}SE {se}{sa}  {cells}\n");
    }
    out
}
