//! What a card has, as the HSA runtime reports it.

use serde::{Deserialize, Serialize};

use crate::family::Family;

/// A card. Counts are what `hsa_agent_get_info` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Processor (`gfx942`).
    pub gfx: String,
    /// Product name, empty where the runtime has none.
    pub name: String,
    /// PCI address (`0000:c3:00.0`), empty where unknown.
    pub pci: String,
    /// Compute units (attribute 0xA002).
    pub cu: u32,
    /// Shader engines of all XCCs together (0xA00C).
    pub se: u32,
    /// Shader arrays in each engine (0xA00D).
    pub sa_per_se: u32,
    /// XCCs (0xA111); runtimes before 6 do not know the attribute, and then it is 1.
    pub xcc: u32,
}

impl Topology {
    /// The rules that the card follows; an error if they are not known or the counts contradict each other.
    pub fn check(&self) -> Result<Family, String> {
        let family = Family::of(&self.gfx)?;
        let Self { cu, se, sa_per_se, xcc, .. } = *self;
        if cu == 0 || se == 0 || sa_per_se == 0 || xcc == 0 || cu > 4096 || se > cu || sa_per_se > 16 {
            return Err(format!("the runtime reports {cu} CUs, {se} engines, {sa_per_se} arrays in each, {xcc} XCCs: no such card"));
        }
        if !se.is_multiple_of(xcc) || !cu.is_multiple_of(xcc) {
            return Err(format!("{cu} CUs and {se} engines do not divide by {xcc} XCCs"));
        }
        if family == Family::Rdna && (xcc != 1 || cu % 2 != 0) {
            return Err(format!("{}: {cu} CUs in {xcc} XCCs, where this family has pairs of CUs in one", self.gfx));
        }
        Ok(family)
    }

    /// Units in which masks are given out.
    pub fn units(&self, family: Family) -> u32 {
        self.cu / family.bits_per_unit()
    }
}
