//! `gfx-scan`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;

use super::{NO_AUDIT, Result, deliver, inputs, libraries};
use crate::archive;
use crate::cli::GfxScan;
use crate::elf::Elf;
use crate::finding::Finding;
use crate::gfx::audit::{self, Subject};
use crate::gfx::identity;
use crate::gfx::target::Name;
use crate::gfx::verdict::Verdict;
use crate::report::{Report, Subjects};

/// How ROCm's runtimes are called.
pub(super) const PREFIXES: [&str; 2] = ["libhsa-runtime64.so", "libamdhip64.so"];

/// Where a runtime usually is, when none is named.
const USUAL: [&str; 4] = ["/opt/rocm/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];

pub(super) fn run(arguments: &GfxScan) -> Result<ExitCode> {
    let target = arguments.target.as_deref().map(str::parse::<Name>).transpose()?;
    let files = if arguments.libraries.is_empty() { usual()? } else { inputs::expand(&arguments.libraries, &PREFIXES)? };
    let (mut findings, mut subjects, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        if archive::is_package(&file) {
            subjects.extend(packed(&file, target, &mut findings, &mut unread));
            continue;
        }
        match Elf::open(&file).map_err(anyhow::Error::from).and_then(|image| read(&image, target, &mut findings)) {
            Ok(subject) => subjects.push(subject),
            Err(error) => unread.push(format!("{error:#}")),
        }
    }
    audit::note_overrides(environment(), target, &subjects, &mut findings);
    let target = audit::combined(&subjects);
    let verdict = target.as_ref().map(|answer| answer.verdict);
    let incomplete = !unread.is_empty();
    let report = Report::new("gfx-scan", Subjects::Gfx { subjects, target }, findings, unread);
    let status = deliver(report, arguments.output.format)?;
    // With a target the answer decides, not the severity of findings.
    Ok(match verdict.map(Verdict::exit_status) {
        _ if incomplete => ExitCode::from(NO_AUDIT),
        Some(code) => ExitCode::from(code),
        None => status,
    })
}

fn read(image: &Elf, target: Option<Name>, findings: &mut Vec<Finding>) -> Result<Subject> {
    Ok(audit::audit(image, target, findings)?)
}

/// Runtimes in a wheel, a Debian package, a tarball or an image, known by their file names; one without any is no scan.
fn packed(package: &Path, target: Option<Name>, findings: &mut Vec<Finding>, unread: &mut Vec<String>) -> Vec<Subject> {
    let members = libraries::members(package, &identity::is_runtime, unread);
    if members.is_empty() {
        unread.push(format!("{}: holds no {}", package.display(), inputs::library_named(&PREFIXES)));
    }
    let mut found = Vec::new();
    for member in members {
        match member.open().and_then(|image| read(&image, target, findings)) {
            Ok(subject) => found.push(subject),
            Err(error) => unread.push(format!("{error:#}")),
        }
    }
    found
}

/// Variables that are not UTF-8 are none of ROCm's.
fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Runtimes in the usual places; a linked directory counts once.
fn usual() -> Result<Vec<PathBuf>> {
    let present = |place: &&str| inputs::expand(&[PathBuf::from(place)], &PREFIXES).ok();
    let mut found: Vec<PathBuf> = USUAL.iter().filter(|place| Path::new(place).is_dir()).filter_map(present).flatten().collect();
    found.sort_by_key(|path| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
    found.dedup_by_key(|path| std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone()));
    if found.is_empty() {
        bail!("no library named, and none found in {}", USUAL.join(", "));
    }
    Ok(found)
}
