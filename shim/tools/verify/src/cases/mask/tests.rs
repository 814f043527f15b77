//! The masks that are chosen, and programs that lie in each direction.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::row::{Row, Tally, Verdict};

fn card(text: &str) -> (Topology, Family) {
    let card = measured::card(text).unwrap();
    let family = card.check().unwrap();
    (card, family)
}

#[test]
fn masks_are_chosen_by_the_family() {
    let texts = |text: &str, effective| -> Vec<String> {
        let (card, family) = card(text);
        masks(&card, family, 0).into_iter().filter(|mask| mask.effective == effective && !mask.skip).map(|mask| mask.text).collect()
    };
    assert_eq!(texts("gfx942,304,32,1,8", true), ["0:0-151", "0:0-303", &format!("0x{}", "f".repeat(38)), "0:0-7", "0:8-15", "0:0xff"]);
    assert_eq!(texts("gfx942,304,32,1,8", false)[..2], ["GPU-0123456789abcdef:0-151", "0:304-311"]);
    assert_eq!(texts("gfx942,304,32,1,8", false)[3..], ["0:0", "0:0-3", "0:0,8"]);
    assert_eq!(texts("gfx1101,60,3,2,1", true), ["0:0-29", "0:0-59", "0x7fff", "0:2-5"]);
    assert_eq!(texts("gfx1101,60,3,2,1", false)[2..], ["0x3c0000000", "0:0-4", "0:1-4"]);
    // gfx90a has one XCC and no pairs.
    assert_eq!(texts("gfx90a,104,8,1,1", true)[3..], ["0:0-2"]);
}

/// What each mask is said to do is what the tables' rules make of it, for cards of every kind.
#[test]
fn every_mask_is_what_it_is_said_to_be() {
    for text in
        ["gfx942,304,32,1,8", "gfx942,228,24,1,6", "gfx90a,104,8,1,1", "gfx1101,60,3,2,1", "gfx1201,64,4,2,1", "gfx1030,8,1,2,1", "gfx1103,4,1,1,1"]
    {
        let (card, family) = card(text);
        for mask in masks(&card, family, 0) {
            let value = Some(mask.text.clone());
            let (hsa, global) = if mask.variable == HSA { (value, None) } else { (None, value) };
            let variables = rocm_cumask::verdict::Variables { hsa, global, skip: mask.skip };
            let asked = rocm_cumask::verdict::read(family, &card, &variables, 0, rocm_cumask::grammar::Limits { gpus: 1, cus: card.cu });
            let failed = asked.rows.iter().any(|row| row.status == rocm_cumask::verdict::Status::Fail);
            assert_eq!(!failed, mask.effective, "{text}: {mask:?}: {:?}", asked.rows);
        }
    }
}

fn rows_of(script: &str, run: impl Fn(&Check, &mut Rows)) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("check");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let check = Check { program: &program, patience: Duration::from_secs(2) };
    // A script that was just written may still be open in a child of another test.
    for _ in 0..50 {
        if check.run(&[], &[]).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut rows = Rows::new("cu-mask");
    run(&check, &mut rows);
    rows.finish()
}

/// Answers for a gfx1101 that is cut down to 8 CUs, as the program would; `$1` is `--card` where it foresees.
const HONEST: &str = r#"
card='"gpus":1,"card":{"gfx":"gfx1101","name":"","pci":"","cu":8,"se":1,"sa_per_se":1,"xcc":1}'
say() { # verdict, units, status
    units=''; i=0
    while [ $i -lt $2 ]; do units="$units{\"launches\":6},"; i=$((i+1)); done
    echo "{$card,\"verdict\":\"$1\",\"reason\":null,\"units\":[$units{\"launches\":0}]}"
    exit $3
}
case "$*" in *"--percent 1 "*) exit 2;; esac
case "$1" in --card) good=foreseen-kept; bad=foreseen-discarded;; *) good=effective; bad=not-effective;; esac
case "$HSA_CU_MASK_SKIP_INIT$HSA_CU_MASK$ROC_GLOBAL_CU_MASK" in
    0:0-3|0x3|0:2-5|'') say $good 2 0;;
    0:0-7) say $good 4 0;;
    *) say $bad 4 1;;
