//! Every way to take memory, under the quota and over it. What is refused must be refused by the library, by its own count, and the driver not be asked; the
//! control without the library shows that it was the quota.

use std::time::Duration;

use super::{Bench, Case, Needs, Outcome, Rows, Trouble};
use crate::child::{End, Session, show};
use crate::paths::{self, Path};
use crate::probe::{Status, Way};

pub(super) const DEVICE: Case = Case {
    name: "paths",
    what: "every way to take memory is counted, granted under the quota, given back, and refused over it by the library itself",
    needs: Needs::Cards(1),
    checks: &["granted under the quota", "given back", "refused over the quota", "counted"],
    run: device,
};

pub(super) const HOST: Case = Case {
    name: "host-memory",
    what: "memory of the host is the host's: it is granted beyond the quota, and charges nothing",
    needs: Needs::Cards(1),
    checks: &["granted", "charges nothing"],
    run: host,
};

/// Tried by every way to the entry points.
const BY_EVERY_WAY: [&str; 3] = ["hipMalloc", "hipMallocAsync", "hipMemCreate"];

fn device(bench: &Bench, rows: &mut Rows) -> Outcome {
    for path in paths::device() {
        for way in Way::ALL {
            if way == Way::Default || BY_EVERY_WAY.contains(&path.name) {
                let name = format!("{}, {}", path.name, way.word());
                if let Err(Trouble(what)) = try_path(bench, &path, way, &name, rows) {
                    rows.fail(name, what);
                }
            }
        }
    }
    Ok(())
}

fn plain(bench: &Bench, way: Way) -> Result<Session, Trouble> {
    let mut session = bench.probe()?.way(way).start()?;
    for command in ["hipInit,0", "hipSetDevice,0"] {
        session.must(command)?;
    }
    Ok(session)
}

/// What a path answers without the library to a request that is over the quota: a failure there says nothing about the quota. `Some`: it fails.
fn fails_without(bench: &Bench, path: &Path, way: Way) -> Option<String> {
    match plain(bench, way).and_then(|mut session| session.all(&path.make(bench.quota * 2))) {
        Ok(None) => None,
        Ok(Some((call, status))) => Some(format!("without the library {call} answers {}", show(status))),
        Err(Trouble(what)) => Some(format!("without the library: {what}")),
    }
}

/// What the runtime itself keeps of so many MiB that were given back, by its own account. An error: it cannot give them back.
fn kept_without(bench: &Bench, path: &Path, way: Way, mebibytes: u64) -> Result<u64, String> {
    let kept = || {
        let mut session = plain(bench, way)?;
        let before = free(&mut session)?;
        for commands in [path.make(mebibytes), path.undo()] {
            if let Some((call, status)) = session.all(&commands)? {
                return Err(Trouble(format!("{call} answers {}", show(status))));
            }
        }
        let after = settled(&mut session, before)?;
        Ok(before.saturating_sub(after))
    };
    kept().map_err(|Trouble(what)| format!("without the library: {what}"))
}

fn free(session: &mut Session) -> Result<u64, Trouble> {
    Ok(session.must("hipMemGetInfo")?.numbers.get("free").copied().unwrap_or(0))
}

/// What is free once it is `wanted`, or after a while: some releases give memory back on a thread of their own, and pools keep it.
fn settled(session: &mut Session, wanted: u64) -> Result<u64, Trouble> {
    for _ in 0..6 {
        if free(session)? >= wanted {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    free(session)
}

fn try_path(bench: &Bench, path: &Path, way: Way, name: &str, rows: &mut Rows) -> Outcome {
    if let Some(reason) = fails_without(bench, path, way) {
        rows.skip(name, reason);
        return Ok(());
    }
    let mut session = bench.probe()?.way(way).shim(&bench.ledger(), bench.quota).ready()?;
    let under = bench.quota * 5 / 8;
    if let Some((call, status)) = session.all(&path.make(under))? {
        rows.fail(format!("{name}: granted under the quota"), format!("{call} answers {}", show(status)));
        return Ok(());
    }
    rows.judge(true, format!("{name}: granted under the quota"), format!("{under} of {} MiB", bench.quota));
    let check = format!("{name}: given back");
    match kept_without(bench, path, way, under) {
        Err(reason) => rows.skip(check, reason),
        Ok(kept) => match give_back_and_take_again(&mut session, path, under)? {
            None => rows.judge(true, check, format!("{under} MiB once more")),
            Some(_) if kept >= under << 19 => {
                rows.skip(check, format!("without the library too {kept} bytes of {under} MiB are kept by the runtime"));
            }
            Some(wrong) => rows.fail(check, wrong),
        },
    }

    let over = session.all(&path.make(bench.quota * 2))?;
    let refused = over.as_ref().is_some_and(|(_, status)| *status == Status::OUT_OF_MEMORY);
    let shown = over.as_ref().map_or_else(|| "was granted".to_owned(), |(call, status)| format!("{call} answers {}", show(*status)));
    rows.judge(refused, format!("{name}: refused over the quota"), format!("{} of {} MiB: {shown}", bench.quota * 2, bench.quota));
    let lives = session.ask("hipMalloc,4K").is_ok_and(|answer| answer.status == Status::Code(0));
    let ended = session.close();
    rows.judge(lives && ended.end == End::Exit(0), format!("{name}: lives on"), ended.end.to_string());
    if let (true, Some((call, _))) = (refused, over) {
        let counter = ended.counters.of(&call);
        let own = counter.refused >= 1 && counter.failed == 0 && counter.calls >= counter.refused;
        let shown = format!("{call}: {} calls, {} refused, {} failed in the driver", counter.calls, counter.refused, counter.failed);
        rows.judge(own, format!("{name}: counted, and refused by the library"), shown);
    }
    Ok(())
}

/// Gives it back and takes as much once more. `Some`: what went wrong.
fn give_back_and_take_again(session: &mut Session, path: &Path, mebibytes: u64) -> Result<Option<String>, Trouble> {
    if let Some((call, status)) = session.all(&path.undo())? {
        return Ok(Some(format!("{call} answers {}", show(status))));
    }
    settled(session, mebibytes << 20)?;
    for commands in [path.make(mebibytes), path.undo()] {
        if let Some((call, status)) = session.all(&commands)? {
            return Ok(Some(format!("the second time {call} answers {}", show(status))));
        }
    }
    Ok(None)
}

fn host(bench: &Bench, rows: &mut Rows) -> Outcome {
    for path in paths::host() {
        let mut session = bench.probe()?.shim(&bench.ledger(), bench.quota).ready()?;
        let before = free(&mut session)?;
        let answer = session.all(&path.make(bench.quota * 2))?;
        let shown = answer.map(|(call, status)| format!("{call} answers {}", show(status)));
        let granted = shown.is_none();
        rows.judge(granted, format!("{}: granted", path.name), shown.unwrap_or_else(|| format!("{} of {} MiB", bench.quota * 2, bench.quota)));
        if granted {
            let after = free(&mut session)?;
            rows.judge(before == after, format!("{}: charges nothing", path.name), format!("{before} bytes free before, {after} after"));
        }
    }
    Ok(())
}
