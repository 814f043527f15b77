//! `vrocm-audit linkage`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{Result, deliver, inputs, is_own_shim};
use crate::cli::Linkage;
use crate::elf::Elf;
use crate::finding::Finding;
use crate::linkage::{self, Policy, Subject};
use crate::manifest::InterposedList;
use crate::report::{Report, Subjects};

pub(super) fn run(arguments: &Linkage) -> Result<ExitCode> {
    let policy = policy(arguments)?;
    let list = inputs::interposed(arguments.interposed.as_deref(), None)?;
    let files = shims(&arguments.shims)?;
    // The list inside the program is that of our own shim, and is read for no other.
    let wanted = list.is_none() && arguments.policy.is_none() && files.iter().any(|file| is_own_shim(file));
    let own = if wanted { Some(InterposedList::own()?) } else { None };
    let (mut findings, mut subjects, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        let expected = list.as_ref().or_else(|| own.as_ref().filter(|_| is_own_shim(&file)));
        match read(&file, &policy, expected, &mut findings) {
            Ok(subject) => subjects.push(subject),
            Err(error) => unread.push(format!("{error:#}")),
        }
    }
    deliver(Report::new("vrocm-audit", Subjects::Linkage(subjects), findings, unread), arguments.output.format)
}

fn policy(arguments: &Linkage) -> Result<Policy> {
    let mut policy = match &arguments.policy {
        Some(path) => Policy::read(&path.display().to_string(), &inputs::read_text(path)?)?,
        None => Policy::embedded()?,
    };
    for node in &arguments.max_version {
        policy = policy.with_max_version(node)?;
    }
    if !arguments.allow_needed.is_empty() {
        policy = policy.with_needed(arguments.allow_needed.clone());
    }
    Ok(policy)
}

/// A directory stands for every shared library in it.
fn shims(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in named {
        if path.is_dir() {
            files.extend(inputs::shared_libraries_in(path)?);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

fn read(file: &Path, policy: &Policy, expected: Option<&InterposedList>, findings: &mut Vec<Finding>) -> Result<Subject> {
    let image = Elf::open(file)?;
    let (subject, found) = linkage::audit(&image, policy, expected)?;
    findings.extend(found);
    Ok(subject)
}
