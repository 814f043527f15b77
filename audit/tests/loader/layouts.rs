//! Random layouts of libraries against the real loaders of this machine and of the packages in `VROCM_CORPUS` (glibc 2.31, 2.36, 2.44).
//!
//! One library and one program are built with room for long names; each layout patches copies of them, so that thousands cost no compiler.
//! `VROCM_LOADER_LAYOUTS` is the number per loader, `VROCM_LOADER_SEED` the first seed.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use vrocm_audit::elf::{Elf, constants as elf};
use vrocm_audit::loader::{self, How, Request};

use crate::machine::{this_cpu, traced};
use crate::support::{Dice, compile, loaders, number};

/// Layouts per loader in a plain test run.
pub const LAYOUTS: u64 = 150;
const NEEDS: usize = 3;
const ROOM: usize = 200;
pub const LIBRARIES: [&str; 5] = ["liba.so", "libb.so", "libc1.so", "libd.so", "libe.so"];
pub const FOLDERS: [&str; 4] = ["d0", "d1", "d2", "d3"];
pub const CAPABILITIES: [&str; 9] = [
    "glibc-hwcaps/x86-64-v2",
    "glibc-hwcaps/x86-64-v3",
    "glibc-hwcaps/x86-64-v4",
    "tls",
    "x86_64",
    "tls/x86_64/x86_64",
    "haswell",
    "haswell/avx512_1/x86_64",
    "tls/haswell",
];

/// A file built with names of `ROOM` bytes, and where they stand.
pub struct Template {
    bytes: Vec<u8>,
    needed: Vec<(usize, usize)>,
    soname: Option<(usize, usize)>,
    runpath: (usize, usize),
    flags_1: usize,
}

/// `DF_1_NODEFLIB`.
const NODEFLIB: u64 = 0x800;

impl Template {
    /// Finds tag and string of each long name.
    fn read(path: &Path) -> Self {
        let image = Elf::open(path).expect("built");
        let bytes = fs::read(path).expect("built");
        let offset = |address| image.window("table", address, 1).expect("in the file").offset as usize;
        let strings = offset(image.dynamic.value(elf::DT_STRTAB).expect("strings"));
        let dynamic = image.segment(2).expect("PT_DYNAMIC").offset as usize;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let entries = || (0..).map(|index| dynamic + index * 16).take_while(|&at| word(at) != 0);
        let of = |tag: i64| {
            entries().filter(move |&at| word(at) == tag.cast_unsigned()).map(|at| (at, strings + word(at + 8) as usize)).collect::<Vec<_>>()
        };
        let needed = of(elf::DT_NEEDED.0);
        assert_eq!(needed.len(), NEEDS);
        let flags_1 = of(elf::DT_FLAGS_1.0)[0].0 + 8;
        Self { needed, soname: of(elf::DT_SONAME.0).first().copied(), runpath: of(elf::DT_RUNPATH.0)[0], flags_1, bytes }
    }

    pub fn patch(&self, file: &Spec) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let mut set = |(tag, string): (usize, usize), kind: i64, text: Option<&str>| {
            let text_or_none = text.unwrap_or_default();
            assert!(text_or_none.len() < ROOM, "{text_or_none}");
            // DT_DEBUG does nothing in a library and is harmless in a program.
            let kind = if text.is_some() { kind } else { elf::DT_DEBUG.0 };
            bytes[tag..tag + 8].copy_from_slice(&kind.to_le_bytes());
            bytes[string..string + text_or_none.len()].copy_from_slice(text_or_none.as_bytes());
            bytes[string + text_or_none.len()] = 0;
        };
        for (index, &at) in self.needed.iter().enumerate() {
            set(at, elf::DT_NEEDED.0, file.needed.get(index).map(String::as_str));
        }
        if let Some(at) = self.soname {
            set(at, elf::DT_SONAME.0, file.soname.as_deref());
        }
        set(self.runpath, if file.old { elf::DT_RPATH.0 } else { elf::DT_RUNPATH.0 }, file.path.as_deref());
        if !file.no_defaults {
            let flags = &mut bytes[self.flags_1..self.flags_1 + 8];
            let value = u64::from_le_bytes((&*flags).try_into().expect("8 bytes")) & !NODEFLIB;
            flags.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }
}

