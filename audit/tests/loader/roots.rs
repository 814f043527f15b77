//! Random root file systems against the real loaders: the libraries of [`crate::layouts`], with a cache, in the loader's default directories, and with
//! `DF_1_NODEFLIB`. The loader is started inside by chroot(2), which only root may.
//!
//! `VROCM_LOADER_LAYOUTS` is the number per loader, `VROCM_LOADER_SEED` the first seed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use vrocm_audit::loader::{self, Request};

use crate::layouts::{CAPABILITIES, FOLDERS, LAYOUTS, LIBRARIES, Said, Spec, Template, agree, compare, path_list, place, spec, templates};
use crate::machine::{this_cpu, traced};
use crate::support::{Dice, compile, loaders, number};

/// The loader's own directories, on Debian and elsewhere.
const DEFAULTS: [&str; 4] = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib", "usr/lib"];
const INTERPRETER: &str = "/ld-linux-x86-64.so.2";
/// Flags of a cache's entry: libc6 on x86-64, x32, i386, and any ELF file.
const FLAGS: [u32; 4] = [0x0303, 0x0803, 0x0003, 1];
/// The last two are known to no loader.
const LEVELS: [&str; 5] = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v1", "x86-64-v03"];
const NAMED: u64 = 1 << 62;
/// Where a loader keeps the path of its cache.
const USUAL: &[u8] = b"\0/etc/ld.so.cache\0";

