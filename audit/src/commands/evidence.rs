//! `vrocm-audit evidence`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Result, coverage, deliver, inputs, patience};
use crate::cli::Evidence;
use crate::coverage::{Runtime, checks as coverage_checks};
use crate::elf::Elf;
use crate::elf::debug::{self, DebugFile};
use crate::evidence::audit::Known;
use crate::evidence::{self, Registry, Subject, Verdict, checks, named};
use crate::finding::Finding;
use crate::gfx;
use crate::gfx::identity::Identity;
use crate::manifest::{ClassTable, Family};
use crate::report::{Report, Subjects};

pub(super) fn run(arguments: &Evidence) -> Result<ExitCode> {
    let families = coverage::families(&arguments.families.manifests)?;
    let table = ClassTable::embedded()?;
    let prefixes: Vec<&str> = families.iter().map(|family| family.identity.soname_prefix.as_str()).collect();
    let paths = inputs::expand(&arguments.runtimes, &prefixes)?;
    let (mut findings, mut subjects, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    let at = AtomicUsize::new(0);
    let says = || progress(&paths, at.load(Ordering::Relaxed));
    patience::work(&mut io::stderr(), patience::asked(), says, || {
        for (index, path) in paths.iter().enumerate() {
            at.store(index, Ordering::Relaxed);
            match with_registry(path, &families, &table, &mut findings) {
                Ok(mut subject) => {
                    let mut after = || {
                        if let Some(asked) = &arguments.debug {
                            with_names(&mut subject, path, asked.as_deref(), &mut findings)?;
                        }
                        single(&mut subject, &arguments.exports)
                    };
                    unread.extend(after().err().map(|error| format!("{error:#}")));
                    subjects.push(subject);
                }
                Err(error) => unread.push(format!("{error:#}")),
            }
        }
    });
    deliver(Report::new("vrocm-audit", Subjects::Evidence(subjects), findings, unread), arguments.output.format)
}

/// What somebody who waits is told.
fn progress(paths: &[PathBuf], at: usize) -> String {
    let path = &paths[at];
    let size = std::fs::metadata(path).map_or(0, |found| found.len() / 1_000_000);
    format!(
        "vrocm-audit: {}: file {} of {}, {size} MB: still reading, because every instruction is decoded (and all debug information, where that is asked for)",
        path.display(),
        at + 1,
        paths.len()
    )
}

/// Keeps the exports that were asked for.
fn single(subject: &mut Subject, names: &[String]) -> Result<()> {
    if let Some(missing) = names.iter().find(|name| subject.exports.iter().all(|export| export.name != **name)) {
        anyhow::bail!("{}: {missing} is no exported function of it", subject.file);
    }
    if !names.is_empty() {
        subject.exports.retain(|export| names.contains(&export.name));
        subject.single = true;
    }
    Ok(())
}

/// Takes names from the file that was asked for, or from the first place that has some for this very build.
fn with_names(subject: &mut Subject, path: &Path, asked: Option<&Path>, findings: &mut Vec<Finding>) -> Result<()> {
    if let Some(file) = asked {
        return Ok(named::name(subject, &DebugFile::open(file)?, findings)?);
    }
    let own = DebugFile::open(path)?;
    if own.has_names()? {
        return Ok(named::name(subject, &own, findings)?);
    }
    let places = debug::places(path, own.build_id.as_deref(), own.link()?.as_deref(), Path::new(debug::STORE));
    drop(own);
    for place in places.iter().filter(|place| place.is_file()) {
        let file = DebugFile::open(place)?;
        if file.build_id == subject.build_id && file.has_names()? {
            return Ok(named::name(subject, &file, findings)?);
        }
    }
    let looked: Vec<String> = std::iter::once(path).chain(places.iter().map(PathBuf::as_path)).map(|place| place.display().to_string()).collect();
    anyhow::bail!(
        "{}: no debug information of this build in {}: install the distribution's -dbgsym or -debuginfo package, or name a file (--debug=FILE)",
        subject.file,
        looked.join(", ")
    )
}

/// A runtime with its registry of GPUs, which this command alone shows.
fn with_registry(path: &Path, families: &[Family], table: &ClassTable, findings: &mut Vec<Finding>) -> Result<Subject> {
    let image = Elf::open(path)?;
    let mut subject = of(&image, &Runtime::read(path, families)?, families, table, findings)?;
    registry(&image, &mut subject)?;
    Ok(subject)
}

/// The registry of GPUs with its cross-check: the code objects inside the file are built for the same targets.
fn registry(image: &Elf, subject: &mut Subject) -> Result<()> {
    let mut library = gfx::scan(image)?;
    if library.registry.is_none() || library.identity != Identity::Rocr {
        return Ok(());
    }
    let code_objects = library.code_objects(image)?.iter().map(ToString::to_string).collect();
    let registry = Registry {
        targets: library.targets.iter().map(|target| target.id.clone()).collect(),
        generics: library.generics,
        mentioned_only: library.mentioned_only,
        code_objects,
    };
    subject.self_checks.push(registry.check());
    subject.registry = Some(registry);
    Ok(())
}

/// What the code says of exports that no manifest knows, and where it contradicts the manifest. Only a build that nobody has seen is read. What known builds say
/// is stored: the judgements inside the program were held against it when they were made, and tests do so again; those of a folder are held against it here.
pub(super) fn weigh(runtimes: &[Runtime<'_>], families: &[Family], table: &ClassTable, findings: &mut Vec<Finding>) -> Result<()> {
    for runtime in runtimes {
        if let Some(build) = runtime.family.builds.iter().find(|build| Some(build.build_id) == runtime.build_id.as_deref()) {
            if !runtime.family.ours
                && let Some(reading) = runtime.family.reading(build.build_id)?
            {
                let hints = runtime.family.hints()?;
                let known = Known { family: runtime.family, beneath: None, release: runtime.release, hints: hints.as_ref() };
                evidence::audit::hold(&runtime.file, &reading, known, table, findings);
            }
            continue;
        }
        let mut own = Vec::new();
        match read(Path::new(&runtime.file), families, table, &mut own) {
            Ok(subject) => {
                findings.extend(own.into_iter().filter(|finding| finding.check == checks::CLASS_CONTRADICTED.id));
                findings.iter_mut().filter(|finding| finding.file == subject.file).for_each(|finding| add(finding, &subject));
            }
            Err(error) => findings.push(checks::NO_EVIDENCE.finding(&runtime.file, format!("the machine code could not be read: {error:#}"))),
        }
    }
    Ok(())
}

/// Adds what the code says to the finding about an export that no manifest knows.
fn add(finding: &mut Finding, subject: &Subject) {
    let about = finding.symbol.as_deref().filter(|_| finding.check == coverage_checks::UNCLASSIFIED.id);
    let Some(export) = about.and_then(|name| subject.exports.iter().find(|export| export.name == name)) else { return };
    let body = export.body.map_or(String::new(), |body| format!(" (body {body})"));
    let near = export.alarm.filter(|_| export.verdict == Verdict::NothingSeen);
    let near = near.map_or(String::new(), |at| format!("; but it shares the function at {at} with exports that allocate"));
    finding.message += &format!("; its machine code{body}: {}: {}{near}", export.verdict.word(), export.says);
    finding.evidence.insert("code".into(), export.verdict.word().into());
    let path: Vec<String> = export.path.iter().map(ToString::to_string).collect();
    finding.evidence.insert("path".into(), path.into());
}

/// What family and release a file is of is the business of `coverage`, whose reading serves here as well.
pub(super) fn read(path: &Path, families: &[Family], table: &ClassTable, findings: &mut Vec<Finding>) -> Result<Subject> {
    of(&Elf::open(path)?, &Runtime::read(path, families)?, families, table, findings)
}

/// The same of a runtime that is open already.
pub(super) fn of(image: &Elf, runtime: &Runtime<'_>, families: &[Family], table: &ClassTable, findings: &mut Vec<Finding>) -> Result<Subject> {
    let beneath = runtime.family.identity.beneath.as_deref().and_then(|name| families.iter().find(|family| family.name() == name));
    let hints = runtime.family.hints()?;
    let known = Known { family: runtime.family, beneath, release: runtime.release, hints: hints.as_ref() };
    Ok(evidence::audit(image, known, table, findings)?)
}
