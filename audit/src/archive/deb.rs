//! Debian packages: an `ar` archive of `debian-binary`, `control.tar.*` and `data.tar.*` (deb(5)).

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::tarball::{self, Kind, Next};
use super::{Budget, Result, See, compress};

/// Bytes of the magic, and of each member's header.
const MAGIC: u64 = 8;
const HEADER: usize = 60;

pub(super) fn read(path: &Path, budget: &Budget, see: &mut See<'_>) -> Result<()> {
    let fail = |offset: u64, problem: String| budget.error(None, Some(offset), problem);
    let mut file = File::open(path).map_err(|error| fail(0, error.to_string()))?;
    let len = file.metadata().map_err(|error| fail(0, error.to_string()))?.len();
    let mut at = MAGIC;
    while at < len {
        budget.entry(Some(at))?;
        let mut header = [0; HEADER];
        file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut header)).map_err(|error| fail(at, format!("ar header: {error}")))?;
        if header[58..] != *b"`\n" {
            return Err(fail(at, "ar header: its end mark is missing".into()));
        }
        let field = |from: usize, to: usize| String::from_utf8_lossy(&header[from..to]).trim_end().to_string();
        let (name, size) = (field(0, 16), field(48, 58));
        let Ok(size) = size.parse::<u64>() else { return Err(fail(at, format!("ar header: {size:?} is no size"))) };
        let start = at + HEADER as u64;
        if start.checked_add(size).is_none_or(|end| end > len) {
            return Err(fail(at, format!("{name} of {size} bytes leaves the file of {len} bytes: it is cut short")));
        }
        if name.trim_end_matches('/').starts_with("data.tar") {
            return data(file, start, size, budget, see);
        }
        // Members begin at even offsets.
        at = start + size + size % 2;
    }
    Err(budget.error(None, Some(at), "holds no data.tar: it is cut short, or no binary package"))
}

fn data(mut file: File, start: u64, size: u64, budget: &Budget, see: &mut See<'_>) -> Result<()> {
    let fail = |error: std::io::Error| budget.error(Some("data.tar"), Some(start), error.to_string());
    file.seek(SeekFrom::Start(start)).map_err(fail)?;
    let packed = BufReader::with_capacity(1 << 16, file).take(size);
    let stream = compress::decoder(Box::new(packed), budget).map_err(fail)?;
    tarball::read(stream, budget, &mut |entry| {
        if entry.kind == Kind::File
            && let Some(member) = budget.wanted(&entry.path, Some(entry.offset), entry.reader).transpose()
        {
            see(member);
        }
        Ok(Next::Go)
    })
}
