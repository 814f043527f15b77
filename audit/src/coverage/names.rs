//! Names that the shim has and the runtime does not: another release's, another family's, a typing error, or something that a preload
//! imposes on every process for nothing.

use super::{Context, Runtime, Shim, checks};
use crate::finding::Finding;

/// Edits that make a name a near miss of another: one wrong, missing, doubled or swapped character, or two.
const NEAR: usize = 2;

/// The names of the shim that this runtime does not export, and what each probably is.
pub(super) fn absent(runtime: &Runtime<'_>, shim: &Shim<'_>, context: &Context<'_>, findings: &mut Vec<Finding>) -> Vec<String> {
    let mut absent = Vec::new();
    let exported: Vec<&str> = runtime.exports.iter().map(|export| &*export.name).collect();
    for name in shim.names() {
        if exported.binary_search(&name).is_ok() {
            continue;
        }
        if runtime.family.row(name).is_some() {
            let message = format!("{name} is interposed, but this runtime does not export it; another release does");
            findings.push(checks::ABSENT_NAME.finding(&runtime.file, message).symbol(name));
        } else if context.families.iter().any(|family| family.row(name).is_some()) {
            // The other layer's door is no business of this runtime.
            continue;
        } else if let Some(near) = nearest(name, &exported) {
            let message = format!(
                "{name} is no export of this runtime, but {near} is, and the two differ by a character or two: the door {near} may stand open behind a typing error"
            );
            findings.push(checks::NEAR_MISS.finding(&runtime.file, message).symbol(name).evidence("near", near));
        } else {
            let message = format!("{name} is no export of any known runtime; as a preload the shim puts it before every process's own");
            findings.push(checks::STRAY_NAME.finding(&runtime.file, message).symbol(name));
        }
        absent.push(name.to_string());
    }
    absent
}

fn nearest<'a>(name: &str, exported: &[&'a str]) -> Option<&'a str> {
    let candidates = exported.iter().filter(|other| other.len().abs_diff(name.len()) <= NEAR && other.len() > 6);
    candidates.map(|other| (distance(name.as_bytes(), other.as_bytes()), *other)).filter(|(edits, _)| *edits <= NEAR).min().map(|(_, other)| other)
}

/// Edit distance with swaps of neighbours (optimal string alignment).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &left) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &right) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(left != right)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && left == b[j - 1] && a[i - 1] == right {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn distance_counts_edits_and_swaps() {
        assert_eq!(distance(b"hipFree", b"hipFree"), 0);
        assert_eq!(distance(b"hipFreee", b"hipFree"), 1);
        assert_eq!(distance(b"hipMallco", b"hipMalloc"), 1);
        assert_eq!(distance(b"hipArray9DCreate", b"hipArray3DCreate"), 1);
        assert_eq!(distance(b"", b"ab"), 2);
        assert_eq!(distance(b"a", b"abc"), 2);
        assert!(distance(b"log_init", b"hipInit") > 2);
    }

    #[test]
    fn a_near_miss_is_found_and_a_stranger_is_not() {
        let exported = ["hipFree", "hipFreeArray", "hipMalloc"];
        assert_eq!(nearest("hipFreee", &exported), Some("hipFree"));
        assert_eq!(nearest("hipFreeXY", &exported), Some("hipFree"), "two characters too many are still a slip");
        assert_eq!(nearest("hipFreeXYZ", &exported), None);
        assert_eq!(nearest("strnlen", &exported), None);
        assert_eq!(nearest("mallco", &["malloc"]), None, "short names are alike by chance");
    }
}
