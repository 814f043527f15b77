//! Masks of compute units: ones that take effect, and ones that the platform discards silently. `rocm-cumask-check` tells them apart; these cases hold the program to
//! what was measured on cards, and every card of this host to what the program foresees for it (`--card`): the same verdict, and as many units that ran.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rocm_cumask::derive::derive;
use rocm_cumask::family::Family;
use rocm_cumask::measured;
use rocm_cumask::topology::Topology;
use serde_json::Value;

use super::{Bench, Case, Needs, Outcome, Rows, Trouble};

pub(super) const TABLE: Case = Case {
    name: "mask-table",
    what: "what rocm-cumask-check foresees for a card is what was measured on such cards; no card is needed",
    needs: Needs::Nothing,
    checks: &[],
    run: table,
};

pub(super) const CASE: Case = Case {
    name: "cu-mask",
    what: "on every card a good mask takes effect, and masks that the platform discards are told apart from it, with as many units as foreseen",
    needs: Needs::Silicon,
    checks: &[
        "a derived mask takes effect",
        "a whole mask takes effect",
        "a mask that fails open is rejected",
        "a share that is too small is refused",
    ],
    run,
};

const HSA: &str = "HSA_CU_MASK";
const GLOBAL: &str = "ROC_GLOBAL_CU_MASK";
const SKIP: &str = "HSA_CU_MASK_SKIP_INIT";

/// A mask of a card, and whether it takes effect.
#[derive(Debug, PartialEq, Eq)]
struct Mask {
    variable: &'static str,
    text: String,
    skip: bool,
    effective: bool,
    why: &'static str,
}

/// What is tried on the card at a position. Of CDNA: bit i is unit i div XCCs of die i mod XCCs, so every die needs one. Of RDNA: units come in pairs.
fn masks(card: &Topology, family: Family, device: u32) -> Vec<Mask> {
    let mask = |list: String, effective, why| Mask { variable: HSA, text: format!("{device}:{list}"), skip: false, effective, why };
    let (cu, xcc, units) = (card.cu, card.xcc, card.units(family));
    let half = derive(family, card, 50).unwrap_or_else(|_| format!("0-{}", cu - 1));
    let whole = format!("0-{}", cu - 1);
    let mut all = vec![
        mask(half.clone(), true, "half of the units"),
        mask(whole, true, "all units"),
        Mask { skip: true, ..mask(half.clone(), false, "HSA_CU_MASK_SKIP_INIT=1") },
        Mask { text: format!("GPU-0123456789abcdef:{half}"), ..mask(String::new(), false, "a GPU is a position, no UUID") },
        mask(format!("{cu}-{}", cu + 7), false, "units that the card does not have"),
        // Bit i of it is unit i, and the lower half is asked for.
        Mask { variable: GLOBAL, text: hexadecimal(0, (units / 2).max(1)), ..mask(String::new(), true, "half of the units, for HIP's queues") },
        Mask { variable: GLOBAL, text: hexadecimal(units, 4), ..mask(String::new(), false, "units that the card does not have") },
    ];
    match family {
        Family::Rdna if cu >= 8 => all.extend([
            mask("2-5".into(), true, "whole pairs, not from the first"),
            mask("0-4".into(), false, "a split pair"),
            mask("1-4".into(), false, "two split pairs"),
        ]),
        Family::Rdna => {}
        Family::Cdna if xcc > 1 => all.extend([
            mask(format!("0-{}", xcc - 1), true, "one unit of each XCC"),
            mask(format!("{xcc}-{}", 2 * xcc - 1), true, "another unit of each XCC"),
            mask(hexadecimal(0, xcc), true, "the same in hexadecimal"),
            mask("0".into(), false, "all XCCs but one without a unit"),
            mask(format!("0-{}", xcc / 2 - 1), false, "half of the XCCs without a unit"),
            mask(format!("0,{xcc}"), false, "two units of one XCC, none of the others"),
        ]),
        Family::Cdna => all.push(mask("0-2".into(), true, "an odd number of units: there are no pairs")),
    }
    // The global mask reaches every XCC only if it has as many bits.
    all.retain(|mask| mask.variable == HSA || !mask.effective || units / 2 >= xcc);
    all
}

