//! `vrocm-audit coverage`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::{OWN_SHIM, Result, deliver, evidence, inputs};
use crate::cli::Coverage;
use crate::coverage::{self, Context, Runtime, Shim};
use crate::elf::Elf;
use crate::manifest::{ClassTable, Family, InterposedList};
use crate::report::{Format, Report, Subjects};

/// Where our own shim is installed.
const INSTALLED: &str = "/usr/local/vrocm/libvrocm.so";

pub(super) fn run(arguments: &Coverage) -> Result<ExitCode> {
    let families = families(&arguments.families.manifests)?;
    let table = ClassTable::embedded()?;
    let path = arguments.shim.clone().or_else(|| if arguments.interposed.is_none() { find_shim() } else { None });
    let list = inputs::interposed(arguments.interposed.as_deref(), path.as_deref())?;
    let image = path.as_deref().map(Elf::open).transpose()?;
    let shim = match (&image, list) {
        (Some(image), list) => Shim::from_library(image, list)?,
        (None, Some(list)) => Shim::from_list(list),
        (None, None) => Shim::from_list(reference()?),
    };
    let acceptances = inputs::acceptances(arguments.accepted.accept.as_deref(), path.as_deref())?;
    let context = Context { table: &table, families: &families, acceptances: &acceptances, today: today() };

    let mut unread = Vec::new();
    let runtimes = if arguments.runtimes.is_empty() { listed(&families) } else { read(&arguments.runtimes, &families, &mut unread)? };
    let (subjects, mut findings) = coverage::audit(&runtimes, &shim, &context);
    if !arguments.runtimes.is_empty() {
        evidence::weigh(&runtimes, &families, &table, &mut findings)?;
    }
    let report = Report::new("vrocm-audit", Subjects::Coverage(subjects), findings, unread);
    deliver(if arguments.output.format == Format::Html { report.with_families(families) } else { report }, arguments.output.format)
}

/// The families inside the program, and those of folders the user names; one of the same name takes the place of ours.
pub(super) fn families(folders: &[PathBuf]) -> Result<Vec<Family>> {
    let mut families = Family::embedded()?;
    for folder in folders {
        let mut found = Vec::new();
        if folder.join("family.json").is_file() {
            found.push(folder.clone());
        } else {
            let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
            found.extend(entries.flatten().map(|entry| entry.path()).filter(|path| path.join("family.json").is_file()));
        }
        if found.is_empty() {
            bail!("{}: neither a family of runtimes nor a folder of such (family.json)", folder.display());
        }
        found.sort();
        for path in found {
            let family = Family::load(&path)?;
            families.retain(|known| known.name() != family.name());
            families.push(family);
        }
    }
    Ok(families)
}

/// The lists inside the program, family by family, oldest release first.
pub(super) fn listed(families: &[Family]) -> Vec<Runtime<'_>> {
    families.iter().flat_map(|family| family.builds.iter().map(|build| Runtime::from_build(build, family))).collect()
}

fn read<'a>(named: &[PathBuf], families: &'a [Family], unread: &mut Vec<String>) -> Result<Vec<Runtime<'a>>> {
    let prefixes: Vec<&str> = families.iter().map(|family| family.identity.soname_prefix.as_str()).collect();
    let mut runtimes = Vec::new();
    for path in inputs::expand(named, &prefixes)? {
        match Runtime::read(&path, families) {
            Ok(runtime) => runtimes.push(runtime),
            Err(error) => unread.push(error.to_string()),
        }
    }
    Ok(runtimes)
}

/// The reference list serves where no shim is found; the report says so.
pub(super) fn reference() -> Result<InterposedList> {
    let mut list = InterposedList::reference()?;
    list.title = format!("{}; no shim given, and none found at $VROCM_SHIM, beside this program, or at {INSTALLED}", list.title);
    Ok(list)
}

/// `$VROCM_SHIM`, then `libvrocm.so` beside this program, then where it is installed.
pub(super) fn find_shim() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("VROCM_SHIM").filter(|value| !value.is_empty()) {
        return Some(named.into());
    }
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(OWN_SHIM)));
    beside.into_iter().chain([PathBuf::from(INSTALLED)]).find(|path| path.is_file())
}

/// Today in UTC, by the machine's clock.
pub(super) fn today() -> jiff::civil::Date {
    jiff::tz::TimeZone::UTC.to_datetime(jiff::Timestamp::now()).date()
}
