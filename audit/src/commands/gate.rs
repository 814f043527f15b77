//! `vrocm-audit gate`: one configuration, all audits, one result.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicUsize;

use anyhow::{Context as _, anyhow, bail};
use clap::ValueEnum as _;

use super::coverage::{families, today};
use super::libraries::{self, Library};
use super::{Result, checks, deliver, inputs, is_own_shim};
use crate::cli;
use crate::coverage::{self, Context, Runtime, Shim, checks::STALE_ACCEPTANCE};
use crate::diff::shims;
use crate::elf::Elf;
use crate::finding::{Finding, Severity};
use crate::gate::config::{FILE, START, Shim as ShimEntry};
use crate::gate::{self, Config, Gate, Row};
use crate::gfx;
use crate::gfx::identity::Identity;
use crate::gfx::target::Name;
use crate::linkage::{self, Policy};
use crate::manifest::{Acceptances, ClassTable, Family};
use crate::parallel;
use crate::report::{Format, Report, Subjects};

/// One runtime file, read.
struct Read<'a> {
    runtime: Runtime<'a>,
    gfx: Option<gfx::audit::Subject>,
    findings: Vec<Finding>,
}

pub(super) fn run(arguments: &cli::Gate) -> Result<ExitCode> {
    let path = arguments.config.clone().unwrap_or_else(|| FILE.into());
    if arguments.init {
        return init(&path);
    }
    let config = read_config(&path)?;
    let reports = config.reports.iter().map(|(word, path)| Ok((format(&config, word)?, path))).collect::<Result<Vec<_>>>()?;
    let targets = config.targets.iter().map(|target| Ok(target.parse::<Name>()?)).collect::<Result<Vec<_>>>()?;
    let families = families(&config.manifests)?;
    let (mut gate, mut findings, mut unread) = (Gate::default(), Vec::new(), Vec::new());

    let prefixes: Vec<&str> = families.iter().map(|family| family.identity.soname_prefix.as_str()).collect();
    let files = libraries::runtimes(&config.runtimes, &prefixes, &mut unread);
    let mut runtimes = Vec::new();
    for read in read_all(&files, &families, &targets) {
        match read {
            Ok(read) => {
                runtimes.push(read.runtime);
                gate.gfx.extend(read.gfx);
                findings.extend(read.findings);
            }
            Err(error) => unread.push(format!("{error:#}")),
        }
    }
    listed(&config, &families, &mut runtimes)?;
    let acceptances = config.shims.iter().map(|shim| acceptances(&config, shim)).collect::<Result<Vec<_>>>()?;
    gate.checked = gate::self_check(&families, &acceptances.iter().collect::<Vec<_>>(), &mut findings);
    let table = ClassTable::embedded()?;
    for (entry, acceptances) in config.shims.iter().zip(&acceptances) {
        let context = Context { table: &table, families: &families, acceptances, today: today() };
        if let Err(error) = gate_shim(entry, &runtimes, &context, arguments.since.as_deref(), &mut gate, &mut findings) {
            unread.push(format!("{error:#}"));
        }
    }
    weigh(&config.severities, &mut findings);
    // A GPU target asked of one file twice says the same of its registry twice.
    crate::finding::sort(&mut findings);
    findings.dedup();
    let report = Report::new("vrocm-audit", Subjects::Gate(Box::new(gate)), findings, unread).with_families(families_for(
        &reports,
        arguments.format,
        &config,
    )?);
    for (format, path) in reports {
        write(&report, format, path)?;
    }
    deliver(report, arguments.format)
}

/// Writes a commented start; never over what is there.
fn init(path: &Path) -> Result<ExitCode> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path).with_context(|| path.display().to_string())?;
    file.write_all(START.as_bytes()).with_context(|| path.display().to_string())?;
    println!("{}: written; name your shim in it, then run vrocm-audit gate {}", path.display(), path.display());
    Ok(ExitCode::SUCCESS)
}

fn read_config(path: &Path) -> Result<Config> {
    let file = path.display().to_string();
    if !path.exists() {
        bail!("{file}: no such file; vrocm-audit gate --init writes a commented start");
    }
    let ids: Vec<&str> = checks().map(|check| check.id).collect();
    Ok(Config::read(&file, path.parent().unwrap_or(Path::new("")), &inputs::read_text(path)?, &ids)?)
}

fn format(config: &Config, word: &str) -> Result<Format> {
    let known = || {
        Format::value_variants().iter().filter_map(|format| Some(format.to_possible_value()?.get_name().to_string())).collect::<Vec<_>>().join(", ")
    };
    Format::from_str(word, false).map_err(|_| anyhow!("{}: reports: {word:?} is no format; there are {}", config.file, known()))
}

/// Reads all runtimes, as many at a time as there are processors; results in the order of the files.
fn read_all<'a>(files: &[Library], families: &'a [Family], targets: &[Name]) -> Vec<Result<Read<'a>>> {
    let read = |done: &mut Vec<_>, at, library: &Library| done.push((at, read(library, families, targets)));
    let mut all: Vec<_> = parallel::fold(files, &AtomicUsize::new(0), Vec::new, read).into_iter().flatten().collect();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, read)| read).collect()
}