#[derive(Debug, Default)]
pub struct Spec {
    pub needed: Vec<String>,
    pub soname: Option<String>,
    pub path: Option<String>,
    pub old: bool,
    /// `DF_1_NODEFLIB`.
    pub no_defaults: bool,
}

fn long(letter: char, number: usize) -> String {
    format!("{number}{}", letter.to_string().repeat(ROOM))
}

/// Builds library and program; a linker takes a name of 200 bytes as well as any other.
pub fn templates(dir: &Path, interpreter: &str) -> (Template, Template) {
    for number in 0..NEEDS {
        let soname = format!("-Wl,-soname,{}", long('n', number));
        compile(dir, &format!("void f{number}(void){{}}"), &format!("need{number}.so"), &["-shared", "-fPIC", "-nostdlib", &soname]);
    }
    let path = format!("-Wl,--enable-new-dtags,-rpath,{}", long('r', 0));
    let needs = ["-Wl,-z,nodefaultlib,--no-as-needed", "./need0.so", "./need1.so", "./need2.so", "-Wl,--unresolved-symbols=ignore-all"];
    let soname = format!("-Wl,-soname,{}", long('s', 0));
    let library = compile(dir, "int x;", "library.so", &[&["-shared", "-fPIC", "-nostdlib", &soname, &path], &needs[..]].concat());
    let start = "void _start(void){ __asm__ volatile(\"mov $60,%eax; xor %edi,%edi; syscall\"); }";
    let by = format!("-Wl,--dynamic-linker={interpreter}");
    let program = compile(dir, start, "program", &[&["-nostdlib", "-pie", "-fPIE", &by, &path], &needs[..]].concat());
    (Template::read(&library), Template::read(&program))
}

/// A list of directories as nobody would write it.
pub fn path_list(dice: &mut Dice, dir: &str, separators: &[&str]) -> String {
    let mut list = String::new();
    for index in 0..=dice.roll(4) {
        if index > 0 {
            list += dice.pick(separators);
        }
        let folder = dice.pick(&FOLDERS);
        let _ = match dice.roll(14) {
            0 => write!(list, "{dir}/{folder}"),
            1 | 2 => write!(list, "$ORIGIN/../{folder}"),
            3 | 4 => write!(list, "${{ORIGIN}}/{folder}"),
            5 => write!(list, "{folder}/"),
            6 => write!(list, "$ORIGIN_x/{folder}"),
            7 => Ok(()),
            8 => write!(list, "/nowhere/{folder}"),
            9 => write!(list, "{dir}/file"),
            10 => write!(list, "{dir}/$LIB/../../{folder}"),
            11 => write!(list, "{dir}/link/{folder}//"),
            12 => write!(list, "{dir}/$PLATFORM"),
            _ => write!(list, "$ORIGIN"),
        };
    }
    list
}

pub fn spec(dice: &mut Dice, dir: &str, own: Option<&str>) -> Spec {
    let mut needed: Vec<String> = (0..dice.roll(NEEDS + 1).max(usize::from(own.is_none()))).map(|_| dice.pick(&LIBRARIES).to_string()).collect();
    if !needed.is_empty() && dice.one_in(12) {
        needed[0] = format!("{}{}/{}", dice.pick(&["$ORIGIN/../", "", "./"]), dice.pick(&FOLDERS), dice.pick(&LIBRARIES));
    }
    let soname = match dice.roll(6) {
        0 => None,
        1 => Some(dice.pick(&LIBRARIES).to_string()),
        _ => own.map(Into::into),
    };
    let path = (!dice.one_in(3)).then(|| path_list(dice, dir, &[":"]));
    Spec { needed, soname, path, old: dice.one_in(2), no_defaults: false }
}

