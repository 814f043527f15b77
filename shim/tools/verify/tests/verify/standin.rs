//! Cases that need a card, over a stand-in for ROCm whose waves run where a table says and whose time is that of the units that a mask gives; and over AMD's real
//! HIP on the mock, which runs no kernel. No figure here is a card's.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rocm_cumask::family::Family;
use rocm_cumask::grammar::Limits;
use rocm_cumask::hwid::encode;
use rocm_cumask::topology::Topology;
use rocm_cumask::verdict::{Variables, read};
use rocm_cumask::{measured, place};
use vrocm_tests::mock::{self, Mock};
use vrocm_tests::runtime::Runtime;

use crate::run::{Outcome, command, finish, shipped};

/// `rocm-cumask-check`, built on first use.
fn check() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let target = program.ancestors().nth(3).unwrap();
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "-q", "-p", "rocm-cumask-check", "--bin", "rocm-cumask-check", "--target-dir"]).arg(target);
        assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs").success());
        target.join("debug/rocm-cumask-check")
    })
}

/// A card that is not there.
struct StandIn {
    folder: Mock,
    card: Topology,
    family: Family,
}

impl StandIn {
    fn new(card: &str) -> Self {
        let (folder, card) = (Mock::new(), measured::card(card).unwrap());
        let family = card.check().unwrap();
        let libraries = folder.folder().join("libraries");
        fs::create_dir_all(&libraries).unwrap();
        let made = libraries.join("libhsa-runtime64.so.1");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cumask/tests/standin.c");
        let mut compile = Command::new("cc");
        compile.args(["-D_GNU_SOURCE", "-std=gnu11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"]).arg(&made).arg(source);
        assert!(compile.status().expect("a C compiler").success());
        for name in ["libamdhip64.so.7", "libhiprtc.so.7"] {
            fs::copy(&made, libraries.join(name)).unwrap();
        }
        fs::create_dir_all(folder.folder().join("tenants")).unwrap();
        host(folder.folder(), &card);
        let standin = Self { folder, card, family };
        fs::write(standin.folder.folder().join("masks"), standin.masks()).unwrap();
        standin
    }

    /// The words of the units that run under a mask, as measured on cards.
    fn words(&self, variables: Option<&Variables>) -> String {
        let whole = place::regular(self.family, &self.card);
        let limits = Limits { gpus: 1, cus: self.card.cu };
        let bits = variables.and_then(|variables| read(self.family, &self.card, variables, 0, limits).bits);
        let ran = place::outcome(self.family, &self.card, &whole, bits.as_ref());
        let words = ran.into_iter().map(|unit| encode(self.family, unit)).map(|(place, xcc)| format!("{place:x}:{xcc:x}"));
        words.collect::<Vec<_>>().join(",")
    }

    /// A line for every mask that the cases may set.
    fn masks(&self) -> String {
        let cu = self.card.cu;
        let (mut lists, mut table) = (Vec::new(), String::new());
        for first in 0..cu.min(64) {
            lists.extend((first..cu).map(|last| format!("{first}-{last}")));
        }
        lists.extend((0..cu).map(|bit| bit.to_string()));
        lists.extend([format!("0,{}", self.card.xcc), format!("{}-{}", cu / 2, cu - 1), format!("0x{:x}", (1_u32 << self.card.xcc) - 1)]);
        for list in lists {
            let mask = format!("0:{list}");
            let words = self.words(Some(&Variables { hsa: Some(mask.clone()), ..Variables::default() }));
            writeln!(table, "{mask}\t{words}").unwrap();
        }
        let units = self.card.units(self.family) / 2;
        let global = format!("0x{:x}", (1_u128 << units) - 1);
        let words = self.words(Some(&Variables { global: Some(global.clone()), ..Variables::default() }));
        writeln!(table, "{global}\t{words}").unwrap();
        table
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let (folder, libraries) = (self.folder.folder(), self.folder.folder().join("libraries"));
        let mut command = command(&["--case", "cu-mask", "--case", "compute"]);
        command.args(arguments).arg("--shim").arg(shipped()).arg("--mask-check").arg(check());
        command.arg("--runtime").arg(libraries.join("libamdhip64.so.7")).arg("--host-root").arg(folder);
        let Topology { gfx, cu, se, sa_per_se, xcc, .. } = &self.card;
        command.env("LD_LIBRARY_PATH", libraries).env("STANDIN_CARD", format!("{gfx},{cu},{se},{sa_per_se},{xcc}"));
        command.env("STANDIN_WHOLE", self.words(None)).env("STANDIN_MASKS", folder.join("masks")).env("STANDIN_TENANTS", folder.join("tenants"));
        command
    }

    /// A run that nothing else on this machine disturbed, as far as the program can tell: its time is real.
    fn quiet(&self, arguments: &[&str], environment: &[(&str, &str)], enough: impl Fn(&Outcome) -> bool) -> Outcome {
        let mut outcome = self.run(arguments, environment);
        for _ in 0..4 {
            if enough(&outcome) {
                break;
            }
            outcome = self.run(arguments, environment);
        }
        outcome
    }

    fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        finish(command)
    }
}

