//! Ceilings of compute. They need a card and a kernel that keeps it busy; this program has none yet, and says so rather than guess.

use super::{Bench, Case, Needs, Outcome, Rows};

pub(super) const CASE: Case = Case {
    name: "compute",
    what: "a share of the units bounds what a tenant computes: alone, fairly shared, in sum, and in order",
    needs: Needs::Silicon,
    checks: CHECKS,
    run,
};

const CHECKS: &[&str] = &[
    "alone: half of the units computes about half",
    "fair share: tenants of one mask get the same",
    "sum: tenants of disjoint masks together get what one gets alone",
    "ordering: a larger share computes more",
];

fn run(_: &Bench, rows: &mut Rows) -> Outcome {
    CHECKS.iter().for_each(|check| {
        rows.skip(*check, "not measured: this version has no kernel that keeps a card busy; rocm-cumask-check shows which units run")
    });
    Ok(())
}
