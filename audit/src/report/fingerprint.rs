//! What makes a finding the same finding tomorrow: viewers follow a result from one run to the next by it.
//!
//! The check, the file's own name and the symbol, and nothing that moves: no folder, no message, no severity. Findings that agree in all three are
//! told apart by their order, which is stable.

use std::collections::BTreeMap;

use crate::finding::Finding;

/// A fingerprint per finding, in the order given: 32 hex digits, no two alike.
pub(super) fn of(findings: &[Finding]) -> Vec<String> {
    let mut seen: BTreeMap<u128, u32> = BTreeMap::new();
    findings
        .iter()
        .map(|finding| {
            let file = finding.file.rsplit('/').next().unwrap_or_default();
            let base = hash(&[finding.check, file, finding.symbol.as_deref().unwrap_or_default()]);
            let times = seen.entry(base).or_default();
            *times += 1;
            let print = if *times == 1 { base } else { hash(&[&format!("{base:032x}"), &times.to_string()]) };
            format!("{print:032x}")
        })
        .collect()
}

/// FNV-1a of 128 bits: short, and the same in every build and release, which the standard library's hasher does not promise.
fn hash(parts: &[&str]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Check, Severity};

    const CHECK: Check = Check { id: "open-door", severity: Severity::Deny, what: "", why: "", fix: "", source: "" };

    #[test]
    fn a_fingerprint_stays_and_no_two_are_alike() {
        assert_eq!(format!("{:032x}", hash(&[])), "6c62272e07bb014262b821756295c58d", "the offset of the published parameters");
        let here = CHECK.finding("/a/libx.so", "m").symbol("f");
        let there = CHECK.finding("/b/c/libx.so", "another text").symbol("f").severity(Severity::Warn);
        assert_eq!(of(std::slice::from_ref(&here)), of(std::slice::from_ref(&there)));
        let prints = of(&[here.clone(), there, CHECK.finding("/a/libx.so", "m"), CHECK.finding("/a/liby.so", "m").symbol("f")]);
        let different: std::collections::BTreeSet<&String> = prints.iter().collect();
        assert_eq!(different.len(), 4);
        assert_eq!(prints[0], of(&[here])[0]);
    }
}
