//! Files of a directory; no link is followed.

use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;

use crate::parallel;

/// Directories that hold no files of anybody's: the kernel makes their contents up.
const MADE_UP: [&str; 2] = ["/proc", "/sys"];

/// What directories hold.
#[derive(Default)]
struct Listed {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    failed: Vec<(PathBuf, io::Error)>,
}

impl Listed {
    fn list(&mut self, folder: &Path) {
        let entries = std::fs::read_dir(folder).map(|entries| entries.map(|entry| entry.and_then(|entry| self.take(&entry))));
        let failed: Vec<io::Error> = match entries {
            Ok(entries) => entries.filter_map(Result::err).collect(),
            Err(error) => vec![error],
        };
        self.failed.extend(failed.into_iter().map(|error| (folder.to_path_buf(), error)));
    }

    fn take(&mut self, entry: &DirEntry) -> io::Result<()> {
        let kind = entry.file_type()?;
        if kind.is_file() {
            self.files.push(entry.path());
        } else if kind.is_dir() && !MADE_UP.iter().any(|made_up| entry.path().as_os_str() == *made_up) {
            self.folders.push(entry.path());
        }
        Ok(())
    }
}

/// Every regular file below `folder`, sorted by the bytes of its path; links are not followed. What cannot be listed goes to `fail`.
pub fn files(folder: &Path, fail: &mut dyn FnMut(&Path, io::Error)) -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![folder.to_path_buf()], Vec::new());
    while !open.is_empty() {
        let listed = parallel::fold(&open, &AtomicUsize::new(0), Listed::default, |listed, _, folder| listed.list(folder));
        open = Vec::new();
        for listed in listed {
            listed.failed.into_iter().for_each(|(folder, error)| fail(&folder, error));
            found.extend(listed.files);
            open.extend(listed.folders);
        }
    }
    found.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
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
