//! Which rules a card follows: a matter of its architecture, not of how many XCCs it has. gfx90a is CDNA and has one.

/// The unit in which an architecture gives out compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// GCN and CDNA (gfx9): a bit of a mask is a compute unit, spread over the XCCs first.
    Cdna,
    /// RDNA (gfx10 to gfx12): two compute units make a workgroup processor, and a mask has both bits of a pair or none.
    Rdna,
}

/// Which hardware registers a wave reads; numbers of `s_getreg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// `HW_ID` (4) or `HW_ID1` (23).
    pub place: u32,
    /// `XCC_ID` (20), where the card is made of several.
    pub xcc: Option<u32>,
}

impl Family {
    /// Of a processor as the runtime names it (`gfx942`, also `gfx90a:sramecc+`). The error says why it is not known.
    pub fn of(gfx: &str) -> Result<Self, String> {
        let base = gfx.split(':').next().unwrap_or(gfx);
        let digits = base.strip_prefix("gfx").unwrap_or_default();
        let major = digits.len().checked_sub(2).and_then(|end| digits.get(..end));
        match major {
            Some("9") => Ok(Self::Cdna),
            // gfx1250 is a CDNA of the twelfth generation, whose registers are not known here.
            Some("10" | "11") => Ok(Self::Rdna),
            Some("12") if digits.starts_with("120") => Ok(Self::Rdna),
            _ => Err(format!(
                "{gfx}: the mask rules and hardware registers of this processor are not known; known are gfx9xx, gfx10xx, gfx11xx and gfx120x"
            )),
        }
    }

    /// The registers of a processor of this family.
    pub fn registers(self, gfx: &str) -> Registers {
        match self {
            Self::Cdna => Registers { place: 4, xcc: (gfx.starts_with("gfx94") || gfx.starts_with("gfx95")).then_some(20) },
            Self::Rdna => Registers { place: 23, xcc: None },
        }
    }

    /// The unit's name.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Cdna => "CU",
            Self::Rdna => "WGP",
        }
    }

    /// Bits of `HSA_CU_MASK` for one unit.
    pub fn bits_per_unit(self) -> u32 {
        match self {
            Self::Cdna => 1,
            Self::Rdna => 2,
        }
    }
}
