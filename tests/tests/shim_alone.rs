//! The HIP layer by itself: a stand-in for the runtime that takes nothing from HSA. What the shim has charged is compared with what the stand-in holds.

use vrocm_tests::driver::{Driver, End, Session, Status, Way};
use vrocm_tests::mock::Mock;

const MIB: u64 = 1 << 20;
const QUOTA: u64 = 64;

/// What is charged, and what the stand-in holds.
fn both(session: &mut Session) -> (u64, u64) {
    let charged = QUOTA * MIB - session.must("hipMemGetInfo").number("free");
    (charged, session.must("hipDeviceGetLimit,1").number("value"))
}

/// Gives the commands, and after each says what is held: in MiB, rounded down, the same by both.
fn held_after(commands: &[&str]) -> Vec<u64> {
    let mock = Mock::new();
    let mut session = Driver::alone(&mock).shim(&mock, QUOTA).start();
    let mut held = Vec::new();
    for command in commands {
        session.must(command);
        let (charged, taken) = both(&mut session);
        assert_eq!(charged, taken, "{command} in {commands:?}");
        held.push(taken / MIB);
    }
    let outcome = session.close();
    assert_eq!(outcome.end, End::Exit(0), "{commands:?}: {outcome:?}");
    held
}

#[test]
fn memory_is_charged_as_it_was_asked_for_and_given_back() {
    assert_eq!(held_after(&["hipMalloc,48M", "hipMalloc,3M", "hipFree", "hipFree"]), [48, 51, 48, 0]);
    assert_eq!(held_after(&["hipMallocManaged,9M", "hipFree", "hipExtMallocWithFlags,5M", "hipFree"]), [9, 0, 5, 0]);
    assert_eq!(held_after(&["hipMallocArray,8M", "hipFreeArray", "hipMallocAsync,7M", "hipFreeAsync"]), [8, 0, 7, 0]);
    assert_eq!(held_after(&["hipMalloc,0", "hipMalloc,12345", "hipFree", "hipFree"]), [0, 0, 0, 0]);
}

/// Every pair that the stand-in has: 16 MiB are charged when they are taken, and no byte when they are given back, by whichever name.
#[test]
fn every_way_to_take_memory_and_every_way_to_give_it_back_is_counted() {
    let pairs = [
        ("hipMallocPitch,16M", "hipFree"),
        ("hipMemAllocPitch,16M", "hipFree"),
        ("hipMalloc3D,16M", "hipFree"),
        ("hipMalloc3DArray,16M", "hipFreeArray"),
        ("hipArrayCreate,16M", "hipArrayDestroy"),
        ("hipArray3DCreate,16M", "hipArrayDestroy"),
        ("hipMallocMipmappedArray,16M", "hipFreeMipmappedArray"),
        ("hipMipmappedArrayCreate,16M", "hipMipmappedArrayDestroy"),
    ];
    for (take, give) in pairs {
        assert_eq!(held_after(&[take, give]), [16, 0], "{take} {give}");
    }
    assert_eq!(held_after(&["hipMemPoolCreate", "hipMallocFromPoolAsync,16M", "hipFreeAsync", "hipMemPoolDestroy"]), [0, 16, 0, 0]);
    assert_eq!(held_after(&["hipGraphCreate", "hipGraphAddNode,16M", "hipGraphDestroy"]), [0, 16, 0]);
    // Levels of 16, 4 and 1 MiB.
    assert_eq!(held_after(&["hipMallocMipmappedArray,16M,3", "hipFreeMipmappedArray"]), [21, 0]);
}

/// 5.x takes device memory for `hipHostAlloc` unless a bit says otherwise; newer releases never do.
#[test]
fn host_memory_that_is_the_cards_in_5_x_is_charged_there() {
    let free_after = |version: &str, commands: &[&str]| -> Vec<u64> {
        let mock = Mock::new();
        let mut session = Driver::alone(&mock).env("STANDIN_VERSION", version).shim(&mock, QUOTA).start();
        let free = |session: &mut Session| session.must("hipMemGetInfo").number("free") / MIB;
        let mut left = Vec::new();
        for command in commands {
            session.must(command);
            left.push(free(&mut session));
        }
        left
    };
    for free in ["hipHostFree", "hipFreeHost"] {
        assert_eq!(free_after("50221153", &["hipHostAlloc,16M", free]), [48, 64], "{free}");
        assert_eq!(free_after("50221153", &["hipHostAlloc,16M,1024"]), [64]);
        assert_eq!(free_after("60443484", &["hipHostAlloc,16M,1024"]), [64]);
    }
}

