//! Every way to take memory, under the quota and over it. What is refused must be refused by the library, by its own count, and the driver not be asked; the
//! control without the library shows that it was the quota.

use std::time::Duration;

use super::capacity::HSA_FREE;
use super::{Bench, Case, Needs, Outcome, Rows, Trouble};
use crate::bench::{Probe, READY};
use crate::child::{End, Session, show};
use crate::kernels::Code;
use crate::paths::{self, Path};
use crate::probe::{HSA, Status, Way};

pub(super) const DEVICE: Case = Case {
    name: "paths",
    what: "every way to take memory is counted, granted under the quota, given back, and refused over it by the library itself",
    needs: Needs::Cards(1),
    checks: &["granted under the quota", "given back", "refused over the quota", "counted"],
    run: device,
};

pub(super) const BENEATH: Case = Case {
    name: "hsa-paths",
    what: "the same of every way through HSA, for programs that do not use HIP",
    needs: Needs::Cards(1),
    checks: &["granted under the quota", "given back", "refused over the quota", "counted"],
    run: beneath,
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

/// What HIP and HSA differ in.
struct Layer {
    /// What is opened instead of the runtime.
    library: Option<&'static str>,
    /// Makes a process ready.
    start: &'static [&'static str],
    /// Makes it ready under the library.
    start_held: &'static [&'static str],
    /// Takes a little.
    little: &'static str,
    /// Says what is free, and under which name.
    free: (&'static str, &'static str),
    /// What a refusal looks like.
    refusal: Status,
}

const HIP_LAYER: Layer = Layer {
    library: None,
    start: &["hipInit,0", "hipSetDevice,0"],
    start_held: &READY,
    little: "hipMalloc,4K",
    free: ("hipMemGetInfo", "free"),
    refusal: Status::OUT_OF_MEMORY,
};

const HSA_LAYER: Layer = Layer {
    library: Some(HSA),
    start: &["hsa_init"],
    start_held: &["hsa_init"],
    little: "hsa_amd_memory_pool_allocate,4K",
    free: (HSA_FREE, "total"),
    refusal: Status::OUT_OF_RESOURCES,
};

fn device(bench: &Bench, rows: &mut Rows) -> Outcome {
    each(bench, &HIP_LAYER, paths::device(), &Way::ALL, rows)
}

fn beneath(bench: &Bench, rows: &mut Rows) -> Outcome {
    each(bench, &HSA_LAYER, paths::beneath(), &[Way::Default, Way::Handle], rows)
}

fn each(bench: &Bench, layer: &Layer, paths: Vec<Path>, ways: &[Way], rows: &mut Rows) -> Outcome {
    for path in &chosen(bench, paths, rows) {
        for &way in ways {
            if way == Way::Default || layer.library.is_some() || BY_EVERY_WAY.contains(&path.name) {
                let name = format!("{}, {}", path.name, way.word());
                if let Err(Trouble(what)) = (Trial { bench, layer, path, way }).run(&name, rows) {
                    rows.fail(name, what);
                }
            }
        }
    }
    Ok(())
}

/// Those that `--path` names, if it names any.
fn chosen(bench: &Bench, mut paths: Vec<Path>, rows: &mut Rows) -> Vec<Path> {
    paths.retain(|path| bench.chosen.is_empty() || bench.chosen.iter().any(|name| name == path.name));
    if paths.is_empty() {
        rows.skip("all ways", "--path names none of them");
    }
    paths
}

/// One path, by one way.
struct Trial<'a> {
    bench: &'a Bench,
    layer: &'a Layer,
    path: &'a Path,
    way: Way,
}

