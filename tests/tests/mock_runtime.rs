//! The mock itself, proven under every HIP runtime that is there, with nothing else preloaded: what is asked for shows in its record, a driver that is out
//! of memory is answered as CLR answers it, and what CLR keeps is known.
//!
//! What each version does on each path (`data/paths.tsv`) is measured and kept in `data/measured.tsv`: a change of the mock, of the driver or of a runtime
//! shows there. With `VROCM_MEASURE=1` the tests print the rows instead of comparing them.

use std::fmt::Write as _;
use std::time::Duration;

use vrocm_tests::corpus;
use vrocm_tests::driver::{Driver, End, Session, Status, Way};
use vrocm_tests::hashcat;
use vrocm_tests::mock::Mock;
use vrocm_tests::paths::{Path, first_failure, fixture, rows, settled};
use vrocm_tests::runtime::{Runtime, VERSIONS};

const MIB: u64 = 1 << 20;
const OUT_OF_RESOURCES: Status = Status::Code(0x1008);
const INVALID_ALLOCATION: Status = Status::Code(0x1003);

/// `data/paths.tsv`, each with 64 MiB.
fn paths() -> Vec<Path> {
    vrocm_tests::paths::paths("64M")
}

/// What a version does on a path, as `measured.tsv` holds it: four columns after the path and the version.
///
/// 1. with room: `0`, or the first command that fails and its status; `0, then …` when giving back fails;
/// 2. bytes of the card that the 64 MiB take at most, as they are asked of HSA;
/// 3. bytes that stay after ten cycles, once threads of the runtime have come to rest;
/// 4. with 32 MiB on the card: `0`, or the first command that fails and its status; then how the process ended, when not cleanly.
fn measure(runtime: &Runtime, path: &Path) -> String {
    let mock = Mock::new();
    let mut session = start(runtime, &mock);
    let (before, peak) = (mock.card(0).asked, mock.card(0).highest_asked);
    let mut granted = first_failure(&mut session, &path.make);
    let highest = mock.card(0).highest_asked;
    let taken = if highest > peak { highest - before } else { 0 };
    if granted == "0" {
        let undone = first_failure(&mut session, &path.undo);
        if undone != "0" {
            write!(granted, ", then {undone}").expect("a string takes it");
        }
        for _ in 1..10 {
            first_failure(&mut session, &path.make);
            first_failure(&mut session, &path.undo);
        }
    }
    let kept = if granted.starts_with('0') { settled(&mock) - before } else { 0 };
    assert_eq!(session.close().end, End::Exit(0), "{} {}: with room, the process ends cleanly", path.name, runtime.version);

    let mock = Mock::new().limit_mib(32);
    let mut session = start(runtime, &mock);
    let mut refused = first_failure(&mut session, &path.make);
    let end = session.close().end;
    if end != End::Exit(0) {
        write!(refused, " {end:?}").expect("a string takes it");
    }
    assert!(mock.card(0).highest_block <= 32 * MIB, "{} {}: the mock gave more than the card has", path.name, runtime.version);
    format!("{}\t{}\t{granted}\t{taken}\t{kept}\t{refused}", path.name, runtime.version)
}

/// A process that has used HIP once, so that what comes is not mixed with what a runtime takes at its start.
fn start(runtime: &Runtime, mock: &Mock) -> Session {
    let mut session = Driver::new(runtime, mock).start();
    for command in ["hipInit,0", "hipSetDevice,0", "hipMalloc,4K", "hipFree"] {
        session.must(command);
    }
    session
}

/// Gives a command that has to succeed.
fn every_path(version: &str) {
    let runtime = match Runtime::find(version) {
        Ok(runtime) => runtime,
        Err(missing) => {
            // Says so, or fails where it has to be there.
            Runtime::present();
            eprintln!("not tested: {missing}");
            return;
        }
    };
    let known: Vec<&str> = include_str!("../data/measured.tsv").lines().filter(|line| line.split('\t').nth(1) == Some(version)).collect();
    let measured: Vec<String> = paths().iter().map(|path| measure(runtime, path)).collect();
    if std::env::var_os("VROCM_MEASURE").is_some() {
        for row in &measured {
            println!("{row}");
        }
        return;
    }
    assert_eq!(measured, known, "data/measured.tsv is not what {version} does");
}