/// Puts one library, or something under its name, into a directory; `shown` is how the process calls `dir`.
pub fn place(dice: &mut Dice, dir: &Path, shown: &str, at: &str, name: &str, template: &Template, spec: &Spec) {
    let at = dir.join(at).join(name);
    fs::create_dir_all(at.parent().expect("a folder")).expect("made");
    let mut bytes = template.patch(spec);
    match dice.roll(30) {
        0 => bytes[4] = 1,
        1 => bytes[18] = 183,
        2 => bytes.truncate(30),
        3 => bytes = b"INPUT(libsomething.so) is a linker script, longer than the sixty-four bytes of a header".to_vec(),
        4 => return fs::create_dir_all(at).expect("made"),
        5 => return symlink("nowhere", at).expect("linked"),
        6 => return symlink(name, at).expect("linked"),
        7 | 8 => return symlink(format!("{shown}/{}/{}", dice.pick(&FOLDERS), dice.pick(&LIBRARIES)), at).expect("linked"),
        9 => bytes[7] = 9,
        10 => bytes[5] = 2,
        11 => bytes[16] = 1,
        _ => {}
    }
    fs::write(at, bytes).expect("written");
}

/// What the loader said: objects, and whether it stopped.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub objects: Vec<(String, String)>,
    pub stopped: bool,
}

pub fn real(program: &Path, dir: &Path, environment: &[(String, String)], interpreter: &str) -> Said {
    let mut command = Command::new(program);
    command.current_dir(dir).env_clear().envs(environment.iter().cloned()).env("LD_TRACE_LOADED_OBJECTS", "1");
    let done = loop {
        match command.output() {
            // A child that another test has just forked holds the written file open until it becomes another program.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::sleep(std::time::Duration::from_millis(1)),
            done => break done.expect("started"),
        }
    };
    Said { objects: traced(&done.stdout, interpreter), stopped: !done.status.success() }
}

/// True if what the loader said is one of our answers.
pub fn agree(said: &Said, objects: &[loader::Object], failures: &[loader::Failure]) -> bool {
    let stopped = failures.iter().any(|failure| failure.file.is_some());
    if said.stopped || stopped {
        return said.stopped == stopped;
    }
    let mine = objects.iter().filter(|object| !matches!(object.how, How::Program | How::Interpreter));
    let mine: Vec<_> = mine.map(|object| (object.name.clone(), object.path.clone())).collect();
    let found: Vec<_> = said.objects.iter().filter(|(_, path)| path != "not found").cloned().collect();
    let missing: std::collections::BTreeSet<_> = said.objects.iter().filter(|(_, path)| path == "not found").map(|(name, _)| name.clone()).collect();
    mine == found && missing == failures.iter().map(|failure| failure.name.clone()).collect()
}

/// The answer for the request's CPU, the one for any, and how the loader did otherwise; no difference where the first is unknown.
pub fn compare(said: &Said, request: Request) -> (loader::Resolution, loader::Resolution, Option<String>) {
    let known = loader::resolve(&request).expect("a program");
    let open = loader::resolve(&Request { cpu: None, ..request }).expect("a program");
    let in_the_set = agree(said, &open.objects, &open.failures) || open.alternatives.iter().any(|other| agree(said, &other.objects, &other.failures));
    let differs = known.unknowns.is_empty() && !(in_the_set && agree(said, &known.objects, &known.failures));
    let difference = differs.then(|| {
        let mine: Vec<_> = known.objects.iter().map(|object| (&object.name, &object.path, &object.rule)).collect();
        format!("(in the set: {in_the_set})\n  the loader {said:?}\n  here {mine:?}\n  {:?}", known.failures)
    });
    (known, open, difference)
}

