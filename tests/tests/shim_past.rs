//! What goes past the shim and shows is said, once, by the real loaders of glibc 2.31 to 2.44; where nothing does, nothing is said.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;
use vrocm_tests::corpus;
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim::{self, library};

const PROBE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/probes/past.c");

/// A C library: that of the machine, or one of the corpus.
struct Libc {
    version: &'static str,
    folder: Option<PathBuf>,
}

impl Libc {
    fn all() -> Vec<Self> {
        let of = |version, package, place: &str| {
            let found = corpus::package(package).map(|found| Self { version, folder: Some(found.join(place)) });
            if found.is_none() {
                corpus::not_tested(&corpus::missing(version, &[package]));
            }
            found
        };
        let usr = "usr/lib/x86_64-linux-gnu";
        let others =
            [of("2.31", "libc6_2.31", "lib/x86_64-linux-gnu"), of("2.41", "libc6_2.41", usr), of("2.44", "libc6_2.44", usr)].into_iter().flatten();
        std::iter::once(Self { version: "the machine's", folder: None }).chain(others).collect()
    }

    /// The probe under the shim, with this library's own loader.
    fn probe(&self, arguments: &[&str]) -> Command {
        let Some(folder) = &self.folder else {
            let mut command = Command::new(file("past"));
            command.args(arguments).env("LD_PRELOAD", library());
            return command;
        };
        // A program that was linked here asks for a newer C library than 2.31.
        let program = if self.version == "2.31" { linked_with(folder) } else { file("past") };
        let mut command = Command::new(folder.join("ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(folder).arg("--preload").arg(library()).arg(program).args(arguments);
        command
    }
}

fn cc(arguments: &[&str]) {
    let status = Command::new("cc").args(["-D_GNU_SOURCE", "-O1", "-w"]).args(arguments).status().unwrap();
    assert!(status.success(), "cc {arguments:?}");
}

/// Compiled once: the probe, a runtime under another name, plugins of it, an auditor.
fn file(name: &str) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = TempDir::with_prefix("past-").unwrap();
        let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let shared = |name: &str, arguments: &[&str]| cc(&[&["-shared", "-fPIC", PROBE, "-o", &at(name)], arguments].concat());
        cc(&[PROBE, "-o", &at("past"), "-ldl"]);
        shared("renamed-4f21.so", &["-DRUNTIME", "-Wl,-soname,renamed-4f21.so"]);
        let plugin = ["-DPLUGIN", &at("renamed-4f21.so"), "-Wl,-rpath,$ORIGIN"];
        shared("plugin.so", &[&plugin[..], &["-Wl,-z,lazy"]].concat());
        for (name, early, bound) in [
            ("early.so", "-DEARLY=hipMalloc(&pointer,4096)", "-Wl,-z,lazy"),
            ("early-too.so", "-DEARLY=hipMalloc(&pointer,8192)", "-Wl,-z,lazy"),
            ("early-now.so", "-DEARLY=hipMalloc(&pointer,4096)", "-Wl,-z,now"),
            ("early-free.so", "-DEARLY=hipFree(pointer)", "-Wl,-z,lazy"),
        ] {
            shared(name, &[&plugin[..], &[early, bound]].concat());
        }
        shared("auditor.so", &["-DAUDITOR"]);
        folder
    });
    folder.path().join(name)
}

/// The probe, linked with another C library than the machine's.
fn linked_with(libc: &Path) -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| {
        let (program, of) = (file("past-old"), |name: &str| libc.join(name).to_string_lossy().into_owned());
        let output = program.to_str().unwrap();
        cc(&["-nodefaultlibs", PROBE, "-o", output, &of("libc.so.6"), &of("libdl.so.2"), "-Wl,--allow-shlib-undefined"]);
        program
    });
    made.clone()
}

