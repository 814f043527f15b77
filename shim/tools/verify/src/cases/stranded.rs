//! What a process held that was ended by SIGKILL: nobody refunds it, so the others have to reclaim it, and not before it is dead.

use std::time::{Duration, Instant};

use super::{Bench, Case, Needs, Outcome, Rows};
use crate::child::show;
use crate::probe::Status;

pub(super) const CASE: Case = Case {
    name: "stranded",
    what: "a killed process's charge is reclaimed, a living one's never",
    needs: Needs::Cards(1),
    checks: &["refused while it lives", "granted after SIGKILL"],
    run,
};

/// The driver may need a moment to take a dead process's memory back.
const A_MOMENT: Duration = Duration::from_secs(2);

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    let (ledger, quota) = (bench.ledger(), bench.quota);
    let ask = format!("hipMalloc,{}M", quota / 2);
    let mut holder = bench.probe()?.shim(&ledger, quota).ready()?;
    holder.must(&format!("hipMalloc,{}M", quota * 3 / 4))?;
    let mut other = bench.probe()?.shim(&ledger, quota).ready()?;
    let answer = other.ask(&ask)?;
    rows.judge(answer.status == Status::Code(2), "refused while it lives", show(answer.status));
    holder.kill();
    let until = Instant::now() + A_MOMENT;
    let granted = loop {
        let answer = other.ask(&ask)?;
        if answer.status == Status::Code(0) || Instant::now() > until {
            break answer;
        }
    };
    rows.judge(granted.status == Status::Code(0), "granted after SIGKILL to a process that was there", show(granted.status));
    other.kill();
    let mut newcomer = bench.probe()?.shim(&ledger, quota).ready()?;
    let free = newcomer.must("hipMemGetInfo")?.numbers.get("free").copied().unwrap_or(0);
    rows.judge(free >= (quota / 2) << 20, "free again after two were killed", format!("{free} bytes of {quota} MiB"));
    let answer = newcomer.ask(&format!("hipMalloc,{}M", quota * 3 / 4))?;
    rows.judge(answer.status == Status::Code(0), "granted after SIGKILL to a newcomer", show(answer.status));
    Ok(())
}
