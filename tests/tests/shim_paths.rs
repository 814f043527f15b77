//! Every entry point that takes or gives memory, under the shim, over the real runtimes: with the quota too small, just too small, and large enough.
//!
//! Which entry points is read from the manifests: a name that must be interposed and is tried nowhere fails a test here. What a release answers other than
//! out of memory is data (`data/refused.tsv`), each with its reason; a row there that does not hold fails as well. With `VROCM_ONLY=NAME` only the paths that
//! call this entry point are tried (`scripts/mutate-shim.py`), and there has to be one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use vrocm_audit::manifest::{Class, ClassTable, Family};
use vrocm_tests::driver::{Answer, Driver, End, Session, Way};
use vrocm_tests::mock::Mock;
use vrocm_tests::paths::{Path, first_failure, paths, paths_of, rows, settled};
use vrocm_tests::runtime::{Runtime, VERSIONS};
use vrocm_tests::shim::counter;

const MIB: u64 = 1 << 20;

/// Paths whose size is that of a code object of 64 MiB, not the request's.
fn has_its_own_size(path: &Path) -> bool {
    path.make.iter().any(|command| command.contains(".hsaco"))
}

fn all_paths(size: &str) -> Vec<Path> {
    let mut all = paths(size);
    all.extend(paths_of(include_str!("../data/doors.tsv"), size));
    all
}

/// The paths to try: all, or those that call what `VROCM_ONLY` names.
fn tried_paths(size: &str) -> Vec<Path> {
    let mut all = all_paths(size);
    if let Ok(only) = std::env::var("VROCM_ONLY") {
        all.retain(|path| path.calls().any(|call| call == only));
        assert!(!all.is_empty(), "no path calls {only}");
    }
    all
}

/// What an over-sized request answers where that is not out of memory: path, release → answer.
fn exceptions() -> BTreeMap<(&'static str, &'static str), &'static str> {
    let mut found = BTreeMap::new();
    for row in rows(include_str!("../data/refused.tsv")) {
        let [path, releases, answer, reason] = row[..] else { panic!("{row:?} has not four fields") };
        assert!(!reason.trim().is_empty(), "{path}: a reason");
        for release in releases.split(' ') {
            assert!(VERSIONS.contains(&release), "{path}: {release} is no release");
            assert!(found.insert((path, release), answer).is_none(), "{path} {release} twice");
        }
    }
    found
}

/// The runtime, or `None` where it is missing, which has been said.
fn runtime(version: &str) -> Option<&'static Runtime> {
    let found = Runtime::find(version);
    if let Err(missing) = &found {
        Runtime::present();
        eprintln!("not tested: {missing}");
    }
    found.ok()
}

/// The process that a path is tried in has used HIP, and can still do so afterwards.
fn start(runtime: &Runtime, mock: &Mock, way: Way, quota: u64) -> Session {
    let mut session = Driver::new(runtime, mock).shim(mock, quota).env("LIBVROCM_LOG_LEVEL", "2").way(way).start();
    for command in ["hipInit,0", "hipSetDevice,0", "hipMalloc,4K", "hipFree"] {
        session.must(command);
    }
    session
}

/// Tries a path that has no room. Answers what failed first, and how, and what the shim said. `survives`: no release of the runtime is known to end here.
fn refused(runtime: &Runtime, path: &Path, way: Way, quota: u64, held: &str, survives: bool) -> (String, String) {
    let context = format!("{} {} {way:?}, {quota} MiB", path.name, runtime.version);
    let mock = Mock::new();
    let mut session = start(runtime, &mock, way, quota);
    if !held.is_empty() {
        session.must(held);
    }
    let answer = first_failure(&mut session, &path.make);
    let alive = session.ask("hipMalloc,4K").filter(Answer::is_ok).and_then(|_| session.ask("hipFree")).is_some_and(|answer| answer.is_ok());
    let highest = mock.card(0).highest_asked;
    assert!(highest <= quota * MIB, "{context}: {highest} bytes of the card");
    let outcome = session.close();
    assert_eq!(alive, survives, "{context}: {answer}: {outcome:?}");
    assert_eq!(outcome.end == End::Exit(0), survives, "{context}: {answer}: {outcome:?}");
    (answer, outcome.stderr)
}

