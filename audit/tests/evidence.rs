//! `evidence` on the real runtimes and on a miniature built by other compilers: what is found, what is refused, and what it is worth.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::file;
use vrocm_audit::elf::Elf;
use vrocm_audit::evidence::audit::Known;
use vrocm_audit::evidence::read::{self, Reading};
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
    assert_eq!(sinks, [("hsa_amd_memory_pool_allocate", true), ("hsa_amd_vmem_handle_create", true)]);
}

/// A way is a chain of instructions that objdump shows as calls or jumps to the next function.
#[test]
fn a_way_can_be_followed_with_objdump() {
    let Some((subject, _)) = audit("6.4.3", &hints()) else { return };
    let export = subject.exports.iter().find(|export| export.name == "hipMalloc3D").expect("exported");
    assert!(!export.path.is_empty());
    for step in &export.path {
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
        assert!(["call", "jmp", "j"].iter().any(|word| line.contains(word)) && line.contains(&format!("{:x}", step.to.0)), "{line} to {}", step.to);
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

/// A library with debug information that is split off as distributions do, found again by its link.
#[test]
fn names_and_prototypes_come_from_the_debug_information_of_the_same_build() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = "#include <stddef.h>\n\
        int hipEventQuery(const void **out, size_t size) { *out = 0; return (int)size; }\n\
        int hipEventCreate(void **event) { *event = 0; return 0; }\n\
        int hipMalloc(void **at, size_t size) { *at = 0; return (int)size; }\n\
        int hipFree(void *at) { return at == 0; }\n\
        int hipGetDeviceCount(int *count) { *count = 0; return 0; }\n";
    let arguments = ["-shared", "-fPIC", "-g", "-O1", "-Wl,--build-id=sha1", "-Wl,-soname,libamdhip64.so.9"];
    let built = support::compile(folder.path(), source, "libamdhip64.so.9", &arguments);
    let run = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).current_dir(folder.path()).output().expect("binutils are there");
        assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let audited = |options: &[&str]| support::audit(&[&["evidence", built.to_str().expect("a readable path")], options].concat());
    // In the file itself, packed or not.
    let whole = audited(&["--debug"]);
    let of = |report: &serde_json::Value, name: &str| {
        let exports = report["subjects"][0]["exports"].as_array().expect("exports").clone();
        exports.into_iter().find(|export| export["name"] == name).expect("an export")
    };
    assert_eq!(of(&whole.report, "hipEventQuery")["prototype"], "int hipEventQuery(const void **out, size_t size)");
    assert!(whole.found("suspicious-prototype", "hipEventQuery"));
    // An event is handed back without a size; an allocator that is known as one raises no suspicion.
    assert!(!whole.found("suspicious-prototype", "hipEventCreate") && !whole.found("suspicious-prototype", "hipMalloc"));
    run("objcopy", &["--only-keep-debug", "--compress-debug-sections=zlib", "libamdhip64.so.9", "split.debug"]);
    run("objcopy", &["--strip-all", "--add-gnu-debuglink=split.debug", "libamdhip64.so.9"]);
    let split = audited(&["--debug"]);
    assert_eq!(of(&split.report, "hipMalloc")["prototype"], "int hipMalloc(void **at, size_t size)");
    assert!(split.report["subjects"][0]["debug_file"].as_str().expect("a file").ends_with("split.debug"));
    assert!(of(&audited(&[]).report, "hipMalloc").get("prototype").is_none(), "nobody asked for names");
    // Another build's names are refused, and their absence is said.
    let other = support::compile(folder.path(), "int hipMalloc(void) { return 1; }", "other.so", &arguments);
    let output = |option: &str| {
        let done = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).arg("evidence").arg(&built).arg(option).output().expect("runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (status, says) = output(&format!("--debug={}", other.display()));
    assert!(status == Some(2) && says.contains("another build"), "{says}");
    std::fs::remove_file(folder.path().join("split.debug")).expect("removed");
    let (status, says) = output("--debug");
    assert!(status == Some(2) && says.contains("no debug information") && says.contains("dbgsym"), "{says}");
}

#[test]
fn damaged_debug_information_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let built = support::compile(folder.path(), "int hipMalloc(void **at) { return *at != 0; }", "libamdhip64.so.9", &["-shared", "-fPIC", "-g"]);
    let whole = std::fs::read(&built).expect("read");
    let damaged = folder.path().join("damaged.debug");
    // Every other byte in turn is too slow; these steps hit headers, tables and sections.
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(&damaged, &bytes).expect("written");
        let Ok(file) = vrocm_audit::elf::debug::DebugFile::open(&damaged) else { continue };
        let wanted = file.functions().unwrap_or_default().into_iter().map(|(address, _)| address).collect();
        if let Err(error) = vrocm_audit::code::debug::prototypes(&file, &wanted) {
            assert!(error.to_string().contains("damaged.debug"), "{error}");
        }
    }
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

/// Builds the miniature runtime; `None` where the compiler is not there.
fn miniature(folder: &Path, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    let out = folder.join("runtime.so");
    let mut command = Command::new(compiler);
    command.args(["-w", "-shared", "-fPIC", "-o"]).arg(&out).arg("../fixtures/evidence/runtime.cpp").args(options);
    match command.output() {
        Ok(done) if done.status.success() => Some(out),
        Ok(done) => panic!("{compiler} {options:?}: {}", String::from_utf8_lossy(&done.stderr)),
        Err(_) => {
            println!("not tested: {compiler} is not installed");
            None
        }
    }
}