fn read<'a>(library: &Library, families: &'a [Family], targets: &[Name]) -> Result<Read<'a>> {
    let image = library.open()?;
    let runtime = Runtime::of(&image, library.path(), families)?;
    let mut findings = Vec::new();
    let mut subject = None;
    let asked: Vec<Option<Name>> = if targets.is_empty() { vec![None] } else { targets.iter().copied().map(Some).collect() };
    for target in asked {
        let mut found = Vec::new();
        let answered = gfx::audit::audit(&image, target, &mut found)?;
        // A runtime without a table of targets (another family's) has nothing to be asked for.
        if answered.library.identity != Identity::Other {
            findings.extend(found);
            subject.get_or_insert(answered);
        }
    }
    Ok(Read { runtime, gfx: subject, findings })
}

/// Adds the lists named.
fn listed<'a>(config: &Config, families: &'a [Family], runtimes: &mut Vec<Runtime<'a>>) -> Result<()> {
    for listed in &config.lists {
        let builds =
            families.iter().filter(|family| family.name() == listed.family).flat_map(|family| family.builds.iter().map(move |build| (build, family)));
        let wanted: Vec<_> = builds.filter(|(build, _)| listed.release.is_none_or(|release| release == build.release)).collect();
        if wanted.is_empty() {
            let known: Vec<String> =
                families.iter().flat_map(|family| family.builds.iter().map(|build| format!("{} {}", family.name(), build.release))).collect();
            let release = listed.release.map_or_else(String::new, |release| format!(" {release}"));
            bail!("{}: lists: no list of {}{release}; there are {}", config.file, listed.family, known.join(", "));
        }
        runtimes.extend(wanted.into_iter().map(|(build, family)| Runtime::from_build(build, family)));
    }
    Ok(())
}

fn acceptances(config: &Config, shim: &ShimEntry) -> Result<Acceptances> {
    Ok(match &shim.accepted {
        Some(entries) => Acceptances::checked(&config.file, entries.clone())?,
        None if is_own_shim(&shim.file) => Acceptances::embedded()?,
        None => Acceptances { file: config.file.clone(), entries: Vec::new() },
    })
}

fn gate_shim(
    entry: &ShimEntry,
    runtimes: &[Runtime<'_>],
    context: &Context<'_>,
    since: Option<&Path>,
    gate: &mut Gate,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let list = inputs::interposed(entry.interposed.as_deref(), Some(&entry.file))?;
    let policy = match &entry.policy {
        Some(path) => Policy::read(&path.display().to_string(), &inputs::read_text(path)?)?,
        None => Policy::embedded()?,
    };
    let image = Elf::open(&entry.file)?;
    let (linkage, found) = linkage::audit(&image, &policy, list.as_ref())?;
    gate.linkage.push(linkage);
    findings.extend(found);
    let shim = Shim::from_library(&image, list)?;
    let (subjects, found) = coverage::audit(runtimes, &shim, context);
    findings.extend(found);
    unmatched(runtimes, context.acceptances, findings);
    gate.table.extend(subjects.iter().map(Row::of));
    if let Some(path) = since {
        let old = Elf::open(path)?;
        let (before, _) = coverage::audit(runtimes, &Shim::from_library(&old, None)?, context);
        gate.since.extend(shims::doors(&before, &subjects));
    }
    gate.coverage.extend(subjects);
    Ok(())
}

/// Acceptances for a family of which no runtime was gated match nothing either.
fn unmatched(runtimes: &[Runtime<'_>], acceptances: &Acceptances, findings: &mut Vec<Finding>) {
    for entry in acceptances.entries.iter().filter(|entry| runtimes.iter().all(|runtime| runtime.family.name() != entry.family)) {
        let message = format!("the acceptance of {} is for family {}, of which no runtime is gated", entry.subject(), entry.family);
        findings.push(STALE_ACCEPTANCE.finding(&acceptances.file, message).symbol(entry.subject()));
    }
}

/// In a gate acceptances must hold; beyond that the configuration decides. A case milder than its check stays milder.
fn weigh(severities: &BTreeMap<String, Severity>, findings: &mut [Finding]) {
    let usual: BTreeMap<&str, Severity> = checks().map(|check| (check.id, check.severity)).collect();
    for finding in findings {
        if let Some(&set) = severities.get(finding.check) {
            let usual = usual.get(finding.check).copied().unwrap_or(finding.severity);
            finding.severity = if finding.severity >= usual { set } else { finding.severity.min(set) };
        } else if ["stale-acceptance", "expired-acceptance"].contains(&finding.check) {
            finding.severity = Severity::Deny;
        }
    }
}

/// The page alone shows judgements; only then they are handed on.
fn families_for(reports: &[(Format, &PathBuf)], format: Format, config: &Config) -> Result<Vec<Family>> {
    let page = format == Format::Html || reports.iter().any(|(format, _)| *format == Format::Html);
    if page && !config.manifests.is_empty() { families(&config.manifests) } else { Ok(Vec::new()) }
}

fn write(report: &Report, format: Format, path: &Path) -> Result<()> {
    let shown = || path.display().to_string();
    let mut text = Vec::new();
    report.show(format, false, || checks().collect(), &mut text).with_context(shown)?;
    std::fs::write(path, text).with_context(shown)
}