/// What the kernel would show of a card.
fn host(root: &Path, card: &Topology) {
    let nodes = root.join("sys/class/kfd/kfd/topology/nodes/1");
    fs::create_dir_all(root.join("dev")).unwrap();
    fs::create_dir_all(&nodes).unwrap();
    fs::write(root.join("dev/kfd"), "").unwrap();
    let version = if card.gfx == "gfx942" { 90402 } else { 110_001 };
    let text = format!("simd_count {}\nsimd_per_cu 1\ngfx_target_version {version}\nnum_xcc {}\n", card.cu, card.xcc);
    fs::write(nodes.join("properties"), text).unwrap();
}

const RDNA: &str = "gfx1101,60,3,2,1";

#[test]
fn a_card_that_keeps_its_masks_passes() {
    for card in [RDNA, "gfx942,32,8,1,4"] {
        let outcome = StandIn::new(card).quiet(&["--soak", "0.5"], &[], |outcome| outcome.status == 0);
        assert_eq!(outcome.status, 0, "{card}: {}", outcome.text);
        assert_eq!(
            (outcome.of("compute", "PASS").len(), outcome.of("compute", "SKIP").len()),
            (vrocm_verify::compute::CHECKS.len(), 0),
            "{}",
            outcome.text
        );
        let negative = outcome.of("cu-mask", "PASS").iter().filter(|row| row.contains("is rejected")).count();
        assert!(negative >= 6, "{card}: {}", outcome.text);
    }
}

#[test]
fn a_card_that_discards_masks_fails() {
    let yardstick = |outcome: &Outcome| outcome.of("compute", "PASS").iter().any(|row| row.starts_with("yardstick"));
    let outcome = StandIn::new(RDNA).quiet(&["--soak", "0.3"], &[("STANDIN_MASKS", "/dev/null")], yardstick);
    assert_eq!(outcome.status, 1, "{}", outcome.text);
    for row in ["alone", "ordering"] {
        assert!(outcome.of("compute", "FAIL").iter().any(|failed| failed.starts_with(row)), "{row}: {}", outcome.text);
    }
    let failed = outcome.of("cu-mask", "FAIL");
    assert!(failed.iter().any(|row| row.starts_with("card 0: HSA_CU_MASK=0:0-29 takes effect")), "{}", outcome.text);
    // What is to be rejected is.
    assert!(failed.iter().all(|row| row.contains("takes effect")), "{}", outcome.text);
}

/// A kernel that does not run, is not compiled, crashes or never ends is no figure and no mask.
#[test]
fn a_kernel_that_does_not_run_is_no_figure() {
    let standin = StandIn::new(RDNA);
    for (fault, says) in [("silent", "the card counted 0"), ("crash", "signal 6"), ("hang", "did not answer")] {
        let outcome = standin.run(&["--soak", "0.1", "--timeout", "2"], &[("STANDIN_FAULT", fault)]);
        let failed = outcome.of("compute", "FAIL");
        assert!(outcome.status == 1 && failed.len() == 1 && failed[0].contains(says), "{fault}: {}", outcome.text);
        assert!(outcome.of("compute", "PASS").is_empty() && !outcome.of("cu-mask", "FAIL").is_empty(), "{fault}: {}", outcome.text);
    }
    let outcome = standin.run(&[], &[("STANDIN_FAULT", "nocompile")]);
    let skipped = outcome.of("compute", "SKIP");
    assert!(skipped.len() == vrocm_verify::compute::CHECKS.len() && skipped.iter().all(|row| row.contains("cannot compile")), "{}", outcome.text);
}

/// AMD's HIP and compiler, over a mock that is not told to be one: everything but the kernel runs.
#[test]
fn the_real_runtime_compiles_and_loads_the_kernel() {
    let Ok(runtime) = Runtime::find("7.2.4") else { return eprintln!("not tested: HIP 7.2.4 is not in the corpus") };
    for isa in ["gfx90a", "gfx942", "gfx1100", "gfx1201"] {
        let mock = Mock::new().knob("ISA", isa);
        host(mock.folder(), &measured::card(RDNA).unwrap());
        let mut command = command(&["--case", "compute", "--soak", "0.1"]);
        command.arg("--shim").arg(shipped()).arg("--runtime").arg(runtime.folder.join(&runtime.soname)).arg("--host-root").arg(mock.folder());
        command.arg("--library-path").arg(mock::library_folder()).envs(mock.environment());
        let outcome = finish(command);
        let failed = outcome.of("compute", "FAIL");
        assert!(outcome.status == 1 && failed.len() == 1 && failed[0].contains("the card counted 0"), "{isa}: {}", outcome.text);
        assert!(outcome.of("compute", "INFO").iter().any(|row| row.contains(isa)), "{isa}: {}", outcome.text);
    }
}

/// What was measured on cards, asked of the program that is shipped.
#[test]
fn the_table_holds_and_another_program_fails_it() {
    let mut good = command(&["--case", "mask-table"]);
    good.arg("--shim").arg(shipped()).arg("--mask-check").arg(check());
    let outcome = finish(good);
    let (masks, shares) = measured::tables().unwrap();
    assert_eq!((outcome.status, outcome.of("mask-table", "PASS").len()), (0, masks.len() + shares.len()), "{}", outcome.text);
    let mut other = command(&["--case", "mask-table", "--mask-check", "/bin/true"]);
    other.arg("--shim").arg(shipped());
    let outcome = finish(other);
    assert_eq!((outcome.status, outcome.of("mask-table", "FAIL").len()), (1, masks.len() + shares.len()), "{}", outcome.text);
}
