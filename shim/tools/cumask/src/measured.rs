//! What was measured on cards: `data/masks.json`, one result an entry, each with its source.

use serde::Deserialize;

use crate::topology::Topology;
use crate::verdict::Variables;

/// What a mask did on a card.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Mask {
    /// The card, as `--card` takes it.
    pub card: String,
    /// `HSA_CU_MASK` or `ROC_GLOBAL_CU_MASK`.
    pub variable: String,
    /// Its value.
    pub mask: String,
    /// `HSA_CU_MASK_SKIP_INIT` was 1.
    #[serde(default)]
    pub skip: bool,
    /// Units that ran.
    pub ran: usize,
    /// The platform kept the mask.
    pub kept: bool,
    /// Why.
    pub why: String,
    /// Where the figure is from.
    pub source: String,
}

impl Mask {
    /// The variables that were set.
    pub fn variables(&self) -> Variables {
        let mask = Some(self.mask.clone());
        let is_global = self.variable == "ROC_GLOBAL_CU_MASK";
        if is_global { Variables { hsa: None, global: mask, skip: self.skip } } else { Variables { hsa: mask, global: None, skip: self.skip } }
    }
}

/// What a share of a card becomes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Share {
    /// The card, as `--card` takes it.
    pub card: String,
    /// Percent of it.
    pub percent: u32,
    /// The list of CUs; `None`: it is refused.
    pub list: Option<String>,
    /// Where it is from.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Mask(Mask),
    Share(Share),
}

/// Both tables.
pub fn tables() -> Result<(Vec<Mask>, Vec<Share>), String> {
    let entries: Vec<Entry> = serde_json::from_str(include_str!("../data/masks.json")).map_err(|error| error.to_string())?;
    let (mut masks, mut shares) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            Entry::Mask(mask) => masks.push(mask),
            Entry::Share(share) => shares.push(share),
        }
    }
    Ok((masks, shares))
}

/// A card as `--card` takes it: processor, CUs, engines of all XCCs, arrays in each engine, XCCs.
pub fn card(text: &str) -> Result<Topology, String> {
    let fields: Vec<&str> = text.split(',').collect();
    let [gfx, counts @ ..] = &fields[..] else { return Err("nothing".to_owned()) };
    let counts: Vec<u32> = counts.iter().map(|count| count.parse().map_err(|_| format!("{count:?} is no count"))).collect::<Result<_, _>>()?;
    let [cu, se, sa_per_se, xcc] = counts[..] else { return Err("five fields: GFX,CU,SE,SA,XCC".to_owned()) };
    let card = Topology { gfx: (*gfx).to_owned(), name: String::new(), pci: String::new(), cu, se, sa_per_se, xcc };
    card.check().map(|_| card)
}