#[test]
fn every_path_of_5_2_3_does_what_was_measured() {
    every_path("5.2.3");
}

#[test]
fn every_path_of_5_7_1_does_what_was_measured() {
    every_path("5.7.1");
}

#[test]
fn every_path_of_6_4_3_does_what_was_measured() {
    every_path("6.4.3");
}

#[test]
fn every_path_of_7_2_4_does_what_was_measured() {
    every_path("7.2.4");
}

#[test]
fn each_path_is_measured_once_on_each_version() {
    let expected: Vec<(&str, &str)> = VERSIONS.iter().flat_map(|&version| paths().into_iter().map(move |path| (path.name, version))).collect();
    let measured: Vec<(&str, &str)> = rows(include_str!("../data/measured.tsv")).map(|row| (row[0], row[1])).collect();
    assert_eq!(measured, expected);
}

#[test]
fn cards_have_addresses_of_their_own_and_masks_shift_ordinals_only() {
    for runtime in Runtime::present() {
        let mock = Mock::new().cards(3);
        let ids = |variable: Option<(&str, &str)>| {
            let driver = Driver::new(runtime, &mock);
            let driver = variable.iter().fold(driver, |driver, (name, value)| driver.env(name, *value));
            let outcome =
                driver.run(&["hipGetDeviceCount", "hipDeviceGetPCIBusId,0", "hipDeviceGetPCIBusId,1", "hipDeviceGetPCIBusId,2", "hipMalloc,1M"]);
            assert_eq!(outcome.end, End::Exit(0));
            let ids: Vec<String> =
                outcome.of("hipDeviceGetPCIBusId").filter(|answer| answer.is_ok()).map(|answer| answer.detail["id"].clone()).collect();
            assert_eq!(outcome.first("hipGetDeviceCount").number("value"), ids.len() as u64);
            ids
        };
        let all = ids(None);
        assert_eq!(all, ["0000:03:00.0", "0000:13:00.0", "0000:23:00.0"], "{}", runtime.version);
        let own = |mock: &Mock| {
            mock.record().iter().rev().find(|line| line.kind == "alloc" && line.asked == MIB && line.card.is_some()).map(|line| line.card)
        };
        assert_eq!(own(&mock), Some(Some(0)));
        assert_eq!(ids(Some(("HIP_VISIBLE_DEVICES", "2,1"))), [all[2].as_str(), all[1].as_str()], "{}", runtime.version);
        assert_eq!(own(&mock), Some(Some(2)), "{}: the first device is the third card", runtime.version);
        assert_eq!(ids(Some(("ROCR_VISIBLE_DEVICES", "GPU-a0de000000000001"))), [all[1].as_str()], "{}", runtime.version);
        assert_eq!(own(&mock), Some(Some(1)));
    }
}

#[test]
fn capacity_is_the_card_whatever_asks_and_free_is_what_is_left() {
    for runtime in Runtime::present() {
        let mock = Mock::new().vram_mib(8192);
        let mut session = start(runtime, &mock);
        for query in ["hipMemGetInfo", "hipDeviceTotalMem", "hipGetDeviceProperties", "hipGetDevicePropertiesR0600", "hipGetDevicePropertiesR0000"] {
            let answer = session.ask(query).expect("it lives");
            if answer.status == Status::Absent {
                assert!(query.contains("R0") && !runtime.is_at_least("6.4.3"), "{}: {query}", runtime.version);
                continue;
            }
            assert_eq!(answer.number("total"), 8192 * MIB, "{}: {query}", runtime.version);
        }
        let before = session.must("hipMemGetInfo").number("free");
        session.must("hipMalloc,1G");
        assert_eq!(before - session.must("hipMemGetInfo").number("free"), 1024 * MIB, "{}", runtime.version);
        // Another process shows in what is free, where the runtime asks for it: 5.2.3 counts its own allocations alone.
        let mut other = start(runtime, &mock);
        other.must("hipMalloc,2G");
        let seen = if runtime.is_at_least("5.7.1") { 3072 * MIB } else { 1024 * MIB };
        let lost = before - session.must("hipMemGetInfo").number("free");
        assert!(lost.abs_diff(seen) <= 4 * MIB, "{}: {lost} of {seen}", runtime.version);
    }
}

