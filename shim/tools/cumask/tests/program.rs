//! The program as it is run: over a stand-in that says where waves ran, and over AMD's real hiprtc and HIP where they are at hand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocm_cumask::grammar::Limits;
use rocm_cumask::hwid::{Unit, encode};
use rocm_cumask::place;
use rocm_cumask::topology::Topology;
use rocm_cumask::verdict::{Variables, read};
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;

const PROGRAM: &str = env!("CARGO_BIN_EXE_rocm-cumask-check");
const RDNA: &str = "gfx1101,60,3,2,1";
const CDNA: &str = "gfx942,304,32,1,8";

struct StandIn {
    folder: tempfile::TempDir,
}

impl StandIn {
    fn new() -> Self {
        let folder = tempfile::TempDir::new().expect("a folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin.c");
        let made = folder.path().join("libhsa-runtime64.so.1");
        let status = Command::new("cc")
            .args(["-D_GNU_SOURCE", "-std=gnu11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"])
            .arg(&made)
            .arg(source)
            .status();
        assert!(status.expect("a C compiler").success());
        for name in ["libamdhip64.so.7", "libhiprtc.so.7"] {
            std::fs::copy(&made, folder.path().join(name)).expect("a copy");
        }
        Self { folder }
    }

    fn command(&self, card: &str, masked: &BTreeSet<Unit>) -> Command {
        let topology = topology(card);
        let family = topology.check().expect("a card");
        let words = |units: &BTreeSet<Unit>| {
            units.iter().map(|&unit| encode(family, unit)).map(|(place, xcc)| format!("{place:x}:{xcc:x}")).collect::<Vec<_>>().join(",")
        };
        let mut command = Command::new(PROGRAM);
        for name in ["HSA_CU_MASK", "ROC_GLOBAL_CU_MASK", "HSA_CU_MASK_SKIP_INIT", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        command.env("LD_LIBRARY_PATH", self.folder.path()).env("STANDIN_CARD", card);
        command.env("STANDIN_WHOLE", words(&place::regular(family, &topology))).env("STANDIN_MASKED", words(masked));
        command
    }
}

fn topology(text: &str) -> Topology {
    let fields: Vec<&str> = text.split(',').collect();
    let count = |index: usize| fields[index].parse().expect("a count");
    Topology { gfx: fields[0].to_owned(), name: String::new(), pci: String::new(), cu: count(1), se: count(2), sa_per_se: count(3), xcc: count(4) }
}

/// Where waves run under a mask, on a card like the ones measured.
fn outcome(card: &str, variables: &Variables) -> BTreeSet<Unit> {
    let topology = topology(card);
    let family = topology.check().expect("a card");
    let asked = read(family, &topology, variables, 0, Limits { gpus: 1, cus: topology.cu });
    place::outcome(family, &topology, &place::regular(family, &topology), asked.bits.as_ref())
}

fn hsa(mask: &str) -> Variables {
    Variables { hsa: Some(mask.to_owned()), ..Variables::default() }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whatever is printed keeps to the published shape, and the shape is not empty.
fn holds_to_schema(json: &serde_json::Value) {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../../../docs/tools/rocm-cumask-check.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(json).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(&serde_json::json!({ "schema_version": 1 })));
}

#[test]
fn every_measured_mask_gets_its_verdict() {
    let standin = StandIn::new();
    for mask in rocm_cumask::measured::tables().expect("the tables").0 {
        let ran = if mask.skip { outcome(&mask.card, &Variables::default()) } else { outcome(&mask.card, &mask.variables()) };
        let mut command = standin.command(&mask.card, &ran);
        if mask.skip {
            command.env("HSA_CU_MASK_SKIP_INIT", "1");
        }
        let output = command.env(&mask.variable, &mask.mask).arg("--json").output().expect("it runs");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        holds_to_schema(&json);
        assert_eq!(output.status.code(), Some(i32::from(!mask.kept)), "{mask:?}: {json}");
        assert_eq!((&json["verdict"], &json["gpus"]), (&if mask.kept { "effective" } else { "not-effective" }.into(), &1.into()));
        let units = json["units"].as_array().expect("units");
        assert_eq!(units.iter().filter(|unit| unit["launches"] == 6).count(), mask.ran, "{mask:?}");
    }
}

#[test]
fn a_share_is_derived_and_verified_under_the_mask() {
    let standin = StandIn::new();
    let output = standin.command(RDNA, &outcome(RDNA, &hsa("0:0-11"))).args(["--percent", "25"]).output().expect("it runs");
    let report = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(report.contains("mask HSA_CU_MASK=0:0-11  (derived from 25 %)") && report.ends_with("EFFECTIVE\n"), "{report}");
    assert!(report.contains("  SE 0  SA 0  #....\n") && !report.contains('\x1b'), "{report}");
    let output = standin.command(CDNA, &BTreeSet::new()).args(["--percent", "1"]).output().expect("it runs");
    assert!(output.status.code() == Some(2) && stdout(&output).contains("less than one in every XCC"), "{}", stdout(&output));
    let output = standin.command(CDNA, &BTreeSet::new()).args(["--percent", "5"]).env("HSA_CU_MASK", "0:0-7").output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "a share and a mask");
}

