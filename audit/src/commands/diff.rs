//! `vrocm-audit diff`: what OLD and NEW are is found from the files; two of different kinds are an error that says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};

use super::coverage::{families, today};
use super::libraries::{self, Library};
use super::{Result, deliver, evidence, inputs};
use crate::archive;
use crate::cli;
use crate::coverage::{self, Context, Runtime, Shim};
use crate::diff::manifests::{Sort, Tree};
use crate::diff::runtimes::Build;
use crate::diff::{Difference, manifests, runtimes, shims};
use crate::finding::Finding;
use crate::gate::config::Listed;
use crate::linkage::{self, Policy};
use crate::manifest::{Acceptances, ClassTable, Family};
use crate::report::{Report, Subjects};

/// How deep a tree of manifests goes: `manifests/<family>/exports/<release>.json`.
const DEPTH: usize = 4;

/// What one side is.
enum Side<'a> {
    /// Runtimes, each with the library it was read from; a list has none.
    Runtimes(Vec<(Runtime<'a>, Option<Library>)>),
    Shim(Library),
    Manifests(Tree),
}

impl Side<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Runtimes(_) => "a runtime",
            Self::Shim(_) => "a shim (a library of no known runtime family)",
            Self::Manifests(_) => "a manifest",
        }
    }
}

pub(super) fn run(arguments: &cli::Diff) -> Result<ExitCode> {
    let families = families(&arguments.families.manifests)?;
    let side = |path: &Path| side(path, &families).with_context(|| path.display().to_string());
    let (old, new) = (side(&arguments.old)?, side(&arguments.new)?);
    let kinds = (old.kind(), new.kind());
    let mut findings = Vec::new();
    let difference = match (old, new) {
        (Side::Runtimes(old), Side::Runtimes(new)) => Difference::Runtimes(of_runtimes(old, new, &families, arguments, &mut findings)?),
        (Side::Shim(old), Side::Shim(new)) => Difference::Shims(Box::new(of_shims(&old, &new, &families, arguments, &mut findings)?)),
        (Side::Manifests(old), Side::Manifests(new)) => Difference::Manifests(manifests::compare(&old, &new, &mut findings)?),
        _ => bail!("{} is {}, {} is {}: they are not compared", arguments.old.display(), kinds.0, arguments.new.display(), kinds.1),
    };
    if arguments.shim.is_some() && !matches!(difference, Difference::Runtimes(_)) {
        bail!("--shim: says which new doors of a runtime a shim holds; OLD and NEW are {}", kinds.0);
    }
    deliver(Report::new("vrocm-audit", Subjects::Diff(difference), findings, Vec::new()), arguments.output.format)
}

fn side<'a>(path: &Path, families: &'a [Family]) -> Result<Side<'a>> {
    if !path.exists() {
        return listed(path, families);
    }
    let prefixes: Vec<&str> = families.iter().map(|family| family.identity.soname_prefix.as_str()).collect();
    if path.is_dir() {
        if is_manifests(path) {
            let mut texts = BTreeMap::new();
            tree(path, "", DEPTH, &mut texts)?;
            return Ok(Side::Manifests(Tree { file: path.display().to_string(), texts }));
        }
        return read(inputs::expand(&[path.to_path_buf()], &prefixes)?.into_iter().map(Library::File).collect(), families);
    }
    if archive::is_package(path) {
        return read(unpacked(path, &prefixes)?, families);
    }
    let head = archive::head(path)?;
    if head.starts_with(archive::ELF_MAGIC) {
        return library(Library::File(path.to_path_buf()), families);
    }
    let text = inputs::read_text(path)?;
    if Sort::of(&text).is_none() {
        bail!("neither an ELF file, a package, nor a manifest: nothing that diff knows");
    }
    Ok(Side::Manifests(Tree { file: path.display().to_string(), texts: [(String::new(), text)].into() }))
}

/// A path that is not there may be the name of lists: `hip`, `hip 7.2.4`.
fn listed<'a>(path: &Path, families: &'a [Family]) -> Result<Side<'a>> {
    let known = || families.iter().flat_map(|family| family.builds.iter().map(|build| format!("{} {}", family.name(), build.release)));
    let wanted = path.to_str().and_then(|text| Listed::parse(text).ok());
    let found = wanted.and_then(|wanted| {
        let family = families.iter().find(|family| family.name() == wanted.family)?;
        let build = family.builds.iter().rev().find(|build| wanted.release.is_none_or(|release| release == build.release))?;
        Some(Runtime::from_build(build, family))
    });
    let runtime =
        found.ok_or_else(|| anyhow!("no such file, and no list inside the program; there are {}", known().collect::<Vec<_>>().join(", ")))?;
    Ok(Side::Runtimes(vec![(runtime, None)]))
}

/// A family's folder, or a folder of such.
fn is_manifests(folder: &Path) -> bool {
    let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
    folder.join("family.json").is_file() || below.map(|entry| entry.path()).any(|path| path.join("family.json").is_file())
}

fn tree(folder: &Path, before: &str, depth: usize, texts: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let name = format!("{before}{}", path.file_name().unwrap_or_default().display());
        if path.is_dir() && depth > 0 && !path.is_symlink() {
            tree(&path, &format!("{name}/"), depth - 1, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            texts.insert(name, inputs::read_text(&path)?);
        }
    }
    Ok(())
}

