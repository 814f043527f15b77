//! A word for whoever waits at a terminal: what takes so long, and why.

use std::io::{self, IsTerminal as _, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Nobody calls it waiting before.
const PATIENCE: Duration = Duration::from_millis(150);

/// How long somebody waits in silence: for ever, where standard error is no terminal.
pub(super) fn asked() -> Option<Duration> {
    io::stderr().is_terminal().then_some(PATIENCE)
}

/// Does the work, and says what it is about each time that `patience` has run out, at doubling intervals.
pub(super) fn work<T>(out: &mut (impl Write + Send), patience: Option<Duration>, says: impl Fn() -> String + Send, work: impl FnOnce() -> T) -> T {
    let Some(mut patience) = patience else { return work() };
    let (done, wait) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while wait.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                // Who cannot be told need not be told.
                let _ = writeln!(out, "{}", says());
                patience *= 2;
            }
        });
        let result = work();
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::work;

    #[test]
    fn what_takes_long_is_said_and_what_does_not_is_done_in_silence() {
        let after = |patience: Option<u64>, takes: u64| {
            let mut said = Vec::new();
            let slow = || {
                sleep(Duration::from_millis(takes));
                7
            };
            assert_eq!(work(&mut said, patience.map(Duration::from_millis), || "still at it".into(), slow), 7);
            String::from_utf8(said).unwrap()
        };
        assert_eq!(after(Some(60_000), 1), "");
        assert_eq!(after(None, 50), "");
        let said = after(Some(5), 500);
        assert!(said.starts_with("still at it\n") && said.lines().count() < 10, "{said}");
    }
}
