//! What a program is told that the card has, through every entry point; and, as the control, without the library.

use super::{Bench, Case, Needs, Outcome, Rows};
use crate::probe::{Status, Way};

pub(super) const CASE: Case = Case {
    name: "capacity",
    what: "every entry point reports the quota as the card's size, and without the library the physical size",
    needs: Needs::Cards(1),
    checks: &["hipMemGetInfo", "hipDeviceTotalMem", "hipGetDeviceProperties", "hipGetDevicePropertiesR0600", "hipGetDevicePropertiesR0000"],
    run,
};

const MIB: u64 = 1 << 20;
const QUERIES: [&str; 6] = [
    "hipMemGetInfo",
    "hipDeviceTotalMem",
    "hipGetDeviceProperties",
    "hipGetDevicePropertiesR0600",
    "hipGetDevicePropertiesR0000",
    "hipDeviceGetAttribute,84",
];

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    let quota = bench.quota * MIB;
    for way in Way::ALL {
        let mut with = bench.probe()?.way(way).shim(&bench.ledger(), bench.quota).start()?;
        if with.ask("hipInit,0")?.status == Status::Absent {
            rows.skip(way.word(), "this release has no such way");
            continue;
        }
        let mut without = bench.probe()?.way(way).start()?;
        let mut units = (None, None);
        for query in QUERIES {
            // Asked for by the plain name, newer releases hand out R0600, whose structure is another.
            if way == Way::ProcAddress && query == "hipGetDeviceProperties" {
                continue;
            }
            let name = query.split(',').next().unwrap_or(query);
            let check = format!("{name}, {}", way.word());
            let (held, free) = (with.ask(query)?, without.ask(query)?);
            if free.status != Status::Code(0) {
                rows.skip(check, format!("without the library this release answers {}", crate::child::show(free.status)));
                continue;
            }
            let total = |answer: &crate::probe::Answer| answer.numbers.get("total").copied().unwrap_or(0);
            let (told, physical) = (total(&held), total(&free));
            let shown = format!("{} bytes, {} without the library; the quota is {quota}", told, physical);
            rows.judge(held.status == Status::Code(0) && told == quota, check.clone(), shown);
            if bench.everywhere {
                rows.skip(format!("{check}, control"), "/etc/ld.so.preload has the library for every process of this container");
            } else {
                rows.judge(physical > quota, format!("{check}, control"), format!("{physical} bytes without the library: more than the quota"));
            }
            if query == "hipMemGetInfo" {
                let left = held.numbers.get("free").copied().unwrap_or(u64::MAX);
                rows.judge(left <= quota, format!("{check}, free"), format!("{left} bytes"));
            }
            if let (Some(one), Some(two)) = (held.numbers.get("units"), free.numbers.get("units")) {
                units = (Some(*one), Some(*two));
            }
        }
        if let (Some(one), Some(two)) = units {
            rows.judge(one == two, format!("multiprocessors, {}", way.word()), format!("{one}, {two} without the library: nothing else changes"));
        }
    }
    Ok(())
}