#[test]
fn copies_copy() {
    for runtime in Runtime::present() {
        for make in ["hipMalloc,3M", "hipMallocManaged,3M", "hipExtMallocWithFlags,3M,1"] {
            let mock = Mock::new();
            let mut session = start(runtime, &mock);
            session.must(make);
            assert_eq!(session.must("hipMemcpy").number("same"), 1, "{}: {make}", runtime.version);
        }
    }
}

#[test]
fn every_way_leads_to_the_same_runtime() {
    for runtime in Runtime::present() {
        for way in [Way::Direct, Way::Dlsym, Way::Dlvsym, Way::Default, Way::ProcAddress, Way::DriverEntryPoint] {
            let mock = Mock::new();
            let outcome = Driver::new(runtime, &mock).way(way).run(&["hipMalloc,48M", "hipFree"]);
            assert_eq!(outcome.end, End::Exit(0), "{} {way:?}: {}", runtime.version, outcome.stderr);
            if !way.exists_in(runtime) {
                assert_eq!(outcome.first("hipMalloc").status, Status::Absent, "{} {way:?}", runtime.version);
                continue;
            }
            let lines = mock.record();
            let seen = |kind: &str| lines.iter().filter(|line| line.kind == kind && line.asked == 48 * MIB).count();
            assert_eq!((seen("alloc"), seen("free")), (1, 1), "{} {way:?}", runtime.version);
        }
    }
}

#[test]
fn injected_faults_meet_the_call_they_name() {
    for runtime in Runtime::present() {
        let mock = Mock::new();
        let mut session = start(runtime, &mock);
        for (fail, statuses) in [("pool_allocate:2", [0, 2, 0]), ("device:2+", [0, 2, 2]), ("vmem_handle_create:1+", [0, 0, 0])] {
            session.must(&format!("mock,FAIL,{fail}"));
            for status in statuses {
                assert_eq!(session.ask("hipMalloc,5M").map(|answer| answer.status), Some(Status::Code(status)), "{} {fail}", runtime.version);
            }
        }
        assert_eq!(mock.record().iter().filter(|line| line.kind == "fault").count(), 3);
    }
}

#[test]
fn processes_share_a_card_and_the_dead_hold_nothing() {
    let mock = Mock::new().limit_mib(100);
    let mut first = Driver::hsa(&mock).start();
    let mut second = Driver::hsa(&mock).start();
    first.must("pool_allocate,64M");
    assert_eq!(second.ask("pool_allocate,64M").map(|answer| answer.status), Some(OUT_OF_RESOURCES));
    assert_eq!(mock.card(0).asked, 64 * MIB);
    first.kill();
    assert_eq!(mock.card(0).asked, 0);
    second.must("pool_allocate,64M");
    assert_eq!(mock.card(0).highest_asked, 64 * MIB, "the two never held memory at the same time");
}

