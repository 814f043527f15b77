//! Which ROCm release a library comes from. It decorates the message and decides nothing.
//!
//! No header or note says it; there are only habits: `.info/version` beside the library, the patch number in the name of AMD's own builds,
//! an installation path, and a minor number that several releases share (`manifests/hsa/releases.json`).

use std::io::Read;
use std::path::Path;

use serde::Serialize;

use super::identity::Identity;
use super::regular;
use crate::manifest::BadManifest;
use crate::manifest::minors::{self, numbers};

/// Longest `.info/version` that is believed, in bytes.
const LONGEST_INFO: u64 = 256;

/// A release, and what says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Release {
    /// `7.2.4`, or `7.2`, or `7.0-7.2` where the evidence fits several.
    pub version: String,
    /// What it was read from.
    pub evidence: String,
}

/// What is known about a library before its release is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// What it is.
    pub identity: Identity,
    /// The path it was opened by.
    pub path: &'a Path,
    /// The text of `ROCR BUILD ID`.
    pub build_id: Option<&'a str>,
    /// Its version nodes.
    pub nodes: &'a [String],
}

/// The best evidence for a library's release, exact ones first.
pub fn find(facts: Facts<'_>) -> Result<Option<Release>, BadManifest> {
    if facts.identity == Identity::Other {
        return Ok(None);
    }
    let canonical = facts.path.canonicalize().unwrap_or_else(|_| facts.path.to_path_buf());
    let name = canonical.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let suffix = name.split_once(".so.").and_then(|(_, suffix)| numbers(suffix));
    if let Some(release) = beside(&canonical).or_else(|| official(facts.identity, &name, suffix.as_deref())).or_else(|| installed(&canonical)) {
        return Ok(Some(release));
    }
    match facts.identity {
        Identity::Hip => Ok(hip(&name, suffix.as_deref(), facts.nodes)),
        _ => rocr(&name, suffix.as_deref(), facts.build_id),
    }
}

/// `<root>/.info/version` for `<root>/lib/lib….so.1.x`, as AMD's packages and TheRock lay it out.
fn beside(canonical: &Path) -> Option<Release> {
    let info = canonical.parent()?.parent()?.join(".info/version");
    let mut text = String::new();
    regular::open(&info).ok()?.take(LONGEST_INFO).read_to_string(&mut text).ok()?;
    let first = text.split_whitespace().next()?;
    let version = first.split_once('-').map_or(first, |(version, _)| version);
    numbers(version).filter(|numbers| numbers.len() >= 2)?;
    Some(Release { version: version.into(), evidence: format!("{} says {first}", info.display()) })
}

/// AMD's own builds of `libhsa-runtime64` end in `ROCM_PATCH_VERSION`, `MMmmpp`: `1.14.60301` is 6.3.1.
fn official(identity: Identity, name: &str, suffix: Option<&[u32]>) -> Option<Release> {
    let &[1, _, patch] = suffix? else { return None };
    if identity != Identity::Rocr || patch < 10_000 {
        return None;
    }
    let version = format!("{}.{}.{}", patch / 10_000, patch / 100 % 100, patch % 100);
    Some(Release { version, evidence: format!("the file is called {name}: patch number {patch}") })
}

/// `/opt/rocm-7.2.4/lib/…`.
fn installed(canonical: &Path) -> Option<Release> {
    let version = canonical.components().find_map(|part| {
        let part = part.as_os_str().to_str()?.strip_prefix("rocm-")?;
        numbers(part).filter(|numbers| numbers.len() >= 2).map(|_| part.to_owned())
    })?;
    Some(Release { evidence: format!("it is installed under rocm-{version}"), version })
}

fn rocr(name: &str, suffix: Option<&[u32]>, build_id: Option<&str>) -> Result<Option<Release>, BadManifest> {
    let stamp = build_id.and_then(|id| numbers(id.split('-').next()?));
    let named = suffix.filter(|suffix| suffix.len() >= 2);
    let (numbers, evidence) = match (stamp.as_deref(), named) {
        (Some(stamp), _) if stamp.len() >= 2 => (stamp, format!("ROCR BUILD ID \"{}\" in the file", build_id.unwrap_or_default())),
        (_, Some(named)) => (named, format!("the file is called {name}")),
        _ => return Ok(None),
    };
    let minor = format!("{}.{}", numbers[0], numbers[1]);
    let row = minors::embedded()?.into_iter().find(|row| row.minor == minor);
    Ok(row.map(|row| Release { evidence: format!("{evidence}, and ROCm {} has {minor} ({})", row.release, minors::FILE), version: row.release }))
}

/// HIP's file is named by its release line, and its newest version node by the line that last added a function.
fn hip(name: &str, suffix: Option<&[u32]>, nodes: &[String]) -> Option<Release> {
    let node = nodes.iter().filter_map(|node| numbers(node.strip_prefix("hip_")?)).filter(|node| node.len() == 2).max();
    let named = suffix.filter(|suffix| suffix.len() >= 2).map(|suffix| suffix[..2].to_vec());
    let newest = |node: &[u32]| format!("its newest version node is hip_{}.{}", node[0], node[1]);
    // The name may be older than the node only if somebody renamed the file; then the node counts.
    let (numbers, evidence) = match (named, node) {
        (Some(named), Some(node)) if named >= node => {
            let evidence = format!("the file is called {name}, {}", newest(&node));
            (named, evidence)
        }
        (_, Some(node)) => {
            let evidence = newest(&node);
            (node, evidence)
        }
        (Some(named), None) => (named, format!("the file is called {name}")),
        (None, None) => return None,
    };
    Some(Release { version: format!("{}.{}", numbers[0], numbers[1]), evidence })
}
