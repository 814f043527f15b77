//! Container images: an OCI layout (folder or tar) and what `docker save` writes. Layers are read from the top down, so that whiteouts and
//! replaced files hide what lies below without anything being unpacked.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use serde::Deserialize;

use super::tarball::{self, Entry, Kind, Next};
use super::{Budget, Result, See, compress};
use crate::root::normal;

/// Nested indexes of an OCI layout, and links to one blob.
const MOST_STEPS: usize = 8;

/// Layers of one image; the kernel mounts fewer.
const MOST_LAYERS: usize = 512;

/// Prefix of a whiteout, and the name that hides all that a folder has below (OCI image specification, "Layer Filesystem Changeset").
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";

/// `index.json`, or an image's manifest; each has one of the lists.
#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize, Clone)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
}

/// An entry of `manifest.json` in what `docker save` writes.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    layers: Vec<String>,
}

/// Where blobs come from.
enum Blobs<'a> {
    Folder(&'a Path),
    Tar { path: &'a Path, compressed: bool },
}

type Take<'t> = dyn FnMut(&mut dyn Read) -> Result<()> + 't;

/// An OCI layout in a folder.
pub(super) fn read_folder(folder: &Path, budget: &Budget, see: &mut See<'_>) -> Result<()> {
    let images = oci_images(&Blobs::Folder(folder), budget)?;
    read_images(&Blobs::Folder(folder), &images, budget, see)
}

/// True for a folder that holds an OCI layout.
pub fn is_layout(folder: &Path) -> bool {
    ["oci-layout", "index.json"].iter().all(|name| folder.join(name).is_file())
}

/// A tarball: the ELF files in it, or those of the image that it is.
pub(super) fn read_tar(path: &Path, budget: &Budget, see: &mut See<'_>) -> Result<()> {
    let compressed = compress::is_compressed(&super::head(path).map_err(|error| budget.error(None, None, error.to_string()))?);
    let blobs = Blobs::Tar { path, compressed };
    let mut marks = HashSet::new();
    blobs.each(budget, &mut |entry| {
        if ["oci-layout", "index.json", "manifest.json"].contains(&entry.path.as_str()) {
            marks.insert(entry.path.clone());
        }
        if entry.kind == Kind::File
            && let Some(member) = budget.wanted(&entry.path, Some(entry.offset), entry.reader).transpose()
        {
            see(member);
        }
        Ok(Next::Go)
    })?;
    let images = if marks.contains("oci-layout") && marks.contains("index.json") {
        oci_images(&blobs, budget)?
    } else if marks.contains("manifest.json") {
        // Any tarball may hold a file of this name; only one of this shape is an image's.
        let text = blobs.small("manifest.json", budget)?;
        serde_json::from_slice::<Vec<Saved>>(&text).map(|saved| saved.into_iter().map(|image| image.layers).collect()).unwrap_or_default()
    } else {
        Vec::new()
    };
    read_images(&blobs, &images, budget, see)
}

/// Layers of every image of an OCI layout, as names of blobs, lowest first.
fn oci_images(blobs: &Blobs<'_>, budget: &Budget) -> Result<Vec<Vec<String>>> {
    let parse = |name: &str| -> Result<Index> {
        serde_json::from_slice(&blobs.small(name, budget)?).map_err(|error| budget.error(Some(name), None, error.to_string()))
    };
    let (mut open, mut images) = (vec![("index.json".to_string(), 0)], Vec::new());
    let mut seen = HashSet::new();
    while let Some((name, depth)) = open.pop() {
        if depth > MOST_STEPS {
            return Err(budget.error(Some(&name), None, format!("more than {MOST_STEPS} indexes within each other")));
        }
        if !seen.insert(name.clone()) {
            continue;
        }
        budget.entry(None)?;
        let index = parse(&name)?;
        for child in index.manifests {
            open.push((blob(&child.digest, budget)?, depth + 1));
        }
        // Attestations are manifests too; their layers are no file systems.
        let layers: Vec<String> =
            index.layers.iter().filter(|layer| layer.media_type.contains(".tar")).map(|layer| blob(&layer.digest, budget)).collect::<Result<_>>()?;
        if !layers.is_empty() {
            images.push(layers);
        }
    }
    Ok(images)
}

/// The path of a blob by its digest, which must not be a path itself.
fn blob(digest: &str, budget: &Budget) -> Result<String> {
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match digest.split_once(':') {
        Some((algorithm, hash)) if plain(algorithm) && plain(hash) => Ok(format!("blobs/{algorithm}/{hash}")),
        _ => Err(budget.error(None, None, format!("{digest:?} is no digest"))),
    }
}

fn read_images(blobs: &Blobs<'_>, images: &[Vec<String>], budget: &Budget, see: &mut See<'_>) -> Result<()> {
    for layers in images {
        if layers.len() > MOST_LAYERS {
            return Err(budget.error(None, None, format!("an image of {} layers", layers.len())));
        }
        let mut above = Above::default();
        for layer in layers.iter().rev() {
            let mut own = Above::default();
            blobs.with(layer, budget, &mut |reader| {
                let stream = compress::decoder(Box::new(reader), budget).map_err(|error| budget.error(Some(layer), None, error.to_string()))?;
                tarball::read(stream, budget, &mut |entry| {
                    layer_entry(entry, &above, &mut own, budget, see);
                    Ok(Next::Go)
                })
            })?;
            above.join(own);
        }
    }
    Ok(())
}

fn layer_entry(entry: Entry<'_>, above: &Above, own: &mut Above, budget: &Budget, see: &mut See<'_>) {
    let (folder, name) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
    if name == OPAQUE {
        own.opaque.insert(folder.into());
        return;
    }
    if let Some(gone) = name.strip_prefix(WHITEOUT) {
        own.gone.insert(if folder.is_empty() { gone.into() } else { format!("{folder}/{gone}") });
        return;
    }
    let hidden = above.hides(&entry.path);
    match &entry.kind {
        Kind::File if !hidden => {
            if let Some(member) = budget.wanted(&entry.path, Some(entry.offset), entry.reader).transpose() {
                see(member);
            }
        }
        // Its bytes stand under the other name; where that one is hidden, nobody looks at them.
        Kind::HardLink(target) if !hidden && above.hides(target) => {
            let problem = format!("is a hard link to {target}, which a layer above hides: its contents are not looked at");
            see(Err(budget.error(Some(&entry.path), Some(entry.offset), problem)));
        }
        _ => {}
    }
    let taken = if entry.kind == Kind::Directory { &mut own.folders } else { &mut own.gone };
    taken.insert(entry.path);
}

/// What the layers above hide.
#[derive(Default)]
struct Above {
    /// Paths that are removed or replaced, with all that is below them.
    gone: HashSet<String>,
    /// Folders: a file of that name below is replaced, what is in a folder of that name stays.
    folders: HashSet<String>,
    /// Folders whose contents below are hidden.
    opaque: HashSet<String>,
}

impl Above {
    fn hides(&self, path: &str) -> bool {
        let parents = || path.match_indices('/').map(|(at, _)| &path[..at]);
        self.gone.contains(path)
            || self.folders.contains(path)
            || parents().any(|parent| self.gone.contains(parent))
            || parents().chain([""]).any(|parent| self.opaque.contains(parent))
    }

    fn join(&mut self, other: Self) {
        self.gone.extend(other.gone);
        self.folders.extend(other.folders);
        self.opaque.extend(other.opaque);
    }
}

impl Blobs<'_> {
    fn each(&self, budget: &Budget, see: &mut dyn FnMut(Entry<'_>) -> Result<Next>) -> Result<()> {
        let Self::Tar { path, compressed } = self else { return Ok(()) };
        let fail = |error: std::io::Error| budget.error(None, None, error.to_string());
        let file = File::open(path).map_err(fail)?;
        if !compressed {
            return tarball::read_file(file, budget, see);
        }
        let stream = compress::decoder(Box::new(BufReader::with_capacity(1 << 16, file)), budget).map_err(fail)?;
        tarball::read(stream, budget, see)
    }

    /// Hands one blob to `take`; links between blobs are followed inside the image alone.
    fn with(&self, name: &str, budget: &Budget, take: &mut Take<'_>) -> Result<()> {
        let missing = |name: &str| budget.error(Some(name), None, "is named by the image and missing from it");
        if let Self::Folder(folder) = self {
            let path = crate::root::inside(folder, Path::new(name)).map_err(|_| missing(name))?;
            if !path.is_file() {
                return Err(missing(name));
            }
            let mut file = File::open(path).map_err(|error| budget.error(Some(name), None, error.to_string()))?;
            return take(&mut file);
        }
        let mut wanted = normal(name);
        for _ in 0..MOST_STEPS {
            let (mut found, mut link) = (false, None);
            self.each(budget, &mut |entry| {
                if entry.path != wanted {
                    return Ok(Next::Go);
                }
                match entry.kind {
                    Kind::File => {
                        found = true;
                        take(entry.reader)?;
                    }
                    Kind::HardLink(target) => link = Some(target),
                    Kind::SymbolicLink(target) => {
                        let folder = wanted.rsplit_once('/').map_or("", |(folder, _)| folder);
                        link = Some(normal(&format!("{folder}/{target}")));
                    }
                    Kind::Directory | Kind::Other => return Ok(Next::Go),
                }
                Ok(Next::Stop)
            })?;
            match link {
                _ if found => return Ok(()),
                Some(target) => wanted = target,
                None => break,
            }
        }
        Err(missing(&wanted))
    }

    fn small(&self, name: &str, budget: &Budget) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.with(name, budget, &mut |reader| {
            bytes = budget.small(name, reader)?;
            Ok(())
        })?;
        Ok(bytes)
    }
}