/// Runs it in the folder of the files, and gives what the shim has said.
fn said(mut command: Command) -> String {
    let output: Output = command.current_dir(file("past").parent().unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {} {said}{}", output.status, String::from_utf8_lossy(&output.stdout));
    said
}

/// One line, with all of these in it.
fn assert_one(said: &str, parts: &[&str], context: &str) {
    let is_one = said.lines().count() == 1 && said.starts_with("libvrocm[") && said.ends_with("(docs/DOORS.md)\n");
    assert!(is_one && parts.iter().all(|part| said.contains(part)), "{context}: {said:?}");
}

#[test]
fn a_runtime_in_another_namespace_is_said_by_every_loader() {
    for libc in Libc::all() {
        for steps in [
            &["elsewhere", "./renamed-4f21.so", "hipMalloc", "call", "512"][..],
            &["elsewhere", "./plugin.so", "allocate", "call", "512"],
            &["elsewhere", "./plugin.so", "allocate", "here", "libm.so.6", "cos", "elsewhere", "./renamed-4f21.so", "hipMalloc"],
            &["elsewhere", "libm.so.6", "cos", "elsewhere", "./plugin.so", "allocate"],
            // The runtime comes into a namespace that was looked through before.
            &["elsewhere", "libm.so.6", "cos", "look", "sin", "beside", "./renamed-4f21.so", "look", "cos"],
            // Ended without destructors: it is said when something is looked up.
            &["elsewhere", "./plugin.so", "allocate", "leave"],
        ] {
            let said = said(libc.probe(steps));
            assert_one(&said, &["renamed-4f21.so is in a namespace of its own (dlmopen)"], &format!("{} {steps:?}", libc.version));
        }
    }
}

#[test]
fn without_a_runtime_in_another_namespace_nothing_is_said() {
    for libc in Libc::all() {
        for steps in [
            &["here", "./renamed-4f21.so", "hipMalloc"][..],
            &["here", "./plugin.so", "allocate"],
            &["here", "libm.so.6", "cos"],
            &["elsewhere", "libm.so.6", "cos", "elsewhere", "libm.so.6", "no_such_name"],
            // The runtime is in this namespace, and looked up in turns with something in another one.
            &["elsewhere", "libm.so.6", "cos", "here", "./plugin.so", "allocate", "elsewhere", "libm.so.6", "sin"],
        ] {
            assert_eq!(said(libc.probe(steps)), "", "{} {steps:?}", libc.version);
            // glibc 2.31 crashes in dlmopen under an auditor, with the shim and without it.
            if libc.version == "2.31" && steps.contains(&"elsewhere") {
                continue;
            }
            let mut audited = libc.probe(steps);
            audited.env("LD_AUDIT", file("auditor.so"));
            assert_eq!(said(audited), "", "{} {steps:?} under an auditor", libc.version);
        }
        // A runtime that stands before the shim in this namespace.
        if libc.folder.is_none() {
            let mut before = libc.probe(&["elsewhere", "libm.so.6", "cos", "here", "libm.so.6", "sin"]);
            before.env("LD_PRELOAD", format!("{} {}", file("renamed-4f21.so").display(), library().display()));
            assert_eq!(said(before), "");
        }
        let mut silent = libc.probe(&["elsewhere", "./plugin.so", "allocate"]);
        silent.env("LIBVROCM_LOG_LEVEL", "0");
        assert_eq!(said(silent), "", "{}: level 0", libc.version);
    }
}

/// AMD's own runtimes and the mock HSA: there it really goes past the quota.
#[test]
fn amds_own_runtimes_in_another_namespace_are_said() {
    for runtime in Runtime::present() {
        let steps: [&[&str]; 2] = [
            &["elsewhere", &runtime.soname, "hipMalloc", "call", "536870912", "leave"],
            &["elsewhere", "libhsa-runtime64.so.1", "hsa_init", "leave"],
        ];
        for (steps, taken) in steps.into_iter().zip([512 << 20, 0]) {
            let mock = Mock::new();
            let mut command = runtime.command(&file("past"), Some(library()));
            command.args(steps).envs(mock.environment()).env("VROCM_DEVICE_MEMORY_LIMIT", "64").env("VROCM_LEDGER_PATH", shim::ledger_path(&mock));
            let context = format!("{} {steps:?}", runtime.version);
            assert_one(&said(command), &[steps[1], "namespace of its own"], &context);
            assert!(mock.card(0).highest_asked >= taken, "{context}: {:?}", mock.card(0));
        }
    }
}

#[test]
fn what_a_constructor_called_under_deepbind_is_said_where_it_shows() {
    for libc in Libc::all() {
        let early = said(libc.probe(&["deeply", "./early.so", "allocate", "call", "512", "deeply", "./early-too.so", "allocate"]));
        assert_one(&early, &["/early.so was opened with RTLD_DEEPBIND and has called hipMalloc"], libc.version);
        for steps in [
            &["deeply", "./plugin.so", "allocate", "call", "512"][..],
            &["here", "./early.so", "allocate", "call", "512"],
            &["deeply", "./early-free.so", "allocate", "call", "512"],
            // All its calls were bound when it was opened: it cannot be told.
            &["deeply", "./early-now.so", "allocate", "call", "512"],
        ] {
            assert_eq!(said(libc.probe(steps)), "", "{} {steps:?}", libc.version);
        }
    }
}

/// A container's `/dev` with a device at `/dev/kfd`; what it is does not matter, as long as nothing else is the same.
fn with_device(command: &Command) -> Command {
    const SCRIPT: &str = r#"
        set -e
        for name in null kfd; do : > "$0/$name"; done
        mount --bind /dev/null "$0/null"
        mount --bind /dev/full "$0/kfd"
        mount --rbind "$0" /dev
        cd "$FOLDER"
        if [ "$INHERIT" ]; then exec 9<>/dev/kfd; fi
        if [ "$SHIM" ]; then LD_PRELOAD=$SHIM; export LD_PRELOAD; fi
        exec "$@"
    "#;
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| TempDir::with_prefix("dev-").unwrap());
    let mut inside = Command::new("unshare");
    inside.args(["-r", "-m", "sh", "-c", SCRIPT]).arg(folder.path()).arg(command.get_program()).args(command.get_args());
    inside.env("FOLDER", file("past").parent().unwrap());
    for (name, value) in command.get_envs() {
        // The shell itself is none of the programs that are looked at.
        inside.env(if name == "LD_PRELOAD" { "SHIM".as_ref() } else { name }, value.unwrap_or_default());
    }
    inside
}

