//! Any bytes at all: an audit answers or gives an error, and does not panic or hang.

use super::fixture::{Fixture, policy, root};
use vrocm_audit::elf::Elf;
use vrocm_audit::linkage;

/// A repeatable row of numbers (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn changed_and_cut_files_are_answered_or_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let policy = policy("{}");
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut answered, mut refused) = (0, 0);
    for source in
        ["clean/shim.c", "packed-relocations/unmarked.made", "word-size/i386.made", "byte-order/sparc64.made", "version-weak/bound-at-call.c"]
    {
        let fixture = Fixture::read(&root().join("fixtures/linkage").join(source));
        let good = std::fs::read(fixture.build(folder.path())).expect("just built");
        for round in 0..4000 {
            let mut bytes = good.clone();
            // What the tables say stands in the first pages; the rest is code and padding.
            let front = bytes.len().min(0x1000);
            for _ in 0..=round % 4 {
                let at = numbers.below(front);
                bytes[at] = if round % 2 == 0 { bytes[at] ^ 1 << numbers.below(8) } else { [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)] };
            }
            if round % 5 == 0 {
                bytes.truncate(numbers.below(good.len()));
            }
            match Elf::from_bytes("changed", bytes).and_then(|image| linkage::audit(&image, &policy, None)) {
                Ok(_) => answered += 1,
                Err(error) => {
                    assert!(!error.field.is_empty() && !error.problem.is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(answered > 1000 && refused > 1000, "{answered} answered, {refused} refused: the changes test nothing");
}