#[test]
fn a_red_result_is_plain() {
    let standin = StandIn::new();
    let output = standin.command(CDNA, &outcome(CDNA, &hsa("0:0-3"))).args(["--mask", "0:0-3"]).output().expect("it runs");
    let report = stdout(&output);
    assert_eq!(output.status.code(), Some(1));
    for line in [
        "FAIL | kept-by-platform | no bit reaches XCC 4-7: an XCC without a bit runs unmasked",
        "FAIL | units | 4 CUs asked for, 156 of 304 ran",
        "FAIL | identity | 152 CUs ran that were not asked for, 0 that were asked for did not",
        "  XCC 0  SE 0  #.........",
        "  XCC 4  SE 0  !!!!!!!!!!",
    ] {
        assert!(report.contains(line), "{line} is not in\n{report}");
    }
}

#[test]
fn the_second_queue_is_looked_at() {
    let standin = StandIn::new();
    let good = outcome(RDNA, &hsa("0:0-11"));
    let mut command = standin.command(RDNA, &good);
    let whole = command.get_envs().find(|(name, _)| *name == "STANDIN_WHOLE").and_then(|(_, value)| value).expect("set").to_owned();
    let output = command.env("HSA_CU_MASK", "0:0-11").env("STANDIN_SECOND", whole).output().expect("it runs");
    assert!(output.status.code() == Some(1) && stdout(&output).contains("FAIL | same-each-time"), "{}", stdout(&output));
}