#[test]
fn a_process_that_dies_inside_an_allocation_holds_nothing() {
    let mock = Mock::new();
    let pause = mock.folder().join("pause");
    let mock = mock.knob("PAUSE", &pause.display());
    std::fs::write(&pause, "").expect("the folder can be written");
    let mut session = Driver::hsa(&mock).start();
    session.tell("pool_allocate,64M");
    let reached = pause.with_extension("reached");
    for _ in 0..1000 {
        if reached.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(reached.exists(), "the allocation stops where it is told to");
    assert_eq!(mock.card(0).asked, 64 * MIB, "the memory is taken before the call returns");
    session.kill();
    assert_eq!(mock.card(0).asked, 0);
}

#[test]
fn small_requests_share_blocks_and_large_ones_fill_them() {
    let mock = Mock::new();
    let mut session = Driver::hsa(&mock).start();
    for _ in 0..100 {
        session.must("pool_allocate,4K");
    }
    assert_eq!((mock.card(0).asked, mock.card(0).block), (400 << 10, 2 * MIB));
    session.must("pool_allocate,3M");
    assert_eq!(mock.card(0).block, 6 * MIB);
    session.must("pool_free");
    assert_eq!(mock.card(0).block, 2 * MIB, "what is larger than a block goes at once");
    for _ in 0..100 {
        session.must("pool_free");
    }
    assert_eq!((mock.card(0).asked, mock.card(0).block), (0, 2 * MIB), "an empty block is cached");
    assert_eq!(session.must("available").number("size"), 16384 * MIB, "and counts as available");
    session.must("pool_allocate,4K,4");
    assert_eq!(mock.card(0).block, 2 * MIB + 4096, "memory for code is not cut from blocks");

    let mock = Mock::new().knob("BLOCKS", &0);
    let mut session = Driver::hsa(&mock).start();
    session.must("pool_allocate,5000");
    assert_eq!((mock.card(0).asked, mock.card(0).block), (8192, 8192), "without blocks, pages");
}

#[test]
fn a_cache_is_given_back_before_memory_is_refused() {
    let mock = Mock::new().limit_mib(8);
    let mut session = Driver::hsa(&mock).start();
    session.must("pool_allocate,4K");
    session.must("pool_free");
    assert_eq!(mock.card(0).block, 2 * MIB);
    session.must("pool_allocate,8M");
    assert_eq!(session.ask("pool_allocate,4K").map(|answer| answer.status), Some(OUT_OF_RESOURCES));
}

#[test]
fn physical_memory_goes_with_the_last_reference_and_the_last_mapping() {
    let mock = Mock::new();
    let mut session = Driver::hsa(&mock).start();
    assert_eq!(session.ask("vmem_release,0").map(|answer| answer.status), Some(INVALID_ALLOCATION));
    for command in ["vmem_create,64M", "vmem_reserve,64M", "vmem_map", "vmem_access"] {
        session.must(command);
    }
    assert_eq!(session.ask("vmem_unreserve").map(|answer| answer.status), Some(Status::Code(0x100A)), "something is mapped there");
    session.must("vmem_retain");
    session.must("vmem_release");
    session.must("vmem_release");
    assert_eq!(mock.card(0).asked, 64 * MIB, "it is mapped");
    session.must("vmem_unmap");
    assert_eq!(mock.card(0).asked, 0);
    session.must("vmem_unreserve");

    for command in ["vmem_create,64M", "vmem_export", "vmem_import"] {
        session.must(command);
    }
    assert_eq!(mock.card(0).asked, 64 * MIB, "one memory, imported where it was made");
    session.must("vmem_release");
    assert_eq!(mock.card(0).asked, 64 * MIB);
    session.must("vmem_release");
    assert_eq!(mock.card(0).asked, 0);
}

#[test]
fn imported_memory_is_not_taken_twice() {
    for runtime in Runtime::present() {
        let mock = Mock::new();
        let handle = mock.folder().join("handle");
        let (mut owner, mut user) = (start(runtime, &mock), start(runtime, &mock));
        owner.must("hipMalloc,64M");
        owner.must(&format!("hipIpcGetMemHandle,{}", handle.display()));
        let before = mock.card(0).asked;
        user.must(&format!("hipIpcOpenMemHandle,{}", handle.display()));
        assert_eq!(mock.card(0).asked, before, "{}", runtime.version);
        let imported = mock.record().into_iter().find(|line| line.kind == "import" && line.call == "ipc_memory_attach").expect("it shows");
        assert_eq!((imported.pid, imported.asked), (user.pid(), 64 * MIB), "{}", runtime.version);
        user.must("hipIpcCloseMemHandle");
        owner.must("hipFree");
    }
}

#[test]
fn memory_of_a_graphics_library_is_not_charged_to_who_maps_it() {
    for runtime in Runtime::present() {
        let mock = Mock::new();
        let mut session = start(runtime, &mock);
        let before = mock.card(0).asked;
        session.must("hipImportExternalMemory,64M");
        session.must("hipExternalMemoryGetMappedBuffer");
        assert_eq!(mock.card(0).asked, before, "{}", runtime.version);
        let lines = mock.record();
        assert!(lines.iter().any(|line| line.kind == "import" && line.call == "interop_map_buffer" && line.asked == 64 * MIB), "{}", runtime.version);
    }
}

#[test]
fn each_card_has_a_limit_of_its_own() {
    let mock = Mock::new().cards(2).limit_mib_of(1, 32);
    let mut session = Driver::hsa(&mock).start();
    session.must("pool_allocate,64M");
    session.must("card,1");
    assert_eq!(session.ask("pool_allocate,64M").map(|answer| answer.status), Some(OUT_OF_RESOURCES));
    session.must("pool_allocate,32M");
    assert_eq!((mock.card(0).asked, mock.card(1).asked), (64 * MIB, 32 * MIB));
}

#[test]
fn threads_leave_nothing_behind() {
    for runtime in Runtime::present() {
        let mock = Mock::new();
        let outcome = Driver::new(runtime, &mock).threads(4).repeat(50).run(&["hipMalloc,64K", "hipMalloc,3M", "hipFree", "hipFree"]);
        assert_eq!(outcome.end, End::Exit(0), "{}: {}", runtime.version, outcome.stderr);
        assert_eq!(outcome.answers.iter().filter(|answer| !answer.is_ok()).count(), 0, "{}", runtime.version);
        let lines = mock.record();
        let count = |kind: &str, bytes: u64| lines.iter().filter(|line| line.kind == kind && line.card == Some(0) && line.asked == bytes).count();
        for bytes in [64 << 10, 3 * MIB] {
            assert_eq!((count("alloc", bytes), count("free", bytes)), (200, 200), "{}", runtime.version);
        }
    }
}

#[test]
fn a_real_program_lists_the_cards() {
    let mock = Mock::new().cards(2).vram_mib(8192);
    let text = match hashcat::information(&mock, None, &[]) {
        Ok(text) => text,
        Err(missing) => {
            Runtime::present();
            eprintln!("not tested: {missing}");
            return;
        }
    };
    let memory: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("Memory.Total")).collect();
    assert_eq!(memory.len(), 2, "{text}");
    assert!(memory.iter().all(|line| line.ends_with("8192 MB")), "{text}");
}

