//! `gfx-scan preflight`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::{Result, complain, deliver, inputs};
use crate::cli::Preflight;
use crate::finding::Finding;
use crate::gfx::checks;
use crate::gfx::preflight::ask::{self, Answer, Wanted};
use crate::gfx::preflight::{simulator, topology};
use crate::gfx::verdict::Verdict;
use crate::report::{Report, Subjects};

pub(super) fn run(arguments: &Preflight) -> Result<ExitCode> {
    let wanted = wanted(arguments)?;
    let Some((command, rest)) = arguments.words.split_first() else { bail!("no command") };
    let request = inputs::request(command, rest, &arguments.variables, arguments.clear_env, arguments.root.as_deref())?;
    let answer = ask::ask(&request, &wanted)?;
    if let Some(notice) = &answer.notice {
        complain("gfx-scan", notice);
    }
    let status = answer.verdict.exit_status();
    let findings = findings(&answer);
    deliver(Report::new("gfx-scan", Subjects::Preflight(Box::new(answer)), findings, Vec::new()), arguments.format)?;
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
