//! What figures of compute say: numbers in, rows out. Nothing here runs anything.
//!
//! A mask is a ceiling. The windows are those of the published measurements (gfx1101 and gfx942, ROCm 7.2.4), where a kernel that keeps every unit busy got
//! 50.5 % and 56.9 % of the card with half of its units: clocks rise when less of a card works, so a share computes more than its part, never the whole.
//! A figure that is not a positive number holds nothing.

use crate::row::Rows;

/// How far runs that should be the same may be apart.
const SAME: f64 = 1.05;
/// The same, where runs lie minutes apart and the card has warmed up.
const AGAIN: f64 = 1.10;
/// How far tenants that share units may be apart.
const FAIR: f64 = 1.15;
/// Of its units' part of the card: 35 to 75 % for half of the units.
const PART: std::ops::RangeInclusive<f64> = 0.70..=1.50;
/// Of what one tenant gets alone: what several that share its units get together.
const SUM: std::ops::RangeInclusive<f64> = 0.80..=1.20;
/// By how much a larger share has to compute more: beyond what two runs of one share are apart.
const MORE: f64 = 1.10;
/// How much of the time of runs that are meant to be at one time has to be common. Without it two tenants of a whole card seem to get 200 % of it.
const COMMON: f64 = 0.90;

/// One run of the kernel: when, by a clock that all processes share, and how much was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Nanoseconds.
    pub begin: u64,
    /// Nanoseconds.
    pub end: u64,
    /// Blocks that the card counted.
    pub blocks: u64,
}

impl Run {
    /// Blocks a second; no number where there is none.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of measurements")]
    pub fn rate(self) -> f64 {
        let time = self.end.checked_sub(self.begin).filter(|&time| time != 0).map_or(f64::NAN, |time| time as f64);
        if self.blocks == 0 { f64::NAN } else { self.blocks as f64 * 1e9 / time }
    }
}

/// What one mask got.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// The mask.
    pub mask: String,
    /// Units that it gives.
    pub units: u32,
    /// Its runs with nobody else on the card.
    pub alone: Vec<Run>,
}

/// All that was measured of one card.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Units of the card.
    pub units: u32,
    /// XCCs of the card.
    pub xcc: u32,
    /// Runs without a mask.
    pub whole: Vec<Run>,
    /// Half of the card, as near as a mask comes to it.
    pub half: Share,
    /// Tenants that share the half's units, at one time.
    pub tenants: Vec<Run>,
    /// The half and the units beside it, at one time; `None`: they do not fit beside each other.
    pub neighbours: Option<[Run; 2]>,
    /// Shares of other sizes, from the smallest; the half is not among them.
    pub others: Vec<Share>,
}

/// What is judged, by name.
pub const CHECKS: &[&str] = &[
    "yardstick: runs without a mask repeat",
    "alone: half of the units computes about half",
    "repeat: the same mask gets the same again",
    "fair share: tenants of one mask get the same",
    "sum: tenants of one mask together get what one of them gets alone",
    "ordering: a larger share computes more",
    "ceiling: a neighbour on the other units gives nobody more",
];

/// A row for each of [`CHECKS`]. Without a yardstick nothing can be measured by it: the others are SKIP then.
pub fn judge(figures: &Figures, rows: &mut Rows) {
    let [yardstick, alone, repeat, fair, sum, ordering, ceiling] = CHECKS else { return };
    let whole = rates(&figures.whole);
    let apart = if whole.len() < 2 { f64::NAN } else { spread(&whole) };
    rows.judge(apart <= SAME, *yardstick, format!("{} runs, the fastest {apart:.3} times the slowest (at most {SAME})", whole.len()));
    if apart.is_nan() || apart > SAME {
        for check in &CHECKS[1..] {
            rows.skip(*check, "runs without a mask differ among themselves: is somebody else using the card?");
        }
        return;
    }
    let (card, half) = (mean(&whole), mean(&rates(&figures.half.alone)));
    let part = half / card / (f64::from(figures.half.units) / f64::from(figures.units));
    let shown = format!("{} units of {}: {:.1} % of the card", figures.half.units, figures.units, half / card * 100.0);
    rows.judge(PART.contains(&part), *alone, format!("{shown}, {part:.2} of their part ({} to {})", PART.start(), PART.end()));

    let apart = if figures.half.alone.len() < 2 { f64::NAN } else { spread(&rates(&figures.half.alone)) };
    rows.judge(apart <= AGAIN, *repeat, format!("the fastest run {apart:.3} times the slowest (at most {AGAIN})"));

    let tenants = rates(&figures.tenants);
    let (allowed, apart, common) = (FAIR * quantum(tenants.len(), figures.xcc), spread(&tenants), common(&figures.tenants));
    let at_once = format!("{:.0} % of the time at once", common * 100.0);
    let several = tenants.len() > 1 && common >= COMMON;
    let shown = format!("{} tenants, the fastest {apart:.3} times the slowest (at most {allowed:.3}), {at_once}", tenants.len());
    rows.judge(several && apart <= allowed, *fair, shown);
    let together = tenants.iter().sum::<f64>() / half;
    rows.judge(several && SUM.contains(&together), *sum, format!("{together:.2} of one alone ({} to {}), {at_once}", SUM.start(), SUM.end()));

    order(figures, ordering, rows);
    match &figures.neighbours {
        None => rows.skip(*ceiling, "twice the half does not fit on the card"),
        Some(pair) => beside(pair, half, card, ceiling, rows),
    }
}

