//! The registry of cases, and what runs them.

mod binding;
mod capacity;
mod compute;
mod host;
mod linkage;
mod mask;
mod paths;
mod sharing;
mod stranded;
mod versions;

use crate::bench::{Bench, cards};
use crate::child::Trouble;
use crate::row::{Row, Rows};

type Outcome = Result<(), Trouble>;

/// What a case cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A runtime that has so many cards.
    Cards(u64),
    /// Two releases of the runtime, each with a card.
    TwoReleases,
    /// A card of silicon.
    Silicon,
}

/// A case.
pub struct Case {
    /// Its name, for `--case`.
    pub name: &'static str,
    /// One sentence: what it shows.
    pub what: &'static str,
    /// What it cannot do without.
    pub needs: Needs,
    /// What stays untried, by name, where that is missing.
    pub checks: &'static [&'static str],
    run: fn(&Bench, &mut Rows) -> Outcome,
}

/// All cases, in the order in which they run.
pub const CASES: &[Case] = &[
    host::CASE,
    linkage::LINKAGE,
    linkage::EXPORTS,
    binding::CASE,
    capacity::CASE,
    paths::DEVICE,
    paths::BENEATH,
    paths::HOST,
    sharing::PROCESSES,
    sharing::CARDS,
    stranded::CASE,
    versions::CASE,
    mask::TABLE,
    mask::CASE,
    compute::CASE,
];

/// Runs cases, each to its end: what a case meets is a row.
pub fn run(bench: &Bench, cases: &[&Case], mut each: impl FnMut(&[Row])) -> Vec<Row> {
    let mut all = Vec::new();
    for case in cases {
        let mut rows = Rows::new(case.name);
        match missing(bench, case.needs) {
            Ok(None) => {
                if let Err(Trouble(what)) = (case.run)(bench, &mut rows) {
                    rows.fail("the case", what);
                }
            }
            Ok(Some(reason)) => {
                for check in case.checks {
                    rows.skip(*check, &reason);
                }
            }
            Err(Trouble(what)) => rows.fail("what the case needs", what),
        }
        let rows = rows.finish();
        each(&rows);
        all.extend(rows);
    }
    all
}

/// Why a case cannot be tried. An error: it should be possible and is not.
fn missing(bench: &Bench, needs: Needs) -> Result<Option<String>, Trouble> {
    let wanted = match needs {
        Needs::Nothing => return Ok(None),
        Needs::Silicon => return Ok((!bench.has_card()).then(|| "needs a real card: there is none here".to_owned())),
        Needs::Cards(count) => count,
        Needs::TwoReleases => 1,
    };
    let runtimes = if needs == Needs::TwoReleases { 2 } else { 1 };
    if bench.runtimes.len() < runtimes {
        return Ok(Some(format!("needs {runtimes} release(s) of libamdhip64, found {}; --runtime names one", bench.runtimes.len())));
    }
    for runtime in &bench.runtimes[..runtimes] {
        let found = match cards(bench, runtime) {
            Ok(found) => found,
            Err(Trouble(what)) if bench.has_card() || bench.mock => return Err(Trouble(format!("{}: {what}", runtime.name()))),
            Err(Trouble(what)) => return Ok(Some(format!("needs a card, and this host has no /dev/kfd; {}: {what}", runtime.name()))),
        };
        if found == 0 && (bench.has_card() || bench.mock) {
            return Err(Trouble(format!("{} finds no card, though there should be one", runtime.name())));
        }
        if found < wanted {
            return Ok(Some(format!("needs {wanted} card(s), {} finds {found}", runtime.name())));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_named_once_and_says_what_it_leaves_untried() {
        for case in CASES {
            assert_eq!(CASES.iter().filter(|other| other.name == case.name).count(), 1, "{}", case.name);
            assert!(!case.what.is_empty() && (case.needs == Needs::Nothing) == case.checks.is_empty(), "{}", case.name);
        }
    }
}
