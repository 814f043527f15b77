//! Which library a file is, and several libraries at once.

use vrocm_audit::elf::Elf;
use vrocm_audit::gfx::Tier;
use vrocm_audit::gfx::identity::Identity;
use vrocm_audit::gfx::verdict::{Reason, Verdict, combine};

use crate::stand_in::{ROCR, StandIn, TARGETS, array, ids};

#[test]
fn another_library_has_no_say() {
    let table = array("table", &ids(&TARGETS));
    for (library, what) in [
        (StandIn::compile("libamd_comgr.so.3", &format!("{ROCR}{table}")), "the soname is libamd_comgr.so.3"),
        (StandIn::compile("libhsa-runtime64.so.1", &table), "exports no hsa_init"),
    ] {
        let scanned = library.scan();
        assert_eq!((scanned.identity, scanned.tier, scanned.targets.len()), (Identity::Other, Tier::None, 0));
        assert!(scanned.what.as_ref().is_some_and(|found| found.contains(what)), "{:?}", scanned.what);
        for name in ["gfx942", "gfx1250", "gfx11-generic"] {
            let answer = library.ask(name);
            assert_eq!((answer.verdict, answer.reason), (Verdict::Unknown, Reason::NotRocr));
            assert!(answer.message.contains(what), "{}", answer.message);
        }
    }
}

#[test]
fn renamed_by_a_wheel() {
    let library = StandIn::compile("libhsa-runtime64-1a2b3c4d.so.1.14.0", &format!("{ROCR}{}", array("table", &ids(&TARGETS))));
    assert_eq!(library.scan().identity, Identity::Rocr);
}

#[test]
fn what_is_no_library_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in [("empty", &b""[..]), ("text", b"gfx900 gfx906\n"), ("magic", b"\x7fELF")] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        assert!(Elf::open(&path).is_err(), "{name}");
    }
}

#[test]
fn a_truncated_library_is_an_error() {
    let library = StandIn::rocr(&array("table", &ids(&TARGETS)));
    let bytes = std::fs::read(&library.path).unwrap();
    let cut = Elf::from_bytes("cut", bytes[..bytes.len() / 3].to_vec());
    assert!(cut.is_err_and(|error| error.to_string().contains("cut short")));
}

#[test]
fn section_headers_do_not_matter() {
    let library = StandIn::rocr(&array("table", &ids(&TARGETS)));
    let mut bytes = std::fs::read(&library.path).unwrap();
    bytes[0x28..0x30].fill(0);
    bytes[0x3a..0x40].fill(0);
    std::fs::write(&library.path, bytes).unwrap();
    assert_eq!(library.scan().targets.len(), 39);
}

#[test]
fn libraries_that_agree_and_that_do_not() {
    let all = StandIn::rocr(&array("table", &ids(&TARGETS)));
    let fewer = StandIn::rocr(&array("table", &ids(&TARGETS[8..30])));
    let other = StandIn::compile("libx.so", "int x(void){return 0;}");
    let both = |name: &str| combine(&[all.ask(name), fewer.ask(name), other.ask(name)]).unwrap();
    assert_eq!(both("gfx942").verdict, Verdict::Supported);
    assert_eq!(both("gfx1250").verdict, Verdict::Unsupported);
    assert_eq!((both("gfx1201").verdict, both("gfx1201").reason), (Verdict::Unknown, Reason::Disagreement));
    let message = both("gfx1201").message;
    assert!(message.ends_with("supported by 1, unsupported by 1, unknown for 0"), "{message}");
    assert_eq!(combine(&[other.ask("gfx942")]).unwrap().reason, Reason::NotRocr);
    assert_eq!(combine(&[]), None);
}
