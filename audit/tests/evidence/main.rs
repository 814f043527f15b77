//! `evidence`: what is found on the real runtimes and what it is worth (here), what is reached beneath ([`beneath`]), other compilers ([`builds`]), debug
//! information ([`debug`]), any bytes ([`hostile`]), ROCr ([`hsa`]), what is stored of known builds, and the move to a release that nobody knows ([`stored`]).

mod beneath;
mod builds;
mod debug;
mod hostile;
mod hsa;
mod stored;
#[path = "../support/mod.rs"]
mod support;

use std::process::Command;

use support::file;
use vrocm_audit::elf::Elf;
use vrocm_audit::evidence::audit::Known;
use vrocm_audit::evidence::read;
use vrocm_audit::evidence::{self, Subject, Verdict};
use vrocm_audit::finding::{Finding, Severity};
use vrocm_audit::manifest::{Class, ClassTable, Family, Hints};

const HIP: [(&str, &str, &str); 4] = [
    ("5.2.3", "libamdhip64-5_5.2.3-8_amd64", "libamdhip64.so.5"),
    ("5.7.1", "libamdhip64-5_5.7.1-6+deb13u1_amd64", "libamdhip64.so.5"),
    ("6.4.3", "libamdhip64-6_6.4.3-5_amd64", "libamdhip64.so.6"),
    ("7.2.4", "libamdhip64-7_7.2.4-1~exp2_amd64", "libamdhip64.so.7"),
];
const SINKS: [&str; 3] = ["hsa_amd_memory_pool_allocate", "hsa_amd_vmem_handle_create", "hsa_memory_allocate"];
const BENEATH: read::Beneath<'static> = read::Beneath { allocators: &SINKS, takes: &|name| SINKS.contains(&name) };
/// Doors that a review had missed, and that the seeds do not name.
const MISSED: [&str; 5] = ["hipArray3DCreate", "hipArrayCreate", "hipMalloc3D", "hipMemAllocPitch", "hipMemCreate"];

fn families() -> Vec<Family> {
    Family::embedded().expect("families")
}

fn family<'a>(families: &'a [Family], name: &str) -> &'a Family {
    families.iter().find(|family| family.name() == name).expect("a family")
}

fn hints() -> Hints {
    family(&families(), "hip").hints().expect("read").expect("hip has hints")
}

/// Audits a build with these hints.
fn audit(release: &str, hints: &Hints) -> Option<(Subject, Vec<Finding>)> {
    let (_, package, name) = HIP.iter().find(|(known, ..)| *known == release).expect("a known release");
    let image = Elf::open(&file(package, name)?).expect("opens");
    let families = families();
    let known = Known {
        family: family(&families, "hip"),
        beneath: Some(family(&families, "hsa")),
        release: Some(release.parse().expect("a release")),
        hints: Some(hints),
    };
    let mut findings = Vec::new();
    let subject = evidence::audit(&image, known, &ClassTable::embedded().expect("a table"), &mut findings).expect("read");
    Some((subject, findings))
}

fn with(subject: &Subject, verdict: Verdict) -> Vec<&str> {
    subject.exports.iter().filter(|export| export.verdict == verdict).map(|export| export.name.as_str()).collect()
}

#[test]
fn every_stub_leads_to_its_implementation() {
    for (release, geometry) in [
        ("5.2.3", vec![]),
        ("5.7.1", vec![]),
        ("6.4.3", vec![(474, 465, 465, 465), (9, 9, 9, 9)]),
        ("7.2.4", vec![(506, 497, 506, 498), (9, 9, 9, 9)]),
    ] {
        let Some((subject, findings)) = audit(release, &hints()) else { continue };
        let found: Vec<_> = subject.tables.iter().map(|table| (table.slots, table.filled, table.stubs, table.recovered)).collect();
        assert!(subject.tables.iter().all(|table| table.refused.is_none()), "{release}: {:?}", subject.tables);
        assert_eq!(found, geometry, "{release}: slots, filled, stubs, recovered");
        assert!(subject.self_checks.iter().all(|check| check.holds), "{release}: {:?}", subject.self_checks);
        let empty: Vec<_> = findings.iter().filter(|finding| finding.check == "empty-slot").filter_map(|finding| finding.symbol.clone()).collect();
        assert_eq!(empty.len(), if release == "7.2.4" { 8 } else { 0 }, "{release}: {empty:?}");
        assert!(empty.iter().all(|name| name.contains("ExternalSemaphores")), "{empty:?}");
        assert_eq!(with(&subject, Verdict::Unknown), empty, "{release}");
    }
}

