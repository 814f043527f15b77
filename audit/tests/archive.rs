//! Containers: what is inside is found under its name, whatever the container; hostile ones end in an error that names the place.

use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use vrocm_audit::archive::{self, Limits, Member};
use zip::write::SimpleFileOptions;

const ELF: &[u8] = b"\x7fELF and what follows";

fn read_with(path: &Path, limits: Limits) -> (Vec<Member>, Vec<String>) {
    let (mut members, mut errors) = (Vec::new(), Vec::new());
    archive::read(path, "c", limits, &mut |found| match found {
        Ok(member) => members.push(member),
        Err(error) => errors.push(error.to_string()),
    });
    (members, errors)
}

/// Names of the ELF files, all of which have the bytes of [`ELF`], and of Python sources, which say `text`; no error.
fn names(path: &Path) -> Vec<String> {
    let (members, errors) = read_with(path, Limits::default());
    assert_eq!(errors, Vec::<String>::new(), "{}", path.display());
    assert!(members.iter().all(|member| member.bytes == if archive::is_python(Path::new(&member.name)) { b"text" } else { ELF }));
    members.into_iter().map(|member| member.name).collect()
}

fn errors(path: &Path) -> Vec<String> {
    read_with(path, Limits::default()).1
}

/// A tarball of files; a name that ends in `@target` is a symbolic link, in `=target` a hard link, in `/` a folder.
fn tarball(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(0);
        for (mark, kind) in [('@', tar::EntryType::Symlink), ('=', tar::EntryType::Link)] {
            if let Some((name, target)) = name.split_once(mark) {
                header.set_entry_type(kind);
                builder.append_link(&mut header, name, target).expect("added");
            }
        }
        if name.contains(['@', '=']) {
            continue;
        }
        if name.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        }
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, name, *bytes).expect("added");
    }
    builder.into_inner().expect("finished")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("finished")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// A Debian package around a data member.
fn deb(data: &str, bytes: &[u8]) -> Vec<u8> {
    let mut all = b"!<arch>\n".to_vec();
    for (name, bytes) in [("debian-binary", &b"2.0\n"[..]), ("control.tar", &[0; 3]), (data, bytes)] {
        all.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100_644, bytes.len()).bytes());
        all.extend(bytes);
        if bytes.len() % 2 == 1 {
            all.push(b'\n');
        }
    }
    all
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

#[test]
fn members_have_the_name_of_their_container() {
    let folder = Folder::new();
    let long = format!("usr/{}/libx.so", "deep/".repeat(60).trim_end_matches('/'));
    let tar = tarball(&[("./usr/", b""), ("./usr/lib/libx.so", ELF), ("usr/text", b"text"), ("usr/link@/etc/passwd", b""), (&long, ELF)]);
    let expected = vec!["c!/usr/lib/libx.so".to_string(), format!("c!/{long}")];
    // Two frames of zstd with a skippable one between them, as tools that compress in parallel write.
    let frames = [zstd(&tar[..1000]), b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec(), zstd(&tar[1000..])].concat();
    for (name, bytes) in [
        ("x.tar", tar.clone()),
        ("x.tar.gz", gzip(&tar)),
        ("x.tar.zst", zstd(&tar)),
        ("frames.tar.zst", frames),
        ("x.deb", deb("data.tar.gz", &gzip(&tar))),
        ("z.deb", deb("data.tar.zst/", &zstd(&tar))),
        ("t.deb", deb("data.tar", &tar)),
    ] {
        assert_eq!(names(&folder.put(name, &bytes)), expected, "{name}");
    }
    let mut wheel = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in [("torch/lib/libx.so", ELF), ("torch/__init__.py", b"text"), ("../../up.so", ELF)] {
        wheel.start_file(name, SimpleFileOptions::default()).expect("begun");
        wheel.write_all(bytes).expect("written");
    }
    wheel.add_symlink("torch/link.so", "/etc/passwd", SimpleFileOptions::default()).expect("linked");
    let bytes = wheel.finish().expect("finished").into_inner();
    assert_eq!(names(&folder.put("x.whl", &bytes)), ["c!/torch/lib/libx.so", "c!/torch/__init__.py", "c!/up.so"]);
}

