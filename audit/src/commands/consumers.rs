//! `vrocm-audit consumers`: files, directories, packages and images, looked through with all processors.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{Result, coverage, deliver, inputs};
use crate::archive::{self, Limits, What, image, walk};
use crate::cli::Consumers;
use crate::consumers::{self, Auditor, Subject};
use crate::elf::{Elf, Source};
use crate::loader::shim::Shim;
use crate::manifest::{ClassTable, Family};
use crate::parallel;
use crate::report::{Report, Scanned, Subjects};
use crate::root;

/// Packages that are opened when a directory holds them; anything else that packs files has to be named.
const PACKAGES: [&str; 3] = ["deb", "udeb", "whl"];

/// How often the progress bar is drawn.
const FRAME: Duration = Duration::from_millis(100);

pub(super) fn run(arguments: &Consumers) -> Result<ExitCode> {
    let families = Family::embedded()?;
    let table = ClassTable::embedded()?;
    let path = arguments.shim.clone().or_else(|| if arguments.interposed.is_none() { coverage::find_shim() } else { None });
    let list = inputs::interposed(arguments.interposed.as_deref(), path.as_deref())?;
    let image = path.as_deref().map(Elf::open).transpose()?;
    let shim = match (&image, list) {
        (Some(image), list) => Shim::from_library(image, list)?,
        (None, Some(list)) => Shim::from_list(list),
        (None, None) => Shim::from_list(coverage::reference()?),
    };
    let acceptances = inputs::acceptances(arguments.accepted.accept.as_deref(), path.as_deref())?;
    let auditor = Auditor::new(&families, &table, &shim, image.as_ref(), &acceptances, coverage::today());
    let (jobs, unlisted) = jobs(arguments);
    let mut found = work(&jobs, &auditor);
    found.unread.extend(unlisted);
    found.subjects.sort_by(|a, b| a.file.cmp(&b.file));
    found.unread.sort();
    let findings = found.subjects.iter().flat_map(consumers::findings).collect();
    let subjects = Subjects::Consumers { subjects: found.subjects, scanned: found.scanned, shim: shim.describe() };
    deliver(Report::new("vrocm-audit", subjects, findings, found.unread), arguments.output.format)
}

/// One file to look at.
struct Job {
    path: PathBuf,
    /// Named by the user: then its kind is told by its bytes, and it is reported whatever it is.
    named: bool,
}

/// Files in order, and what could not be listed.
fn jobs(arguments: &Consumers) -> (Vec<Job>, Vec<String>) {
    let (mut jobs, mut unlisted) = (Vec::new(), Vec::new());
    for path in &arguments.paths {
        let path = match &arguments.root {
            Some(folder) => match root::inside(folder, path) {
                Ok(inside) => inside,
                Err(error) => {
                    unlisted.push(format!("{} in {}: {error}", path.display(), folder.display()));
                    continue;
                }
            },
            None => path.clone(),
        };
        if path.is_dir() && !image::is_layout(&path) {
            let fail = &mut |path: &Path, error: std::io::Error| unlisted.push(format!("{}: {error}", path.display()));
            jobs.extend(walk::files(&path, fail).into_iter().map(|path| Job { path, named: false }));
        } else {
            jobs.push(Job { path, named: true });
        }
    }
    (jobs, unlisted)
}

/// What came of all files.
#[derive(Default)]
struct Found {
    subjects: Vec<Subject>,
    unread: Vec<String>,
    scanned: Scanned,
}

impl Found {
    fn take(&mut self, looked: crate::elf::Result<Option<Subject>>) {
        match looked {
            Ok(subject) => self.subjects.extend(subject),
            Err(error) => self.unread.push(error.to_string()),
        }
    }

    fn join(&mut self, other: Self) {
        self.subjects.extend(other.subjects);
        self.unread.extend(other.unread);
        self.scanned.files += other.scanned.files;
        self.scanned.elf += other.scanned.elf;
        self.scanned.python += other.scanned.python;
        self.scanned.containers += other.scanned.containers;
    }
}

/// Looks at all files, and on a terminal says how far that is.
fn work(jobs: &[Job], auditor: &Auditor<'_>) -> Found {
    let (taken, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let accounts = std::thread::scope(|scope| {
        if std::io::stderr().is_terminal() {
            scope.spawn(|| progress(&taken, jobs.len(), &done));
        }
        let accounts = parallel::fold(jobs, &taken, Found::default, |found, _, job| look(job, auditor, found));
        done.store(true, Ordering::Relaxed);
        accounts
    });
    let mut all = Found::default();
    for found in accounts {
        all.join(found);
    }
    all
}

fn look(job: &Job, auditor: &Auditor<'_>, found: &mut Found) {
    found.scanned.files += 1;
    // Among those named: an image's layout.
    if job.named && job.path.is_dir() {
        return look_into(&job.path, auditor, found);
    }
    let opened = if job.named { Source::open(&job.path) } else { Source::open_listed(&job.path) };
    let head = |source: &Source| source.read("file", 0, source.len().min(archive::HEAD));
    match opened.and_then(|source| Ok((archive::what(&head(&source)?), source))) {
        Err(error) => found.unread.push(error.to_string()),
        Ok((What::Elf, source)) => {
            found.scanned.elf += 1;
            found.take(auditor.audit(source, job.named));
        }
        Ok((What::Deb | What::Zip | What::Tar, _)) if job.named || is_package(&job.path) => look_into(&job.path, auditor, found),
        Ok((What::Other, source)) if archive::is_python(&job.path) => {
            found.scanned.python += 1;
            found.take(auditor.audit_python(&source, job.named));
        }
        Ok((_, source)) if job.named => {
            let problem = "is neither an ELF file, a Python source, a package, a wheel, a tarball nor an image";
            found.unread.push(source.error("file", None, problem).to_string());
        }
        Ok(_) => {}
    }
}

/// True for the name of a package that is opened wherever it lies.
fn is_package(path: &Path) -> bool {
    path.extension().and_then(|extension| extension.to_str()).is_some_and(|extension| PACKAGES.contains(&extension))
}

fn look_into(container: &Path, auditor: &Auditor<'_>, found: &mut Found) {
    found.scanned.containers += 1;
    archive::read(container, &container.display().to_string(), Limits::default(), &mut |member| match member {
        Ok(member) if member.bytes.starts_with(archive::ELF_MAGIC) => {
            found.scanned.elf += 1;
            found.take(auditor.audit(Source::from_bytes(member.name, member.bytes), false));
        }
        Ok(member) => {
            found.scanned.python += 1;
            found.take(auditor.audit_python(&Source::from_bytes(member.name, member.bytes), false));
        }
        Err(error) => found.unread.push(error.to_string()),
    });
}

/// Draws how far the work is, on a terminal alone, and wipes the line at the end.
fn progress(taken: &AtomicUsize, all: usize, done: &AtomicBool) {
    const WIDTH: usize = 40;
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(FRAME);
        let at = taken.load(Ordering::Relaxed).min(all);
        let full = at * WIDTH / all.max(1);
        let _ = write!(std::io::stderr(), "\r[{}{}] {at} / {all} files", "#".repeat(full), " ".repeat(WIDTH - full));
    }
    let _ = write!(std::io::stderr(), "\r\x1b[K");
}
