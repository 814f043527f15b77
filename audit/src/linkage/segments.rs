//! Rule `segments`.

use super::facts::Facts;
use super::{Outcome, Rule};
use crate::elf::{Segment, segment_type};
use crate::finding::{Check, Finding, Severity};

/// The page of x86-64, and the smallest anywhere.
const PAGE: u64 = 4096;

/// The largest page of `AArch64` kernels.
const LARGE_PAGE: u64 = 1 << 16;

/// Zero-filled memory from which a shim is absurd, and from which the loader cannot map it: 1 GiB loads, 1 TiB does not.
const ABSURD: u64 = 1 << 30;
const UNMAPPABLE: u64 = 1 << 40;

pub(super) static RULE: Rule = Rule {
    check: Check {
        id: "segments",
        severity: Severity::Deny,
        what: "The segments can be mapped: aligned to pages, apart from each other, of a sensible size, none both writable and executable.",
        why: "A misaligned or huge segment makes the loader leave the library out with a message, so that programs run without a quota; overlapping ones crash every program. Writable code is writable in every process.",
        fix: "Link with the linker's defaults: no -N, no -z max-page-size below the page, no linker script that places segments.",
        source: "gABI, program header; measured on glibc 2.31 to 2.44 (docs/measurements/loader-outcomes.md)",
    },
    run: |facts, _, found| {
        let loads: Vec<(usize, &Segment)> =
            facts.image.segments.iter().enumerate().filter(|(_, segment)| segment.kind == segment_type::LOAD && segment.memory_size > 0).collect();
        for &(index, load) in &loads {
            check_alignment(facts, index, load, found);
            check_size(facts, index, load, found);
            if load.writable() && load.executable() {
                let message = format!("PT_LOAD[{index}] is both writable and executable, in every process");
                found.push(facts.found(&RULE.check, Outcome::ImposedOnAll, message).evidence("segment", index));
            }
        }
        check_overlap(facts, &loads, found);
        check_code(facts, found);
    },
};

fn check_alignment(facts: &Facts<'_>, index: usize, load: &Segment, found: &mut Vec<Finding>) {
    let skew = load.address.wrapping_sub(load.offset);
    let lost = "leave the library out with a message, and programs run without a quota";
    let finding = if !skew.is_multiple_of(PAGE) {
        let message =
            format!("PT_LOAD[{index}]: address {:#x} and offset {:#x} do not agree within a page: loaders {lost}", load.address, load.offset);
        facts.found(&RULE.check, Outcome::LosesTheShim, message)
    } else if load.align > PAGE && load.align.is_power_of_two() && !skew.is_multiple_of(load.align) {
        let message = format!(
            "PT_LOAD[{index}]: address {:#x} and offset {:#x} do not agree within p_align {:#x}: loaders such as glibc 2.31's {lost}",
            load.address, load.offset, load.align
        );
        facts.found(&RULE.check, Outcome::LosesTheShim, message)
    } else if load.align != 0 && load.align & (PAGE - 1) != 0 {
        let message = format!("PT_LOAD[{index}]: p_align {:#x} is no multiple of a page: loaders such as glibc 2.31's {lost}", load.align);
        facts.found(&RULE.check, Outcome::LosesTheShim, message)
    } else if load.align != 0 && !load.align.is_power_of_two() {
        let message = format!("PT_LOAD[{index}]: p_align {:#x} is no power of two, as the gABI wants it; glibc loads it", load.align);
        facts.found(&RULE.check, Outcome::Nothing, message).severity(Severity::Warn)
    } else if facts.machine == "aarch64" && load.align < LARGE_PAGE {
        let message = format!("PT_LOAD[{index}]: p_align {:#x} is below the 64 KiB pages of some AArch64 kernels, where loaders {lost}", load.align);
        facts.found(&RULE.check, Outcome::Depends, message).severity(Severity::Warn)
    } else {
        return;
    };
    found.push(finding.evidence("segment", index));
}

fn check_size(facts: &Facts<'_>, index: usize, load: &Segment, found: &mut Vec<Finding>) {
    if load.memory_size < ABSURD {
        return;
    }
    let finding = if load.memory_size >= UNMAPPABLE {
        let message = format!(
            "PT_LOAD[{index}] takes {} bytes of memory: the loader cannot map them, leaves the library out with a message, and programs run without a quota",
            load.memory_size
        );
        facts.found(&RULE.check, Outcome::LosesTheShim, message)
    } else {
        let message = format!("PT_LOAD[{index}] takes {} bytes of address space in every process", load.memory_size);
        facts.found(&RULE.check, Outcome::ImposedOnAll, message).severity(Severity::Warn)
    };
    found.push(finding.evidence("segment", index));
}

fn check_overlap(facts: &Facts<'_>, loads: &[(usize, &Segment)], found: &mut Vec<Finding>) {
    for pair in loads.windows(2) {
        let [(before, low), (index, high)] = pair else { continue };
        // One that lies below the other is no file that the reader takes.
        if low.address.saturating_add(low.memory_size) <= high.address {
            continue;
        }
        let message = format!("PT_LOAD[{before}] reaches into PT_LOAD[{index}]: every program crashes at start");
        found.push(facts.found(&RULE.check, Outcome::StopsEveryProgram, message).evidence("segment", *index));
    }
}

/// Code outside of executable memory.
fn check_code(facts: &Facts<'_>, found: &mut Vec<Finding>) {
    let holds =
        |address: u64| {
            facts.image.segments.iter().any(|load| {
                load.kind == segment_type::LOAD && load.executable() && address >= load.address && address - load.address < load.memory_size
            })
        };
    let here = |symbol: &&crate::elf::Symbol<'_>| symbol.is_function() && symbol.place == crate::elf::Place::Here;
    if let Some(symbol) = facts.exports().filter(here).find(|symbol| !holds(symbol.value)) {
        let message = format!("{} at {:#x} is in no executable segment: a call ends the process", symbol.name, symbol.value);
        found.push(facts.found(&RULE.check, Outcome::KillsTheCall, message).symbol(&*symbol.name));
    }
}
