//! The tables that were measured on cards: what is derived, what is kept, and how many units run when a mask is not kept. The numbers are the hardware's; nothing
//! in the program is made from them.

use std::collections::BTreeSet;

use rocm_cumask::family::Family;
use rocm_cumask::grammar::Limits;
use rocm_cumask::hwid::{Unit, decode, encode};
use rocm_cumask::measured::{Mask, tables};
use rocm_cumask::topology::Topology;
use rocm_cumask::verdict::{Measured, Status, judge, read, status};
use rocm_cumask::{derive, place};

fn card(text: &str) -> Topology {
    let fields: Vec<&str> = text.split(',').collect();
    let count = |index: usize| fields[index].parse().expect("a count");
    Topology { gfx: fields[0].to_owned(), name: String::new(), pci: String::new(), cu: count(1), se: count(2), sa_per_se: count(3), xcc: count(4) }
}

#[test]
fn every_figure_has_a_source_and_stands_once() {
    let (masks, shares) = tables().expect("the tables");
    assert_eq!((masks.len(), shares.len()), (32, 13));
    assert!(masks.iter().map(|mask| &mask.source).chain(shares.iter().map(|share| &share.source)).all(|source| source.len() > 20));
    for mask in &masks {
        let same = |other: &&Mask| (&other.card, &other.mask, other.skip) == (&mask.card, &mask.mask, mask.skip);
        assert!(masks.iter().filter(same).count() == 1 && !mask.why.is_empty(), "{mask:?}");
        // Kept is what has fewer units than the card, or is the whole card on purpose.
        let units = card(&mask.card).units(card(&mask.card).check().expect("a card"));
        assert!(mask.ran <= units as usize && (mask.kept || mask.ran > units as usize / 2), "{mask:?}");
    }
}

#[test]
fn shares_become_the_measured_masks() {
    for share in tables().expect("the tables").1 {
        let card = card(&share.card);
        let derived = derive::derive(card.check().expect("a card"), &card, share.percent);
        assert_eq!(derived.as_ref().ok(), share.list.as_ref(), "{share:?}: {derived:?}");
    }
}

#[test]
fn masks_are_kept_or_fail_open_as_measured() {
    for mask in tables().expect("the tables").0 {
        let card = card(&mask.card);
        let family = card.check().expect("a card");
        let whole = place::regular(family, &card);
        let asked = read(family, &card, &mask.variables(), 0, Limits { gpus: 1, cus: card.cu });
        let ran = if mask.skip { whole.clone() } else { place::outcome(family, &card, &whole, asked.bits.as_ref()) };
        assert_eq!(ran.len(), mask.ran, "{mask:?}");
        let failed = asked.rows.iter().any(|row| row.status == Status::Fail);
        assert_eq!(!failed, mask.kept, "{mask:?}: {:?}", asked.rows);
        // And when such a run is what the hardware answers, the verdict is the same without the rows about the text.
        let measured = Measured { whole, launches: vec![ran; 3] };
        let rows = judge(family, &card, asked.bits.as_ref(), &measured).expect("a verdict");
        assert_eq!(status(&rows), Some(u8::from(!mask.kept)), "{mask:?}: {rows:?}");
    }
}

#[test]
fn two_masks_with_no_bit_in_common_share_units_when_they_fail_open() {
    let card = card("gfx942,304,32,1,8");
    let whole = place::regular(Family::Cdna, &card);
    let run = |bits: std::ops::RangeInclusive<u32>| place::outcome(Family::Cdna, &card, &whole, Some(&bits.collect()));
    // Measured: 152 CUs in common. Each of the two runs open on the other's XCCs.
    assert_eq!((run(0..=3).len(), run(4..=7).len()), (156, 156));
    assert_eq!(run(0..=7).intersection(&run(8..=15)).count(), 0);
}

#[test]
fn the_family_decides_and_not_the_count_of_xccs() {
    // gfx90a has one XCC and no pairs; gfx1101 has one XCC and pairs.
    for (text, kept) in [
        ("gfx90a,104,8,1,1", true),
        ("gfx1101,60,3,2,1", false),
        ("gfx1201,64,4,2,1", false),
        ("gfx1030,80,4,2,1", false),
        ("gfx908,120,8,1,1", true),
    ] {
        let card = card(text);
        let family = card.check().expect("a card");
        assert_eq!(place::fault(family, &card, &(0..15).collect()).is_none(), kept, "{text}");
    }
    assert_eq!(derive::derive(Family::Cdna, &card("gfx90a,104,8,1,1"), 1), Ok("0-0".to_owned()));
    for unknown in ["gfx1250", "gfx1300", "gfx8", "gfx803", "sm_90", "", "gfx9", "gfx"] {
        assert!(Family::of(unknown).is_err(), "{unknown}");
    }
    for nonsense in ["gfx942,0,32,1,8", "gfx942,304,31,1,8", "gfx1101,61,3,2,1", "gfx1101,60,3,2,2", "gfx942,304,32,1,0", "gfx942,304,400,1,8"] {
        assert!(card(nonsense).check().is_err(), "{nonsense}");
    }
}

