//! The preload library loads everywhere: its linkage through our own ELF reader, and then in real processes.
//!
//! The old and new glibc and musl come from the corpus (`VROCM_CORPUS`: unpacked packages, `scripts/corpus.sh`).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vrocm_audit::elf::Elf;
use vrocm_audit::elf::segment::segment_type;
use vrocm_tests::shim::library;

/// A folder of the corpus whose name begins so.
fn package(prefix: &str) -> PathBuf {
    let root = std::env::var_os("VROCM_CORPUS").expect("VROCM_CORPUS is not set: scripts/corpus.sh fetches the packages and says where");
    let entries = std::fs::read_dir(&root).unwrap_or_else(|error| panic!("VROCM_CORPUS {}: {error}", Path::new(&root).display()));
    let mut found = entries.map(|entry| entry.unwrap().path()).filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix));
    found.next().unwrap_or_else(|| panic!("no package {prefix}* in VROCM_CORPUS: scripts/corpus.sh fetches it"))
}

/// The file of that name somewhere below a folder.
fn file_below(folder: &Path, name: &str) -> PathBuf {
    let output = Command::new("find").arg(folder).args(["-name", name, "-not", "-type", "l"]).output().unwrap();
    let first = String::from_utf8(output.stdout).unwrap().lines().next().map(PathBuf::from);
    first.unwrap_or_else(|| panic!("no {name} below {}", folder.display()))
}

/// The program ends well, and the library has said that it is there.
fn assert_loaded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    let loaded = said.lines().next().is_some_and(|line| line.starts_with("libvrocm[") && line.ends_with("]: loaded"));
    assert!(output.status.success() && loaded && said.lines().count() == 1, "{} {said}", output.status);
}

#[test]
fn it_needs_the_oldest_libc_and_nothing_else() {
    let image = Elf::open(library()).unwrap();
    let names = image.names().unwrap();
    assert_eq!(names.needed, ["libc.so.6"]);
    assert_eq!(names.soname.as_deref(), Some("libvrocm.so"));
    let versions: Vec<String> =
        image.requirements().unwrap().into_iter().map(|requirement| format!("{} {}", requirement.file, requirement.version)).collect();
    assert_eq!(versions, ["libc.so.6 GLIBC_2.2.5"]);
    assert!(image.segment(segment_type::TLS).is_none(), "thread-locals");
    assert!(!image.segment(segment_type::GNU_STACK).unwrap().executable());
}

#[test]
fn this_machine_loads_it() {
    assert_loaded(&Command::new("/bin/true").env("LD_PRELOAD", library()).env("LIBVROCM_LOG_LEVEL", "2").output().unwrap());
    let quiet = Command::new("/bin/true").env("LD_PRELOAD", library()).output().unwrap();
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "silent at level 1");
}

#[test]
fn glibc_2_31_loads_it_in_a_process_without_libdl() {
    let libc = package("libc6_2.31");
    let loader = file_below(&libc, "ld-2.31.so");
    let program = file_below(&package("coreutils_8.32"), "true");
    let output = Command::new(&loader)
        .arg("--library-path")
        .arg(loader.parent().unwrap())
        .arg("--preload")
        .arg(library())
        .arg(program)
        .env("LIBVROCM_LOG_LEVEL", "2")
        .output();
    assert_loaded(&output.unwrap());
}

#[test]
fn glibc_2_31_loads_it_from_etc_ld_so_preload() {
    let libc = package("libc6_2.31");
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("root-2.31");
    let _ = std::fs::remove_dir_all(&root);
    for folder in ["lib64", "lib/x86_64-linux-gnu", "etc", "bin"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::copy(file_below(&libc, "ld-2.31.so"), root.join("lib64/ld-linux-x86-64.so.2")).unwrap();
    std::fs::copy(file_below(&libc, "libc-2.31.so"), root.join("lib/x86_64-linux-gnu/libc.so.6")).unwrap();
    std::fs::copy(file_below(&package("coreutils_8.32"), "true"), root.join("bin/true")).unwrap();
    std::fs::copy(library(), root.join("libvrocm.so")).unwrap();
    std::fs::write(root.join("etc/ld.so.preload"), "/libvrocm.so\n").unwrap();
    let output = Command::new("unshare").args(["-r", "chroot"]).arg(&root).arg("/bin/true").env("LIBVROCM_LOG_LEVEL", "2").output();
    assert_loaded(&output.unwrap());
}

#[test]
fn glibc_2_44_loads_it() {
    let libc = package("libc6_2.44");
    let loader = file_below(&libc, "ld-linux-x86-64.so.2");
    let folder = file_below(&libc, "libc.so.6");
    let output = Command::new(&loader)
        .arg("--library-path")
        .arg(folder.parent().unwrap())
        .arg("--preload")
        .arg(library())
        .arg("/bin/true")
        .env("LIBVROCM_LOG_LEVEL", "2")
        .output();
    assert_loaded(&output.unwrap());
}
