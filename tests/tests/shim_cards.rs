//! Several cards: each has a quota of its own, and no mask of ordinals shifts a charge to another one.

use vrocm_tests::driver::{Driver, End, Session, Status};
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
    session.must("hipInit,0");
    session
}

#[test]
fn each_device_has_the_quota_of_its_card_whatever_is_visible() {
    for runtime in Runtime::present() {
        for (visible, cards) in [(None, &[0, 1, 2][..]), (Some("2,0"), &[2, 0]), (Some("1,2,0"), &[1, 2, 0]), (Some("2"), &[2])] {
            let mock = Mock::new().cards(3);
            let mut session = start(runtime, &mock, visible);
            for (device, &card) in cards.iter().enumerate() {
                let context = format!("{} {visible:?} device {device}", runtime.version);
                session.must(&format!("hipSetDevice,{device}"));
                let (quota, before) = (QUOTAS[card], mock.card(card).asked);
                assert_eq!(session.must("hipMemGetInfo").number("total"), quota * MIB, "{context}");
                assert_eq!(session.must(&format!("hipDeviceTotalMem,{device}")).number("total"), quota * MIB, "{context}");
                assert_eq!(session.status(&format!("hipMalloc,{}M", quota + 1)), REFUSED, "{context}");
                session.must(&format!("hipMalloc,{}M", quota - 4));
                assert_eq!(mock.card(card).asked - before, (quota - 4) * MIB, "{context}: on another card");
                assert_eq!(session.status("hipMalloc,6M"), REFUSED, "{context}");
                assert_eq!(session.status("hipMallocManaged,6M"), REFUSED, "{context}");
                assert!(mock.card(card).highest_asked <= quota * MIB, "{context}");
            }
            // What is full on one card is full on that card alone, and giving back takes place where it was taken.
            for device in (0..cards.len()).rev() {
                session.must("hipFree");
                session.must(&format!("hipSetDevice,{device}"));
                session.must("hipMalloc,8M");
                session.must("hipFree");
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
        plain.must("hipSetDevice,0");
        turned.must("hipSetDevice,1");
        plain.must("hipMalloc,40M");
        assert_eq!(turned.status("hipMalloc,40M"), REFUSED, "{}", runtime.version);
        turned.must("hipMalloc,20M");
        let (left, right) = (plain.must("hipMemGetInfo").number("free"), turned.must("hipMemGetInfo").number("free"));
        assert_eq!(left, right, "{}: free of the same card", runtime.version);
        assert!(left <= 4 * MIB, "{}: {left}", runtime.version);
        turned.must("hipSetDevice,0");
        turned.must("hipMalloc,12M");
        let (first, last) = (mock.card(0).asked / MIB, mock.card(2).asked / MIB);
        // What a runtime takes for itself is no more than this.
        assert!((60..=64).contains(&first) && (12..=16).contains(&last), "{}: {first} and {last} MiB", runtime.version);
        plain.kill();
        turned.must("hipSetDevice,1");
        turned.must("hipMalloc,36M");
        assert!(mock.card(0).highest_asked <= 64 * MIB, "{}", runtime.version);
    }
}

/// Physical memory and graphs name their device themselves: the current one does not matter.
#[test]
fn a_request_that_names_its_device_is_charged_there() {
    for runtime in Runtime::present() {
        let mock = Mock::new().cards(3);
        let mut session = start(runtime, &mock, Some("1,0"));
        session.must("hipSetDevice,1");
        let made = session.status("hipMemCreate,48M");
        if made != Status::Code(0) {
            assert!(!runtime.is_at_least("6.4.3") && made != REFUSED, "{}: {made:?}", runtime.version);
            continue;
        }
        let held = mock.card(0).asked;
        assert!((48 * MIB..52 * MIB).contains(&held), "{}: {held}", runtime.version);
        session.must("hipSetDevice,0");
        assert_eq!(session.status("hipMemCreate,48M"), REFUSED, "{}", runtime.version);
        session.must("hipMemRelease");
        assert!(mock.card(0).asked < 4 * MIB && mock.card(1).highest_asked <= 32 * MIB, "{}", runtime.version);
    }
}