/// One XCC of an MI300X as a card of its own, which the hardware still numbers as the fifth.
#[test]
fn a_partition_is_a_card() {
    let standin = StandIn::new();
    let card = "gfx942,38,4,1,1";
    let shifted = |units: BTreeSet<Unit>| -> String {
        units
            .into_iter()
            .map(|unit| encode(rocm_cumask::family::Family::Cdna, Unit { xcc: 5, ..unit }))
            .map(|(place, xcc)| format!("{place:x}:{xcc:x}"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let whole = place::regular(rocm_cumask::family::Family::Cdna, &topology(card));
    for (mask, ran, status) in [("0:0-8", outcome(card, &hsa("0:0-8")), 0), ("0:0-8", whole.clone(), 1)] {
        let mut command = standin.command(card, &whole);
        let output = command
            .env("STANDIN_WHOLE", shifted(whole.clone()))
            .env("STANDIN_MASKED", shifted(ran))
            .args(["--mask", mask])
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(status), "{}", stdout(&output));
    }
}

#[test]
fn what_could_not_run_says_so() {
    let standin = StandIn::new();
    let good = outcome(RDNA, &hsa("0:0-11"));
    for (fault, says) in [
        ("nocard", "hsa_init answers 0x1008: no card"),
        ("nocompile", "hiprtc cannot compile the kernel for gfx1101 (status 6): refused"),
        ("crash", "ended without an answer"),
        ("hang", "has not come back within 1 s"),
        ("silent", "480 of 480 blocks of the kernel left no word"),
        ("hidden", "check HIP_VISIBLE_DEVICES"),
    ] {
        let output = standin
            .command(RDNA, &good)
            .env("STANDIN_FAULT", fault)
            .args(["--mask", "0:0-11", "--timeout", "1", "--json"])
            .output()
            .expect("it runs");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        holds_to_schema(&json);
        assert_eq!((output.status.code(), json["verdict"].as_str()), (Some(2), Some("could-not-run")), "{fault}");
        assert!(json["reason"].as_str().is_some_and(|reason| reason.contains(says)), "{fault}: {json}");
    }
    let output = standin.command(RDNA, &good).args(["--device", "1"]).output().expect("it runs");
    assert!(output.status.code() == Some(2) && stdout(&output).contains("there is no card 1"));
    // Nothing of ROCm at all.
    let empty = tempfile::TempDir::new().expect("a folder");
    if !Path::new("/opt/rocm/lib").exists() {
        let output = standin.command(RDNA, &good).env("LD_LIBRARY_PATH", empty.path()).output().expect("it runs");
        assert!(output.status.code() == Some(2) && stdout(&output).contains("is ROCm installed"), "{}", stdout(&output));
    }
    for wrong in [
        &["--percent", "0"][..],
        &["--percent", "101"],
        &["--card", "gfx942,304"],
        &["--card", "gfx1250,8,2,1,1"],
        &["--percent", "5", "--mask", "0:0"],
        &["--device", "x"],
    ] {
        assert_eq!(standin.command(RDNA, &good).args(wrong).output().expect("it runs").status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_mask_is_foreseen_without_a_card() {
    for (card, mask, status, line) in [
        (CDNA, "0:0-3", 1, "WOULD BE DISCARDED: 156 of 304 units would run"),
        (CDNA, "0:0-15", 0, "WOULD BE KEPT: 16 of 304 units would run"),
        (RDNA, "0:0-14", 1, "WOULD BE DISCARDED: 30 of 30 units would run"),
        ("gfx90a,104,8,1,1", "0:0-14", 0, "WOULD BE KEPT: 15 of 104 units would run"),
        (RDNA, "1:0-13", 1, "no set that counts names card 0"),
    ] {
        let output = Command::new(PROGRAM).env_remove("HSA_CU_MASK_SKIP_INIT").args(["--card", card, "--mask", mask]).output().expect("it runs");
        assert!(output.status.code() == Some(status) && stdout(&output).contains(line), "{}", stdout(&output));
    }
    let output =
        Command::new(PROGRAM).env("HSA_CU_MASK_SKIP_INIT", "1").args(["--card", CDNA, "--mask", "0:0-7", "--json"]).output().expect("it runs");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    holds_to_schema(&json);
    assert_eq!((output.status.code(), json["verdict"].as_str()), (Some(1), Some("foreseen-discarded")));
}

/// AMD's compiler for the processors that people have.
#[test]
fn the_real_compiler_takes_the_kernel() {
    let runtime = match Runtime::find("7.2.4") {
        Ok(runtime) if runtime.comgr => runtime,
        Ok(_) => return println!("not tested: 7.2.4's comgr is not in the corpus"),
        Err(why) => return println!("not tested: {why}"),
    };
    for gfx in ["gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx908", "gfx1030"] {
        let output = runtime.command(&PathBuf::from(PROGRAM), None).args(["--compile", gfx]).output().expect("it runs");
        assert!(output.status.success() && stdout(&output).starts_with(&format!("{gfx}: ")), "{gfx}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let output = runtime.command(&PathBuf::from(PROGRAM), None).args(["--compile", "gfx1299"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "an unknown processor");
}

/// AMD's real HIP over the mock HSA runs no kernel. That must not look like a mask.
#[test]
fn a_kernel_that_did_not_run_is_no_verdict() {
    let runtime = match Runtime::find("7.2.4") {
        Ok(runtime) if runtime.comgr => runtime,
        _ => return println!("not tested: HIP 7.2.4 and its compiler are not in the corpus"),
    };
    let mock = Mock::new();
    let output = runtime.command(&PathBuf::from(PROGRAM), None).args(["--probe"]).envs(mock.environment()).output().expect("it runs");
    let text = stdout(&output);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("rocm-cumask-probe {\"Err\":"), "{text}");
}