/// A number whose `count` bits from `first` on are set, as text.
fn hexadecimal(first: u32, count: u32) -> String {
    let digit = |place: u32| (0..4).filter(|bit| (first..first + count).contains(&(place * 4 + bit))).fold(0, |value, bit| value | 1 << bit);
    let digits: String = (0..(first + count).div_ceil(4)).rev().filter_map(|place| char::from_digit(digit(place), 16)).collect();
    format!("0x{digits}")
}

/// What the program said.
#[derive(Debug, Default)]
struct Said {
    status: Option<i32>,
    verdict: String,
    reason: String,
    /// Units that ran, or would run.
    ran: usize,
    card: Option<Topology>,
    gpus: u32,
}

impl Said {
    fn of(status: Option<i32>, report: &Value) -> Self {
        let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
        let units = report["units"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            status,
            verdict: text("verdict"),
            reason: text("reason"),
            ran: units.iter().filter(|unit| unit["launches"].as_u64().is_some_and(|launches| launches > 0)).count(),
            card: serde_json::from_value(report["card"].clone()).ok(),
            gpus: report["gpus"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        }
    }

    /// Whether the exit status and the report say the same of a mask.
    fn is(&self, effective: bool, words: [&str; 2]) -> bool {
        self.status == Some(i32::from(!effective)) && self.verdict == words[usize::from(!effective)]
    }

    fn show(&self) -> String {
        let status = self.status.map_or_else(|| "ended by a signal, or took too long".to_owned(), |status| format!("status {status}"));
        if self.verdict.is_empty() {
            return status;
        }
        let reason = if self.reason.is_empty() { String::new() } else { format!(" ({})", self.reason) };
        format!("{}, {} units ran, {status}{reason}", self.verdict, self.ran)
    }
}

const MEASURED: [&str; 2] = ["effective", "not-effective"];
const FORESEEN: [&str; 2] = ["foreseen-kept", "foreseen-discarded"];

/// The program, and how long it may take.
struct Check<'a> {
    program: &'a Path,
    patience: Duration,
}

