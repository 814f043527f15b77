//! The monitor beside AMD's real HIP under the real libvrocm.so, over the mock HSA: what it shows is what the card lost, by the mock's own account.

use std::ffi::CString;

use rocm_monitor::snapshot::{Snapshot, State, take};
use vrocm_tests::driver::{Answer, Driver};
use vrocm_tests::mock::Mock;
use vrocm_tests::runtime::Runtime;
use vrocm_tests::shim::{ledger_path, recorded};

const MIB: u64 = 1 << 20;

fn look(mock: &Mock) -> Snapshot {
    take(&CString::new(ledger_path(mock).to_str().expect("UTF-8")).expect("no NUL")).expect("a ledger")
}

#[test]
fn figures_are_those_of_the_card() {
    let runtimes = Runtime::present();
    if runtimes.is_empty() {
        return println!("not tested: no runtime of AMD's is in the corpus");
    }
    for runtime in runtimes {
        let mock = Mock::new();
        let mut session = Driver::new(runtime, &mock).shim(&mock, 1024).start();
        assert!(session.ask("hipMalloc,300M").as_ref().is_some_and(Answer::is_ok), "{}", runtime.version);
        let seen = look(&mock);
        let (card, process) = (&seen.cards[0], &seen.processes[0]);
        assert_eq!((card.quota, card.used), (Some(1024 * MIB), recorded(&mock)), "{}", runtime.version);
        assert_eq!((process.pid, process.state, process.refused), (session.pid(), State::Alive, 0), "{}", runtime.version);
        assert!(card.used >= 300 * MIB && process.holds[0].bytes == card.used && process.calls > 0, "{}: {seen:?}", runtime.version);

        assert!(!session.ask("hipMalloc,900M").is_some_and(|answer| answer.is_ok()), "{}", runtime.version);
        let refused = look(&mock);
        assert!(refused.processes[0].refused > 0 && refused.cards[0].used == card.used, "{}: {refused:?}", runtime.version);

        session.kill();
        let _ = session.close();
        let left = look(&mock);
        assert_eq!((left.processes[0].state, left.cards[0].stale, left.cards[0].used), (State::Stale, card.used, card.used), "{}", runtime.version);
        assert_eq!(mock.card(0).block, 0, "the driver has taken it back; the ledger will when somebody needs it");
    }
}
