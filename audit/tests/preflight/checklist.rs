//! Lines of the checklist about the probe: what takes part in the question, which bytes are judged, and which runtime has a say.

use std::fs;
use std::process::Command;

use vrocm_audit::gfx::preflight::ask::{self, Answer, Memory};
use vrocm_audit::gfx::preflight::{device, reasons, simulator};
use vrocm_audit::gfx::verdict::Verdict;
use vrocm_audit::loader::environment::over;
use vrocm_audit::loader::{self, Cpu, Request, unknown};

use crate::stand_in::{Bench, wanted};

fn ask(request: &Request) -> Answer {
    ask::ask(request, &wanted()).expect("the command starts")
}

fn codes(answer: &Answer) -> Vec<&str> {
    answer.unknowns.iter().map(|unknown| unknown.code).collect()
}

/// `gfx-scan preflight` about the program, with these variables around it.
fn run(bench: &Bench, arguments: &[&str], ambient: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gfx-scan"));
    command.current_dir(bench.path()).env_clear().envs(ambient.iter().copied()).arg("preflight").args(arguments);
    let done = command.output().expect("runs");
    (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

#[test]
fn e4_a_cleared_environment_leaks_nothing_into_the_probe() {
    let bench = Bench::new();
    bench.rocr("other/libhsa-runtime64.so.1", &["1250"]);
    let other = bench.at("other").display().to_string();
    let ambient = [("LD_LIBRARY_PATH", other.as_str()), ("PATH", "/nowhere")];
    let target = ["--target", "gfx1250"];
    // The variable goes before RUNPATH, so it leads to the runtime that knows the target.
    assert_eq!(run(&bench, &[&target[..], &["--", "./app"]].concat(), &ambient).0, Some(0));
    let cleared = run(&bench, &[&target[..], &["--clear-env", "--", "./app"]].concat(), &ambient);
    assert_eq!(cleared.0, Some(1), "{}", cleared.1);
    assert_eq!(run(&bench, &[&target[..], &["--", "env"]].concat(), &ambient).0, Some(2), "PATH of the starter counts as well");
    assert_ne!(run(&bench, &[&target[..], &["--clear-env", "--", "env"]].concat(), &ambient).0, Some(2), "cleared, it is the usual one");
}

#[test]
fn e8_the_override_of_a_node_is_one_of_the_family_and_other_variables_are_not() {
    let bench = Bench::new();
    for (variable, expected) in [
        ("HSA_OVERRIDE_GFX_VERSION", Verdict::Supported),
        ("HSA_OVERRIDE_GFX_VERSION_1", Verdict::Unknown),
        ("HSA_OVERRIDE_GFX_VERSION_01x", Verdict::Unsupported),
        ("HSA_OVERRIDE_GFX", Verdict::Unsupported),
        ("HSA_ENABLE_SDMA", Verdict::Unsupported),
        ("MY_HSA_OVERRIDE_GFX_VERSION", Verdict::Unsupported),
    ] {
        let answer = ask(&bench.request(&[(variable, "12.0.1")]));
        assert_eq!(answer.verdict, expected, "{variable}: {:?}", answer.unknowns);
    }
    assert_eq!(codes(&ask(&bench.request(&[("HSA_OVERRIDE_GFX_VERSION_1", "12.0.1")]))), [reasons::OVERRIDE_NODE.id]);
}

#[test]
fn e9_a_preload_is_read_and_counts_by_what_it_defines() {
    let bench = Bench::new();
    // As an emulator's interposer: the kernel's device, nothing of the runtime's.
    bench.library("lib/libemulator.so", "libemulator.so", "int ioctl(void){return 0;}");
    bench.library("lib/libfake.so", "libfake.so", "int hsa_init(void){return 0;}");
    bench.library("lib/libvrocm.so", "libvrocm.so", "int hsa_init(void){return 0;}");
    bench.rocr("other/libnamed.so", &["1250"]);
    let at = |name: &str| bench.at(name).display().to_string();
    let (emulator, fake, own, named) = (at("lib/libemulator.so"), at("lib/libfake.so"), at("lib/libvrocm.so"), at("other/libnamed.so"));
    for (preload, verdict, code) in [
        (emulator.clone(), Verdict::Unsupported, None),
        (format!("{emulator}:/nowhere/absent.so"), Verdict::Unsupported, None),
        (fake.clone(), Verdict::Unknown, Some(reasons::REPLACED.id)),
        (format!("{emulator} {fake}"), Verdict::Unknown, Some(reasons::REPLACED.id)),
        // Our shim hands the call on.
        (own, Verdict::Unsupported, None),
        // The first object with the runtime's soname is the runtime.
        (named, Verdict::Supported, None),
    ] {
        let answer = ask(&bench.request(&[("LD_PRELOAD", &preload)]));
        assert_eq!((answer.verdict, codes(&answer).first().copied()), (verdict, code), "{preload}: {:?}", answer.unknowns);
    }
    // A library that the program links is no preload, and answers all the same.
    let answer = ask(&Request { preloads: vec![fake], ..bench.request(&[]) });
    assert_eq!(codes(&answer), [reasons::REPLACED.id]);
}

#[test]
fn e11_whatever_the_loader_reads_takes_part_and_nothing_else_does() {
    let bench = Bench::new();
    let mut memory = Memory::default();
    let mut asked = |request: &Request| {
        memory.ask(request, &wanted()).expect("an answer");
        memory.asked()
    };
    let plain = bench.request(&[]);
    assert_eq!(asked(&plain), 1);
    let mut expected = 1;
    for name in [
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LD_AUDIT",
        "LD_ORIGIN_PATH",
        "LD_HWCAP_MASK",
        "LD_ASSUME_KERNEL",
        "GLIBC_TUNABLES",
        "PATH",
        "HSA_OVERRIDE_GFX_VERSION",
        "HSA_OVERRIDE_GFX_VERSION_3",
        "HSA_TOOLS_LIB",
        "PYTHONPATH",
        "VIRTUAL_ENV",
    ] {
        expected += 1;
        assert_eq!(asked(&bench.request(&[(name, "/x")])), expected, "{name}");
        assert_eq!(asked(&bench.request(&[(name, "/x"), ("RANK", "1"), ("SLURM_PROCID", "7")])), expected, "{name}, another rank");
    }
    let cpu = Cpu::all().next();
    for other in [
        Request { cwd: "/".into(), ..plain.clone() },
        Request { arguments: vec!["x".into()], ..plain.clone() },
        Request { preloads: vec!["x".into()], ..plain.clone() },
        Request { cpu, ..plain.clone() },
        Request { limits: loader::Limits { objects: 7, ..loader::Limits::default() }, ..plain.clone() },
    ] {
        expected += 1;
        assert_eq!(asked(&other), expected, "{other:?}");
    }
    // The last of a name counts, so the order matters there and nowhere else.
    let (one, two) = (("LD_LIBRARY_PATH", "/1"), ("LD_LIBRARY_PATH", "/2"));
    assert_eq!(asked(&bench.request(&[one, two])), expected + 1);
    assert_eq!(asked(&bench.request(&[two, one])), expected + 2);
    assert_eq!(asked(&bench.request(&[("LD_LIBRARY_PATH", "/2"), ("A", "b")])), expected + 2);
}

#[test]
fn e12_what_the_starter_searches_stands_behind_what_is_set() {
    let bench = Bench::new();
    bench.rocr("other/libhsa-runtime64.so.1", &["1250"]);
    bench.rocr("third/libhsa-runtime64.so.1", &[]);
    let at = |name: &str| vec![("LD_LIBRARY_PATH".to_string(), bench.at(name).display().to_string())];
    let with = |environment| ask(&Request { environment, ..bench.request(&[]) }).candidates[0].runtime.clone();
    assert!(with(over(&at("other"), &at("third"))).ends_with("third/libhsa-runtime64.so.1"));
    assert!(with(over(&at("other"), &at("nowhere"))).ends_with("other/libhsa-runtime64.so.1"), "appended, not replaced");
    assert!(with(over(&[], &at("nowhere"))).ends_with("lib/libhsa-runtime64.so.1"));
}

#[test]
fn s10_a_runtime_that_changes_between_look_up_and_judgement_is_unknown() {
    let bench = Bench::new();
    let request = bench.request(&[]);
    let resolution = loader::resolve(&request).expect("resolved");
    assert_eq!(ask::about(&resolution, &request, &wanted()).verdict, Verdict::Unsupported);
    bench.rocr("lib/new", &["1250"]);
    fs::rename(bench.at("lib/new"), bench.at("lib/libhsa-runtime64.so.1")).expect("replaced");
    let answer = ask::about(&resolution, &request, &wanted());
    assert_eq!((answer.verdict, codes(&answer)), (Verdict::Unknown, vec![unknown::CHANGED.id]));
    assert_eq!(ask(&request).verdict, Verdict::Supported, "asked again, it is the new one");
}

#[test]
fn s10_l17_a_runtime_beyond_the_bound_is_unknown() {
    let bench = Bench::new();
    let stretch = |name: &str| {
        let file = fs::OpenOptions::new().write(true).open(bench.at(name)).expect("opened");
        file.set_len(600 << 20).expect("a sparse file");
    };
    stretch("app");
    assert_eq!(ask(&bench.request(&[])).verdict, Verdict::Unsupported, "of a program the headers are read, whatever its size");
    stretch("lib/libhsa-runtime64.so.1");
    let answer = ask(&bench.request(&[]));
    assert_eq!((answer.verdict, codes(&answer)), (Verdict::Unknown, vec![reasons::RUNTIME.id]));
    assert!(answer.unknowns[0].detail.contains("more than any runtime"), "{:?}", answer.unknowns);
}

#[test]
fn s14_another_library_under_the_runtimes_name_is_unknown() {
    let bench = Bench::new();
    let hip = "int hipInit(void){return 0;} int hipGetDeviceCount(void){return 0;} const char n[]=\"gfx900 gfx906 gfx908 gfx90a gfx1030 gfx1100 gfx1101 gfx1200 gfx1201 gfx1151\";";
    for soname in ["libamdhip64.so.7", "libamd_comgr.so.3"] {
        bench.library("lib/libhsa-runtime64.so.1", soname, hip);
        let answer = ask(&bench.request(&[]));
        assert_eq!(answer.verdict, Verdict::Unknown, "{soname}");
        assert!(codes(&answer).contains(&reasons::RUNTIME.id), "{soname}: {:?}", answer.unknowns);
    }
    bench.rocr("lib/libhsa-runtime64.so.1", &[]);
    assert_eq!(ask(&bench.request(&[])).verdict, Verdict::Unsupported);
}

#[test]
fn l16_a_runtime_that_others_may_change_is_judged_as_of_now() {
    let bench = Bench::new();
    let mode = |mode| fs::set_permissions(bench.at("lib"), std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("set");
    assert_eq!(ask(&bench.request(&[])).candidates[0].changeable, None);
    mode(0o777);
    let answer = ask(&bench.request(&[]));
    assert_eq!(answer.verdict, Verdict::Unsupported);
    assert!(answer.candidates[0].changeable.as_ref().is_some_and(|who| who.ends_with("lib (writable by everybody)")));
    let text = run(&bench, &["--target", "gfx1250", "--", "./app"], &[]).1;
    assert!(text.contains("as of now: others may change"), "{text}");
}

#[test]
fn c2_without_a_device_nothing_is_probed() {
    let bench = Bench::new();
    let absent = Request { command: "/nowhere/at/all".into(), ..bench.request(&[]) };
    let answer = ask::ask(&absent, &[]).expect("nothing was looked for");
    assert_eq!((answer.verdict, codes(&answer), &answer.notice), (Verdict::Unknown, vec![reasons::NO_DEVICE.id], &None));
    assert!(ask::ask(&absent, &wanted()).is_err(), "with one, the command is looked for");
    fs::write(bench.at("empty.json"), "{}").expect("written");
    let (status, said) = run(&bench, &["--config", "empty.json", "--", "/nowhere/at/all"], &[]);
    assert_eq!(status, Some(2));
    assert!(said.contains("describes no device") && !said.contains("/nowhere"), "{said}");
}

/// A configuration of one device.
fn config(packed: u32) -> String {
    format!("{{\"vm\": {{\"gpu\": {{\"device\": {{\"gfx_target_version\": {packed}}}}}}}}}")
}

#[test]
fn c7_the_device_of_a_config_goes_before_this_machines() {
    let bench = Bench::new();
    let node = bench.at("nodes/1");
    fs::create_dir_all(&node).expect("made");
    fs::write(node.join("gpu_id"), "9\n").expect("written");
    fs::write(node.join("properties"), "gfx_target_version 90402\n").expect("written");
    fs::write(bench.at("config.json"), config(120_500)).expect("written");
    let nodes = bench.at("nodes");
    let devices = simulator::devices(&bench.at("config.json"), &[&nodes]).expect("one");
    assert_eq!(devices.iter().map(|device| device.gfx_target_version).collect::<Vec<_>>(), [120_500]);
    // With neither, the machine's own counts; both ways at once are no question.
    let own = vrocm_audit::gfx::preflight::topology::devices(&[&nodes]).expect("one");
    assert_eq!(own[0].gfx_target_version, 90402);
    assert_eq!(run(&bench, &["--config", "config.json", "--target", "gfx942", "--", "./app"], &[]).0, Some(2));
}

#[test]
fn c12_c14_c20_a_reference_to_another_config_is_followed_or_an_error() {
    let bench = Bench::new();
    fs::create_dir(bench.at("deep")).expect("made");
    fs::write(bench.at("deep/host.json"), config(110_000)).expect("written");
    let guest = |reference: &str| {
        // With a comment, bare keys and a trailing comma: read as the emulator reads it, so a reference in it is no secret.
        let text = format!(
            "// a guest\n{{vm: {{gpu: {{device: {{gfx_target_version: 120001,}},}},}}, dbt_guest: {{enabled: true, execution_backend: 'simulator',{reference} guest_device: {{gfx_target_version: 120500}},}},}}"
        );
        fs::write(bench.at("deep/config.json"), text).expect("written");
        let devices = simulator::devices(&bench.at("deep/config.json"), &[]).map_err(|error| error.to_string())?;
        Ok::<_, String>(devices.into_iter().map(|device| device.gfx_target_version).collect::<Vec<_>>())
    };
    let absolute = format!("simulator_config: '{}',", bench.at("deep/host.json").display());
    assert_eq!(guest("simulator_config: 'host.json',"), Ok(vec![120_500, 110_000]), "relative: beside the file");
    assert_eq!(guest(&absolute), Ok(vec![120_500, 110_000]));
    assert_eq!(guest(""), Ok(vec![120_500, 120_001]), "absent: the file itself");
    assert_eq!(guest("simulator_config: '',"), Ok(vec![120_500, 120_001]), "empty: the file itself");
    let dangling = guest("simulator_config: 'absent.json',").expect_err("nothing there");
    assert!(dangling.contains("absent.json"), "{dangling}");
    // Nothing is written beside the user's file.
    assert_eq!(fs::read_dir(bench.at("deep")).expect("there").count(), 2);
}

#[test]
fn c13_a_relative_config_counts_from_the_working_directory() {
    let bench = Bench::new();
    fs::create_dir(bench.at("deep")).expect("made");
    fs::write(bench.at("deep/config.json"), config(120_500)).expect("written");
    assert_eq!(run(&bench, &["--config", "deep/config.json", "--", "./app"], &[]).0, Some(1));
    assert_eq!(run(&bench, &["--config", "config.json", "--", "./app"], &[]).0, Some(2), "there is none here");
}

#[test]
fn c16_a_path_stays_inside_the_root_whatever_its_links_say() {
    let bench = Bench::new();
    // A root with the program, its loader and a runtime; a link that leads out of it, and a way up that does.
    for folder in ["r/lib64", "r/opt/lib", "r/bin"] {
        fs::create_dir_all(bench.at(folder)).expect("made");
    }
    fs::copy("/lib64/ld-linux-x86-64.so.2", bench.at("r/lib64/ld-linux-x86-64.so.2")).expect("copied");
    let outside = bench.at("lib/libhsa-runtime64.so.1").display().to_string();
    fs::copy(bench.at("app"), bench.at("r/bin/app")).expect("copied");
    fs::create_dir(bench.at("r/bin/lib")).expect("made");
    let link = bench.at("r/bin/lib/libhsa-runtime64.so.1");
    let ask = |target: &str| {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(target, &link).expect("linked");
        ask(&Request { root: bench.at("r"), cwd: "/".into(), command: "/bin/app".into(), ..bench.request(&[]) })
    };
    for target in [outside.as_str(), "../../../lib/libhsa-runtime64.so.1"] {
        assert_eq!(ask(target).candidates.len(), 0, "{target} is outside");
    }
    bench.rocr("r/opt/lib/rocr.so", &[]);
    let inside = ask("/opt/lib/rocr.so");
    assert_eq!(inside.candidates.len(), 1, "inside the root, an absolute link is the root's");
}

#[test]
fn c4_a_device_without_a_version_is_no_target() {
    let none = device::Device { from: "test".into(), node: None, gfx_target_version: 0, device_id: None };
    let versions = device::versions(&none, &[], None).expect("a table");
    assert_eq!(versions.into_iter().collect::<Vec<_>>(), [device::Version::None]);
    let called = |device_id| ask::Wanted { device: device::Device { device_id, ..none.clone() }, name: None }.id();
    assert_eq!((called(None), called(Some(0x740f))), ("a device without a version".into(), "device 0x740f".into()));
}
