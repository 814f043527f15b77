//! The report, for people and as JSON (`schema_version` 1, keys are only ever added).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::hwid::Unit;
use crate::picture;
use crate::topology::Topology;
use crate::verdict::{Row, Status, Variables};

/// All that a report says.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Position of the card.
    pub device: u32,
    /// Cards that the runtime shows, where one was asked.
    pub gpus: Option<u32>,
    /// The card, where one was found.
    pub topology: Option<Topology>,
    /// The mask was derived from this share.
    pub percent: Option<u32>,
    /// The variables that were tested.
    pub variables: Variables,
    /// The rows.
    pub rows: Vec<Row>,
    /// Why there is no verdict.
    pub could_not_run: Option<String>,
    /// All units.
    pub whole: BTreeSet<Unit>,
    /// The ones asked for.
    pub asked: BTreeSet<Unit>,
    /// The ones that ran, each launch.
    pub launches: Vec<BTreeSet<Unit>>,
}

impl Report {
    /// 0 effective, 1 not effective, 2 could not run.
    pub fn status(&self) -> u8 {
        let by_rows = crate::verdict::status(&self.rows);
        match (&self.could_not_run, by_rows) {
            (None, Some(status)) => status,
            // A mask that is wrong by its text alone is not effective, whether or not a kernel could run: but nothing ran, so nothing was shown.
            _ => 2,
        }
    }

    fn ran(&self) -> BTreeSet<Unit> {
        self.launches.iter().flatten().copied().collect()
    }

    /// The JSON report.
    pub fn json(&self) -> Value {
        let ran = self.ran();
        let units: Vec<Value> = self
            .whole
            .union(&ran)
            .map(|unit| {
                let launches = self.launches.iter().filter(|launch| launch.contains(unit)).count();
                json!({ "xcc": unit.xcc, "se": unit.se, "sa": unit.sa, "unit": unit.unit, "asked": self.asked.contains(unit), "launches": launches })
            })
            .collect();
        json!({
            "schema_version": 1,
            "tool": { "name": "rocm-cumask-check", "version": env!("CARGO_PKG_VERSION") },
            "verdict": (["effective", "not-effective", "could-not-run"][usize::from(self.status())]),
            "reason": self.could_not_run,
            "device": self.device,
            "gpus": self.gpus,
            "card": self.topology,
            "percent": self.percent,
            "mask": self.variables,
            "launches": self.launches.len(),
            "rows": self.rows,
            "units": units,
        })
    }

    /// The text report.
    pub fn text(&self, colour: bool) -> String {
        let paint = |code: &str, text: &str| if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
        let mut out = String::new();
        if let Some(card) = &self.topology {
            let name = if card.name.is_empty() { &card.gfx } else { &card.name };
            out += &format!(
                "card {}  {name}  {}  {}  {} CUs, {} engines with {} array(s) each, {} XCC\n",
                self.device, card.gfx, card.pci, card.cu, card.se, card.sa_per_se, card.xcc
            );
        }
        for (name, value) in [("HSA_CU_MASK", &self.variables.hsa), ("ROC_GLOBAL_CU_MASK", &self.variables.global)] {
            if let Some(value) = value {
                let how = self.percent.map_or_else(|| "as set".to_owned(), |percent| format!("derived from {percent} %"));
                out += &format!("mask {name}={value}  ({how})\n");
            }
        }
        for row in &self.rows {
            let code = match row.status {
                Status::Pass => "32",
                Status::Fail => "31",
                Status::Warn => "33",
                Status::Info => "0",
            };
            out += &format!("{} | {} | {}\n", paint(code, row.status.word()), row.check, row.detail);
        }
        if !self.launches.is_empty() && !self.whole.is_empty() {
            let cell = |cell: char| match cell {
                '!' | 'o' => paint("31", &cell.to_string()),
                '#' => paint("32", "#"),
                _ => cell.to_string(),
            };
            out += &format!("{}\n{}", picture::LEGEND, picture::draw(&self.whole, &self.asked, &self.ran(), cell));
        }
        out + &self.conclusion()
    }

    fn conclusion(&self) -> String {
        let fails = self.rows.iter().filter(|row| row.status == Status::Fail).count();
        match (&self.could_not_run, self.status()) {
            (Some(why), _) => format!("COULD NOT RUN: {why}\n"),
            (None, 0) => "EFFECTIVE\n".to_owned(),
            (None, 1) => format!("NOT EFFECTIVE: {fails} row(s) failed; whoever has this mask has more or other units than it says\n"),
            (None, _) => "COULD NOT RUN: no row could have failed\n".to_owned(),
        }
    }

    /// The text report of what was foreseen for a card that is not there.
    pub fn foreseen_text(&self, kept: bool) -> String {
        let shown = self.text(false);
        let shown = shown.strip_suffix(&self.conclusion()).unwrap_or(&shown);
        let (ran, all) = (self.ran().len(), self.whole.len());
        let word = if kept { "WOULD BE KEPT" } else { "WOULD BE DISCARDED" };
        format!("{shown}{word}: {ran} of {all} units would run. Foreseen from what was measured on other cards; nothing ran here\n")
    }
}

/// The JSON report of what was foreseen: the same keys, other verdicts.
pub fn foreseen_json(report: &Report, kept: bool) -> Value {
    let mut json = report.json();
    json["verdict"] = json!(if kept { "foreseen-kept" } else { "foreseen-discarded" });
    json["reason"] = json!("foreseen: nothing ran");
    json
}
