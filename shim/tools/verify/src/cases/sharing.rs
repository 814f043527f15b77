//! Several processes on one card, several cards in one process.

use super::{Bench, Case, Needs, Outcome, Rows};
use crate::child::{End, show};
use crate::probe::Status;

pub(super) const PROCESSES: Case = Case {
    name: "processes",
    what: "processes share one quota: what one holds another is refused, and gets when it is given back",
    needs: Needs::Cards(1),
    checks: &["refused while another process holds it", "granted once that has given it back"],
    run: processes,
};

pub(super) const CARDS: Case = Case {
    name: "cards",
    what: "each card has a quota of its own, reports it and is held to it",
    needs: Needs::Cards(2),
    checks: &["card 0 is held to its own figure", "card 1 is held to its own figure"],
    run: cards,
};

fn processes(bench: &Bench, rows: &mut Rows) -> Outcome {
    let (ledger, quota) = (bench.ledger(), bench.quota);
    let mut holder = bench.probe()?.shim(&ledger, quota).ready()?;
    holder.must(&format!("hipMalloc,{}M", quota * 3 / 4))?;
    let mut other = bench.probe()?.shim(&ledger, quota).ready()?;
    let free = other.must("hipMemGetInfo")?.numbers.get("free").copied().unwrap_or(u64::MAX);
    rows.judge(free <= (quota / 4) << 20, "free counts what another process holds", format!("{free} bytes of {quota} MiB"));
    let answer = other.ask(&format!("hipMalloc,{}M", quota / 2))?;
    let held = format!("{} of {quota} MiB while another process holds {}: {}", quota / 2, quota * 3 / 4, show(answer.status));
    rows.judge(answer.status == Status::OUT_OF_MEMORY, "refused while another process holds it", held);
    for round in 1..=3 {
        holder.must("hipFree")?;
        let answer = other.ask(&format!("hipMalloc,{}M", quota / 2))?;
        rows.judge(answer.status == Status::Code(0), format!("granted once that has given it back, round {round}"), show(answer.status));
        if answer.status == Status::Code(0) {
            other.must("hipFree")?;
        }
        holder.must(&format!("hipMalloc,{}M", quota * 3 / 4))?;
    }
    let ended = other.close();
    let counter = ended.counters.of("hipMalloc");
    let shown = format!("{} refused, {} failed in the driver", counter.refused, counter.failed);
    rows.judge(counter.refused >= 1 && counter.failed == 0, "the refusal is the library's", shown);
    rows.judge(ended.end == End::Exit(0), "ends by itself", ended.end.to_string());
    let alone = {
        let mut session = bench.probe()?.shim(&bench.ledger(), quota).ready()?;
        session.ask(&format!("hipMalloc,{}M", quota / 2))?
    };
    rows.judge(alone.status == Status::Code(0), "control: granted with a ledger of its own", show(alone.status));
    Ok(())
}

fn cards(bench: &Bench, rows: &mut Rows) -> Outcome {
    let (small, large) = (bench.quota / 2, bench.quota * 3 / 2);
    let probe = bench.probe()?.shim(&bench.ledger(), 1);
    let probe = probe.env("VROCM_DEVICE_MEMORY_LIMIT_0", small.to_string()).env("VROCM_DEVICE_MEMORY_LIMIT_1", large.to_string());
    let mut session = probe.start()?;
    session.must("hipInit,0")?;
    for (card, figure) in [(0, small), (1, large)] {
        session.must(&format!("hipSetDevice,{card}"))?;
        let total = session.must("hipMemGetInfo")?.numbers.get("total").copied().unwrap_or(0);
        rows.judge(total == figure << 20, format!("card {card} reports its own figure"), format!("{total} bytes, {figure} MiB"));
        let answer = session.ask(&format!("hipMalloc,{}M", bench.quota))?;
        let wanted = if card == 0 { Status::OUT_OF_MEMORY } else { Status::Code(0) };
        let shown = format!("{} of {figure} MiB: {}", bench.quota, show(answer.status));
        rows.judge(answer.status == wanted, format!("card {card} is held to its own figure"), shown);
    }
    let answer = session.ask(&format!("hipMalloc,{}M", bench.quota))?;
    rows.judge(answer.status == Status::OUT_OF_MEMORY, "card 1 is not granted it twice", show(answer.status));
    let ended = session.close();
    let counter = ended.counters.of("hipMalloc");
    rows.judge(
        counter.refused == 2 && counter.failed == 0,
        "the refusals are the library's",
        format!("{} refused, {} failed in the driver", counter.refused, counter.failed),
    );
    Ok(())
}
