//! The shim under the real HIP runtimes: no way past the quota, by any of the ways that a user of HIP has, and a ledger that is
//! what the mock recorded.

use std::time::{Duration, Instant};

use vrocm_tests::driver::{Driver, End, Status, Way};
use vrocm_tests::mock::Mock;
use vrocm_tests::paths::{first_failure, paths};
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim;

const MIB: u64 = 1 << 20;
const OUT_OF_MEMORY: Status = Status::Code(2);

/// The ledger and the record, once they have not changed for a while and agree, or for two seconds do not: some runtimes free on a
/// thread of their own.
fn settled(mock: &Mock) -> (u64, u64) {
    let now = || (shim::held(mock).unwrap_or(0), shim::recorded(mock));
    let (mut last, mut same) = (now(), 0);
    let deadline = Instant::now() + Duration::from_secs(2);
    while same < 5 || last.0 != last.1 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
        let next = now();
        same = if next == last { same + 1 } else { 0 };
        last = next;
    }
    last
}

#[test]
fn nothing_above_the_quota_by_any_way() {
    for runtime in Runtime::present() {
        for way in Way::COMMON {
            if !way.exists_in(runtime) {
                continue;
            }
            let mock = Mock::new();
            let driver = Driver::new(runtime, &mock).shim(&mock, 64).way(way);
            let outcome = driver.run(&["hipMalloc,512M", "hipMalloc,48M", "hipFree", "hipMalloc,60M"]);
            let context = format!("{} {way:?}: {outcome:?}", runtime.version);
            let answers: Vec<Status> = outcome.of("hipMalloc").map(|answer| answer.status).collect();
            assert_eq!(answers, [OUT_OF_MEMORY, Status::Code(0), Status::Code(0)], "{context}");
            assert_eq!(outcome.end, End::Exit(0), "{context}");
            assert!(mock.card(0).highest_block <= 64 * MIB, "{context}");
        }
    }
}

/// With room for everything the ledger says at each stop what the record says, path after path. Managed memory is not in the
/// record.
#[test]
fn with_room_the_ledger_is_the_record() {
    let mut wrong = Vec::new();
    for runtime in Runtime::present() {
        for path in paths("64M").iter().filter(|path| !path.name.contains("anaged")) {
            let mock = Mock::new();
            let mut session = Driver::new(runtime, &mock).shim(&mock, 4096).start();
            let mut stops = Vec::new();
            for commands in [&path.make, &path.undo, &path.make, &path.undo] {
                first_failure(&mut session, commands);
                let (held, recorded) = settled(&mock);
                stops.push((held, recorded));
            }
            let end = session.close().end;
            if stops.iter().any(|(held, recorded)| held != recorded) || end != End::Exit(0) {
                wrong.push(format!("{} {}: ledger and record {stops:?}, {end:?}", runtime.version, path.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A real program that opens the runtime privately and finds everything by `dlsym` sees the quota as the card.
#[test]
fn hashcat_sees_the_quota() {
    let mock = Mock::new();
    let ledger = shim::ledger_path(&mock);
    let environment = [("VROCM_DEVICE_MEMORY_LIMIT", "4096"), ("VROCM_LEDGER_PATH", ledger.to_str().unwrap())];
    let (with, without) =
        (vrocm_tests::hashcat::information(&mock, Some(shim::library()), &environment), vrocm_tests::hashcat::information(&mock, None, &[]));
    let (Ok(with), Ok(without)) = (with, without) else {
        return vrocm_tests::corpus::not_tested("hashcat is not there");
    };
    let memory = |text: &str| {
        let line = text.lines().find(|line| line.contains("Memory.Total")).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    assert_eq!((memory(&without), memory(&with)), (16384, 4096), "{with}");
}

/// A wheel brings the runtime along under a name of its own: it is known by what it exports.
#[test]
fn a_runtime_under_another_name_is_held() {
    for runtime in Runtime::present() {
        let mock = Mock::new();
        let renamed = mock.folder().join("libroctx-9f3e1c.so");
        std::fs::copy(runtime.folder.join(&runtime.soname), &renamed).unwrap();
        let driver = Driver::new(runtime, &mock).shim(&mock, 64).way(Way::Dlsym).library(renamed.to_str().unwrap());
        let outcome = driver.run(&["hipMalloc,512M", "hipMalloc,48M", "hipMemGetInfo"]);
        let context = format!("{}: {outcome:?}", runtime.version);
        let answers: Vec<Status> = outcome.of("hipMalloc").map(|answer| answer.status).collect();
        assert_eq!(answers, [OUT_OF_MEMORY, Status::Code(0)], "{context}");
        assert_eq!(outcome.first("hipMemGetInfo").number("total"), 64 * MIB, "{context}");
        assert!(mock.card(0).highest_block <= 64 * MIB && outcome.end == End::Exit(0), "{context}");
    }
}