impl Check<'_> {
    fn mask(&self, arguments: &[&str], mask: &Mask) -> Result<Said, Trouble> {
        let mut environment = vec![(mask.variable, mask.text.as_str())];
        if mask.skip {
            environment.push((SKIP, "1"));
        }
        self.run(arguments, &environment)
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Said, Trouble> {
        let mut command = Command::new(self.program);
        command.args(arguments).arg("--json").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        for name in [HSA, GLOBAL, SKIP, "LD_PRELOAD"] {
            command.env_remove(name);
        }
        command.envs(environment.iter().copied());
        let mut child = command.spawn().map_err(|error| Trouble(format!("{}: {error}", self.program.display())))?;
        let Some(mut output) = child.stdout.take() else { return Err(Trouble("no pipe".into())) };
        let (sender, report) = channel();
        std::thread::spawn(move || sender.send(serde_json::from_reader(Read::take(&mut output, 16 << 20)).unwrap_or(Value::Null)));
        let until = Instant::now() + self.patience;
        loop {
            if let Some(status) = child.try_wait()? {
                // Somebody else may have the pipe still: that is not waited for.
                return Ok(Said::of(status.code(), &report.recv_timeout(Duration::from_secs(1)).unwrap_or(Value::Null)));
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                return Ok(Said::default());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

const NOT_FOUND: &str = "rocm-cumask-check was not found beside this program, in PATH, or by --mask-check";

fn table(bench: &Bench, rows: &mut Rows) -> Outcome {
    let (masks, shares) = measured::tables().map_err(Trouble)?;
    let Some(program) = &bench.mask_check else {
        rows.skip("the measured masks", NOT_FOUND);
        rows.skip("the measured shares", NOT_FOUND);
        return Ok(());
    };
    agree(&Check { program, patience: bench.patience }, &masks, &shares, rows)
}

/// Each measured result is foreseen by `--card`.
fn agree(check: &Check, masks: &[measured::Mask], shares: &[measured::Share], rows: &mut Rows) -> Outcome {
    for measured in masks {
        let variable = if measured.variable == GLOBAL { GLOBAL } else { HSA };
        let mask = Mask { variable, text: measured.mask.clone(), skip: measured.skip, effective: measured.kept, why: "" };
        let said = check.mask(&["--card", &measured.card], &mask)?;
        let skip = if measured.skip { " HSA_CU_MASK_SKIP_INIT=1" } else { "" };
        let holds = said.is(measured.kept, FORESEEN) && said.ran == measured.ran;
        rows.judge(
            holds,
            format!("{} {}={}{skip}", measured.card, measured.variable, measured.mask),
            format!("{}; measured: {}, {} units ran", said.show(), if measured.kept { "kept" } else { "discarded" }, measured.ran),
        );
    }
    for share in shares {
        let percent = share.percent.to_string();
        let said = check.run(&["--card", &share.card, "--percent", &percent], &[])?;
        let units = share.list.as_deref().and_then(|list| units_of(&share.card, list));
        let holds = match units {
            Some(units) => said.is(true, FORESEEN) && said.ran == units,
            None => said.status == Some(2),
        };
        let wanted = units.map_or_else(|| "refused".to_owned(), |units| format!("{units} units"));
        rows.judge(holds, format!("{} {percent} %", share.card), format!("{}; measured: {wanted}", said.show()));
    }
    Ok(())
}

/// Units of a list `0-n` of a card.
fn units_of(card: &str, list: &str) -> Option<usize> {
    let family = measured::card(card).ok()?.check().ok()?;
    let highest: u32 = list.rsplit('-').next()?.parse().ok()?;
    usize::try_from((highest + 1) / family.bits_per_unit()).ok()
}

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    let Some(program) = &bench.mask_check else {
        for name in CASE.checks {
            rows.skip(*name, NOT_FOUND);
        }
        return Ok(());
    };
    let targets: Vec<&str> = bench.host.cards.iter().map(|card| card.target.as_str()).collect();
    conform(&Check { program, patience: bench.patience }, &targets, rows)
}

/// Every card that the runtime shows. `targets` are the processors that the kernel knows of: where the rules of none are known, nothing can be said.
fn conform(check: &Check, targets: &[&str], rows: &mut Rows) -> Outcome {
    let (mut device, mut gpus) = (0, 1);
    while device < gpus {
        let position = device.to_string();
        let derived = check.run(&["--device", &position], &[])?;
        gpus = gpus.max(derived.gpus.min(64));
        let known = derived.card.as_ref().map(|card| (card, card.check()));
        if let Some((card, Ok(family))) = known {
            rows.judge(derived.is(true, MEASURED), format!("card {device}: a derived mask takes effect"), derived.show());
            of_card(check, card, family, device, rows)?;
        } else if !targets.is_empty() && targets.iter().all(|target| Family::of(target).is_err()) {
            rows.skip(format!("card {device}"), format!("the rules of {} are not known: {}", targets.join(", "), derived.reason));
        } else {
            rows.fail(format!("card {device}: a derived mask takes effect"), derived.show());
        }
        device += 1;
    }
    Ok(())
}

fn of_card(check: &Check, card: &Topology, family: Family, device: u32, rows: &mut Rows) -> Outcome {
    let position = device.to_string();
    let like = format!("{},{},{},{},{}", card.gfx, card.cu, card.se, card.sa_per_se, card.xcc);
    for mask in masks(card, family, device) {
        let foreseen = check.mask(&["--card", &like, "--device", &position], &mask)?;
        let found = check.mask(&["--device", &position], &mask)?;
        let skip = if mask.skip { " with HSA_CU_MASK_SKIP_INIT=1" } else { "" };
        let word = if mask.effective { "takes effect" } else { "is rejected" };
        let name = format!("card {device}: {}={}{skip} {word}", mask.variable, mask.text);
        let holds = found.is(mask.effective, MEASURED) && foreseen.is(mask.effective, FORESEEN) && found.ran == foreseen.ran;
        rows.judge(holds, name, format!("{}: {}; foreseen: {}, {} units", mask.why, found.show(), foreseen.verdict, foreseen.ran));
    }
    // One percent of a small step is refused rather than rounded up: whoever got it would have more than it was given.
    if derive(family, card, 1).is_err() {
        let said = check.run(&["--device", &position, "--percent", "1"], &[])?;
        rows.judge(said.status == Some(2), format!("card {device}: 1 % is less than a share can be, and refused"), said.show());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