impl Trial<'_> {
    fn probe(&self) -> Result<Probe<'_>, Trouble> {
        let probe = self.bench.probe()?.way(self.way);
        Ok(if let Some(library) = self.layer.library { probe.opens(library) } else { probe })
    }

    fn plain(&self) -> Result<Session, Trouble> {
        self.probe()?.after(self.layer.start)
    }

    fn make(&self, mebibytes: u64) -> Result<Vec<String>, String> {
        make(self.bench, self.path, mebibytes)
    }

    fn free(&self, session: &mut Session) -> Result<u64, Trouble> {
        let (query, key) = self.layer.free;
        Ok(session.must(query)?.number(key))
    }

    /// What is free once it is `wanted`, or after a while: some releases give memory back on a thread of their own, and pools keep it.
    fn settled(&self, session: &mut Session, wanted: u64) -> Result<u64, Trouble> {
        for _ in 0..6 {
            if self.free(session)? >= wanted {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.free(session)
    }

    /// What a path answers without the library to a request that is over the quota: a failure there says nothing about the quota. `Some`: it fails.
    fn fails_without(&self, over: &[String]) -> Option<String> {
        match self.plain().and_then(|mut session| session.all(over)) {
            Ok(None) => None,
            Ok(Some((call, status))) => Some(format!("without the library {call} answers {}", show(status))),
            Err(Trouble(what)) => Some(format!("without the library: {what}")),
        }
    }

    /// What the runtime itself keeps of so many MiB that were given back, by its own account. An error: it cannot give them back.
    fn kept_without(&self, under: &[String]) -> Result<u64, String> {
        let kept = || {
            let mut session = self.plain()?;
            let before = self.free(&mut session)?;
            for commands in [under, &self.path.undo()] {
                if let Some((call, status)) = session.all(commands)? {
                    return Err(Trouble(format!("{call} answers {}", show(status))));
                }
            }
            let after = self.settled(&mut session, before)?;
            Ok(before.saturating_sub(after))
        };
        kept().map_err(|Trouble(what)| format!("without the library: {what}"))
    }

    fn run(&self, name: &str, rows: &mut Rows) -> Outcome {
        let (quota, under, over) = (self.bench.quota, self.bench.quota * 5 / 8, self.bench.quota * 2);
        let (take, too_much) = match (self.make(under), self.make(over)) {
            (Ok(take), Ok(too_much)) => (take, too_much),
            (Err(why), _) | (_, Err(why)) => {
                rows.skip(name, why);
                return Ok(());
            }
        };
        if let Some(reason) = self.fails_without(&too_much) {
            rows.skip(name, reason);
            return Ok(());
        }
        let mut session = self.probe()?.shim(&self.bench.ledger(), quota).after(self.layer.start_held)?;
        if let Some((call, status)) = session.all(&take)? {
            rows.fail(format!("{name}: granted under the quota"), format!("{call} answers {}", show(status)));
            return Ok(());
        }
        rows.judge(true, format!("{name}: granted under the quota"), format!("{under} of {quota} MiB"));
        let check = format!("{name}: given back");
        match self.kept_without(&take) {
            Err(reason) => rows.skip(check, reason),
            Ok(kept) => match self.give_back_and_take_again(&mut session, &take, under)? {
                None => rows.judge(true, check, format!("{under} MiB once more")),
                Some(_) if kept >= under << 19 => {
                    rows.skip(check, format!("without the library too {kept} bytes of {under} MiB are kept by the runtime"));
                }
                Some(wrong) => rows.fail(check, wrong),
            },
        }
        self.over(session, &too_much, name, rows)
    }

    /// Gives it back and takes as much once more. `Some`: what went wrong.
    fn give_back_and_take_again(&self, session: &mut Session, take: &[String], mebibytes: u64) -> Result<Option<String>, Trouble> {
        let undo = self.path.undo();
        if let Some((call, status)) = session.all(&undo)? {
            return Ok(Some(format!("{call} answers {}", show(status))));
        }
        self.settled(session, mebibytes << 20)?;
        for commands in [take, &undo] {
            if let Some((call, status)) = session.all(commands)? {
                return Ok(Some(format!("the second time {call} answers {}", show(status))));
            }
        }
        Ok(None)
    }

    /// A request that is over the quota: refused with the status that refusals have, counted as the library's own, and survived.
    fn over(&self, mut session: Session, too_much: &[String], name: &str, rows: &mut Rows) -> Outcome {
        let (quota, over) = (self.bench.quota, self.bench.quota * 2);
        let failed = session.all(too_much)?;
        let refused = failed.as_ref().is_some_and(|(_, status)| *status == self.layer.refusal);
        let shown = failed.as_ref().map_or_else(|| "was granted".to_owned(), |(call, status)| format!("{call} answers {}", show(*status)));
        rows.judge(refused, format!("{name}: refused over the quota"), format!("{over} of {quota} MiB: {shown}"));
        let lives = session.ask(self.layer.little).is_ok_and(|answer| answer.status == Status::Code(0));
        let ended = session.close();
        rows.judge(lives && ended.end == End::Exit(0), format!("{name}: lives on"), ended.end.to_string());
        if let (true, Some((call, _))) = (refused, failed) {
            let counter = ended.counters.of(&call);
            let own = counter.refused >= 1 && counter.failed == 0 && counter.calls >= counter.refused;
            let shown = format!("{call}: {} calls, {} refused, {} failed in the driver", counter.calls, counter.refused, counter.failed);
            rows.judge(own, format!("{name}: counted, and refused by the library"), shown);
        }
        Ok(())
    }
}

fn make(bench: &Bench, path: &Path, mebibytes: u64) -> Result<Vec<String>, String> {
    path.make(mebibytes, |bytes| bench.code(Code::Module(bytes)).map(|file| file.display().to_string()))
}

fn host(bench: &Bench, rows: &mut Rows) -> Outcome {
    for path in &chosen(bench, paths::host(), rows) {
        let trial = Trial { bench, layer: &HIP_LAYER, path, way: Way::Default };
        match takes_of_the_card(&trial) {
            Err(reason) => rows.skip(path.name, reason),
            Ok(true) => trial.run(&format!("{}, which takes the card's memory on this release", path.name), rows)?,
            Ok(false) => granted(&trial, rows)?,
        }
    }
    Ok(())
}

/// Whether the runtime, without the library, takes it of the card by its own account: 5.x does so for `hipHostAlloc`. An error: it takes none at all.
fn takes_of_the_card(trial: &Trial) -> Result<bool, String> {
    let half = trial.bench.quota / 2;
    let commands = trial.make(half)?;
    let taken = || {
        let mut session = trial.plain()?;
        let before = trial.free(&mut session)?;
        if let Some((call, status)) = session.all(&commands)? {
            return Err(Trouble(format!("{call} answers {}", show(status))));
        }
        Ok(before.saturating_sub(trial.free(&mut session)?))
    };
    taken().map(|bytes| bytes >= half << 19).map_err(|Trouble(what)| format!("without the library: {what}"))
}

fn granted(trial: &Trial, rows: &mut Rows) -> Outcome {
    let (quota, name) = (trial.bench.quota, trial.path.name);
    let mut session = trial.bench.probe()?.shim(&trial.bench.ledger(), quota).ready()?;
    let before = trial.free(&mut session)?;
    let answer = session.all(&trial.make(quota * 2).map_err(Trouble)?)?;
    let shown = answer.map(|(call, status)| format!("{call} answers {}", show(status)));
    let granted = shown.is_none();
    rows.judge(granted, format!("{name}: granted"), shown.unwrap_or_else(|| format!("{} of {quota} MiB", quota * 2)));
    if granted {
        let after = trial.free(&mut session)?;
        rows.judge(before == after, format!("{name}: charges nothing"), format!("{before} bytes free before, {after} after"));
    }
    Ok(())
}
