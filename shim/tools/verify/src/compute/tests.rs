//! Figures that were recorded on cards, and each way to be wrong.

use super::*;
use crate::row::{Row, Verdict};

const SECOND: u64 = 1_000_000_000;

/// Makes figures wrong.
type Spoil = fn(&mut Figures);
/// Makes them wrong by a run that is none.
type SpoilBy = fn(&mut Figures, Run);

/// A run of eight seconds at this rate.
fn run(rate: f64) -> Run {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "figures of a test")]
    let blocks = (rate * 8.0) as u64;
    Run { begin: SECOND, end: 9 * SECOND, blocks }
}

fn runs(card: f64, percent: &[f64]) -> Vec<Run> {
    percent.iter().map(|percent| run(card * percent / 100.0)).collect()
}

fn share(mask: &str, units: u32, alone: Vec<Run>) -> Share {
    Share { mask: mask.into(), units, alone }
}

/// gfx1101, ROCm 7.2, full card 20149 GFLOP/s. Published: 50.5 % alone, three tenants of one half 17.5, 17.1, 17.1 %, the same in three runs, disjoint halves 50.4
/// and 50.4 %. A quarter and three quarters were not published; the figures here are their units' parts.
fn rdna() -> Figures {
    let card = 20149.0;
    Figures {
        units: 30,
        xcc: 1,
        whole: runs(card, &[100.0, 99.6, 100.2]),
        half: share("0:0-29", 15, runs(card, &[50.5, 50.4])),
        tenants: runs(card, &[17.5, 17.1, 17.1]),
        neighbours: Some([run(card * 0.504), run(card * 0.504)]),
        others: vec![share("0:0-11", 6, runs(card, &[21.0])), share("0:0-41", 21, runs(card, &[70.0]))],
    }
}

/// gfx942, ROCm 7.2.4. Published: half of the CUs 64469 GFLOP/s alone, which is 56.9 % of the card by another run; both halves at once 55273 each, 101.4 % of
/// the card together; two tenants of one mask 2138 and 2140 where one alone has 4208.
fn cdna() -> Figures {
    let card = 2.0 * 55273.0 / 1.014;
    let shared = [2138.0, 2140.0].map(|got| run(64469.0 * got / 4208.0));
    Figures {
        units: 304,
        xcc: 8,
        whole: runs(card, &[100.0; 3]),
        half: share("0:0-151", 152, vec![run(64469.0); 2]),
        tenants: shared.to_vec(),
        neighbours: Some([run(55273.0); 2]),
        others: vec![share("0:0-31", 32, runs(card, &[13.9])), share("0:0-303", 304, runs(card, &[98.9]))],
    }
}

fn verdicts(figures: &Figures) -> Vec<Row> {
    let mut rows = Rows::new("compute");
    judge(figures, &mut rows);
    rows.finish()
}

/// The names before the colon of the rows with a verdict.
fn with(figures: &Figures, verdict: Verdict) -> Vec<String> {
    let rows = verdicts(figures);
    assert_eq!(rows.len(), CHECKS.len(), "{rows:?}");
    rows.iter().filter(|row| row.verdict == verdict).map(|row| row.check.split(':').next().unwrap_or_default().to_owned()).collect()
}

const ALL: [&str; 7] = ["yardstick", "alone", "repeat", "fair share", "sum", "ordering", "ceiling"];

#[test]
fn what_was_recorded_on_cards_holds() {
    assert_eq!(with(&rdna(), Verdict::Pass), ALL, "{:?}", verdicts(&rdna()));
    assert_eq!(with(&cdna(), Verdict::Pass), ALL, "{:?}", verdicts(&cdna()));
}

#[test]
fn a_mask_that_was_discarded_fails() {
    let mut figures = rdna();
    let whole = figures.whole[0];
    figures.half.alone = vec![whole; 2];
    figures.others.iter_mut().for_each(|share| share.alone = vec![whole]);
    figures.tenants = runs(20149.0, &[33.3, 33.3, 33.3]);
    figures.neighbours = Some([run(20149.0 * 0.5); 2]);
    assert_eq!(with(&figures, Verdict::Fail), ["alone", "ordering"]);
}

