//! Any bytes as a runtime: an error or an answer, soon, and no panic.

use std::time::{Duration, Instant};

use crate::{BENEATH, builds, hints, support::Dice};
use vrocm_audit::elf::Elf;
use vrocm_audit::evidence::read;

/// A miniature with some bytes changed, in its code, tables, relocations and frame descriptions.
#[test]
fn a_damaged_runtime_is_an_error_or_an_answer() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(path) = builds::miniature(folder.path(), "g++", &["-O2", "-s"]) else { return };
    let (whole, hints) = (std::fs::read(path).expect("read"), hints());
    let (mut answers, mut errors) = (0, 0);
    let mut dice = Dice::new(6);
    let start = Instant::now();
    while answers + errors < 4_000 && start.elapsed() < Duration::from_secs(10) {
        let mut bytes = whole.clone();
        for _ in 0..=dice.roll(12) {
            let at = dice.roll(bytes.len());
            bytes[at] = if dice.one_in(2) { 0xff } else { dice.roll(256) as u8 };
        }
        let begun = Instant::now();
        match Elf::from_bytes("damaged", bytes).and_then(|image| read::read(&image, Some(&hints), BENEATH)) {
            Ok(_) => answers += 1,
            Err(error) => {
                assert!(error.to_string().contains("damaged"), "{error}");
                errors += 1;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    assert!(answers > 50 && errors > 50, "{answers} answers, {errors} errors");
}