/// The runtimes of a package, or else its only library, which is then a shim.
fn unpacked(package: &Path, prefixes: &[&str]) -> Result<Vec<Library>> {
    let mut unread = Vec::new();
    let mut all = libraries::members(package, &inputs::is_shared, &mut unread);
    if let Some(first) = unread.first() {
        bail!("{first}");
    }
    let is_runtime =
        |library: &Library| library.path().file_name().and_then(|name| name.to_str()).is_some_and(|name| inputs::is_library(name, prefixes));
    if all.iter().any(is_runtime) {
        all.retain(is_runtime);
    } else if all.len() != 1 {
        bail!("holds {} shared libraries and no {}: which of them?", all.len(), inputs::library_named(prefixes));
    }
    Ok(all)
}

fn read(files: Vec<Library>, families: &[Family]) -> Result<Side<'_>> {
    let mut runtimes: Vec<(Runtime<'_>, Option<Library>)> = Vec::new();
    let alone = files.len() == 1;
    for file in files {
        match library(file, families)? {
            Side::Runtimes(found) => runtimes.extend(found),
            other if alone => return Ok(other),
            Side::Shim(library) => bail!("{}: called as a runtime and none of a known family", library.path().display()),
            Side::Manifests(_) => {}
        }
    }
    runtimes.sort_by(|(a, _), (b, _)| a.family.name().cmp(b.family.name()));
    for (at, (runtime, _)) in runtimes.iter().enumerate() {
        if let Some((other, _)) = runtimes[..at].iter().find(|(other, _)| other.family.name() == runtime.family.name()) {
            bail!("two runtimes of family {}, {} and {}: name one", runtime.family.name(), other.file, runtime.file);
        }
    }
    Ok(Side::Runtimes(runtimes))
}

/// A library is a runtime by what it exports. One that has a runtime's soname without its names is damaged, and no shim.
fn library(library: Library, families: &[Family]) -> Result<Side<'_>> {
    let image = library.open()?;
    let soname = image.names()?.soname.unwrap_or_default();
    match Runtime::of(&image, library.path(), families) {
        Ok(runtime) => Ok(Side::Runtimes(vec![(runtime, Some(library))])),
        Err(error) if error.field != "file" || families.iter().any(|family| soname.starts_with(&family.identity.soname_prefix)) => Err(error.into()),
        Err(_) => Ok(Side::Shim(library)),
    }
}

fn of_runtimes<'a>(
    old: Vec<(Runtime<'a>, Option<Library>)>,
    new: Vec<(Runtime<'a>, Option<Library>)>,
    families: &[Family],
    arguments: &cli::Diff,
    findings: &mut Vec<Finding>,
) -> Result<Vec<runtimes::Change>> {
    let table = ClassTable::embedded()?;
    let names = |side: &[(Runtime<'_>, Option<Library>)]| side.iter().map(|(runtime, _)| runtime.family.name().to_string()).collect::<Vec<_>>();
    if names(&old) != names(&new) {
        let (old, new) = (names(&old).join(", "), names(&new).join(", "));
        bail!("{} has runtimes of {old}, {} of {new}: they are not compared", arguments.old.display(), arguments.new.display());
    }
    let shim = arguments.shim.as_deref().map(|path| crate::elf::Elf::open(path).map(|image| (path, image))).transpose()?;
    let acceptances = inputs::acceptances(arguments.accepted.accept.as_deref(), arguments.shim.as_deref())?;
    let mut changes = Vec::new();
    for (old, new) in old.into_iter().zip(new) {
        let (old, new) = (build(old, families, &table), build(new, families, &table));
        let judged = match &shim {
            Some((path, image)) => {
                let shim = Shim::from_library(image, inputs::interposed(None, Some(path))?)?;
                let context = Context { table: &table, families, acceptances: &acceptances, today: today() };
                coverage::audit(std::slice::from_ref(&new.runtime), &shim, &context).0.pop()
            }
            None => None,
        };
        changes.push(runtimes::compare(&old, &new, &table, judged.as_ref(), findings));
    }
    Ok(changes)
}

/// The slots of a runtime's dispatch table stand in its machine code alone.
fn build<'a>((runtime, library): (Runtime<'a>, Option<Library>), families: &[Family], table: &ClassTable) -> Build<'a> {
    let code = match &library {
        None => Err(format!("{} {} is a list, which has no code", runtime.family.name(), runtime.release.map_or(String::new(), |r| r.to_string()))),
        Some(library) => {
            library.open().and_then(|image| evidence::of(&image, &runtime, families, table, &mut Vec::new())).map_err(|error| format!("{error:#}"))
        }
    };
    Build { runtime, code }
}

/// Two shims are held against the lists inside the program, and those of the user's families.
fn of_shims(old: &Library, new: &Library, families: &[Family], arguments: &cli::Diff, findings: &mut Vec<Finding>) -> Result<shims::Change> {
    let (table, policy) = (ClassTable::embedded()?, Policy::embedded()?);
    let accepted: Acceptances = inputs::acceptances(arguments.accepted.accept.as_deref(), Some(new.path()))?;
    let context = Context { table: &table, families, acceptances: &accepted, today: today() };
    let runtimes = super::coverage::listed(families);
    let read = |library: &Library| -> Result<(linkage::Subject, Vec<coverage::Subject>)> {
        let image = library.open()?;
        let (subject, _) = linkage::audit(&image, &policy, None)?;
        Ok((subject, coverage::audit(&runtimes, &Shim::from_library(&image, None)?, &context).0))
    };
    let ((old, covered), (new, covers)) = (read(old)?, read(new)?);
    Ok(shims::compare((&old, &covered), (&new, &covers), findings))
}
