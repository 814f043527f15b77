//! Files of a directory; no link is followed.

use std::io;
use std::path::{Path, PathBuf};

/// Directories that hold no files of anybody's: the kernel makes their contents up.
const MADE_UP: [&str; 2] = ["/proc", "/sys"];

/// Every regular file below `folder`, sorted; links are not followed. What cannot be listed goes to `fail`.
pub fn files(folder: &Path, fail: &mut dyn FnMut(&Path, io::Error)) -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = open.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                fail(&folder, error);
                continue;
            }
        };
        for entry in entries {
            match entry.and_then(|entry| Ok((entry.path(), entry.file_type()?))) {
                Ok((path, kind)) if kind.is_dir() && !MADE_UP.iter().any(|made_up| path == Path::new(made_up)) => open.push(path),
                Ok((path, kind)) if kind.is_file() => found.push(path),
                Ok(_) => {}
                Err(error) => fail(&folder, error),
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::files;

    #[test]
    fn links_are_not_followed() {
        let root = tempfile::tempdir().expect("a folder");
        let at = |path: &str| root.path().join(path);
        std::fs::create_dir_all(at("usr/lib")).expect("made");
        std::fs::write(at("usr/lib/x"), "x").expect("written");
        for (target, link) in [("/usr/lib", "lib"), ("../../../../usr/lib/x", "usr/up"), ("loop", "loop"), ("/etc/passwd", "out")] {
            symlink(target, at(link)).expect("linked");
        }
        assert_eq!(files(root.path(), &mut |path, error| panic!("{path:?}: {error}")), [at("usr/lib/x")]);
    }
}