#[test]
fn six_seeds_find_the_five_doors_that_a_review_missed() {
    let hints = hints();
    assert_eq!(hints.seeds, ["hipHostMalloc", "hipMalloc", "hipMallocArray", "hipMallocAsync", "hipMallocManaged", "hipMallocPitch"]);
    for (release, ..) in HIP {
        let Some((subject, _)) = audit(release, &hints) else { continue };
        let allocates = with(&subject, Verdict::Allocates);
        for door in MISSED {
            assert!(allocates.contains(&door), "{release}: {door}");
        }
        let core = subject.core.as_ref().expect("a core");
        assert_eq!((core.class.as_str(), core.functions.len()), ("N3amd6MemoryE", if release == "7.2.4" { 4 } else { 3 }), "{release}");
        // Two seeds, one of each kind of memory, give the very same.
        let two = Hints { seeds: vec!["hipMalloc".into(), "hipMallocArray".into()], ..hints.clone() };
        let (fewer, _) = audit(release, &two).expect("read before");
        assert_eq!(with(&fewer, Verdict::Allocates), allocates, "{release}: two seeds");
    }
}

#[test]
fn seeds_that_the_code_does_not_connect_are_refused() {
    let poisoned = Hints { negatives: vec!["hipMalloc3D".into(), "hipMallocArray".into()], ..hints() };
    let Some((subject, findings)) = audit("6.4.3", &poisoned) else { return };
    assert!(subject.core.is_none());
    assert!(findings.iter().any(|finding| finding.check == "no-evidence"), "{findings:?}");
    assert!(with(&subject, Verdict::NothingSeen).is_empty() && with(&subject, Verdict::Allocates).is_empty());
}

#[test]
fn pointers_are_handed_out_where_names_are_looked_up() {
    let expected: [(&str, &[&str]); 4] = [
        ("5.2.3", &[]),
        ("5.7.1", &[]),
        ("6.4.3", &["hipGetProcAddress"]),
        ("7.2.4", &["hipGetDriverEntryPoint", "hipGetDriverEntryPoint_spt", "hipGetProcAddress"]),
    ];
    for (release, names) in expected {
        let Some((subject, _)) = audit(release, &hints()) else { continue };
        assert_eq!(with(&subject, Verdict::HandsOutPointers), names, "{release}");
        let imports = with(&subject, Verdict::Imports);
        assert!(["hipHostRegister", "hipImportExternalMemory"].iter().all(|name| imports.contains(name)) && imports.len() <= 6, "{imports:?}");
    }
}

#[test]
fn own_calls_and_sinks_are_found_with_their_places() {
    let Some((subject, _)) = audit("7.2.4", &hints()) else { return };
    let names: Vec<&str> = subject.self_calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(
        names,
        ["hipCreateChannelDesc", "hipGetDevice", "hipGetDevicePropertiesR0600", "hipMemGetInfo", "hipMemcpyAsync", "hipModuleLaunchKernel"]
    );
    let info = &subject.self_calls[3];
    assert_eq!(info.at.len(), 4, "{info:?}");
    for name in ["hipMalloc", "hipMallocAsync", "hipMemCreate"] {
        assert!(info.reached_from.iter().any(|from| from == name), "{name}: {info:?}");
    }
    let sinks: Vec<_> = subject.sinks.iter().map(|sink| (sink.name.as_str(), sink.preload_wins)).collect();
    // Every import that `coverage` demands for covered-below, but for frees.
    let taking = [
        "hsa_amd_memory_pool_allocate",
        "hsa_amd_svm_attributes_set",
        "hsa_amd_vmem_handle_create",
        "hsa_executable_load_agent_code_object",
        "hsa_queue_create",
    ];
    assert_eq!(sinks, taking.map(|name| (name, true)));
}

