//! Ceilings of compute, measured: a kernel that keeps every unit busy, alone and beside others, under masks of several sizes. [`crate::compute`] judges.
//!
//! Each tenant is a process of its own under the library, since ROCr reads the mask when it starts.

use std::path::Path;

use rocm_cumask::derive::derive;
use rocm_cumask::family::Family;
use rocm_cumask::topology::Topology;

use super::{Bench, Case, Needs, Outcome, Rows, Trouble};
use crate::child::{Session, good};
use crate::compute::{CHECKS, Figures, Run, Share, judge};
use crate::kernels::Code;

pub(super) const CASE: Case = Case {
    name: "compute",
    what: "a share of the units bounds what a tenant computes: alone, fairly shared, in sum, and in order",
    needs: Needs::Silicon,
    checks: CHECKS,
    run,
};

/// Tenants that share one mask.
const TENANTS: usize = 3;

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    let card = bench.card()?;
    rows.info("card", format!("{} {}, {} CUs, {} XCC", card.gfx, card.pci, card.cu, card.xcc));
    let code = match bench.code(Code::Soak) {
        Ok(code) => code,
        Err(why) => return skip(rows, &why),
    };
    let plan = card.check().and_then(|family| Plan::of(family, &card));
    let plan = match plan {
        Ok(plan) => plan,
        Err(why) => return skip(rows, &why),
    };
    judge(&measure(bench, &card, &code, plan)?, rows);
    Ok(())
}

fn skip(rows: &mut Rows, why: &str) -> Outcome {
    for check in CHECKS {
        rows.skip(*check, why);
    }
    Ok(())
}

/// The masks that are tried on a card.
struct Plan {
    units: u32,
    half: (String, u32),
    beside: Option<String>,
    others: Vec<(String, u32)>,
}

impl Plan {
    fn of(family: Family, card: &Topology) -> Result<Self, String> {
        let size = |list: &str| list.rsplit('-').next().and_then(|last| last.parse::<u32>().ok()).map_or(0, |last| last + 1);
        let share = |percent| derive(family, card, percent).map(|list| (format!("0:{list}"), size(&list) / family.bits_per_unit()));
        let half = share(50)?;
        let bits = half.1 * family.bits_per_unit();
        let beside = (2 * bits <= card.cu).then(|| format!("0:{bits}-{}", 2 * bits - 1));
        let others = [25, 75].into_iter().filter_map(|percent| share(percent).ok()).collect();
        Ok(Self { units: card.units(family), half, beside, others })
    }
}

fn measure(bench: &Bench, card: &Topology, code: &Path, plan: Plan) -> Result<Figures, Trouble> {
    let once = |mask: Option<&str>| at_once(bench, card, code, &[mask]).map(|runs| runs[0]);
    let (mask, units) = plan.half;
    let half = Some(mask.as_str());
    // What is to repeat is not measured in a row: what drifts meanwhile shows.
    let mut whole = vec![once(None)?];
    let mut alone = vec![once(half)?];
    let tenants = at_once(bench, card, code, &[half; TENANTS])?;
    whole.push(once(None)?);
    let mut others = Vec::new();
    for (mask, units) in plan.others {
        let run = once(Some(&mask))?;
        others.push(Share { mask, units, alone: vec![run] });
    }
    let neighbours = match &plan.beside {
        Some(beside) => Some(at_once(bench, card, code, &[half, Some(beside)])?).map(|runs| [runs[0], runs[1]]),
        None => None,
    };
    alone.push(once(half)?);
    whole.push(once(None)?);
    Ok(Figures { units: plan.units, xcc: card.xcc, whole, half: Share { mask: mask.clone(), units, alone }, tenants, neighbours, others })
}

/// One run of each of these tenants, all of which are ready before the first begins.
fn at_once(bench: &Bench, card: &Topology, code: &Path, masks: &[Option<&str>]) -> Result<Vec<Run>, Trouble> {
    let ledger = bench.ledger();
    let mut tenants: Vec<Session> = Vec::new();
    for mask in masks {
        let mut probe = bench.probe()?.shim(&ledger, bench.quota);
        if let Some(mask) = mask {
            probe = probe.env("HSA_CU_MASK", mask);
        }
        let mut session = probe.start()?;
        session.must(&format!("tenant,{},{}", code.display(), card.pci))?;
        tenants.push(session);
    }
    let command = format!("soak,{}", bench.soak.as_millis());
    for session in &mut tenants {
        session.tell(&command);
    }
    let mut runs = Vec::new();
    for session in &mut tenants {
        let answer = good(&command, session.hear(&command, bench.soak)?)?;
        runs.push(Run { begin: answer.number("begin"), end: answer.number("end"), blocks: answer.number("blocks") });
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts = (u32, (String, u32), Option<String>, Vec<(String, u32)>);

    fn plan(gfx: &str, cu: u32, se: u32, xcc: u32) -> Parts {
        let card = Topology { gfx: gfx.into(), name: String::new(), pci: String::new(), cu, se, sa_per_se: 1, xcc };
        let Plan { units, half, beside, others } = Plan::of(card.check().unwrap(), &card).unwrap();
        (units, half, beside, others)
    }

    #[test]
    fn masks_are_whole_units_beside_each_other() {
        let own = |text: &str, units| (text.to_owned(), units);
        let rdna = (30, own("0:0-29", 15), Some("0:30-59".into()), vec![own("0:0-11", 6), own("0:0-41", 21)]);
        assert_eq!(plan("gfx1101", 60, 3, 1), rdna);
        let cdna = (304, own("0:0-151", 152), Some("0:152-303".into()), vec![own("0:0-71", 72), own("0:0-223", 224)]);
        assert_eq!(plan("gfx942", 304, 32, 8), cdna);
        // A share below one unit of each engine is none.
        assert_eq!(plan("gfx1100", 12, 3, 1).3, [own("0:0-5", 3)]);
    }
}
