//! Which unit a bit is, and what the platform does with a mask.
//!
//! The kernel driver spreads a mask as `mqd_symmetrically_map_cu_mask` does: an XCC looks at every X-th bit; within it engines come first, then
//! arrays, then units. Units that were fused off are left out, and the hardware counts the others from 0 up. So the k-th unit of an
//! array is known only from the units that the card has: they are taken from a run without a mask.

use std::collections::{BTreeMap, BTreeSet};

use crate::family::Family;
use crate::grammar::ranges;
use crate::hwid::Unit;
use crate::topology::Topology;

/// Bits of `HSA_CU_MASK` for each unit of the card, in the driver's order.
pub fn bits_of(family: Family, topology: &Topology, whole: &BTreeSet<Unit>) -> BTreeMap<Unit, u32> {
    let mut bits = BTreeMap::new();
    for xcc in 0..topology.xcc {
        let mut arrays: BTreeMap<(u32, u32), Vec<Unit>> = BTreeMap::new();
        for unit in whole.iter().filter(|unit| unit.xcc == xcc) {
            arrays.entry((unit.sa, unit.se)).or_default().push(*unit);
        }
        let mut bit = xcc;
        for rank in 0..16 {
            for units in arrays.values() {
                if let Some(&unit) = units.get(rank) {
                    bits.insert(unit, bit * family.bits_per_unit());
                    bit += topology.xcc;
                }
            }
        }
    }
    bits
}

/// A card without fused-off units in odd places: what a mask meets when no real card is at hand.
pub fn regular(family: Family, topology: &Topology) -> BTreeSet<Unit> {
    let engines = topology.se / topology.xcc;
    let per_xcc = topology.units(family) / topology.xcc;
    let mut whole = BTreeSet::new();
    for xcc in 0..topology.xcc {
        for place in 0..per_xcc {
            let (se, rest) = (place % engines, place / engines);
            whole.insert(Unit { xcc, se, sa: rest % topology.sa_per_se, unit: rest / topology.sa_per_se });
        }
    }
    whole
}

/// The units that a mask asks for.
pub fn asked(family: Family, topology: &Topology, whole: &BTreeSet<Unit>, mask: &BTreeSet<u32>) -> BTreeSet<Unit> {
    let wanted = |bit: u32| (bit..bit + family.bits_per_unit()).all(|bit| mask.contains(&bit));
    bits_of(family, topology, whole).into_iter().filter(|&(_, bit)| wanted(bit)).map(|(unit, _)| unit).collect()
}

/// Why a mask that was read well fails open, on all of the card or on some XCCs.
pub fn fault(family: Family, topology: &Topology, mask: &BTreeSet<u32>) -> Option<String> {
    let kept: BTreeSet<u32> = mask.iter().copied().filter(|&bit| bit < topology.cu).collect();
    if kept.is_empty() {
        return Some(format!("no bit below {}: nothing is left of the mask, and the card runs whole", topology.cu));
    }
    match family {
        Family::Rdna => kept.iter().find(|&&bit| !kept.contains(&(bit ^ 1))).map(|bit| {
            format!(
                "CU {bit} is asked for without CU {}, and the two are one WGP: the whole mask is discarded (ROCr answers an error that nobody sees)",
                bit ^ 1
            )
        }),
        Family::Cdna => {
            let without: BTreeSet<u32> = (0..topology.xcc).filter(|xcc| !kept.iter().any(|bit| bit % topology.xcc == *xcc)).collect();
            (!without.is_empty()).then(|| format!("no bit reaches XCC {}: an XCC without a bit runs unmasked", ranges(&without)))
        }
    }
}

/// The units that will run: the platform's behaviour as it was measured, good masks and bad ones.
pub fn outcome(family: Family, topology: &Topology, whole: &BTreeSet<Unit>, mask: Option<&BTreeSet<u32>>) -> BTreeSet<Unit> {
    let Some(mask) = mask else { return whole.clone() };
    let good = asked(family, topology, whole, mask);
    if fault(family, topology, mask).is_none() {
        return good;
    }
    let open = |xcc: u32| !mask.iter().any(|bit| *bit < topology.cu && bit % topology.xcc == xcc);
    whole.iter().copied().filter(|unit| family == Family::Rdna || good.contains(unit) || open(unit.xcc)).collect()
}
