//! Files of a directory, and paths inside a root: no link is followed out of either.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Links followed on the way to one file, as the kernel does.
const MOST_LINKS: usize = 40;

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

/// What `path` is under `root`, links resolved as they would be with `root` as `/`; none leads out of it.
pub fn inside(root: &Path, path: &Path) -> io::Result<PathBuf> {
    let parts = |path: &Path| path.components().map(|part| part.as_os_str().to_os_string()).collect::<VecDeque<OsString>>();
    let (mut todo, mut done, mut links) = (parts(path), PathBuf::new(), 0);
    while let Some(part) = todo.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::Normal(name)) => {
                let next = root.join(&done).join(name);
                if std::fs::symlink_metadata(&next)?.is_symlink() {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(io::Error::other(format!("more than {MOST_LINKS} links")));
                    }
                    let mut target = parts(&std::fs::read_link(&next)?);
                    target.append(&mut todo);
                    todo = target;
                } else {
                    done.push(name);
                }
            }
            Some(Component::ParentDir) => {
                done.pop();
            }
            Some(Component::RootDir) => done = PathBuf::new(),
            _ => {}
        }
    }
    Ok(root.join(done))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::{files, inside};

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
        assert_eq!(files(root.path(), &mut |path, error| panic!("{path:?}: {error}")), [at("usr/lib/x")]);
    }
}