/// Starts a program in another root. It is static, so that the variables of the loader mean nothing to it.
const STARTER: &str = "#define _GNU_SOURCE
#include <errno.h>
#include <unistd.h>
int main(int n, char **v, char **e) {
    if (chroot(v[1]) || chdir(\"/\")) return 125;
    for (int i = 0; i < 10000; i++) { execve(v[2], v + 2, e); if (errno != ETXTBSY) break; usleep(1000); }
    return 126;
}";

/// An entry of a cache.
struct Entry {
    name: &'static str,
    path: String,
    flags: u32,
    /// Index in [`LEVELS`].
    level: Option<usize>,
}

/// Mostly of files that are there.
fn entries(dice: &mut Dice, dir: &Path) -> Vec<Entry> {
    let mut all = Vec::new();
    for name in LIBRARIES {
        for _ in 0..dice.roll(4) {
            let folders = [&FOLDERS[..], &DEFAULTS[..]].concat();
            let there: Vec<&str> = folders.iter().copied().filter(|folder| dir.join(folder).join(name).exists()).collect();
            let folder = if there.is_empty() || dice.one_in(4) { dice.pick(&folders) } else { dice.pick(&there) };
            let level = dice.one_in(4).then(|| dice.roll(LEVELS.len()));
            let flags = if dice.one_in(3) { FLAGS[dice.roll(FLAGS.len())] } else { FLAGS[0] };
            let path = match level {
                Some(level) => format!("/{folder}/glibc-hwcaps/{}/{name}", LEVELS[level]),
                None => format!("/{folder}/{name}"),
            };
            all.push(Entry { name, path, flags, level });
        }
    }
    // As ldconfig sorts: names and flags descending, capabilities first.
    all.sort_by_key(|entry| std::cmp::Reverse((entry.name, entry.flags, entry.level.is_some(), entry.level.map(std::cmp::Reverse))));
    all
}

/// Texts with their offsets, from `start` on.
struct Strings {
    start: usize,
    bytes: Vec<u8>,
}

impl Strings {
    fn add(&mut self, text: &str) -> [u8; 4] {
        let at = self.start + self.bytes.len();
        self.bytes.extend(text.bytes().chain([0]));
        (at as u32).to_le_bytes()
    }
}

/// The format since glibc 2.2, with the names of capabilities behind it, for a place in the file: ldconfig counts names from the start of the format and the
/// rest from that of the file.
fn new_format(entries: &[Entry], before: usize) -> Vec<u8> {
    let mut strings = Strings { start: 48 + 24 * entries.len(), bytes: Vec::new() };
    let mut table = Vec::new();
    for entry in entries {
        let hwcap = entry.level.map_or(0, |level| NAMED | level as u64);
        table.extend(entry.flags.to_le_bytes());
        table.extend(strings.add(entry.name));
        table.extend(strings.add(&entry.path));
        table.extend(0_u32.to_le_bytes());
        table.extend(hwcap.to_le_bytes());
    }
    let names: Vec<u8> = LEVELS.iter().flat_map(|level| strings.add(level)).collect();
    strings.bytes.resize(strings.bytes.len().next_multiple_of(4) + (4 - strings.start % 4) % 4, 0);
    let extension = strings.start + strings.bytes.len();
    let words = |values: &[usize]| values.iter().flat_map(|&value| (value as u32).to_le_bytes()).collect::<Vec<u8>>();
    let mut all = b"glibc-ld.so.cache1.1".to_vec();
    all.extend(words(&[entries.len(), strings.bytes.len(), 2, before + extension, 0, 0, 0]));
    all.extend(table);
    all.extend(strings.bytes);
    all.extend(words(&[0xeaa4_2174, 1, 1, 0, before + extension + 24, names.len()]));
    all.extend(names);
    all
}

/// The format before, with the new one behind it where `both`.
fn old_format(entries: &[Entry], both: bool) -> Vec<u8> {
    let mut strings = Strings { start: 0, bytes: Vec::new() };
    let plain: Vec<&Entry> = entries.iter().filter(|entry| entry.level.is_none()).collect();
    let mut all = b"ld.so-1.7.0\0".to_vec();
    all.extend((plain.len() as u32).to_le_bytes());
    for entry in plain {
        all.extend(entry.flags.to_le_bytes());
        all.extend(strings.add(entry.name));
        all.extend(strings.add(&entry.path));
    }
    if both {
        all.resize(all.len().next_multiple_of(8), 0);
        all.extend(new_format(entries, all.len()));
    } else {
        all.extend(strings.bytes);
    }
    all
}

/// Where a library may lie: more often where only cache and defaults find it.
fn somewhere(dice: &mut Dice) -> &'static str {
    if dice.one_in(2) { FOLDERS[dice.roll(FOLDERS.len())] } else { DEFAULTS[dice.roll(DEFAULTS.len())] }
}

fn own_spec(dice: &mut Dice, own: Option<&str>) -> Spec {
    let drawn = spec(dice, "", own);
    let path = if dice.one_in(2) { None } else { drawn.path };
    Spec { path, no_defaults: dice.one_in(5), ..drawn }
}

/// Makes a root; the program and its environment come back.
fn root(dice: &mut Dice, dir: &Path, loader: &[u8], library: &Template, program: &Template) -> (String, Vec<(String, String)>) {
    let _ = fs::remove_dir_all(dir);
    for name in FOLDERS.iter().chain(&DEFAULTS).chain(&["etc"]) {
        fs::create_dir_all(dir.join(name)).expect("made");
    }
    let started = |at: &Path, bytes: &[u8]| {
        fs::write(at, bytes).expect("written");
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("set");
    };
    started(&dir.join(&INTERPRETER[1..]), loader);
    fs::write(dir.join("file"), "a file where a directory is expected").expect("written");
    symlink(".", dir.join("link")).expect("linked");
    for name in LIBRARIES {
        for _ in 0..=dice.roll(3) {
            let folder = somewhere(dice);
            let sub = dice.one_in(4).then(|| format!("{folder}/{}", dice.pick(&CAPABILITIES)));
            let at = sub.as_deref().unwrap_or(folder);
            if fs::symlink_metadata(dir.join(at).join(name)).is_err() {
                let spec = own_spec(dice, Some(name));
                place(dice, dir, "", at, name, library, &spec);
            }
        }
    }
    let path = format!("/{}/program", dice.pick(&FOLDERS));
    // The loader reads this link for $ORIGIN of the program.
    fs::create_dir_all(dir.join("proc/self")).expect("made");
    symlink(&path, dir.join("proc/self/exe")).expect("linked");
    started(&dir.join(&path[1..]), &program.patch(&own_spec(dice, None)));
    let all = entries(dice, dir);
    let cache = match dice.roll(8) {
        0 => None,
        1 => Some(old_format(&all, false)),
        2 => Some(old_format(&all, true)),
        _ => Some(new_format(&all, 0)),
    };
    if let Some(bytes) = cache {
        fs::write(dir.join("etc/ld.so.cache"), bytes).expect("written");
    }
    let mut environment = Vec::new();
    if dice.one_in(4) {
        environment.push(("LD_LIBRARY_PATH".to_string(), path_list(dice, "", &[":", ";"])));
    }
    if dice.one_in(4) {
        environment.push(("LD_PRELOAD".to_string(), dice.pick(&LIBRARIES).to_string()));
    }
    if dice.one_in(6) {
        fs::write(
            dir.join("etc/ld.so.preload"),
            format!("{}{} # {}\n\t/{}/liba.so:", dice.pick(&LIBRARIES), dice.pick(&["", "", "\r"]), LIBRARIES[0], somewhere(dice)),
        )
        .expect("written");
    }
    (path, environment)
}

/// What the loader lists in that root.
fn real(starter: &Path, dir: &Path, program: &str, environment: &[(String, String)]) -> Said {
    let mut command = Command::new(starter);
    command.arg(dir).arg(program).env_clear().envs(environment.iter().cloned()).env("LD_TRACE_LOADED_OBJECTS", "1");
    let done = command.output().expect("started");
    assert!(![Some(125), Some(126)].contains(&done.status.code()), "the starter: {done:?}");
    Said { objects: traced(&done.stdout, INTERPRETER), stopped: !done.status.success() }
}

/// Why no process can be started in another root; `None` where one can.
fn unable() -> Option<&'static str> {
    let root = fs::metadata("/proc/self").expect("of this process").uid() == 0;
    (!root).then_some("only root can start a program in another root")
}

