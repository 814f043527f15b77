//! `gfx-scan preflight`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::gfx::PREFIXES;
use super::libraries::{self, Library};
use super::{Result, complain, deliver, inputs};
use crate::cli::Preflight;
use crate::finding::Finding;
use crate::gfx::preflight::ask::{self, Answer, Packed, Wanted};
use crate::gfx::preflight::{simulator, topology};
use crate::gfx::verdict::Verdict;
use crate::gfx::{checks, identity};
use crate::report::{Report, Subjects};

pub(super) fn run(arguments: &Preflight) -> Result<ExitCode> {
    let wanted = wanted(arguments)?;
    let Some((command, rest)) = arguments.words.split_first() else { bail!("no command") };
    let request = inputs::request(command, rest, &arguments.variables, arguments.clear_env, arguments.root.as_deref())?;
    let answer = ask::ask_with_packages(&request, &wanted, packed(&arguments.packages)?)?;
    if let Some(notice) = &answer.notice {
        complain("gfx-scan", notice);
    }
    let status = answer.verdict.exit_status();
    let findings = findings(&answer);
    deliver(Report::new("gfx-scan", Subjects::Preflight(Box::new(answer)), findings, Vec::new()), arguments.output.format)?;
    Ok(ExitCode::from(status))
}

fn wanted(arguments: &Preflight) -> Result<Vec<Wanted>> {
    if let Some(target) = &arguments.target {
        return Ok(vec![Wanted::named(target.parse()?)]);
    }
    let sysfs = topology::USUAL.map(Path::new);
    let devices = match &arguments.config {
        Some(file) => simulator::devices(file, &sysfs)?,
        None => topology::devices(&sysfs).context("give --target or --config")?,
    };
    Ok(devices.into_iter().map(|device| Wanted { device, name: None }).collect())
}

/// Runtimes of packages that are not installed. One that holds none is a mistake of who asks; what else cannot be read of it is said.
fn packed(packages: &[PathBuf]) -> Result<Vec<Packed>> {
    let mut found = Vec::new();
    for package in packages {
        let mut unread = Vec::new();
        let members = libraries::members(package, &identity::is_runtime, &mut unread);
        for line in &unread {
            complain("gfx-scan", line);
        }
        if members.is_empty() {
            bail!("{}: holds no {}", package.display(), inputs::library_named(&PREFIXES));
        }
        found.extend(members.into_iter().filter_map(|member| match member {
            Library::Member(name, bytes) => Some(Packed { name, bytes }),
            Library::File(_) => None,
        }));
    }
    Ok(found)
}

fn findings(answer: &Answer) -> Vec<Finding> {
    let mut found = Vec::new();
    for candidate in answer.candidates.iter().filter(|candidate| candidate.linked && candidate.verdict == Verdict::Unsupported) {
        let finding = checks::UNSUPPORTED_TARGET.finding(candidate.runtime.as_str(), candidate.message.as_str());
        found.push(finding.symbol(candidate.device.as_str()).evidence("reason", candidate.reason));
    }
    if answer.verdict == Verdict::Unknown {
        let why = answer.unknowns.iter().map(|unknown| format!("{} ({}): {}", unknown.code, unknown.object, unknown.detail));
        found.push(checks::UNKNOWN_TARGET.finding(answer.program.as_str(), why.collect::<Vec<_>>().join("; ")));
    }
    found
}
