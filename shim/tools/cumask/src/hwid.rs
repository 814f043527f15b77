//! Where a wave ran, from the hardware register it read.
//!
//! | register | fields |
//! |---|---|
//! | `HW_ID` (gfx9) | CU 11:8, SH 12, SE 15:13 |
//! | `XCC_ID` (gfx94x, gfx95x) | 3:0 |
//! | `HW_ID1` (gfx10 to gfx12) | SIMD 9:8, WGP 13:10, SA 16, SE 20:18 |
//!
//! From the instruction set manuals and the published measurements. SIMD tells the two CUs of a WGP not apart (it read 0 or 1 on gfx1101), and the WGP is what a mask gives out.

use serde::{Deserialize, Serialize};

use crate::family::Family;

/// A unit that a mask gives out: a CU or a WGP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unit {
    /// XCC, 0 where there is one.
    pub xcc: u32,
    /// Shader engine within the XCC.
    pub se: u32,
    /// Shader array within the engine.
    pub sa: u32,
    /// Number within the array, as the hardware counts: it may leave out what was fused off.
    pub unit: u32,
}

/// The unit of a wave that read these two words.
pub fn decode(family: Family, place: u32, xcc: u32) -> Unit {
    match family {
        Family::Cdna => Unit { xcc: xcc & 15, se: place >> 13 & 7, sa: place >> 12 & 1, unit: place >> 8 & 15 },
        Family::Rdna => Unit { xcc: 0, se: place >> 18 & 7, sa: place >> 16 & 1, unit: place >> 10 & 15 },
    }
}

/// The words of a wave in a unit: the other way round, for stand-ins.
pub fn encode(family: Family, unit: Unit) -> (u32, u32) {
    match family {
        Family::Cdna => (unit.se << 13 | unit.sa << 12 | unit.unit << 8, unit.xcc),
        Family::Rdna => (unit.se << 18 | unit.sa << 16 | unit.unit << 10, 0),
    }
}
