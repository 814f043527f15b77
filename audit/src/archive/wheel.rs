//! Wheels and other zip archives, through their central directory.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use zip::ZipArchive;

use super::{Budget, Result, See};
use crate::root::normal;

/// Bits of a Unix mode that say what a member is, and the value for a link.
const TYPE: u32 = 0o170_000;
const LINK: u32 = 0o120_000;

pub(super) fn read(path: &Path, budget: &Budget, see: &mut See<'_>) -> Result<()> {
    let fail = |problem: String| budget.error(None, None, problem);
    let file = File::open(path).map_err(|error| fail(error.to_string()))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| fail(error.to_string()))?;
    for index in 0..archive.len() {
        budget.entry(None)?;
        let name = archive.name_for_index(index).and_then(std::result::Result::ok).map_or_else(|| format!("member {index}"), |name| normal(&name));
        let mut member = match archive.by_index(index) {
            Ok(member) => member,
            Err(error) => {
                see(Err(budget.error(Some(&name), None, error.to_string())));
                continue;
            }
        };
        if !member.is_file() || member.unix_mode().is_some_and(|mode| mode & TYPE == LINK) {
            continue;
        }
        let (offset, packed) = (member.header_start(), member.compressed_size());
        let found = budget.wanted(&name, Some(offset), &mut member);
        if let Ok(Some(found)) = &found {
            let len = found.bytes.len() as u64;
            budget.unpack(len, packed, len).map_err(|error| budget.error(Some(&name), Some(offset), error.to_string()))?;
        }
        if let Some(found) = found.transpose() {
            see(found);
        }
    }
    Ok(())
}
