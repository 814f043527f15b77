//! Secure mode (`AT_SECURE`): what the loader drops for a program that runs with more rights than who starts it (`elf/rtld.c`, `elf/dl-load.c`).
//!
//! Whether the mode applies is the kernel's decision at the start: a set-user-id bit counts for others than the owner, file capabilities for
//! others than root, neither on a file system mounted nosuid. So a program that is marked is resolved both ways.

use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::token;
use crate::root;

/// Bits of a mode: set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
/// Longest preload without a slash that counts.
const LONGEST_NAME: usize = 255;

/// True if a start of this file may be in secure mode: set-user-id, set-group-id, or capabilities of the file (or they cannot be asked for).
pub(super) fn is_marked(file: &Path, metadata: &Metadata) -> bool {
    metadata.permissions().mode() & SET_ID != 0 || has_capabilities(file)
}

fn has_capabilities(file: &Path) -> bool {
    use rustix::io::Errno;
    match rustix::fs::getxattr_query(file, "security.capability") {
        Ok(size) => size > 0,
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT) => false,
        Err(_) => true,
    }
}

/// A preload of the environment that secure mode looks for at all.
pub(super) fn is_preload(name: &str) -> bool {
    !name.contains('/') && name.len() < LONGEST_NAME
}

/// True if `$ORIGIN` may stand in a text as it does: at its very start, followed by a slash or nothing, and nowhere else.
pub(super) fn origin_is_first(text: &str) -> bool {
    if !token::mentions(text, "ORIGIN") {
        return true;
    }
    let rest = ["$ORIGIN", "${ORIGIN}"].into_iter().find_map(|token| text.strip_prefix(token));
    rest.is_some_and(|rest| (rest.is_empty() || rest.starts_with('/')) && !token::mentions(rest, "ORIGIN"))
}

/// True if a path, `.` and `..` taken as text, lies below one of the loader's default directories.
pub(super) fn is_trusted(path: &str, directories: &[String]) -> bool {
    let normal = format!("/{}/", root::normal(path));
    path.starts_with('/') && directories.iter().any(|folder| normal.starts_with(folder.as_str()))
}

#[cfg(test)]
mod tests {
    use super::{is_trusted, origin_is_first};

    #[test]
    fn origin_stands_first_or_not_at_all() {
        for text in ["$ORIGIN", "${ORIGIN}/../lib", "/opt/lib", "$ORIGIN/$LIB"] {
            assert!(origin_is_first(text), "{text}");
        }
        for text in ["/x/$ORIGIN", "${ORIGIN}x", "$ORIGIN/$ORIGIN"] {
            assert!(!origin_is_first(text), "{text}");
        }
    }

    #[test]
    fn trusted_paths_lie_below_default_directories() {
        let directories = ["/lib/x86_64-linux-gnu/".to_string(), "/usr/lib/".to_string()];
        for path in ["/usr/lib", "/usr/bin/../lib/app", "/usr//lib/./app", "/lib/x86_64-linux-gnu/x"] {
            assert!(is_trusted(path, &directories), "{path}");
        }
        for path in ["/usr/lib/../bin", "/usr/library", "/lib", "usr/lib", ""] {
            assert!(!is_trusted(path, &directories), "{path}");
        }
    }
}
