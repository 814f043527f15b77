//! Several cards: each has a quota of its own, and no mask of ordinals shifts a charge to another one.

use vrocm_tests::driver::{Answer, Driver, End, Session, Status};
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;

const MIB: u64 = 1 << 20;
const REFUSED: Status = Status::Code(2);

/// Cards 0, 1 and 2 at 0000:03:00.0, 0000:13:00.0 and 0000:23:00.0, and their quotas in MiB.
const QUOTAS: [u64; 3] = [64, 32, 16];

/// By position, by PCI address, by UUID.
const KEYED: [(&str, &str); 3] = [
    ("VROCM_DEVICE_MEMORY_LIMIT_0", "64"),
    ("VROCM_DEVICE_MEMORY_LIMIT_0000_13_00_0", "32"),
    ("VROCM_DEVICE_MEMORY_LIMIT_GPU_a0de000000000002", "16"),
];

fn start(runtime: &Runtime, mock: &Mock, visible: Option<&str>) -> Session {
    // The figure for all cards is one that none of these has.
    let driver = KEYED.iter().fold(Driver::new(runtime, mock).shim(mock, 7), |driver, (name, value)| driver.env(name, *value));
    let driver = visible.iter().fold(driver, |driver, list| driver.env("HIP_VISIBLE_DEVICES", *list));
    let mut session = driver.start();
    must(&mut session, "hipInit,0");
    session
}

fn must(session: &mut Session, command: &str) -> Answer {
    let answer = session.ask(command);
    assert!(answer.as_ref().is_some_and(Answer::is_ok), "{command}: {answer:?}");
    answer.expect("it is there")
}

fn status(session: &mut Session, command: &str) -> Status {
    session.ask(command).unwrap_or_else(|| panic!("{command}: gone")).status
}

#[test]
fn each_device_has_the_quota_of_its_card_whatever_is_visible() {
    for runtime in Runtime::present() {
        for (visible, cards) in [(None, &[0, 1, 2][..]), (Some("2,0"), &[2, 0]), (Some("1,2,0"), &[1, 2, 0]), (Some("2"), &[2])] {
            let mock = Mock::new().cards(3);
            let mut session = start(runtime, &mock, visible);
            for (device, &card) in cards.iter().enumerate() {
                let context = format!("{} {visible:?} device {device}", runtime.version);
                must(&mut session, &format!("hipSetDevice,{device}"));
                let (quota, before) = (QUOTAS[card], mock.card(card).asked);
                assert_eq!(must(&mut session, "hipMemGetInfo").number("total"), quota * MIB, "{context}");
                assert_eq!(must(&mut session, &format!("hipDeviceTotalMem,{device}")).number("total"), quota * MIB, "{context}");
                assert_eq!(status(&mut session, &format!("hipMalloc,{}M", quota + 1)), REFUSED, "{context}");
                must(&mut session, &format!("hipMalloc,{}M", quota - 4));
                assert_eq!(mock.card(card).asked - before, (quota - 4) * MIB, "{context}: on another card");
                assert_eq!(status(&mut session, "hipMalloc,6M"), REFUSED, "{context}");
                assert_eq!(status(&mut session, "hipMallocManaged,6M"), REFUSED, "{context}");
                assert!(mock.card(card).highest_asked <= quota * MIB, "{context}");
            }
            // What is full on one card is full on that card alone, and giving back takes place where it was taken.
            for device in (0..cards.len()).rev() {
                must(&mut session, "hipFree");
                must(&mut session, &format!("hipSetDevice,{device}"));
                must(&mut session, "hipMalloc,8M");
                must(&mut session, "hipFree");
            }
            assert_eq!(session.close().end, End::Exit(0), "{} {visible:?}", runtime.version);
        }
    }
}

#[test]
fn processes_with_other_masks_charge_the_same_card() {
    for runtime in Runtime::present() {
        let mock = Mock::new().cards(3);
        let (mut plain, mut turned) = (start(runtime, &mock, None), start(runtime, &mock, Some("2,0,1")));
        // Card 0 is the first device of the one and the second of the other.
        must(&mut plain, "hipSetDevice,0");
        must(&mut turned, "hipSetDevice,1");
        must(&mut plain, "hipMalloc,40M");
        assert_eq!(status(&mut turned, "hipMalloc,40M"), REFUSED, "{}", runtime.version);
        must(&mut turned, "hipMalloc,20M");
        let (left, right) = (must(&mut plain, "hipMemGetInfo").number("free"), must(&mut turned, "hipMemGetInfo").number("free"));
        assert_eq!(left, right, "{}: free of the same card", runtime.version);
        assert!(left <= 4 * MIB, "{}: {left}", runtime.version);
        must(&mut turned, "hipSetDevice,0");
        must(&mut turned, "hipMalloc,12M");
        let (first, last) = (mock.card(0).asked / MIB, mock.card(2).asked / MIB);
        // What a runtime takes for itself is no more than this.
        assert!((60..=64).contains(&first) && (12..=16).contains(&last), "{}: {first} and {last} MiB", runtime.version);
        plain.kill();
        must(&mut turned, "hipSetDevice,1");
        must(&mut turned, "hipMalloc,36M");
        assert!(mock.card(0).highest_asked <= 64 * MIB, "{}", runtime.version);
    }
}

/// Physical memory and graphs name their device themselves: the current one does not matter.
#[test]
fn a_request_that_names_its_device_is_charged_there() {
    for runtime in Runtime::present() {
        let mock = Mock::new().cards(3);
        let mut session = start(runtime, &mock, Some("1,0"));
        must(&mut session, "hipSetDevice,1");
        let made = status(&mut session, "hipMemCreate,48M");
        if made != Status::Code(0) {
            assert!(!runtime.is_at_least("6.4.3") && made != REFUSED, "{}: {made:?}", runtime.version);
            continue;
        }
        let held = mock.card(0).asked;
        assert!((48 * MIB..52 * MIB).contains(&held), "{}: {held}", runtime.version);
        must(&mut session, "hipSetDevice,0");
        assert_eq!(status(&mut session, "hipMemCreate,48M"), REFUSED, "{}", runtime.version);
        must(&mut session, "hipMemRelease");
        assert!(mock.card(0).asked < 4 * MIB && mock.card(1).highest_asked <= 32 * MIB, "{}", runtime.version);
    }
}