#[test]
fn the_code_objects_are_what_their_sources_compile_to() {
    let runtime = match Runtime::find("7.2.4") {
        Ok(runtime) => runtime,
        Err(missing) => {
            Runtime::present();
            eprintln!("not tested: {missing}");
            return;
        }
    };
    let mock = Mock::new();
    let compile = mock.folder().join("compile");
    let made = std::process::Command::new("cc")
        .args(["-D_GNU_SOURCE", "-std=gnu11", "-o"])
        .arg(&compile)
        .args([concat!(env!("CARGO_MANIFEST_DIR"), "/probes/compile.c"), "-ldl"])
        .status();
    assert!(made.is_ok_and(|status| status.success()));
    for name in ["module", "managed"] {
        let output = mock.folder().join(name);
        let status = runtime.command(&compile, None).arg("gfx1030").arg(fixture(&format!("{name}.hip"))).arg(&output).status();
        assert!(status.is_ok_and(|status| status.success()), "{name}");
        let (fresh, kept) = (std::fs::read(&output), std::fs::read(fixture(&format!("{name}.hsaco"))));
        assert_eq!(fresh.expect("it was made"), kept.expect("it is a fixture"), "fixtures/{name}.hsaco: fixtures/README.md says how to make it");
    }
}

#[test]
fn the_interface_is_that_of_the_headers() {
    let mut checked = 0;
    for (package, version) in [
        ("libhsa-runtime-dev_5.2.3", "502"),
        ("libhsa-runtime-dev_6.1.2", "601"),
        ("libhsa-runtime-dev_6.4.3", "604"),
        ("libhsa-runtime-dev_7.2.4", "702"),
    ] {
        let Some(folder) = corpus::package(package) else {
            eprintln!("not tested: {}", corpus::missing("HSA's headers", &[package]));
            continue;
        };
        let status = std::process::Command::new("cc")
            .args(["-fsyntax-only", "-std=gnu11", &format!("-DROCR={version}"), "-I"])
            .arg(folder.join("usr/include"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/mock-hsa/abi_check.c"))
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{package}: abi.h is not what its headers say");
        checked += 1;
    }
    assert!(checked > 0, "{}", corpus::missing("HSA's headers", &["libhsa-runtime-dev_5.2.3"]));
}
