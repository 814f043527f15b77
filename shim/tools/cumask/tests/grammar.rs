//! The grammar of both variables, with every way to be wrong that ROCr's reader knows.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rocm_cumask::grammar::{Limits, Mask, ranges, read, read_global};

const LIMITS: Limits = Limits { gpus: 8, cus: 304 };

fn shown(mask: &Mask) -> String {
    mask.gpus.iter().map(|(gpu, bits)| format!("{gpu}:{}", ranges(bits))).collect::<Vec<_>>().join(";")
}

#[test]
fn what_is_good() {
    for (text, wanted) in [
        ("0:0-7", "0:0-7"),
        ("0:0", "0:0"),
        ("0,2-4,7:0-15,32-47", "0:0-15,32-47;2:0-15,32-47;3:0-15,32-47;4:0-15,32-47;7:0-15,32-47"),
        ("0,2-4,7:0-15,32-47; 1:0x337F", "0:0-15,32-47;1:0-6,8-9,12-13;2:0-15,32-47;3:0-15,32-47;4:0-15,32-47;7:0-15,32-47"),
        (" 0 : 0 - 3 \t, 8\n", "0:0-3,8"),
        ("0:0X1f", "0:0-4"),
        ("0:0x1", "0:0"),
        ("0:0x100000000", "0:32"),
        ("0:0x00000000000000001", "0:0"),
        ("0:0-3;", "0:0-3"),
        ("007:010", "7:10"),
        ("0:0-3,300-999999", "0:0-3,300-304"),
        ("0,77:0-3", "0:0-3"),
        ("0:5,500", "0:5"),
        ("", ""),
        ("   ", ""),
    ] {
        let mask = read(text, LIMITS);
        assert_eq!((shown(&mask).as_str(), mask.stop), (wanted, None), "{text:?}");
    }
}

#[test]
fn the_first_error_ends_it() {
    for (text, kept, set) in [
        ("GPU-b3a1f0d2c4e5:0-29", "", 1),
        ("0:0-3;1:x;2:0-3", "0:0-3", 2),
        ("0:0-3;;1:0-3", "0:0-3", 2),
        (";0:0-3", "", 1),
        ("0:0-3;0:4-7", "0:0-3", 2),
        ("0:0-3;1,0:4-7;2:0-3", "0:0-3", 2),
        ("0,0:0-3", "", 1),
        ("0-2,1:0-3", "", 1),
        ("0:0-3,2", "", 1),
        ("0:3,3", "", 1),
        ("0:7-0", "", 1),
        ("0:1-2-3", "", 1),
        ("0:0:0", "", 1),
        ("0", "", 1),
        (":0", "", 1),
        ("0:", "", 1),
        ("0:0x0", "", 1),
        ("0:0x", "", 1),
        ("0:0xg", "", 1),
        ("0:1x3", "", 1),
        ("0:0x3,8", "", 1),
        ("0x1:0-3", "", 1),
        ("0:305-400", "", 1),
        ("9:0-3", "", 1),
        // Taken by ROCr's reader by accident, and in no grammar.
        ("0:-3", "", 1),
        ("0:3-", "", 1),
        ("0:+3", "", 1),
        ("0:,3", "", 1),
        ("0:4294967296", "", 1),
        ("0:0-99999999999999999999", "", 1),
        ("0:\u{661}", "", 1),
    ] {
        let mask = read(text, LIMITS);
        assert_eq!((shown(&mask).as_str(), mask.stop.map(|stop| stop.set)), (kept, Some(set)), "{text:?}");
    }
}

#[test]
fn the_global_mask_is_one_hexadecimal_number_of_units() {
    assert_eq!(read_global("0x7fff", 30), Ok((0..15).collect()));
    assert_eq!(read_global("F", 30), Ok((0..4).collect()));
    assert_eq!(read_global("0XC0000001", 30), Ok(BTreeSet::from([0])));
    for wrong in ["0xC0000000", "0x0", "0x", "", "0:0-3", "0x7g"] {
        assert!(read_global(wrong, 30).is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "[0-9xXa-f:;, -]{0,40}|.{0,40}", cus in 1_u32..5000) {
        let mask = read(&text, Limits { gpus: 4, cus });
        for (gpu, bits) in &mask.gpus {
            prop_assert!(*gpu <= 4 && !bits.is_empty());
        }
        let _ = read_global(&text, cus);
    }

    #[test]
    fn a_list_that_is_written_is_read_back(bits in prop::collection::btree_set(0_u32..304, 1..60)) {
        let mask = read(&format!("0:{}", ranges(&bits)), LIMITS);
        prop_assert_eq!(mask.gpus.get(&0), Some(&bits));
        let hex = (0..76).rev().map(|digit| {
            let value = (0..4).filter(|bit| bits.contains(&(digit * 4 + bit))).fold(0, |value, bit| value | 1 << bit);
            char::from_digit(value, 16).expect("a digit")
        }).collect::<String>();
        let mask = read(&format!("0:0x{hex}"), LIMITS);
        prop_assert_eq!(mask.gpus.get(&0), Some(&bits));
    }
}