#[test]
fn random_layouts() {
    let Some(cpu) = this_cpu() else {
        eprintln!("not compared: /proc/cpuinfo tells no x86-64 CPU");
        return;
    };
    let (layouts, seed) = (number("VROCM_LOADER_LAYOUTS", LAYOUTS), number("VROCM_LOADER_SEED", 1));
    let mut wrong = Vec::new();
    for (version, interpreter) in loaders() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let base = folder.path().canonicalize().expect("a path");
        // A short path, so that lists of directories fit their room.
        let interpreter_path = base.join("ld-linux-x86-64.so.2");
        fs::copy(&interpreter, &interpreter_path).expect("copied");
        let interpreter_path = interpreter_path.display().to_string();
        let (library, program) = templates(&base, &interpreter_path);
        let (mut stopped, mut unknown, mut loaded, mut several) = (0, 0, 0, 0);
        for case in seed..seed + layouts {
            let mut dice = Dice::new(case);
            let dir = base.join("c");
            let shown = dir.display().to_string();
            let _ = fs::remove_dir_all(&dir);
            for name in FOLDERS {
                fs::create_dir_all(dir.join(name)).expect("made");
            }
            fs::write(dir.join("file"), "a file where a directory is expected").expect("written");
            symlink(".", dir.join("link")).expect("linked");
            for name in LIBRARIES {
                for _ in 0..=dice.roll(3) {
                    let folder = dice.pick(&FOLDERS);
                    let sub = dice.one_in(5).then(|| format!("{folder}/{}", dice.pick(&CAPABILITIES)));
                    let at = sub.as_deref().unwrap_or(folder);
                    if fs::symlink_metadata(dir.join(at).join(name)).is_err() {
                        let spec = spec(&mut dice, &shown, Some(name));
                        place(&mut dice, &dir, &shown, at, name, &library, &spec);
                    }
                }
            }
            let path = dir.join(dice.pick(&FOLDERS)).join("program");
            fs::write(&path, program.patch(&spec(&mut dice, &shown, None))).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
            let mut environment = Vec::new();
            if dice.one_in(2) {
                let list = if dice.one_in(6) { String::new() } else { path_list(&mut dice, &shown, &[":", ";"]) };
                environment.push(("LD_LIBRARY_PATH".to_string(), list));
            }
            if dice.one_in(3) {
                let library = dice.pick(&LIBRARIES);
                let preload = if dice.one_in(2) { library.to_string() } else { format!("{}/{library}", dice.pick(&["d0", "./d1", "$ORIGIN/../d2"])) };
                environment.push(("LD_PRELOAD".to_string(), format!("{preload}{}{}", dice.pick(&[" ", ":", " :"]), dice.pick(&LIBRARIES))));
            }
            let said = real(&path, &dir, &environment, &interpreter_path);
            let request = Request {
                command: path.display().to_string(),
                environment: environment.clone(),
                cwd: dir.display().to_string(),
                cpu: Some(cpu),
                ..Request::from_this_process()
            };
            let (known, open, difference) = compare(&said, request);
            several += usize::from(!open.alternatives.is_empty());
            stopped += usize::from(said.stopped);
            loaded += said.objects.len();
            unknown += u64::from(!known.unknowns.is_empty());
            wrong.extend(difference.map(|how| format!("glibc {version}, seed {case}, {environment:?} {how}")));
        }
        println!(
            "glibc {version}: {layouts} layouts from seed {seed}: {loaded} objects, {stopped} stopped the loader, {several} depend on the CPU, {unknown} unknown"
        );
        assert!(unknown * 10 < layouts, "glibc {version}: {unknown} of {layouts} layouts are unknown");
        assert!(stopped > 0 && several > 0 && loaded > layouts as usize, "the layouts are too tame");
    }
    assert!(wrong.is_empty(), "{} layouts differ:\n{}", wrong.len(), wrong[..wrong.len().min(4)].join("\n"));
}
