//! Files of any bytes: an answer or an error, never a panic, and never a report that cannot be printed.

use std::ffi::CString;
use std::io::Write;

use proptest::prelude::*;
use rocm_monitor::raw::Failure;
use rocm_monitor::snapshot::take;
use rocm_monitor::text::{Style, report};
use rocm_monitor::{prometheus, watch};
use vrocm_core::ledger::layout::{BASE, Constants, size};

/// A ledger of one block: a first line that is right, counts, and then whatever `damage` stores.
fn ledger(high: u32, blocks: u32, damage: &[(usize, u64)]) -> Vec<u8> {
    let mut bytes = vec![0_u8; size(1)];
    bytes[..64].copy_from_slice(&Constants::of_this_version().to_bytes());
    bytes[64..68].copy_from_slice(&high.to_ne_bytes());
    bytes[68..72].copy_from_slice(&blocks.to_ne_bytes());
    for &(at, word) in damage {
        let at = 72 + at % (bytes.len() - 80);
        bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// Reads it and prints it in every way.
fn look(bytes: &[u8]) -> Result<String, Failure> {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    file.write_all(bytes).expect("written");
    let path = CString::new(file.path().to_str().expect("UTF-8")).expect("no NUL");
    let snapshot = take(&path)?;
    assert!(snapshot.consistent, "nobody writes");
    let text = report(&snapshot, Style::default());
    let metrics = prometheus::report(&snapshot);
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<u64>().is_ok()), "{line:?}");
    }
    assert!(!text.chars().any(|character| character.is_control() && character != '\n'), "a name reached the terminal as it is");
    serde_json::to_string(&snapshot).expect("JSON");
    watch::changes(None, &snapshot);
    Ok(text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_short_file(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(matches!(look(&bytes), Err(Failure::Unreadable(_))));
    }

    #[test]
    fn any_counts(high: u32, blocks: u32) {
        let answer = look(&ledger(high, blocks, &[]));
        prop_assert_eq!(answer.is_ok(), blocks == 1 && high <= 64);
    }

    #[test]
    fn any_words(high in 0_u32..=64, near in prop::collection::vec((0_usize..BASE + 8192, any::<u64>()), 0..400), far in prop::collection::vec((any::<usize>(), any::<u64>()), 0..50)) {
        let damage: Vec<_> = near.into_iter().chain(far).collect();
        prop_assert!(look(&ledger(high, 1, &damage)).is_ok());
    }

    #[test]
    fn any_cut(keep in 0..size(1)) {
        prop_assert!(look(&ledger(3, 1, &[])[..keep]).is_err());
    }
}

#[test]
fn figures_that_cannot_be_true_are_shown_and_not_wrapped() {
    // A card, and two slots in use that hold 2^64 - 1 bytes each.
    let (card, slot, cells) = (4096 - 72, BASE - 72, BASE + 64 * 128 - 72);
    let mut damage = vec![(card, 1 << 60 | 0xc300), (card + 16, 1), (card + 64, 1 << 20)];
    for index in 0..2 {
        damage.push((slot + index * 128, 1));
        damage.push((slot + index * 128 + 64, u64::from_ne_bytes(*b"ev\x1b[2J\n\"")));
        damage.push((cells + index * 64 + 8, u64::MAX));
    }
    let text = look(&ledger(2, 1, &damage)).expect("readable");
    assert!(text.contains("0000:c3:00.0") && text.contains("OVER THE QUOTA") && text.contains("ev\\u{1b}[2J"), "{text}");
}
