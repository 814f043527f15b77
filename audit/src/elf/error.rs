//! The one error of the reader: which file, which field of the format, where in the file, what is wrong with it.

use std::fmt;

/// Why a file could not be read, or cannot be trusted.
///
/// Displayed as `file: field at 0x1234: problem`; the offset is left out where none applies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ElfError {
    /// The file as the caller named it.
    pub file: String,
    /// The field in the words of the ELF specification (`e_phentsize`, `DT_STRSZ`, `vn_aux`), or `file` for the file itself.
    pub field: String,
    /// Offset in the file, in bytes, of the field or of the bytes it points to.
    pub offset: Option<u64>,
    /// What is wrong, and where possible what to do.
    pub problem: String,
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if self.field != "file" {
            write!(f, "{}", self.field)?;
            if let Some(offset) = self.offset {
                write!(f, " at {offset:#x}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.problem)
    }
}

/// Result of every reader in this module.
pub type Result<T> = std::result::Result<T, ElfError>;
