//! What a program is told that the card has, through every entry point of HIP and, for programs that do not use HIP, of HSA; and, as the control, without the library.

use super::{Bench, Case, Needs, Outcome, Rows};
use crate::child::{Session, show};
use crate::probe::{Answer, HSA, Status, Way};

pub(super) const CASE: Case = Case {
    name: "capacity",
    what: "every entry point reports the quota as the card's size, and without the library the physical size",
    needs: Needs::Cards(1),
    checks: &[
        "hipMemGetInfo",
        "hipDeviceTotalMem",
        "hipGetDeviceProperties",
        "hipGetDevicePropertiesR0600",
        "hipGetDevicePropertiesR0000",
        "hipDeviceGetAttribute",
        "hsa_amd_memory_pool_get_info",
        "hsa_region_get_info",
        "hsa_agent_get_info",
    ],
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

/// Of HSA: the query, and what it asks for.
const HSA_QUERIES: [(&str, &str); 4] = [
    ("hsa_amd_memory_pool_get_info,2", "size"),
    ("hsa_amd_memory_pool_get_info,16", "largest allocation"),
    ("hsa_region_get_info,2", "size"),
    ("hsa_region_get_info,4", "largest allocation"),
];
/// `HSA_AMD_AGENT_INFO_MEMORY_AVAIL`
pub(super) const HSA_FREE: &str = "hsa_agent_get_info,40981";

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    for way in Way::ALL {
        hip(bench, way, rows)?;
    }
    for way in [Way::Default, Way::Handle] {
        hsa(bench, way, rows)?;
    }
    Ok(())
}

/// A process under the library, and one without it.
struct Pair<'a> {
    bench: &'a Bench,
    with: Session,
    without: Session,
}

impl Pair<'_> {
    /// Asks both, and judges the first by the quota, the second by being more. `None`: nobody can say it on this release.
    fn ask(&mut self, query: &str, check: &str, rows: &mut Rows) -> Result<Option<(Answer, Answer)>, super::Trouble> {
        let quota = self.bench.quota * MIB;
        let (held, free) = (self.with.ask(query)?, self.without.ask(query)?);
        if free.status != Status::Code(0) {
            rows.skip(check, format!("without the library this release answers {}", show(free.status)));
            return Ok(None);
        }
        let (told, physical) = (held.number("total"), free.number("total"));
        let shown = format!("{told} bytes, {physical} without the library; the quota is {quota}");
        rows.judge(held.status == Status::Code(0) && told == quota, check, shown);
        self.control(physical, check, rows);
        Ok(Some((held, free)))
    }

    fn control(&self, physical: u64, check: &str, rows: &mut Rows) {
        let check = format!("{check}, control");
        if self.bench.everywhere {
            rows.skip(check, "/etc/ld.so.preload has the library for every process of this container");
        } else {
            rows.judge(physical > self.bench.quota * MIB, check, format!("{physical} bytes without the library: more than the quota"));
        }
    }
}

fn hip(bench: &Bench, way: Way, rows: &mut Rows) -> Outcome {
    let mut with = bench.probe()?.way(way).shim(&bench.ledger(), bench.quota).start()?;
    if with.ask("hipInit,0")?.status == Status::Absent {
        rows.skip(way.word(), "this release has no such way");
        return Ok(());
    }
    let mut pair = Pair { bench, with, without: bench.probe()?.way(way).start()? };
    let mut units = None;
    for query in QUERIES {
        // Asked for by the plain name, newer releases hand out R0600, whose structure is another.
        if way == Way::ProcAddress && query == "hipGetDeviceProperties" {
            continue;
        }
        let name = query.split(',').next().unwrap_or(query);
        let check = format!("{name}, {}", way.word());
        let Some((held, free)) = pair.ask(query, &check, rows)? else { continue };
        if query == "hipMemGetInfo" {
            let left = held.numbers.get("free").copied().unwrap_or(u64::MAX);
            rows.judge(left <= bench.quota * MIB, format!("{check}, free"), format!("{left} bytes"));
        }
        if let (Some(one), Some(two)) = (held.numbers.get("units"), free.numbers.get("units")) {
            units = Some((*one, *two));
        }
    }
    if let Some((one, two)) = units {
        rows.judge(one == two, format!("multiprocessors, {}", way.word()), format!("{one}, {two} without the library: nothing else changes"));
    }
    Ok(())
}

fn hsa(bench: &Bench, way: Way, rows: &mut Rows) -> Outcome {
    let probe = || Ok::<_, super::Trouble>(bench.probe()?.opens(HSA).way(way));
    let with = probe()?.shim(&bench.ledger(), bench.quota).after(&["hsa_init"])?;
    let mut pair = Pair { bench, with, without: probe()?.after(&["hsa_init"])? };
    for (query, what) in HSA_QUERIES {
        let name = query.split(',').next().unwrap_or(query);
        pair.ask(query, &format!("{name}, {what}, {}", way.word()), rows)?;
    }
    let check = format!("hsa_agent_get_info, memory available, {}", way.word());
    let (held, free) = (pair.with.ask(HSA_FREE)?, pair.without.ask(HSA_FREE)?);
    if free.status != Status::Code(0) {
        rows.skip(check, format!("without the library this release answers {}", show(free.status)));
        return Ok(());
    }
    let told = held.number("total");
    rows.judge(
        held.status == Status::Code(0) && told <= bench.quota * MIB,
        check.clone(),
        format!("{told} bytes, of a quota of {} MiB", bench.quota),
    );
    pair.control(free.number("total"), &check, rows);
    Ok(())
}