#[test]
fn a_loader_of_another_prefix_has_its_own_cache() {
    if let Some(why) = unable() {
        println!("not compared: {why}");
        return;
    }
    for (version, interpreter) in loaders() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().canonicalize().expect("a path");
        let mut loader = fs::read(&interpreter).expect("a loader");
        let at = loader.windows(USUAL.len()).position(|window| window == USUAL).expect("the path of the cache");
        loader[at..at + USUAL.len()].copy_from_slice(b"\0/opt/ld.so.cache\0");
        let (library, program) = templates(&base, INTERPRETER);
        let starter = compile(&base, STARTER, "starter", &["-static"]);
        let dir = base.join("c");
        for name in ["etc", "opt", "d0", "d1"] {
            fs::create_dir_all(dir.join(name)).expect("made");
        }
        let needs = Spec { needed: vec!["liba.so".into()], ..Spec::default() };
        for (at, bytes) in [(&INTERPRETER[1..], loader), ("program", program.patch(&needs))] {
            fs::write(dir.join(at), bytes).expect("written");
            fs::set_permissions(dir.join(at), fs::Permissions::from_mode(0o755)).expect("set");
        }
        for (list, folder) in [("etc", "d0"), ("opt", "d1")] {
            fs::write(dir.join(folder).join("liba.so"), library.patch(&Spec { soname: Some("liba.so".into()), ..Spec::default() })).expect("written");
            let entry = Entry { name: "liba.so", path: format!("/{folder}/liba.so"), flags: FLAGS[0], level: None };
            fs::write(dir.join(list).join("ld.so.cache"), new_format(&[entry], 0)).expect("written");
        }
        let said = real(&starter, &dir, "/program", &[]);
        assert_eq!(said.objects, [("liba.so".to_string(), "/d1/liba.so".to_string())], "glibc {version}");
        let request = Request { root: dir, command: "/program".into(), cwd: "/".into(), environment: Vec::new(), ..Request::from_this_process() };
        let resolution = loader::resolve(&request).expect("a program");
        assert!(agree(&said, &resolution.objects, &resolution.failures), "glibc {version}: {:?}", resolution.objects);
    }
}

#[test]
fn random_roots() {
    let Some(cpu) = this_cpu() else {
        println!("not compared: /proc/cpuinfo tells no x86-64 CPU");
        return;
    };
    if let Some(why) = unable() {
        println!("not compared: {why}");
        return;
    }
    let (layouts, seed) = (number("VROCM_LOADER_LAYOUTS", LAYOUTS), number("VROCM_LOADER_SEED", 1));
    let mut wrong = Vec::new();
    for (version, interpreter) in loaders() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().canonicalize().expect("a path");
        let loader = fs::read(&interpreter).expect("a loader");
        let (library, program) = templates(&base, INTERPRETER);
        let starter = compile(&base, STARTER, "starter", &["-static"]);
        let (mut stopped, mut unknown, mut how) = (0, 0, BTreeMap::new());
        for case in seed..seed + layouts {
            let dir = base.join("c");
            let (path, environment) = root(&mut Dice::new(case), &dir, &loader, &library, &program);
            let said = real(&starter, &dir, &path, &environment);
            let request = Request {
                root: dir.clone(),
                command: path,
                environment: environment.clone(),
                cwd: "/".into(),
                cpu: Some(cpu),
                ..Request::from_this_process()
            };
            let (known, _, difference) = compare(&said, request);
            stopped += usize::from(said.stopped);
            if !known.unknowns.is_empty() {
                unknown += 1;
                continue;
            }
            for object in &known.objects {
                *how.entry(format!("{:?}", object.how)).or_insert(0) += 1;
            }
            wrong.extend(difference.map(|how| format!("glibc {version}, seed {case}, {environment:?} {how}")));
        }
        println!("glibc {version}: {layouts} roots from seed {seed}: {stopped} stopped the loader, {unknown} unknown, objects by {how:?}");
        assert!(unknown * 10 < layouts, "glibc {version}: {unknown} of {layouts} roots are unknown");
        let drawn = |rule: &str| how.get(rule).is_some_and(|&count| count * 20 > layouts);
        assert!(layouts < 100 || stopped > 0 && drawn("Cache") && drawn("Default"), "the roots are too tame");
    }
    assert!(wrong.is_empty(), "{} roots differ:\n{}", wrong.len(), wrong[..wrong.len().min(4)].join("\n"));
}
