//! `gfx-scan preflight`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::{Result, complain, deliver};
use crate::cli::Preflight;
use crate::finding::Finding;
use crate::gfx::checks;
use crate::gfx::preflight::ask::{self, Answer, Wanted};
use crate::gfx::preflight::{simulator, topology};
use crate::gfx::verdict::Verdict;
use crate::loader::Request;
use crate::report::{Report, Subjects};

pub(super) fn run(arguments: &Preflight) -> Result<ExitCode> {
    let wanted = wanted(arguments)?;
    let answer = ask::ask(&request(arguments)?, &wanted)?;
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

fn request(arguments: &Preflight) -> Result<Request> {
    let mut request = Request::from_this_process();
    let Some((command, rest)) = arguments.words.split_first() else { bail!("no command") };
    (request.command, request.arguments) = (command.clone(), rest.to_vec());
    if let Some(root) = &arguments.root {
        request.root = std::fs::canonicalize(root).with_context(|| root.display().to_string())?;
        request.cwd = "/".into();
    }
    if arguments.clear_env {
        request.environment.clear();
    }
    for variable in &arguments.variables {
        let Some((name, value)) = variable.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            bail!("--env {variable}: not of the form K=V")
        };
        request.environment.retain(|(known, _)| known != name);
        request.environment.push((name.into(), value.into()));
    }
    Ok(request)
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