fn no_room(version: &str) {
    let Some(runtime) = runtime(version) else { return };
    let (judged, exceptions) = (judged(version), exceptions());
    let mut wrong = Vec::new();
    for path in tried_paths("512M") {
        let expected = exceptions.get(&(path.name, version)).copied();
        let survives = expected.is_none_or(|answer| !answer.ends_with("=gone"));
        // Host memory, imports and what only registers need not be refused; nor need a path whose entry points this release lacks.
        let charges = path.calls().any(|call| judged.get(call).is_some_and(|entry| entry.charges));
        for way in Way::COMMON.into_iter().filter(|way| way.exists_in(runtime)) {
            let quota = if has_its_own_size(&path) { 32 } else { 64 };
            let (answer, said) = refused(runtime, &path, way, quota, "", survives);
            let (failed, status) = answer.split_once('=').unwrap_or_default();
            let plain = !charges || status == "2" || status == "absent" && !judged.contains_key(failed);
            if expected.map_or(!plain, |expected| expected != answer) {
                wrong.push(format!("{}\t{version}\t{answer}\t{way:?}, expected {expected:?}", path.name));
            }
            // The entry point itself refused, which is what its row is for: the layer beneath refuses as well, and what comes of that is the runtime's.
            if status == "2" && judged.get(failed).is_some_and(|entry| entry.charges) && counter(&said, failed)[1] == 0 {
                wrong.push(format!("{}\t{version}\t{answer}\t{way:?}, but not as a refusal of {failed} by the shim", path.name));
            }
        }
    }
    assert!(wrong.is_empty(), "answers that are neither out of memory nor in data/refused.tsv:\n{}", wrong.join("\n"));
}

#[test]
fn without_room_5_2_3_takes_nothing_says_so_and_lives_on() {
    no_room("5.2.3");
}

#[test]
fn without_room_5_7_1_takes_nothing_says_so_and_lives_on() {
    no_room("5.7.1");
}

#[test]
fn without_room_6_4_3_takes_nothing_says_so_and_lives_on() {
    no_room("6.4.3");
}

#[test]
fn without_room_7_2_4_takes_nothing_says_so_and_lives_on() {
    no_room("7.2.4");
}

/// 64 MiB of which a part is left: between what fits and what the runtime would take for it, at several places.
#[test]
fn a_request_that_just_does_not_fit_is_refused_cleanly() {
    for version in VERSIONS {
        let Some(runtime) = runtime(version) else { continue };
        for path in tried_paths("20M").iter().filter(|path| !has_its_own_size(path)) {
            for held in ["hipMalloc,40M", "hipMalloc,45M"] {
                // 24 or 19 MiB are left: more than a request of 20 MiB, less than a chunk of 32; or less than both.
                refused(runtime, path, Way::Direct, 64, held, true);
            }
        }
    }
}

/// What the ledger says is held, through the shim's own report.
fn charged(session: &mut Session, quota: u64) -> u64 {
    quota * MIB - session.must("hipMemGetInfo").number("free")
}

/// Asks until both numbers are the same: 6.4.3 and 7.2.4 give some memory back on a thread of their own. `Err`: they never were.
fn agreed(mut both: impl FnMut() -> (u64, u64)) -> Result<(), (u64, u64)> {
    let deadline = Instant::now() + Duration::from_millis(500);
    loop {
        let (left, right) = both();
        if left == right {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err((left, right));
        }
    }
}

