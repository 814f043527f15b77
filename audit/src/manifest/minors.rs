//! `manifests/hsa/releases.json`: libhsa-runtime64 carries a minor number that several ROCm releases share.

use serde::Deserialize;

use super::schema::{BadManifest, Release, Rules};

/// The table's name in messages.
pub const FILE: &str = "manifests/hsa/releases.json";

/// A line of the table: a minor of the file's name and the releases that carry it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Minor {
    /// The library.
    pub library: String,
    /// First two numbers after `.so.`.
    pub minor: String,
    /// One release line, or the first and last.
    pub release: String,
    /// Where that is known from.
    pub source: String,
}

impl Minor {
    /// The newest release line that carries it.
    pub fn newest(&self) -> Option<Release> {
        self.release.rsplit('-').next()?.parse().ok()
    }
}

/// Reads and checks a table.
pub fn read(file: &str, text: &str) -> Result<Vec<Minor>, BadManifest> {
    let rules = Rules { file };
    let table: Vec<Minor> = rules.parse(text)?;
    let mut previous = None;
    for (index, row) in table.iter().enumerate() {
        let broken = |rule: &str| rules.broken(format!("entry {} ({})", index + 1, row.minor), rule);
        if row.library != "libhsa-runtime64" {
            return Err(broken("library is libhsa-runtime64: the others carry the release in their names"));
        }
        let Some(minor) = numbers(&row.minor).filter(|numbers| numbers.len() == 2) else {
            return Err(broken("minor is two numbers, as in 1.18"));
        };
        let ends: Option<Vec<_>> = row.release.split('-').map(|end| numbers(end).filter(|numbers| numbers.len() == 2)).collect();
        if !ends.is_some_and(|ends| ends.len() <= 2 && ends.is_sorted_by(|first, last| first < last)) {
            return Err(broken("release is a line (6.4) or a first and a last one (6.2-6.3)"));
        }
        if row.source.trim().is_empty() {
            return Err(broken("source says where the line is known from"));
        }
        if previous.is_some_and(|previous| previous >= minor) {
            return Err(broken("entries stand in ascending order, each minor once"));
        }
        previous = Some(minor);
    }
    Ok(table)
}

/// The table inside the program.
pub fn embedded() -> Result<Vec<Minor>, BadManifest> {
    read(FILE, include_str!("../../../manifests/hsa/releases.json"))
}

/// `1.18` as [1, 18]; digits and dots only, no number longer than a `u32`.
pub fn numbers(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?).collect()
}