#[test]
fn the_bit_order_is_the_drivers() {
    let card = card("gfx942,304,32,1,8");
    let bits = place::bits_of(Family::Cdna, &card, &place::regular(Family::Cdna, &card));
    assert_eq!(bits.len(), 304);
    for (unit, bit) in bits {
        // As measured: XCC i mod X, engine (i div X) mod (SE / X), CU i div all engines.
        assert_eq!((unit.xcc, unit.se, unit.unit), (bit % 8, bit / 8 % 4, bit / 32), "bit {bit}");
    }
    // A fused-off unit: the others move up, and its engine is left out when it has no more.
    let small = Topology { cu: 6, se: 2, sa_per_se: 1, xcc: 1, ..card };
    let unit = |se, unit| Unit { xcc: 0, se, sa: 0, unit };
    let whole = BTreeSet::from([unit(0, 0), unit(0, 2), unit(0, 3), unit(0, 5), unit(1, 1), unit(1, 2)]);
    let order = place::bits_of(Family::Cdna, &small, &whole);
    let mut order: Vec<(u32, Unit)> = order.into_iter().map(|(unit, bit)| (bit, unit)).collect();
    order.sort_unstable();
    let order: Vec<Unit> = order.into_iter().map(|(_, unit)| unit).collect();
    assert_eq!(order, [unit(0, 0), unit(1, 1), unit(0, 2), unit(1, 2), unit(0, 3), unit(0, 5)]);
}

#[test]
fn registers_are_read_as_documented() {
    // HW_ID: SE 15:13, SH 12, CU 11:8; other fields do not matter.
    assert_eq!(decode(Family::Cdna, 5 << 13 | 1 << 12 | 9 << 8 | 0xffff_00ff, 0x8000_0003), Unit { xcc: 3, se: 5, sa: 1, unit: 9 });
    // HW_ID1: SE 20:18, SA 16, WGP 13:10, SIMD 9:8.
    assert_eq!(decode(Family::Rdna, 2 << 18 | 1 << 16 | 7 << 10 | 3 << 8, 5), Unit { xcc: 0, se: 2, sa: 1, unit: 7 });
    for family in [Family::Cdna, Family::Rdna] {
        for unit in [Unit { xcc: 0, se: 0, sa: 0, unit: 0 }, Unit { xcc: 0, se: 7, sa: 1, unit: 15 }] {
            let (place, xcc) = encode(family, unit);
            assert_eq!(decode(family, place, xcc), unit);
        }
    }
    assert_eq!(Family::Cdna.registers("gfx942").xcc, Some(20));
    assert_eq!(Family::Cdna.registers("gfx90a").xcc, None);
}

/// As many units as asked, but not the ones asked for: counting alone would pass.
#[test]
fn other_units_of_the_same_number_fail() {
    let card = card("gfx1101,60,3,2,1");
    let family = Family::Rdna;
    let whole = place::regular(family, &card);
    let bits: BTreeSet<u32> = (0..12).collect();
    let good = place::outcome(family, &card, &whole, Some(&bits));
    let other: BTreeSet<Unit> = whole.iter().rev().take(good.len()).copied().collect();
    let verdict = |launches: Vec<BTreeSet<Unit>>| {
        let rows = judge(family, &card, Some(&bits), &Measured { whole: whole.clone(), launches }).expect("a verdict");
        (status(&rows), rows)
    };
    assert_eq!(verdict(vec![good.clone(); 4]).0, Some(0));
    let (failed, rows) = verdict(vec![other.clone(); 4]);
    assert_eq!(failed, Some(1));
    assert_eq!(rows.iter().filter(|row| row.status == Status::Fail).map(|row| row.check).collect::<Vec<_>>(), ["identity"]);
    // The second queue escapes: the union has more.
    assert_eq!(verdict(vec![good.clone(), whole.clone()]).0, Some(1));
    // A mask that grows too small is not effective either.
    assert_eq!(verdict(vec![other.iter().take(2).copied().collect(); 2]).0, Some(1));
    // Launches that do not fill the same units each time, together the right ones: effective, with a remark.
    let mut less = good.clone();
    less.pop_first();
    let (passed, rows) = verdict(vec![good.clone(), less]);
    assert!(passed == Some(0) && rows.iter().any(|row| row.status == Status::Warn && row.check == "same-each-time"));
}

#[test]
fn where_nothing_can_be_concluded_nothing_is() {
    let card = card("gfx1101,60,3,2,1");
    let whole = place::regular(Family::Rdna, &card);
    let bits: BTreeSet<u32> = (0..12).collect();
    let ran = place::outcome(Family::Rdna, &card, &whole, Some(&bits));
    let judge =
        |whole: &BTreeSet<Unit>, launches: Vec<BTreeSet<Unit>>| judge(Family::Rdna, &card, Some(&bits), &Measured { whole: whole.clone(), launches });
    assert!(judge(&whole, vec![ran.clone()]).is_err(), "one launch");
    assert!(judge(&whole, vec![ran.clone(), BTreeSet::new()]).is_err(), "a launch without a unit");
    assert!(judge(&ran, vec![ran.clone(); 2]).is_err(), "the control is masked too: a discarded mask could not be seen");
    assert!(judge(&whole, vec![ran; 2]).is_ok());
    assert_eq!(status(&[]), None, "no row, no verdict");
}