#[test]
fn each_row_can_fail_alone() {
    let cases: [(&str, Spoil); 9] = [
        ("alone", |figures| figures.half.units = 9),
        ("repeat", |figures| figures.half.alone = runs(20149.0, &[48.0, 54.0])),
        ("fair share", |figures| figures.tenants = runs(20149.0, &[19.5, 16.1, 16.1])),
        ("sum", |figures| figures.tenants = runs(20149.0, &[10.0, 10.1, 10.2])),
        ("sum", |figures| figures.tenants = runs(20149.0, &[21.0, 21.0, 21.0])),
        ("ordering", |figures| figures.others[1].alone = runs(20149.0, &[53.0])),
        ("ordering", |figures| figures.others[0].alone = runs(20149.0, &[70.0])),
        ("ceiling", |figures| figures.neighbours = Some([run(20149.0 * 0.6), run(20149.0 * 0.4)])),
        ("ceiling", |figures| figures.neighbours = Some([run(20149.0 * 0.58); 2])),
    ];
    for (name, spoil) in cases {
        let mut figures = rdna();
        spoil(&mut figures);
        assert_eq!(with(&figures, Verdict::Fail), [name], "{:?}", verdicts(&figures));
    }
}

/// Tenants one after another each get all of the mask: without a common time that looks like three times the card.
#[test]
fn runs_that_were_not_at_one_time_are_no_share() {
    let mut figures = rdna();
    figures.tenants[1].begin += 8 * SECOND;
    figures.tenants[1].end += 8 * SECOND;
    assert_eq!(with(&figures, Verdict::Fail), ["fair share", "sum"]);
    let mut figures = rdna();
    figures.neighbours = figures.neighbours.map(|[one, two]| [one, Run { begin: two.begin + 9 * SECOND, end: two.end + 9 * SECOND, ..two }]);
    assert_eq!(with(&figures, Verdict::Fail), ["ceiling"]);
    figures.tenants.truncate(1);
    assert_eq!(with(&figures, Verdict::Fail), ["fair share", "sum", "ceiling"]);
}

#[test]
fn without_a_yardstick_nothing_is_measured() {
    for whole in [runs(20149.0, &[100.0, 90.0, 100.0]), runs(20149.0, &[100.0]), Vec::new()] {
        let figures = Figures { whole, ..rdna() };
        assert_eq!(with(&figures, Verdict::Fail), ["yardstick"]);
        assert_eq!(with(&figures, Verdict::Skip), ALL[1..]);
    }
}

/// A kernel that did not run, and a clock that stood still or went back.
#[test]
fn what_is_no_figure_holds_nothing() {
    let good = run(1000.0);
    for poison in [Run { blocks: 0, ..good }, Run { end: good.begin, ..good }, Run { end: 0, ..good }] {
        assert!(poison.rate().is_nan(), "{poison:?}");
        let spoiled: [(&str, SpoilBy); 6] = [
            ("yardstick", |figures, run| figures.whole[1] = run),
            ("alone", |figures, run| figures.half.alone[0] = run),
            ("repeat", |figures, run| figures.half.alone[1] = run),
            ("fair share", |figures, run| figures.tenants[2] = run),
            ("ordering", |figures, run| figures.others[0].alone[0] = run),
            ("ceiling", |figures, run| figures.neighbours = figures.neighbours.map(|[one, _]| [one, run])),
        ];
        for (name, spoil) in spoiled {
            let mut figures = rdna();
            spoil(&mut figures, poison);
            assert!(with(&figures, Verdict::Fail).iter().any(|failed| failed == name), "{name} {poison:?}: {:?}", verdicts(&figures));
        }
    }
    let empty = Figures { half: share("", 15, Vec::new()), tenants: Vec::new(), ..rdna() };
    assert_eq!(with(&empty, Verdict::Pass), ["yardstick"], "{:?}", verdicts(&empty));
}

#[test]
fn what_a_card_cannot_show_is_skipped() {
    let figures = Figures { neighbours: None, others: Vec::new(), ..rdna() };
    assert_eq!(with(&figures, Verdict::Skip), ["ordering", "ceiling"]);
}

#[test]
fn tenants_that_do_not_go_into_the_xccs_may_differ() {
    for (tenants, xcc, wanted) in [(3, 1, 1.0), (3, 2, 1.0), (2, 8, 1.0), (3, 8, 1.5), (4, 8, 1.0)] {
        assert!((quantum(tenants, xcc) - wanted).abs() < 0.01, "{tenants} tenants, {xcc} XCCs");
    }
    // Three on eight XCCs: two have three, one has two.
    let figures = Figures { xcc: 8, tenants: runs(20149.0, &[20.0, 20.0, 13.0]), ..rdna() };
    assert_eq!(with(&figures, Verdict::Fail), [""; 0]);
}