fn with_room(version: &str) {
    const QUOTA: u64 = 1024;
    let Some(runtime) = runtime(version) else { return };
    let measured: BTreeMap<&str, &str> =
        rows(include_str!("../data/measured.tsv")).filter(|row| row[1] == version).map(|row| (row[0], row[2])).collect();
    let mut wrong = Vec::new();
    for path in tried_paths("64M") {
        let mock = Mock::new();
        let mut session = start(runtime, &mock, Way::Direct, QUOTA);
        let mut say = |what: String| wrong.push(format!("{}: {what}", path.name));
        let granted = first_failure(&mut session, &path.make);
        if let Some(cell) = measured.get(path.name)
            && *cell.split(',').next().unwrap_or_default() != granted
        {
            say(format!("answers {granted}, without the shim {cell}"));
        }
        // 7.2.4 takes a managed variable's memory at the first launch; it is charged from its registration on.
        let early = if path.name == "__hipRegisterManagedVar" && version == "7.2.4" { 64 * MIB } else { 0 };
        let held_as_taken = |session: &mut Session, also: u64| agreed(|| (charged(session, QUOTA), mock.card(0).asked + also));
        if let Err((held, taken)) = held_as_taken(&mut session, managed_bytes(&mock) + early) {
            say(format!("{held} bytes are charged, {taken} were taken"));
        }
        if granted == "0" {
            first_failure(&mut session, &path.undo);
            settled(&mock);
            if let Err((held, kept)) = held_as_taken(&mut session, 0) {
                say(format!("given back, {held} bytes are charged and {kept} are kept"));
            }
        }
        let outcome = session.close();
        if outcome.end != End::Exit(0) {
            say(format!("{outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{version}:\n{}", wrong.join("\n"));
}

/// Managed memory that a process has made, which takes nothing of the mock's card.
fn managed_bytes(mock: &Mock) -> u64 {
    mock.record().iter().filter(|line| line.kind == "managed" && line.status == 0).map(|line| line.asked).sum()
}

#[test]
fn with_room_5_2_3_charges_what_it_takes_and_gives_all_back() {
    with_room("5.2.3");
}

#[test]
fn with_room_5_7_1_charges_what_it_takes_and_gives_all_back() {
    with_room("5.7.1");
}

#[test]
fn with_room_6_4_3_charges_what_it_takes_and_gives_all_back() {
    with_room("6.4.3");
}

#[test]
fn with_room_7_2_4_charges_what_it_takes_and_gives_all_back() {
    with_room("7.2.4");
}

#[test]
fn every_query_reports_the_quota() {
    for runtime in Runtime::present() {
        for way in Way::COMMON.into_iter().filter(|way| way.exists_in(runtime)) {
            for (vram, quota) in [(16384, 1024), (512, 1024)] {
                let mock = Mock::new().vram_mib(vram);
                let mut session = start(runtime, &mock, way, quota);
                let total = vram.min(quota) * MIB;
                let queries = [
                    ("hipMemGetInfo", "total"),
                    ("hipDeviceTotalMem", "total"),
                    ("hipGetDeviceProperties", "total"),
                    ("hipGetDevicePropertiesR0600", "total"),
                    ("hipGetDevicePropertiesR0000", "total"),
                    ("hipDeviceGetAttribute,84", "value"),
                    ("hipDeviceGetLimit,2", "value"),
                ];
                for (query, field) in queries {
                    // Asked for by the plain name, newer releases hand out R0600, whose structure is another.
                    if way == Way::ProcAddress && query == "hipGetDeviceProperties" {
                        continue;
                    }
                    let context = format!("{} {way:?} {query} {vram} {quota}", runtime.version);
                    let answer = session.ask(query).expect("it lives");
                    let is_new = query.contains("R0") || query.contains(",84");
                    if is_new && !runtime.is_at_least("6.4.3") {
                        assert!(!answer.is_ok(), "{context}");
                    } else if query.contains("Limit") && runtime.is_at_least("6.4.3") {
                        assert_eq!(answer.number(field), 8 * MIB, "{context}: the heap's own limit");
                    } else {
                        assert_eq!(answer.number(field), total, "{context}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_reported_as_free_can_be_had() {
    for runtime in Runtime::present() {
        let mock = Mock::new().vram_mib(4096);
        let mut first = start(runtime, &mock, Way::Direct, 256);
        let mut second = start(runtime, &mock, Way::Direct, 256);
        first.must("hipMalloc,100M");
        second.must("hipMallocManaged,50M");
        let free = second.must("hipMemGetInfo").number("free");
        assert!((100 * MIB..=106 * MIB).contains(&free), "{}: {free}", runtime.version);
        let whole = free / (2 * MIB) * 2 * MIB;
        second.must(&format!("hipMalloc,{whole}"));
        assert!(!second.ask("hipMalloc,2M").expect("it lives").is_ok(), "{}", runtime.version);
        first.must("hipFree");
        second.must("hipMalloc,90M");
    }
}

#[test]
fn imported_memory_is_charged_where_it_was_made() {
    for runtime in Runtime::present() {
        let mock = Mock::new();
        let handle = mock.folder().join("handle");
        let (mut owner, mut user) = (start(runtime, &mock, Way::Direct, 256), start(runtime, &mock, Way::Direct, 256));
        owner.must("hipMalloc,64M");
        owner.must(&format!("hipIpcGetMemHandle,{}", handle.display()));
        let commands = [
            format!("hipIpcOpenMemHandle,{}", handle.display()),
            "hipIpcCloseMemHandle".into(),
            "hipImportExternalMemory,64M".into(),
            "hipExternalMemoryGetMappedBuffer".into(),
        ];
        for command in commands {
            user.must(&command);
            let (held, taken) = (charged(&mut user, 256), mock.card(0).asked);
            assert_eq!(held, taken, "{} {command}", runtime.version);
            assert!((64 * MIB..68 * MIB).contains(&held), "{} {command}: {held} bytes, and one allocation of 64 MiB", runtime.version);
        }
        owner.must("hipFree");
        assert!(charged(&mut user, 256) < 4 * MIB, "{}", runtime.version);
    }
}

/// What the manifests say of an entry point of a release.
struct Entry {
    must_interpose: bool,
    /// It takes device or managed memory of a size that the caller chooses.
    charges: bool,
}

/// What a release exports, as the manifests judge it.
fn judged(version: &str) -> BTreeMap<&'static str, Entry> {
    let table = ClassTable::embedded().expect("the embedded manifests are good");
    let families = Family::embedded().expect("the embedded manifests are good");
    let hip = families.iter().find(|family| family.name() == "hip").expect("HIP is a family");
    let build = hip.builds.iter().find(|build| build.release.to_string() == version).expect("its export list is embedded");
    let mut found = BTreeMap::new();
    for export in build.exports() {
        let judged = hip.judge(export.name, Some(build.release), &table).unwrap_or_else(|| panic!("{} is in no manifest", export.name));
        let must_interpose = table.rule(judged.class, judged.size).must_interpose;
        let charges = must_interpose && matches!(judged.class, Class::DeviceAlloc | Class::ManagedAlloc | Class::IndirectAlloc);
        found.insert(export.name, Entry { must_interpose, charges });
    }
    found
}

#[test]
fn every_name_that_must_be_interposed_is_tried() {
    let paths = all_paths("1M");
    let mut tried: BTreeSet<&str> = paths.iter().flat_map(Path::calls).collect();
    tried.extend(["hipMemGetInfo", "hipDeviceTotalMem", "hipGetDeviceProperties", "hipGetDevicePropertiesR0600", "hipGetDevicePropertiesR0000"]);
    tried.extend(["hipDeviceGetAttribute", "hipDeviceGetLimit", "hipIpcCloseMemHandle"]);
    let untried: BTreeMap<&str, &str> = rows(include_str!("../data/untried.tsv")).map(|row| (row[0], row[1])).collect();
    let must: BTreeSet<&str> =
        VERSIONS.iter().flat_map(|version| judged(version)).filter(|(_, entry)| entry.must_interpose).map(|(name, _)| name).collect();
    assert!(must.len() > 60, "{must:?}");
    let missing: Vec<&&str> =
        must.iter().filter(|name| !tried.contains(**name) && untried.get(**name).is_none_or(|reason| reason.is_empty())).collect();
    assert!(missing.is_empty(), "tried nowhere, and nothing says why: {missing:?}");
    for name in untried.keys() {
        assert!(must.contains(name) && !tried.contains(name), "{name} is tried, or need not be interposed: strike it from data/untried.tsv");
    }
}

/// An executable graph has the alloc nodes it was made with, also after an update by a graph whose nodes are of another size: measured on both releases.
#[test]
fn an_executable_graph_is_admitted_with_what_its_launch_takes() {
    for runtime in Runtime::present().into_iter().filter(|runtime| runtime.is_at_least("6.4.3")) {
        for (made_with, updated_with, fits) in [("1M", "40M", true), ("40M", "1M", false)] {
            let mock = Mock::new();
            let mut session = start(runtime, &mock, Way::Direct, 64);
            let graph = |session: &mut Session, size: &str| {
                for command in ["hipGraphCreate", &format!("hipGraphAddMemAllocNode,{size}"), "hipGraphAddMemFreeNode"] {
                    session.must(command);
                }
            };
            session.must("hipStreamCreate");
            graph(&mut session, made_with);
            session.must("hipGraphInstantiate");
            graph(&mut session, updated_with);
            session.must("hipGraphExecUpdate");
            session.must("hipMalloc,50M");
            let launched = session.ask("hipGraphLaunch").expect("it lives");
            let context = format!("{} {made_with} {updated_with}: {launched:?}", runtime.version);
            assert_eq!(launched.is_ok(), fits, "{context}");
            session.must("hipStreamSynchronize");
            let outcome = session.close();
            assert_eq!((outcome.end, counter(&outcome.stderr, "hipGraphLaunch")[1]), (End::Exit(0), u64::from(!fits)), "{context}");
            assert!(mock.card(0).highest_asked <= 64 * MIB, "{context}");
        }
    }
}

/// The runtime gives a new executable graph the place of one that is gone; what that one would have taken is nothing to it.
#[test]
fn an_executable_graph_that_is_gone_is_forgotten() {
    for runtime in Runtime::present().into_iter().filter(|runtime| runtime.is_at_least("6.4.3")) {
        let mock = Mock::new();
        let mut session = start(runtime, &mock, Way::Direct, 64);
        let gone = [
            "hipGraphCreate",
            "hipGraphAddMemAllocNode,60M",
            "hipGraphAddMemFreeNode",
            "hipGraphInstantiate",
            "hipGraphExecDestroy",
            "hipGraphDestroy",
        ];
        for command in ["hipStreamCreate"].iter().chain(&gone).chain(&["hipMalloc,50M"]) {
            session.must(command);
        }
        // One of several gets the place on every release.
        for _ in 0..16 {
            for command in ["hipGraphCreate", "hipGraphInstantiate", "hipGraphLaunch", "hipStreamSynchronize"] {
                session.must(command);
            }
        }
        assert_eq!(session.close().end, End::Exit(0), "{}", runtime.version);
    }
}