fn read_miniature(path: &Path) -> Reading {
    let hints = Hints {
        seeds: vec!["hipMalloc".into(), "hipMallocArray".into()],
        negatives: vec!["hipEventQuery".into(), "hipMemcpy".into()],
        explained: Vec::new(),
        ..hints()
    };
    read::read(&Elf::open(path).expect("opens"), Some(&hints), &SINKS).expect("read")
}

fn verdict(reading: &Reading, name: &str) -> Verdict {
    reading.exports.iter().find(|export| export.name == name).unwrap_or_else(|| panic!("{name} is not exported")).verdict
}

#[test]
fn other_compilers_and_options() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let builds: [(&str, &[&str]); 7] = [
        ("g++", &["-O2"]),
        ("g++", &["-O1"]),
        ("g++", &["-Os"]),
        ("g++", &["-O2", "-fno-plt", "-Wl,-z,now"]),
        ("g++", &["-O2", "-DNO_TABLE"]),
        ("clang++", &["-O2"]),
        ("clang++", &["-O2", "-DNO_TABLE"]),
    ];
    for (compiler, options) in builds {
        let Some(path) = miniature(folder.path(), compiler, options) else { continue };
        let reading = read_miniature(&path);
        let core = reading.core.as_ref().unwrap_or_else(|why| panic!("{compiler} {options:?}: {why}; {:#?}", reading.tables));
        assert_eq!(core.class, "N2rt6MemoryE", "{compiler} {options:?}");
        for name in ["hipMalloc", "hipMallocArray", "hipMemCreate"] {
            assert_eq!(verdict(&reading, name), Verdict::Allocates, "{compiler} {options:?}: {name}");
        }
        for name in ["hipEventQuery", "hipMemcpy", "hipEventCreate"] {
            assert_eq!(verdict(&reading, name), Verdict::NothingSeen, "{compiler} {options:?}: {name}");
        }
        assert_eq!(verdict(&reading, "hipGetProcAddress"), Verdict::HandsOutPointers, "{compiler} {options:?}");
        if !options.contains(&"-DNO_TABLE") {
            assert_eq!(verdict(&reading, "hipEmpty"), Verdict::Unknown, "{compiler} {options:?}");
        }
    }
}

#[test]
fn coverage_of_an_unheard_of_build_says_what_the_code_says() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(path) = miniature(folder.path(), "g++", &["-O2", "-Wl,-soname,libamdhip64.so.9"]) else { return };
    let path = path.to_str().expect("a readable path");
    let outcome = support::audit(&["coverage", path, "--interposed", "../manifests/interposed-reference.json"]);
    let findings = outcome.report["findings"].as_array().expect("findings");
    let of = |symbol: &str| findings.iter().find(|finding| finding["check"] == "unclassified" && finding["symbol"] == symbol).expect("unclassified");
    let unheard = of("hipMallocUnheardOf");
    assert_eq!(unheard["evidence"]["code"], "allocates", "{unheard}");
    assert!(unheard["message"].as_str().expect("text").contains("0x"), "{unheard}");
    assert_eq!(of("hipEmpty")["evidence"]["code"], "unknown");
    assert!(!outcome.found("class-contradicted", "hipMalloc"));
    let proposed = Command::new(env!("CARGO_BIN_EXE_vrocm-audit")).args(["manifest", "add", path]).output().expect("runs");
    let lines = String::from_utf8(proposed.stdout).expect("text");
    let line = |name: &str| lines.lines().find(|line| line.contains(&format!("\"{name}\""))).unwrap_or_else(|| panic!("{name}: {lines}"));
    assert!(line("hipMallocUnheardOf").contains("\"class\": \"device-alloc\""));
    // What nothing was seen of is for a person to judge: the word is no class, and the build refuses it.
    assert!(line("hipEmpty").contains("\"class\": \"?\""));
    assert!(!lines.contains("\"hipFree\""), "known already");
}

/// The getter then fills several slots at once through registers of 32 bytes, which the reading does not model.
#[test]
fn a_table_filled_by_unmodelled_instructions_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(path) = miniature(folder.path(), "g++", &["-O3", "-march=x86-64-v3"]) else { return };
    let reading = read_miniature(&path);
    let refused = reading.tables[0].refused.as_deref().expect("refused");
    assert!(refused.contains("0x"), "{refused}");
    assert!(reading.self_checks.iter().any(|check| check.name == "dispatch-table" && !check.holds));
    assert!(reading.exports.iter().filter(|export| export.name.starts_with("hip")).all(|export| export.verdict == Verdict::Unknown));
}

#[test]
fn without_type_information_nothing_is_claimed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for compiler in ["g++", "clang++"] {
        let Some(path) = miniature(folder.path(), compiler, &["-O2", "-fno-rtti"]) else { continue };
        let reading = read_miniature(&path);
        let why = reading.core.as_ref().expect_err("no core");
        assert!(why.contains("RTTI"), "{why}");
        assert_eq!(verdict(&reading, "hipMalloc"), Verdict::Unknown);
        assert_eq!(verdict(&reading, "hipGetProcAddress"), Verdict::HandsOutPointers);
        // What is left is the alarm.
        let alarmed =
            |name: &str| reading.exports.iter().any(|export| export.name == name && export.alarm.is_some() && export.says.contains("shares"));
        assert!(alarmed("hipMemCreate") && !alarmed("hipEventQuery") && !alarmed("hipMemcpy"));
    }
}

#[test]
fn another_machine_is_unknown() {
    let image = Elf::open(Path::new("../fixtures/elf/aarch64.so")).expect("opens");
    let reading = read::read(&image, Some(&hints()), &SINKS).expect("read");
    assert!(!reading.exports.is_empty());
    assert!(reading.exports.iter().all(|export| export.verdict == Verdict::Unknown && export.says.contains("x86-64")));
}