/// An image of two layers: the upper one removes, replaces and hides.
fn layers() -> [Vec<u8>; 2] {
    let lower = tarball(&[
        ("usr/lib/keep.so", ELF),
        ("usr/lib/gone.so", ELF),
        ("opt/a.so", ELF),
        ("opt/b.so", ELF),
        ("srv/dir/x.so", ELF),
        ("var/f.so", ELF),
    ]);
    let upper = tarball(&[
        ("usr/lib/.wh.gone.so", b""),
        ("opt/.wh..wh..opq", b""),
        ("opt/b.so", ELF),
        ("srv/dir@/etc", b""),
        ("var/f.so/", b""),
        ("usr/lib/new.so", ELF),
    ]);
    [lower, gzip(&upper)]
}

const FINAL: [&str; 3] = ["c!/opt/b.so", "c!/usr/lib/keep.so", "c!/usr/lib/new.so"];

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[test]
fn an_image_is_what_its_layers_leave() {
    let folder = Folder::new();
    let [lower, upper] = layers();
    let index = br#"{"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:aa"}]}"#;
    let layer = |digest: &str| format!(r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:{digest}"}}"#);
    let manifest = format!(r#"{{"config":{{}},"layers":[{},{}]}}"#, layer("01"), layer("02"));
    let files: [(&str, &[u8]); 5] = [
        ("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#),
        ("index.json", index),
        ("blobs/sha256/aa", manifest.as_bytes()),
        ("blobs/sha256/01", &lower),
        ("blobs/sha256/02", &upper),
    ];
    for (name, bytes) in files {
        folder.put(&format!("layout/{name}"), bytes);
    }
    assert!(archive::image::is_layout(&folder.0.path().join("layout")));
    assert_eq!(sorted(names(&folder.0.path().join("layout"))), FINAL);
    let packed = tarball(&files);
    assert_eq!(sorted(names(&folder.put("oci.tar", &packed))), FINAL);
    assert_eq!(sorted(names(&folder.put("oci.tar.gz", &gzip(&packed)))), FINAL);
    let saved = br#"[{"Config":"c.json","RepoTags":null,"Layers":["one/layer.tar","two/layer.tar"]}]"#;
    let docker = tarball(&[("blob", &lower), ("one/layer.tar@../blob", b""), ("two/layer.tar", &upper), ("manifest.json", saved)]);
    assert_eq!(sorted(names(&folder.put("docker.tar", &docker))), FINAL);
    // A blob that is missing, one that is no digest, a link out of the layout.
    std::fs::remove_file(folder.0.path().join("layout/blobs/sha256/01")).expect("removed");
    std::os::unix::fs::symlink("/proc/self/exe", folder.0.path().join("layout/blobs/sha256/01")).expect("linked");
    assert_eq!(errors(&folder.0.path().join("layout")), ["c!/blobs/sha256/01: is named by the image and missing from it"]);
    folder.put("layout/index.json", br#"{"manifests":[{"digest":"sha256:../../x"}]}"#);
    assert!(errors(&folder.0.path().join("layout"))[0].contains("is no digest"));
}

#[test]
fn what_is_cut_short_is_never_clean() {
    let folder = Folder::new();
    let tar = tarball(&[("a.so", ELF), ("b", &[7; 4000])]);
    let packed = gzip(&tar);
    for (name, whole) in [("t.tar", &tar), ("t.tar.gz", &packed), ("t.tar.zst", &zstd(&tar)), ("t.deb", &deb("data.tar.gz", &packed))] {
        for keep in 1..20 {
            let cut = &whole[..whole.len() * keep / 20];
            let path = folder.put(name, cut);
            // A tar file may lose half of its end mark: all members are there.
            let whole_members = name == "t.tar" && cut.len() > tar.len() - 1024;
            assert!(whole_members || !errors(&path).is_empty(), "{name} cut to {} of {} bytes", cut.len(), whole.len());
        }
    }
    assert!(errors(&folder.put("empty", b""))[0].contains("neither"));
    assert!(errors(&folder.put("x.tar.bz2", b"BZh91AY"))[0].contains("bzip2"));
    assert!(errors(&folder.0.path().join("nowhere"))[0].starts_with("c: "));
}

#[test]
fn bombs_are_stopped() {
    let folder = Folder::new();
    let small = Limits { member: 1000, unpacked: 100_000, entries: 10, ratio: 10 };
    let stopped = |path: &Path, why: &str| {
        let (_, errors) = read_with(path, small);
        assert!(errors.iter().any(|error| error.contains(why)), "{path:?}: {errors:?}");
    };
    let large = [ELF, &vec![0; 200_000]].concat();
    stopped(&folder.put("large.tar", &tarball(&[("x.so", &large)])), "x.so: at 0x200: is larger than 1000 bytes");
    stopped(&folder.put("zeros.tar.gz", &gzip(&tarball(&[("zeros", &large)]))), "unpacks to more than 100000 bytes");
    let many: Vec<(String, &[u8])> = (0..20).map(|number| (format!("f{number}"), &b""[..])).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
    stopped(&folder.put("many.tar", &tarball(&many)), "more than 10 members");
    // A long name that goes on for megabytes.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(3 << 20);
    header.set_cksum();
    let named = [header.as_bytes(), &vec![b'n'; 3 << 20][..], &tarball(&[("x", b"")])].concat();
    stopped(&folder.put("name.tar", &named), "a name or an extended header of more than");
    // A thousand-fold ratio counts once there is much of it.
    let zeros = gzip(&tarball(&[("zeros", &vec![0; 100 << 20])]));
    let limits = Limits { ratio: 100, ..Limits::default() };
    assert!(read_with(&folder.put("ratio.tar.gz", &zeros), limits).1[0].contains("times its size"));
}

#[test]
fn a_link_to_what_an_upper_layer_hides_is_said() {
    let folder = Folder::new();
    let lower = tarball(&[("a.so", ELF), ("b.so=a.so", b"")]);
    let upper = tarball(&[(".wh.a.so", b"")]);
    let docker = tarball(&[("1.tar", &lower), ("2.tar", &upper), ("manifest.json", br#"[{"Layers":["1.tar","2.tar"]}]"#)]);
    let errors = errors(&folder.put("d.tar", &docker));
    assert!(errors.len() == 1 && errors[0].starts_with("c!/b.so: ") && errors[0].contains("hard link"), "{errors:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any bytes, and any damage to good containers, end in members or errors.
    #[test]
    fn any_bytes(kind in 0_usize..7, place in any::<proptest::sample::Index>(), bytes in proptest::collection::vec(any::<u8>(), 1..40)) {
        let tar = tarball(&[("usr/lib/x.so", ELF), ("manifest.json", br#"[{"Layers":["usr/lib/x.so"]}]"#), ("t", &[9; 700])]);
        let mut wheel = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        wheel.start_file("x.so", SimpleFileOptions::default()).expect("begun");
        wheel.write_all(ELF).expect("written");
        let mut whole = match kind {
            0 => tar,
            1 => gzip(&tar),
            2 => zstd(&tar),
            3 => deb("data.tar.gz", &gzip(&tar)),
            4 => wheel.finish().expect("finished").into_inner(),
            5 => [&b"\xfd7zXZ\0"[..], &bytes].concat(),
            _ => bytes.clone(),
        };
        let at = place.index(whole.len());
        for (target, byte) in whole[at..].iter_mut().zip(&bytes) {
            *target ^= byte;
        }
        let folder = Folder::new();
        let limits = Limits { member: 1 << 20, unpacked: 1 << 24, entries: 1000, ratio: 1000 };
        let (members, _) = read_with(&folder.put("x", &whole), limits);
        prop_assert!(members.iter().all(|member| member.bytes.starts_with(b"\x7fELF") && member.name.starts_with("c!/")));
    }
}
