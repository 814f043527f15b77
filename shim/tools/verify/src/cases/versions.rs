//! The same library under a second release of ROCm.

use super::{Bench, Case, Needs, Outcome, Rows};
use crate::child::show;
use crate::probe::{Status, Way};

pub(super) const CASE: Case = Case {
    name: "releases",
    what: "the same file holds the quota under several releases of ROCm",
    needs: Needs::TwoReleases,
    checks: &["served and refused under each release"],
    run,
};

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    let quota = bench.quota;
    let mut seen = Vec::new();
    for runtime in &bench.runtimes {
        let probe = |way| bench.probe_of(runtime).way(way).shim(&bench.ledger(), quota);
        for way in [Way::Default, Way::Handle] {
            let mut session = probe(way).ready()?;
            let version = session.must("hipRuntimeGetVersion")?.numbers.get("value").copied().unwrap_or(0);
            let name = format!("release {version}, {}", way.word());
            let served = session.ask(&format!("hipMalloc,{}M", quota / 2))?;
            rows.judge(served.status == Status::Code(0), format!("{name}: served under the quota"), show(served.status));
            let refused = session.ask(&format!("hipMalloc,{}M", quota * 2))?;
            let counter = session.close().counters.of("hipMalloc");
            let own = refused.status == Status::Code(2) && counter.refused == 1 && counter.failed == 0;
            rows.judge(
                own,
                format!("{name}: refused over it, by the library"),
                format!("{}, {} refused by the library", show(refused.status), counter.refused),
            );
            seen.push(version);
        }
    }
    seen.dedup();
    rows.judge(seen.len() >= 2, "the releases differ", seen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
    Ok(())
}