const OPEN: [&str; 2] = ["/dev/kfd is open (descriptor ", "neither HIP nor HSA was asked"];

#[test]
fn an_open_device_without_a_runtime_is_said_by_every_loader() {
    for libc in Libc::all() {
        for steps in [
            &["device"][..],
            &["device", "fork"],
            &["here", "libm.so.6", "cos", "device", "device"],
            // Ended without destructors, but something was looked up in a new library before.
            &["device", "here", "libm.so.6", "cos", "leave"],
        ] {
            assert_one(&said(with_device(&libc.probe(steps))), &OPEN, &format!("{} {steps:?}", libc.version));
        }
    }
}

#[test]
fn an_open_device_is_not_said_where_it_is_a_runtimes_or_another_processs() {
    for libc in Libc::all() {
        for steps in [
            &[][..],
            &["here", "libm.so.6", "cos"],
            &["here", "./renamed-4f21.so", "hipMalloc", "device"],
            &["here", "./plugin.so", "allocate", "call", "512", "device"],
            &["device", "here", "./plugin.so", "allocate", "call", "512"],
            &["device", "leave"],
            &["device", "refused"],
        ] {
            assert_eq!(said(with_device(&libc.probe(steps))), "", "{} {steps:?}", libc.version);
        }
        let mut silent = libc.probe(&["device"]);
        silent.env("LIBVROCM_LOG_LEVEL", "0");
        assert_eq!(said(with_device(&silent)), "", "{}: level 0", libc.version);
        // A parent's descriptor, which the driver refuses, and one that it does not.
        let inherited = |steps: &[&str]| {
            let mut command = libc.probe(steps);
            command.env("INHERIT", "1");
            said(with_device(&command))
        };
        assert_eq!(inherited(&["refused"]), "", "{}", libc.version);
        assert_one(&inherited(&[]), &["(descriptor 9)"], libc.version);
        // One line, not two, for a runtime elsewhere.
        let both = said(with_device(&libc.probe(&["device", "elsewhere", "./plugin.so", "allocate"])));
        assert!(both.lines().count() <= 2 && both.contains("namespace of its own"), "{}: {both}", libc.version);
        let both = said(with_device(&libc.probe(&["elsewhere", "./plugin.so", "allocate", "device"])));
        assert_one(&both, &["namespace of its own"], libc.version);
    }
}

/// HSA by its own name, over the mock; the program has the device open itself as well.
#[test]
fn a_program_on_hsa_is_never_told_off() {
    let mock = Mock::new();
    let hsa = vrocm_tests::mock::library_folder().join("libhsa-runtime64.so.1");
    let mut command = Command::new(file("past"));
    command.args(["device", "here", hsa.to_str().unwrap(), "hsa_init"]).env("LD_PRELOAD", library()).envs(mock.environment());
    assert_eq!(said(with_device(&command)), "");
}