esac"#;

fn conformance(script: &str) -> Vec<Row> {
    rows_of(script, |check, rows| conform(check, &[], rows).unwrap())
}

#[test]
fn an_honest_check_passes_and_each_lie_fails() {
    let honest = conformance(HONEST);
    assert_eq!(Tally::of(&honest), Tally { pass: 12, ..Tally::default() }, "{honest:?}");
    let failing = |from: &str, to: &str| {
        let script = HONEST.replace(from, to);
        assert_ne!(script, HONEST);
        let rows = conformance(&script);
        rows.into_iter().filter(|row| row.verdict == Verdict::Fail).map(|row| row.check).collect::<Vec<_>>()
    };
    // Everything effective; nothing effective; one unit more than foreseen; a status that the report contradicts; a verdict that the status contradicts.
    assert_eq!(failing("*) say $bad 4 1", "*) say $good 4 0").len(), 6);
    assert_eq!(failing("0:0-3|0x3|0:2-5|'') say $good 2 0;;\n    0:0-7) say $good 4 0;;", "").len(), 5);
    assert_eq!(failing("0:0-7) say $good 4 0;;", "0:0-7) say $good $((4 - ${#1} / 7)) 0;;"), ["card 0: HSA_CU_MASK=0:0-7 takes effect"]);
    assert_eq!(failing("0:0-7) say $good 4 0;;", "0:0-7) say $good 4 1;;"), ["card 0: HSA_CU_MASK=0:0-7 takes effect"]);
    assert_eq!(failing("0:0-7) say $good 4 0;;", "0:0-7) say $bad 4 0;;"), ["card 0: HSA_CU_MASK=0:0-7 takes effect"]);
}

#[test]
fn a_check_that_says_nothing_is_no_pass() {
    for script in
        ["exit 0", "exit 1", "exit 2", "kill -9 $$", "echo PASS FAILS=0; exit 7", "echo '{\"verdict\":\"effective\"}'; exit 0", "exec sleep 60"]
    {
        let rows = conformance(script);
        assert_eq!(rows.iter().map(|row| row.verdict).collect::<Vec<_>>(), [Verdict::Fail], "{script}: {rows:?}");
    }
}

#[test]
fn a_card_without_rules_is_skipped() {
    let skipped =
        rows_of("echo '{\"verdict\":\"could-not-run\",\"reason\":\"why\"}'; exit 2", |check, rows| conform(check, &["gfx1250"], rows).unwrap());
    assert!(skipped.len() == 1 && skipped[0].verdict == Verdict::Skip && skipped[0].detail.contains("gfx1250"), "{skipped:?}");
}

/// Each card is tried: the second one does not keep masks.
#[test]
fn every_card_is_tried() {
    let two = HONEST.replace("\"gpus\":1", "\"gpus\":2").replace("case \"$1\"", "[ \"$1 $2\" = '--device 1' ] && say not-effective 4 1\ncase \"$1\"");
    let rows = conformance(&two);
    assert!(rows.iter().all(|row| row.verdict == Verdict::Pass || row.check.starts_with("card 1")), "{rows:?}");
    assert!(rows.iter().any(|row| row.verdict == Verdict::Fail), "{rows:?}");
}

#[test]
fn a_measured_mask_that_is_foreseen_otherwise_fails() {
    let (masks, shares) = measured::tables().unwrap();
    let rows = rows_of("echo '{\"verdict\":\"foreseen-kept\",\"units\":[]}'; exit 0", |check, rows| agree(check, &masks, &shares, rows).unwrap());
    assert!(rows.len() == masks.len() + shares.len() && rows.iter().all(|row| row.verdict == Verdict::Fail), "{rows:?}");
}
