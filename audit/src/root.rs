//! Paths inside a root file system, whatever its links say.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Links followed on one path; the kernel's own bound.
const MOST_LINKS: usize = 40;
/// A component is no directory.
const ENOTDIR: i32 = 20;
/// Too many links.
const ELOOP: i32 = 40;

/// The file under `root` that a path leads to with `root` as `/`: links resolved, none leads out. A relative path begins at the root.
pub fn inside(root: &Path, path: &Path) -> io::Result<PathBuf> {
    Ok(root.join(below(root, path)?))
}

/// The same as a path below `root`; `..` stops at the root.
pub fn below(root: &Path, path: &Path) -> io::Result<PathBuf> {
    // Last part first, as a stack.
    let parts = |path: &Path| path.as_os_str().as_bytes().rsplit(|&byte| byte == b'/').map(|part| OsStr::from_bytes(part).into()).collect();
    let mut done = PathBuf::new();
    let mut left: Vec<OsString> = parts(path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        match part.as_bytes() {
            b"" | b"." => {}
            b".." => {
                done.pop();
            }
            _ => {
                let next = done.join(part);
                let metadata = fs::symlink_metadata(root.join(&next))?;
                if !metadata.file_type().is_symlink() {
                    if !left.is_empty() && !metadata.is_dir() {
                        return Err(io::Error::from_raw_os_error(ENOTDIR));
                    }
                    done = next;
                    continue;
                }
                links += 1;
                if links > MOST_LINKS {
                    return Err(io::Error::from_raw_os_error(ELOOP));
                }
                let target = fs::read_link(root.join(&next))?;
                if target.is_absolute() {
                    done = PathBuf::new();
                }
                left.append(&mut parts(&target));
            }
        }
    }
    Ok(done)
}

/// A path as text in one form: no leading `/` or `./`, no `.` or empty parts, `..` never above the top. Links are not looked at.
pub fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{inside, normal};

    #[test]
    fn paths_never_leave_the_top() {
        assert_eq!(normal("./usr//lib/../bin/./x"), "usr/bin/x");
        assert_eq!(normal("/../../etc/passwd"), "etc/passwd");
    }

    #[test]
    fn links_stay_inside_the_root() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("usr/lib")).expect("made");
        std::fs::write(at("usr/lib/x"), "x").expect("written");
        for (target, link) in [("/usr/lib", "lib"), ("../../../../usr/lib/x", "usr/up"), ("loop", "loop"), ("/etc/passwd", "out")] {
            symlink(target, at(link)).expect("linked");
        }
        let resolve = |path: &str| inside(root.path(), Path::new(path));
        assert_eq!(resolve("/lib/x").expect("there"), at("usr/lib/x"));
        assert_eq!(resolve("usr/up").expect("there"), at("usr/lib/x"));
        assert!(resolve("out").is_err(), "there is no passwd in this root");
        assert!(resolve("loop").is_err());
        assert!(resolve("/lib/x/").is_err(), "a file is no directory");
    }
}