#[test]
fn a_call_that_the_runtime_makes_to_itself_is_charged_once_and_with_its_pitch() {
    assert_eq!(held_after(&["hipMallocPitch,16M", "hipFree"]), [16, 0]);
}

#[test]
fn physical_memory_goes_with_its_last_reference_and_its_last_mapping() {
    let released_first = ["hipMemCreate,32M", "hipMemAddressReserve,32M", "hipMemMap", "hipMemRelease", "hipMemUnmap"];
    assert_eq!(held_after(&released_first), [32, 32, 32, 32, 0]);
    let retained = [
        "hipMemCreate,32M",
        "hipMemAddressReserve,32M",
        "hipMemMap",
        "hipMemRetainAllocationHandle",
        "hipMemUnmap",
        "hipMemRelease",
        "hipMemRelease",
    ];
    assert_eq!(held_after(&retained), [32, 32, 32, 32, 32, 32, 0]);
}

#[test]
fn nodes_are_charged_until_their_graph_goes() {
    let nodes = ["hipGraphCreate", "hipGraphAddMemAllocNode,16M", "hipGraphAddMemAllocNode,8M", "hipGraphDestroy"];
    assert_eq!(held_after(&nodes), [0, 16, 24, 0]);
}

#[test]
fn many_nodes_are_found_as_well() {
    let mut commands = vec!["hipGraphCreate"];
    commands.extend(["hipGraphAddMemAllocNode,64K"; 100]);
    commands.push("hipGraphDestroy");
    let held = held_after(&commands);
    assert_eq!((held[100], held[101]), (6, 0));
}

#[test]
fn a_reset_gives_everything_back() {
    assert_eq!(held_after(&["hipMalloc,20M", "hipMallocManaged,20M", "hipDeviceReset", "hipMalloc,60M"]), [20, 40, 0, 60]);
}

#[test]
fn without_room_nothing_is_asked_of_the_runtime() {
    let requests = [
        "hipMalloc",
        "hipMallocManaged",
        "hipExtMallocWithFlags",
        "hipMallocPitch",
        "hipMemAllocPitch",
        "hipMalloc3D",
        "hipMallocArray",
        "hipMalloc3DArray",
        "hipArrayCreate",
        "hipArray3DCreate",
        "hipMallocMipmappedArray",
        "hipMipmappedArrayCreate",
        "hipMallocAsync",
        "hipMallocFromPoolAsync",
        "hipMemCreate",
        "hipGraphAddMemAllocNode",
        "hipGraphAddNode",
    ];
    for request in requests {
        let mock = Mock::new();
        let mut session = Driver::alone(&mock).shim(&mock, QUOTA).start();
        session.must("hipGraphCreate");
        session.must("hipMemPoolCreate");
        session.must("hipMalloc,40M");
        for size in ["512M", "25M"] {
            let answer = session.ask(&format!("{request},{size}")).expect("it lives");
            assert_eq!(answer.status, Status::Code(2), "{request} {size}");
        }
        assert_eq!(both(&mut session), (40 * MIB, 40 * MIB), "{request}");
        session.must(&format!("{request},24M"));
        assert_eq!(both(&mut session), (64 * MIB, 64 * MIB), "{request}");
    }
}

/// A runtime that looks up in a table of its own hands out its own functions: what it gives is put right. AMD's ask the loader, where `dlsym` is ours.
#[test]
fn what_a_runtime_hands_out_of_its_own_table_is_held() {
    for way in [Way::Dlsym, Way::ProcAddress, Way::DriverEntryPoint, Way::DriverEntryPointSpt] {
        let mock = Mock::new();
        let mut session = Driver::alone(&mock).way(way).shim(&mock, QUOTA).start();
        assert_eq!(session.ask("hipMalloc,512M").map(|answer| answer.status), Some(Status::Code(2)), "{way:?}");
        session.must("hipMalloc,48M");
        assert_eq!(both(&mut session), (48 * MIB, 48 * MIB), "{way:?}");
        session.must("hipFree");
        assert_eq!(both(&mut session), (0, 0), "{way:?}");
    }
}

#[test]
fn a_failure_of_the_runtime_charges_nothing() {
    let mock = Mock::new();
    // More than the stand-in has, less than the quota.
    let mut session = Driver::alone(&mock).shim(&mock, 4096).start();
    for request in ["hipMalloc,2G", "hipMemCreate,2G", "hipMallocAsync,2G"] {
        assert_eq!(session.ask(request).map(|answer| answer.status), Some(Status::Code(2)), "{request}");
        assert_eq!(session.must("hipMemGetInfo").number("free"), 1024 * MIB, "{request}");
    }
}
