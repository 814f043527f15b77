//! Every reader of one file or container, called on any bytes: what property tests, the fuzzer and its replay share.

use std::path::Path;

use vrocm_audit::archive::{self, Limits};
use vrocm_audit::elf::{Elf, Result};
use vrocm_audit::evidence::read::{self, Beneath};
use vrocm_audit::manifest::Hints;

/// Opens the bytes as a file and asks for everything. An error of one reader does not keep the others from being asked.
///
/// Returns how many readers answered; 0 where the file does not open.
pub fn everything(bytes: &[u8]) -> usize {
    let Ok(image) = Elf::from_bytes("input", bytes.to_vec()) else { return 0 };
    let _ = (image.dynamic.flags(), image.dynamic.flags_1(), image.dynamic.binds_now(), image.header.machine_name());
    let answers = [
        image.names().is_ok(),
        symbols(&image).is_ok(),
        image.requirements().is_ok(),
        image.symbolic_relocations().is_ok(),
        image.relative_relocations().is_ok(),
        image.build_id().is_ok(),
        image.isa_needed().is_ok(),
        image.interpreter().is_ok(),
    ];
    1 + answers.into_iter().filter(|&answered| answered).count()
}

/// Reads the machine code of any bytes as that of a runtime with seeds, and walks what comes out.
///
/// Returns how many exports were read.
///
/// # Panics
///
/// If a shortest way passes a function twice.
pub fn machine_code(bytes: &[u8]) -> usize {
    const HINTS: &str = r#"{"schema_version":1,"family":"hip","seeds":["hipMalloc","hipMallocArray"],"negatives":["hipEventQuery","hipMemcpy"],
        "bystanders":["hipFree"],"lookups":["dlsym"],"explained":[]}"#;
    const SINKS: [&str; 1] = ["hsa_amd_memory_pool_allocate"];
    let hints = Hints::read("hints", HINTS).ok();
    let beneath = Beneath { allocators: &SINKS, takes: &|name| SINKS.contains(&name) };
    let Ok(reading) = Elf::from_bytes("input", bytes.to_vec()).and_then(|image| read::read(&image, hints.as_ref(), beneath)) else { return 0 };
    for way in reading.exports.iter().flat_map(|export| &export.beneath).flat_map(|beneath| &beneath.ways) {
        assert!(way.path.len() <= reading.functions + 1, "a shortest way passes no function twice");
    }
    reading.exports.len()
}

/// Walks the symbols with all that hangs on them.
fn symbols(image: &Elf) -> Result<usize> {
    let table = image.symbols()?;
    for symbol in &table.symbols {
        let version = table.version(symbol);
        assert!(version.is_none_or(|version| version.node.len() as u64 <= image.len() * 4), "a name longer than the file");
        assert!(std::ptr::eq(table.get(symbol.index).expect("each symbol is found by its index"), symbol));
    }
    Ok(table.exports().count() + table.imports().count())
}

/// Reads the bytes as a package, a wheel, a tarball or an image, whatever they begin like. `folder` is where they are put as a file.
///
/// Returns how many files came out of it.
///
/// # Panics
///
/// If a file that comes out is larger than it may be or has a name that leads out; or if there is no room in `folder`.
pub fn archives(bytes: &[u8], folder: &Path) -> usize {
    const LIMITS: Limits = Limits { member: 1 << 20, unpacked: 8 << 20, entries: 4096, ratio: 100 };
    let path = folder.join("input");
    std::fs::write(&path, bytes).expect("a file for the input");
    let mut members = 0;
    archive::read(&path, "input", LIMITS, &mut |found| {
        if let Ok(member) = found {
            assert!(member.bytes.len() as u64 <= LIMITS.member && member.name.starts_with("input!/"), "{}", member.name);
            assert!(!member.name.split('/').any(|part| part == ".."), "{} leads out", member.name);
            members += 1;
        }
    });
    members
}
