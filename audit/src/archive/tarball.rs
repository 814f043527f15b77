//! Members of a tar stream. The `tar` crate reads headers; what it would read without a bound (long names, extended headers) is read here.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use tar::{Archive, Entries, EntryType};

use super::compress::Counted;
use super::{Budget, Result};
use crate::root::normal;

/// Longest name and longest extended header.
const MOST_EXTENSION: u64 = 1 << 20;

/// What a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file with bytes.
    File,
    /// Another name of a member before it.
    HardLink(String),
    /// A link, to be read from where it stands.
    SymbolicLink(String),
    /// A directory.
    Directory,
    /// A device, a pipe: no bytes.
    Other,
}

/// One member.
pub(super) struct Entry<'a> {
    /// Path in one form, without leading slash.
    pub path: String,
    pub kind: Kind,
    /// Where its bytes begin in the unpacked stream.
    pub offset: u64,
    pub reader: &'a mut dyn Read,
}

/// What `see` wants after a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Stop,
}

/// Visits the members of a stream and then reads it to its end, so that a stream that was cut short is noticed.
pub(super) fn read<'a>(stream: Box<dyn Read + 'a>, budget: &Budget, see: &mut dyn FnMut(Entry<'_>) -> Result<Next>) -> Result<()> {
    let count = Rc::new(Cell::new(0));
    let mut archive = Archive::new(Counted { inner: stream, count: count.clone() });
    let entries = archive.entries().map_err(|error| budget.error(None, None, error.to_string()))?;
    let (next, end) = each(entries, budget, see)?;
    if next == Next::Stop {
        return Ok(());
    }
    if count.get() <= end {
        return Err(budget.error(None, Some(end), "the tar stream ends without its end mark: it is cut short"));
    }
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| budget.error(None, Some(count.get()), error.to_string()))?;
    Ok(())
}

/// The same for a file that is not compressed: members that nobody reads are passed over by seeking.
pub(super) fn read_file(file: std::fs::File, budget: &Budget, see: &mut dyn FnMut(Entry<'_>) -> Result<Next>) -> Result<()> {
    let fail = |error: io::Error| budget.error(None, None, error.to_string());
    let len = file.metadata().map_err(fail)?.len();
    let mut archive = Archive::new(file);
    let (next, end) = each(archive.entries_with_seek().map_err(fail)?, budget, see)?;
    if next == Next::Go && len <= end {
        return Err(budget.error(None, Some(end), format!("the tar file of {len} bytes ends without its end mark: it is cut short")));
    }
    Ok(())
}

/// Names and links that headers before a member gave it.
#[derive(Default)]
struct Given {
    path: Option<String>,
    link: Option<String>,
    sparse: bool,
    size: Option<u64>,
}

/// Returns where the last member ends.
fn each<R: Read>(entries: Entries<'_, R>, budget: &Budget, see: &mut dyn FnMut(Entry<'_>) -> Result<Next>) -> Result<(Next, u64)> {
    let (mut given, mut end) = (Given::default(), 0);
    for entry in entries.raw(true) {
        let mut entry = entry.map_err(|error| budget.error(None, Some(end), error.to_string()))?;
        let offset = entry.raw_file_position();
        budget.entry(Some(offset))?;
        let size = entry.header().entry_size().map_err(|error| budget.error(None, Some(offset), error.to_string()))?;
        end = size.checked_add(511).and_then(|size| offset.checked_add(size & !511)).unwrap_or(u64::MAX);
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::GNULongName | EntryType::GNULongLink | EntryType::XHeader | EntryType::XGlobalHeader) {
            extension(&mut entry, kind, offset, budget, &mut given)?;
            continue;
        }
        let given = std::mem::take(&mut given);
        let path = normal(&given.path.unwrap_or_else(|| text(&entry.path_bytes())));
        if kind == EntryType::GNUSparse || given.sparse {
            return Err(budget.error(Some(&path), Some(offset), "is a sparse member, which is not read here: unpack it first"));
        }
        if let Some(claimed) = given.size.filter(|&claimed| claimed != size) {
            let problem = format!("the extended header says {claimed} bytes, the header {size}: members of 8 GiB are not read here");
            return Err(budget.error(Some(&path), Some(offset), problem));
        }
        let link = || given.link.clone().unwrap_or_else(|| text(&entry.link_name_bytes().unwrap_or_default()));
        let kind = match kind {
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Link => Kind::HardLink(normal(&link())),
            EntryType::Symlink => Kind::SymbolicLink(link()),
            EntryType::Directory => Kind::Directory,
            _ => Kind::Other,
        };
        if see(Entry { path, kind, offset, reader: &mut entry })? == Next::Stop {
            return Ok((Next::Stop, end));
        }
    }
    Ok((Next::Go, end))
}

fn extension<R: Read>(entry: &mut tar::Entry<'_, R>, kind: EntryType, offset: u64, budget: &Budget, given: &mut Given) -> Result<()> {
    let fail = |problem: String| budget.error(None, Some(offset), problem);
    let mut bytes = Vec::new();
    entry.take(MOST_EXTENSION + 1).read_to_end(&mut bytes).map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > MOST_EXTENSION {
        return Err(fail(format!("a name or an extended header of more than {MOST_EXTENSION} bytes")));
    }
    let name = |bytes: &[u8]| text(bytes.split(|&byte| byte == 0).next().unwrap_or_default());
    match kind {
        EntryType::GNULongName => given.path = Some(name(&bytes)),
        EntryType::GNULongLink => given.link = Some(name(&bytes)),
        EntryType::XHeader => {
            for record in tar::PaxExtensions::new(&bytes) {
                let record = record.map_err(|error| fail(error.to_string()))?;
                match record.key_bytes() {
                    b"path" => given.path = Some(text(record.value_bytes())),
                    b"linkpath" => given.link = Some(text(record.value_bytes())),
                    b"size" => given.size = text(record.value_bytes()).parse().ok(),
                    key if key.starts_with(b"GNU.sparse.") => given.sparse = true,
                    _ => {}
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
