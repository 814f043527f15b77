//! Damaged files: an error or an answer, never a panic.

use proptest::prelude::*;
use vrocm_audit::elf::Elf;
use vrocm_audit::gfx;

use crate::stand_in::{StandIn, TARGETS, array, builder, ids};

fn read(bytes: Vec<u8>) {
    let Ok(image) = Elf::from_bytes("damaged", bytes) else { return };
    let _ = gfx::scan_for(&image, "gfx1250".parse().unwrap());
}

#[test]
fn flipped_and_cut() {
    let array = std::fs::read(StandIn::rocr(&array("table", &ids(&TARGETS))).path).unwrap();
    let built = std::fs::read(StandIn::rocr(&builder("build", &ids(&TARGETS))).path).unwrap();
    let config = ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() };
    let damage = prop::collection::vec((0_usize..4096, any::<u8>()), 1..8);
    proptest!(config, |(edits in damage, which: bool, cut in 0_usize..20_000)| {
        let mut bytes = if which { array.clone() } else { built.clone() };
        for (place, value) in edits {
            bytes[place] = value;
        }
        let end = bytes.len().saturating_sub(if cut > 10_000 { 0 } else { cut });
        bytes.truncate(end);
        read(bytes);
    });
}

#[test]
fn program_headers_that_lie() {
    let good = std::fs::read(StandIn::rocr(&builder("build", &ids(&TARGETS))).path).unwrap();
    let count = usize::from(good[0x38]);
    let config = ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(header in 0..count, field in 0_usize..7, value in prop_oneof![any::<u64>(), 0_u64..0x8000, Just(u64::MAX), Just(u64::MAX - 0xfff)])| {
        let mut bytes = good.clone();
        let place = 64 + header * 56 + field * 8;
        bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
        read(bytes);
    });
}