/// Shares in the order of their units: each computes clearly more than the one before.
fn order(figures: &Figures, check: &str, rows: &mut Rows) {
    let mut shares: Vec<&Share> = figures.others.iter().chain([&figures.half]).collect();
    shares.sort_by_key(|share| share.units);
    shares.dedup_by_key(|share| share.units);
    if shares.len() < 2 {
        return rows.skip(check, "this card has no shares of different sizes");
    }
    let rates: Vec<f64> = shares.iter().map(|share| mean(&rates(&share.alone))).collect();
    let holds = rates.windows(2).all(|pair| pair[1] / pair[0] >= MORE);
    let card = mean(&self::rates(&figures.whole));
    let shown: Vec<String> = shares.iter().zip(&rates).map(|(share, rate)| format!("{} units {:.1} %", share.units, rate / card * 100.0)).collect();
    rows.judge(holds, check, format!("{} of the card; each has to be {MORE} times the one before", shown.join(", ")));
}

/// What the two get beside each other. Less is no fault of a mask: they share clocks and power (85.7 % was measured on gfx942).
fn beside(pair: &[Run; 2], half: f64, card: f64, check: &str, rows: &mut Rows) {
    let (rates, common) = (rates(pair), common(pair));
    let (most, together) = (largest(&rates) / half, rates.iter().sum::<f64>() / card);
    let holds = most <= FAIR && together <= FAIR && common >= COMMON;
    let shown = format!("{:.2} and {:.2} of the half alone, {together:.2} of the card together", rates[0] / half, rates[1] / half);
    rows.judge(holds, check, format!("{shown} (each at most {FAIR}), {:.0} % of the time at once", common * 100.0));
}

/// Where tenants do not go into the XCCs evenly, some have one more to themselves than others.
fn quantum(tenants: usize, xcc: u32) -> f64 {
    let tenants = u32::try_from(tenants).unwrap_or(u32::MAX).max(1);
    let least = xcc / tenants;
    if least == 0 { 1.0 } else { f64::from(xcc.div_ceil(tenants)) / f64::from(least) }
}

/// The part of the time, from the first begin to the last end, in which all ran.
#[expect(clippy::cast_precision_loss, reason = "a ratio of measurements")]
fn common(runs: &[Run]) -> f64 {
    let edge = |pick: fn(&Run) -> u64| runs.iter().map(pick);
    let (Some(first), Some(last_begin)) = (edge(|run| run.begin).min(), edge(|run| run.begin).max()) else { return f64::NAN };
    let (Some(first_end), Some(last)) = (edge(|run| run.end).min(), edge(|run| run.end).max()) else { return f64::NAN };
    match last.checked_sub(first) {
        Some(all) if all != 0 => first_end.saturating_sub(last_begin) as f64 / all as f64,
        _ => f64::NAN,
    }
}

fn rates(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.rate()).collect()
}

/// No number among them, no answer: `f64::max` would leave it out.
fn largest(rates: &[f64]) -> f64 {
    if rates.is_empty() || rates.iter().any(|rate| !rate.is_finite()) { f64::NAN } else { rates.iter().copied().fold(0.0, f64::max) }
}

fn spread(rates: &[f64]) -> f64 {
    largest(rates) / rates.iter().copied().fold(f64::INFINITY, f64::min)
}

#[expect(clippy::cast_precision_loss, reason = "a handful of runs")]
fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

#[cfg(test)]
mod tests;