/// A way is a chain of instructions that objdump shows as calls or jumps to the next function.
#[test]
fn a_way_can_be_followed_with_objdump() {
    let Some((subject, _)) = audit("6.4.3", &hints()) else { return };
    let export = subject.exports.iter().find(|export| export.name == "hipMalloc3D").expect("exported");
    assert!(!export.path.is_empty());
    let sink = &export.beneath.as_ref().expect("a family beneath").ways;
    for step in export.path.iter().chain(sink.iter().flat_map(|way| &way.path)) {
        let stop = step.at.0 + 8;
        let arguments = [
            "-d".into(),
            "--no-show-raw-insn".into(),
            format!("--start-address={:#x}", step.at.0),
            format!("--stop-address={stop:#x}"),
            subject.file.clone(),
        ];
        let done = Command::new("objdump").args(&arguments).output().expect("objdump");
        let text = String::from_utf8_lossy(&done.stdout);
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{:x}:", step.at.0))).expect("the instruction");
        assert!(
            ["call", "jmp", "j"].iter().any(|word| line.contains(word))
                && step.to.is_none_or(|to| step.one_of.is_some() || line.contains(&format!("{:x}", to.0))),
            "{line} for {step}"
        );
    }
}

/// Recall and precision against the manifest, as docs/measurements/evidence.md has them.
#[test]
fn the_table_of_recall_and_precision_is_the_measured_one() {
    let mut rows = Vec::new();
    for (release, ..) in HIP {
        let Some((subject, findings)) = audit(release, &hints()) else { return };
        let of = |classes: &[Class], verdict: Option<Verdict>| {
            let fits = |export: &&evidence::Export| verdict.is_none_or(|verdict| export.verdict == verdict);
            subject.exports.iter().filter(fits).filter(|export| export.class.is_some_and(|class| classes.contains(&class))).count()
        };
        let caller = [Class::DeviceAlloc, Class::ManagedAlloc];
        let any = [Class::DeviceAlloc, Class::ManagedAlloc, Class::HostAlloc, Class::IndirectAlloc];
        let allocates = Some(Verdict::Allocates);
        let flagged = with(&subject, Verdict::Allocates).len();
        let explained = findings.iter().filter(|finding| finding.check == "class-contradicted" && finding.severity == Severity::Note).count();
        let open: Vec<&Finding> = findings.iter().filter(|finding| finding.severity == Severity::Deny).collect();
        assert!(open.is_empty(), "{release}: {open:#?}");
        rows.push(format!(
            "| {release} | {} | {flagged} | {} / {} | {} / {flagged} | {} / {flagged} | {explained} |",
            subject.exports.len(),
            of(&caller, allocates),
            of(&caller, None),
            of(&caller, allocates),
            of(&any, allocates),
        ));
    }
    let document = std::fs::read_to_string("../docs/measurements/evidence.md").expect("the document");
    for row in &rows {
        assert!(document.contains(row), "docs/measurements/evidence.md lacks:\n{}", rows.join("\n"));
    }
}

