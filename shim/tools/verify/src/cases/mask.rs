//! A mask of compute units: one that takes effect, and ones that the platform discards silently. `rocm-cumask-check` tells them apart; this case holds it to
//! both. Its exit status is 0 for a mask that is effective, 1 for one that is not, 2 where it could not run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bench, Case, Needs, Outcome, Rows, Trouble};
use crate::host::Card;

pub(super) const CASE: Case = Case {
    name: "cu-mask",
    what: "a good mask takes effect, and masks that the platform discards are told apart from it",
    needs: Needs::Silicon,
    checks: &["a derived mask takes effect", "a whole mask takes effect", "a mask that fails open is rejected"],
    run,
};

/// A mask of the first card, and whether it takes effect.
#[derive(Debug, PartialEq, Eq)]
struct Mask {
    text: String,
    effective: bool,
    why: &'static str,
}

/// Of CDNA: bit i is unit i div XCCs of die i mod XCCs, so every die needs one. Of RDNA: units come in pairs.
fn masks(card: &Card) -> Vec<Mask> {
    let mask = |text: String, effective, why| Mask { text, effective, why };
    let last = card.units - 1;
    if card.is_cdna() && card.dies == 1 {
        return vec![mask(format!("0:0-{last}"), true, "all units")];
    }
    if card.is_cdna() {
        let atom = card.dies;
        return vec![
            mask(format!("0:0-{}", atom - 1), true, "one unit of each XCC"),
            mask(format!("0:0-{last}"), true, "all units"),
            mask("0:0".into(), false, "XCCs without a unit"),
            mask(format!("0:0-{}", atom / 2 - 1), false, "half of the XCCs without a unit"),
            mask(format!("0:{}-{}", card.units, card.units + 7), false, "units that the card does not have"),
        ];
    }
    let half = card.units / 2 / 2 * 2;
    vec![
        mask(format!("0:0-{}", half - 1), true, "half of the units, whole pairs"),
        mask(format!("0:0-{last}"), true, "all units"),
        mask(format!("0:0-{half}"), false, "a split pair"),
        mask(format!("0:1-{}", half - 1), false, "a split pair"),
    ]
}

fn run(bench: &Bench, rows: &mut Rows) -> Outcome {
    let Some(check) = &bench.mask_check else {
        CASE.checks.iter().for_each(|name| rows.skip(*name, "rocm-cumask-check was not found beside this program, in PATH, or by --mask-check"));
        return Ok(());
    };
    let Some(card) = bench.host.cards.first().filter(|card| card.units >= 4) else {
        return Err(Trouble("KFD's topology shows no card with its units".into()));
    };
    conform(check, card, bench.patience, rows)
}

fn conform(check: &Path, card: &Card, patience: Duration, rows: &mut Rows) -> Outcome {
    let derived = status(check, None, patience)?;
    rows.judge(derived == Some(0), "a derived mask takes effect", shown(derived));
    for Mask { text, effective, why } in masks(card) {
        let found = status(check, Some(&text), patience)?;
        let name = if effective { format!("HSA_CU_MASK={text} takes effect") } else { format!("HSA_CU_MASK={text} is rejected") };
        rows.judge(found == Some(i32::from(!effective)), name, format!("{why}: {}", shown(found)));
    }
    Ok(())
}

fn shown(status: Option<i32>) -> String {
    match status {
        Some(0) => "effective".into(),
        Some(1) => "not effective".into(),
        Some(2) => "could not run".into(),
        Some(other) => format!("ended with status {other}"),
        None => "ended by a signal, or took too long".into(),
    }
}

fn status(check: &Path, mask: Option<&str>, patience: Duration) -> Result<Option<i32>, Trouble> {
    let mut command = Command::new(check);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for name in ["HSA_CU_MASK", "ROC_GLOBAL_CU_MASK", "HSA_CU_MASK_SKIP_INIT", "LD_PRELOAD"] {
        command.env_remove(name);
    }
    if let Some(mask) = mask {
        command.env("HSA_CU_MASK", mask);
    }
    let mut child = command.spawn().map_err(|error| Trouble(format!("{}: {error}", check.display())))?;
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::row::{Row, Tally, Verdict};

    fn card(target: &str, units: u64, dies: u64) -> Card {
        Card { node: 1, target: target.into(), units, dies }
    }

    /// The measured tables: what is honoured and what fails open.
    #[test]
    fn masks_are_those_that_were_measured() {
        let texts = |card: &Card, effective| -> Vec<String> {
            masks(card).into_iter().filter(|mask| mask.effective == effective).map(|mask| mask.text).collect()
        };
        let (cdna, rdna) = (card("gfx942", 304, 8), card("gfx1101", 60, 1));
        assert_eq!(texts(&cdna, true), ["0:0-7", "0:0-303"]);
        assert_eq!(texts(&cdna, false), ["0:0", "0:0-3", "0:304-311"]);
        assert_eq!(texts(&rdna, true), ["0:0-29", "0:0-59"]);
        assert_eq!(texts(&rdna, false), ["0:0-30", "0:1-29"]);
    }

    fn rows_of(script: &str) -> Vec<Row> {
        let folder = tempfile::tempdir().unwrap();
        let check = folder.path().join("check");
        std::fs::write(&check, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&check, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut rows = Rows::new("cu-mask");
        // A script that was just written may still be open in a child of another test.
        for _ in 0..50 {
            if status(&check, Some("x"), Duration::from_secs(5)).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        conform(&check, &card("gfx1101", 60, 1), Duration::from_millis(500), &mut rows).unwrap();
        rows.finish()
    }

    const HONEST: &str = "case \"$HSA_CU_MASK\" in 0:0-30|0:1-29) exit 1;; *) exit 0;; esac";

    #[test]
    fn an_honest_check_passes_and_each_lie_fails() {
        assert_eq!(Tally::of(&rows_of(HONEST)), Tally { pass: 5, ..Tally::default() });
        for (script, failing) in [("exit 0", 2), ("exit 1", 3), ("exit 2", 5), ("kill -9 $$", 5), ("echo PASS FAILS=0; exit 7", 5)] {
            let rows = rows_of(script);
            assert_eq!(rows.iter().filter(|row| row.verdict == Verdict::Fail).count(), failing, "{script}: {rows:?}");
        }
    }
}
