//! What the library says it did: the lines that it prints at log level 2 when a process ends by itself.
//!
//! ```text
//! libvrocm[42]: counter hipMalloc calls=2 refused=1 failed=0
//! ```
//!
//! Only lines of the process at hand count, and only whole ones: what a runtime or a program prints beside them is not looked at.

use std::collections::BTreeMap;

/// One entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counter {
    /// Calls.
    pub calls: u64,
    /// Refused by the library, without asking the driver or after it would have been too much.
    pub refused: u64,
    /// The driver's own failures.
    pub failed: u64,
}

/// All entry points that were called, by name. Empty where the library printed no dump.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, Counter>);

impl Counters {
    /// Reads the dump of process `pid`.
    pub fn parse(stderr: &str, pid: u32) -> Self {
        let prefix = format!("libvrocm[{pid}]: counter ");
        Self(stderr.lines().filter_map(|line| line.strip_prefix(&prefix)).filter_map(entry).collect())
    }

    /// Of an entry point; zeros where it was never called.
    pub fn of(&self, name: &str) -> Counter {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Whether there is no dump.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn entry(line: &str) -> Option<(String, Counter)> {
    let mut words = line.split(' ');
    let name = words.next()?.to_owned();
    let mut number = |key: &str| words.next()?.strip_prefix(key)?.parse().ok();
    let counter = Counter { calls: number("calls=")?, refused: number("refused=")?, failed: number("failed=")? };
    words.next().is_none().then_some((name, counter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_of_the_process_count() {
        let text = "libvrocm[7]: counter hipMalloc calls=2 refused=1 failed=0\nlibvrocm[8]: counter hipFree calls=1 refused=0 failed=0\n\
                    x libvrocm[7]: counter hipFree calls=9 refused=9 failed=9\nlibvrocm[7]: counter hipFree calls=1 refused=0\n\
                    libvrocm[7]: counter hipFree calls=1 refused=0 failed=0 more\nlibvrocm[7]: counter card 0000:03:00.0 quota=1 used=0\n";
        let counters = Counters::parse(text, 7);
        assert_eq!(counters.of("hipMalloc"), Counter { calls: 2, refused: 1, failed: 0 });
        assert_eq!(counters.of("hipFree"), Counter::default());
        assert_eq!(counters.of("card"), Counter::default());
        assert!(Counters::parse(text, 9).is_empty());
    }
}