/// The cheap alarm finds every allocator that the core finds, and others; the caller's size flows into most of what reaches the core.
/// docs/measurements/evidence.md has the counts.
#[test]
fn the_alarm_misses_no_allocator_and_sizes_flow() {
    let document = std::fs::read_to_string("../docs/measurements/evidence.md").expect("the document");
    for (release, ..) in HIP {
        let Some((subject, _)) = audit(release, &hints()) else { return };
        let caller = [Class::DeviceAlloc, Class::ManagedAlloc];
        let of = |alarmed: bool| {
            let fits = |export: &&evidence::Export| export.class.is_some_and(|class| caller.contains(&class)) && (!alarmed || export.alarm.is_some());
            subject.exports.iter().filter(fits).count()
        };
        let alarmed = subject.exports.iter().filter(|export| export.alarm.is_some()).count();
        let missed: Vec<_> = subject.exports.iter().filter(|export| MISSED.contains(&&*export.name) && export.alarm.is_none()).collect();
        assert!(missed.is_empty(), "{release}: {missed:?}");
        let flows: Vec<_> = subject.exports.iter().filter(|export| export.caller_sized == Some(true)).collect();
        let device = flows.iter().filter(|export| export.class.is_some_and(|class| caller.contains(&class))).count();
        let reaching = with(&subject, Verdict::Allocates).len();
        let row = format!("| {release} | {alarmed} | {} / {} | {} of {reaching} | {device} / {} |", of(true), of(false), flows.len(), of(false));
        // A launch makes what the program's image asks for, a module likewise; the five doors take what the caller says.
        assert!(flows.iter().all(|export| !export.name.contains("Launch") && !export.name.contains("Module")), "{release}");
        assert!(MISSED.iter().all(|door| flows.iter().any(|export| export.name == *door)), "{release}");
        assert!(document.contains(&row), "docs/measurements/evidence.md lacks: {row}");
        assert!(alarmed < subject.exports.len() / 4, "{release}: an alarm that always sounds says nothing");
        assert!(subject.exports.iter().all(|export| export.name != "hipEventQuery" || export.alarm.is_none()));
    }
}

#[test]
fn the_registry_of_rocr_agrees_with_its_code_objects() {
    let Some(path) = file("libhsa-runtime64-1_7.2.4+dfsg-1~exp1_amd64", "libhsa-runtime64.so.1") else { return };
    let outcome = support::audit(&["evidence", path.to_str().expect("a readable path")]);
    let subject = &outcome.report["subjects"][0];
    let count = |key: &str| subject["registry"][key].as_array().map(Vec::len);
    assert_eq!((count("targets"), count("code_objects")), (Some(39), Some(39)));
    let checks = subject["self_checks"].as_array().expect("checks");
    assert!(checks.iter().any(|check| check["name"] == "code-objects" && check["holds"] == true), "{checks:?}");
}

#[test]
fn a_wrong_class_is_contradicted_and_a_right_one_is_not() {
    use vrocm_audit::evidence::audit::contradicts;
    assert!(contradicts(Class::Other, Verdict::Allocates) && !contradicts(Class::DeviceAlloc, Verdict::Allocates));
    assert!(contradicts(Class::DeviceAlloc, Verdict::NothingSeen) && !contradicts(Class::Other, Verdict::NothingSeen));
    assert!(contradicts(Class::Other, Verdict::HandsOutPointers) && !contradicts(Class::ProcAddress, Verdict::HandsOutPointers));
    assert!(Class::ALL.iter().all(|&class| !contradicts(class, Verdict::Unknown)));
    // The launches of 7.2.4 are explained; without the explanations they are findings.
    let bare = Hints { explained: Vec::new(), ..hints() };
    let Some((_, findings)) = audit("7.2.4", &bare) else { return };
    let denied = findings.iter().filter(|finding| finding.severity == Severity::Deny).count();
    assert_eq!(denied, hints().explained.len());
}

/// `script` gives the program a terminal. Four runtimes take longer than anybody waits in silence, whatever the machine.
#[test]
fn whoever_waits_at_a_terminal_is_told_for_what() {
    let files: Vec<_> = HIP.iter().filter_map(|(_, package, name)| file(package, name)).collect();
    let paths: Vec<&str> = files.iter().map(|path| path.to_str().expect("a readable path")).collect();
    if paths.len() < HIP.len() {
        return;
    }
    let quiet = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).arg("evidence").args(&paths).output().expect("runs");
    assert!(quiet.stderr.is_empty(), "{}", String::from_utf8_lossy(&quiet.stderr));
    let command = format!("{} evidence {} >/dev/null", env!("CARGO_BIN_EXE_vrocm-audit"), paths.join(" "));
    let Ok(done) = Command::new("script").args(["-qec", &command, "/dev/null"]).output() else {
        println!("not tested: script is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(said.contains("of 4, 2") && said.contains("MB: still reading, because every instruction is decoded"), "{said}");
}
