//! What the host offers, and whether the library really is in a process: one that cannot be loaded is left out with a line of the loader, and then nothing
//! is held.

use super::{Bench, Case, Needs, Outcome, Rows};

pub(super) const CASE: Case = Case {
    name: "host",
    what: "what the host offers, and whether the library really is mapped in a process that preloads it",
    needs: Needs::Nothing,
    checks: &[],
    run,
};

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    let host = &bench.host;
    rows.info(
        "/dev/kfd",
        if host.usable {
            "is there and can be opened"
        } else if host.kfd {
            "is there and cannot be opened"
        } else {
            "is not there"
        },
    );
    rows.info("render nodes", if host.render_nodes.is_empty() { "none".into() } else { host.render_nodes.join(" ") });
    rows.info("driver", host.driver.as_deref().unwrap_or("amdgpu is not loaded"));
    rows.info("cards", if host.cards.is_empty() { "none in the topology of KFD".into() } else { host.cards.len().to_string() });
    for card in &host.cards {
        rows.info(format!("node {}", card.node), format!("{}, {} units, {} XCC", card.target, card.units, card.dies));
    }
    for runtime in &bench.runtimes {
        rows.info("runtime", runtime.name());
    }
    if bench.has_card() {
        rows.judge(host.usable, "the card can be used", "opening /dev/kfd for reading and writing");
    }
    mapped(bench, rows)
}

/// `/proc/self/maps` of a process that preloads the library, and of one that does not.
fn mapped(bench: &Bench, rows: &mut Rows) -> Outcome {
    // Any library can be opened for this question: the C library is there on every host.
    let none = crate::bench::Runtime::new("libc.so.6".into());
    let runtime = bench.runtimes.first().unwrap_or(&none);
    let name = bench.shim.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let question = format!("mapped,/{name}");
    let count = |answer: &crate::probe::Answer| answer.numbers.get("count").copied().unwrap_or(0);

    let mut with = bench.probe_of(runtime).shim(&bench.ledger(), bench.quota).start()?;
    let answer = with.must(&question)?;
    let ended = with.close();
    let object = answer.words.get("object").cloned().unwrap_or_default();
    rows.judge(count(&answer) > 0, "mapped where it is preloaded", if object.is_empty() { ended.describe() } else { object });
    rows.judge(ended.stderr.lines().any(|line| line.ends_with("]: loaded")), "its constructor ran", "the line at log level 2");

    let mut without = bench.probe_of(runtime).start()?;
    let answer = without.must(&question)?;
    if bench.everywhere {
        rows.skip("not mapped where it is not preloaded", "/etc/ld.so.preload has it for every process of this container");
    } else {
        rows.judge(count(&answer) == 0, "not mapped where it is not preloaded", "the control of every comparison below");
    }
    Ok(())
}
