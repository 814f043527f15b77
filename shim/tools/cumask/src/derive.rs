//! A mask for a share of a card, always whole units and always ones that the platform keeps.

use crate::family::Family;
use crate::topology::Topology;

/// The CU list for `percent` of the card. The error says how small a share can be.
///
/// CDNA: rounded to CUs, then down to one CU in every XCC; RDNA: rounded to WGPs, then down to one WGP in every engine. What is below that is
/// refused and not rounded up: the caller would hand out more than it thinks.
pub fn derive(family: Family, topology: &Topology, percent: u32) -> Result<String, String> {
    if !(1..=100).contains(&percent) {
        return Err(format!("{percent} %: a share is 1 to 100"));
    }
    let units = topology.units(family);
    let step = match family {
        Family::Cdna => topology.xcc,
        Family::Rdna => topology.se,
    };
    // Half a unit counts as one.
    let wanted = (units * percent + 50) / 100;
    let given = wanted / step * step;
    if given == 0 {
        let least = (100 * step).div_ceil(units).clamp(1, 100);
        let each = if family == Family::Cdna { "XCC" } else { "shader engine" };
        return Err(format!("{percent} % of {units} {}s is less than one in every {each} ({step}); the least is about {least} %", family.unit()));
    }
    Ok(format!("0-{}", given * family.bits_per_unit() - 1))
}
