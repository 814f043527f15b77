//! Files beside a runtime and of the system, of which only regular ones are read.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file for reading. What is no regular file is refused before it is opened: a FIFO would block in open(2).
pub fn open(file: &Path) -> io::Result<File> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("is no regular file"));
    }
    File::open(file)
}
