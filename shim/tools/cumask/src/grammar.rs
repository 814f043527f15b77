//! What ROCr makes of `HSA_CU_MASK`, and HIP of `ROC_GLOBAL_CU_MASK`.
//!
//! Grammar, from AMD's page "Set the number of compute units" and from ROCr's reader (`core/util/flag.cpp`, `parse_masks`): sets are divided by `;`, a set is
//! `GPU_list:CU_list`, a list has decimal numbers and ranges divided by `,`, a CU list may be one hexadecimal number instead. All
//! blanks are dropped first. At the first set with an error reading ends: that set and all that follow are ignored, the ones before count. Errors are also:
//! a number twice, a GPU in two sets, a mask without a bit, a list of which nothing exists on the machine. A number beyond the machine
//! is left out silently; the limits are *inclusive* (the reader compares with the counts, not with the highest numbers).
//!
//! The reader takes by accident what the grammar does not have (`-3` as `0-3`, `3-` as `3`, a sign, numbers modulo 2^32). Such a mask is an error here
//! whatever this release makes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Numbers beyond this are no card's; keeps a range from filling the memory.
const MOST: u32 = 4096;

/// What the machine has: ROCr's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// GPUs after `ROCR_VISIBLE_DEVICES`.
    pub gpus: u32,
    /// The most compute units that one of them has.
    pub cus: u32,
}

/// Why reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Which set, from 1.
    pub set: usize,
    /// Its text, without blanks.
    pub text: String,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {} `{}`: {}", self.set, self.text, self.why)
    }
}

/// A mask that was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mask {
    /// The bits of each GPU that a good set names.
    pub gpus: BTreeMap<u32, BTreeSet<u32>>,
    /// Where reading ended, if not at the end.
    pub stop: Option<Stop>,
}

/// Reads `HSA_CU_MASK`.
pub fn read(text: &str, limits: Limits) -> Mask {
    let text: String = text.chars().filter(|character| !matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')).collect();
    let mut mask = Mask::default();
    for (index, set) in pieces(&text, ';').into_iter().enumerate() {
        if let Err(why) = read_set(set, limits, &mut mask.gpus) {
            mask.stop = Some(Stop { set: index + 1, text: set.to_owned(), why });
            break;
        }
    }
    mask
}

/// Divides a text; an empty last piece does not count, as in ROCr's reader.
fn pieces(text: &str, separator: char) -> Vec<&str> {
    let mut pieces: Vec<&str> = text.split(separator).collect();
    if pieces.last() == Some(&"") {
        pieces.pop();
    }
    pieces
}

fn read_set(set: &str, limits: Limits, gpus: &mut BTreeMap<u32, BTreeSet<u32>>) -> Result<(), String> {
    let [gpu_list, cu_list] = pieces(set, ':')[..] else {
        return Err("a set is GPU_list:CU_list".to_owned());
    };
    let bits = match cu_list.get(..2) {
        Some("0x" | "0X") => read_hex(cu_list.get(2..).unwrap_or_default(), limits.cus)?,
        _ => read_list(cu_list, limits.cus, "CU")?,
    };
    let named = read_list(gpu_list, limits.gpus, "GPU")?;
    if let Some(twice) = named.iter().find(|gpu| gpus.contains_key(gpu)) {
        return Err(format!("GPU {twice} has a set already"));
    }
    gpus.extend(named.into_iter().map(|gpu| (gpu, bits.clone())));
    Ok(())
}

/// Hexadecimal digits, the last one has bits 0 to 3. Whole words of 32 bits beyond the limit are cut off.
fn read_hex(digits: &str, most: u32) -> Result<BTreeSet<u32>, String> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err("a hexadecimal mask has hexadecimal digits only".to_owned());
    }
    let end = (most / 32 + 1) * 32;
    let mut bits = BTreeSet::new();
    for (place, digit) in digits.chars().rev().enumerate() {
        let value = digit.to_digit(16).unwrap_or(0);
        for bit in (0..4).filter(|bit| value >> bit & 1 == 1) {
            bits.extend(u32::try_from(place * 4 + bit).ok().filter(|&bit| bit < end));
        }
    }
    if bits.is_empty() { Err("a mask without a bit that exists".to_owned()) } else { Ok(bits) }
}

fn read_list(list: &str, most: u32, what: &str) -> Result<BTreeSet<u32>, String> {
    let mut found = BTreeSet::new();
    for item in pieces(list, ',') {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        let (from, to) = (number(from, what)?, number(to, what)?);
        if to < from {
            return Err(format!("{from}-{to} runs backwards"));
        }
        for id in from..=to.min(most).min(MOST) {
            if !found.insert(id) {
                return Err(format!("{what} {id} is named twice"));
            }
        }
    }
    if found.is_empty() { Err(format!("it names no {what} of this machine")) } else { Ok(found) }
}

fn number(digits: &str, what: &str) -> Result<u32, String> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(format!("a {what} is a decimal number, not `{digits}`"));
    }
    digits.parse().map_err(|_| format!("{digits} is beyond any {what}"))
}

/// Reads `ROC_GLOBAL_CU_MASK`: one hexadecimal number for all cards, with or without `0x`; bits of units that exist are kept.
pub fn read_global(text: &str, units: u32) -> Result<BTreeSet<u32>, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    if digits.is_empty() {
        return Err("it is one hexadecimal number, and has no digit".to_owned());
    }
    let bits: BTreeSet<u32> = read_hex(digits, MOST).map_err(|why| format!("it is one hexadecimal number: {why}"))?;
    let kept: BTreeSet<u32> = bits.into_iter().filter(|&bit| bit < units).collect();
    if kept.is_empty() { Err(format!("no bit below {units}, and a bit is a unit: the whole mask is ignored")) } else { Ok(kept) }
}

/// Writes numbers as ranges (`0-7,16`).
pub fn ranges(bits: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &bit in bits {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == bit => *last = bit,
            _ => runs.push((bit, bit)),
        }
    }
    runs.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") }).collect::<Vec<_>>().join(",")
}
