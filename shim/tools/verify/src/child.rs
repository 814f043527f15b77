//! The parent's side of a probe: commands go in, answers come out, and every wait has an end.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::probe::{Answer, Status};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It left with this status.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It had to be ended, having taken longer than it may.
    Hang(Duration),
}

impl fmt::Display for End {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(to, "ended with status {status}"),
            Self::Signal(number) => write!(to, "ended by signal {number}"),
            Self::Hang(limit) => write!(to, "did not answer within {} s", limit.as_secs_f32()),
        }
    }
}

/// Why a case cannot go on: its probe is gone, or does not do what everything else needs.
#[derive(Debug)]
pub struct Trouble(pub String);

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

/// What a finished probe left.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub end: End,
    /// What the library counted in it.
    pub counters: Counters,
    /// Standard error.
    pub stderr: String,
}

impl Ended {
    /// The end and the last lines of standard error, for a row.
    pub fn describe(&self) -> String {
        let mut last: Vec<&str> = self.stderr.lines().rev().filter(|line| !line.contains("]: counter ")).take(2).collect();
        last.reverse();
        if last.is_empty() { self.end.to_string() } else { format!("{}: {}", self.end, last.join(" | ")) }
    }
}

/// A probe that waits for commands.
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    patience: Duration,
}

impl Session {
    /// Starts a command as a probe.
    pub fn start(mut command: Command, patience: Duration) -> Result<Self, Trouble> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (Some(output), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else { return Err(Trouble("no pipe".into())) };
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Ok(Self { input: child.stdin.take(), child, answers, stderr: Some(stderr), patience })
    }

    /// Gives a command and waits for its answer. A probe that is gone or does not answer in time is ended and described.
    pub fn ask(&mut self, command: &str) -> Result<Answer, Trouble> {
        self.tell(command);
        self.hear(command, Duration::ZERO)
    }

    /// Gives a command whose answer is to be heard later.
    pub fn tell(&mut self, command: &str) {
        if let Some(input) = &mut self.input {
            // A probe that is gone is noticed when it should answer.
            let _ = writeln!(input, "{command}").and_then(|()| input.flush());
        }
    }

    /// Waits for the answer to a command that was given, which may take `longer` than others.
    pub fn hear(&mut self, command: &str, longer: Duration) -> Result<Answer, Trouble> {
        let line = match self.answers.recv_timeout(self.patience + longer) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(self.gone(command)),
        };
        serde_json::from_str(&line).map_err(|error| Trouble(format!("{command}: the probe answered {line:?}: {error}")))
    }

    /// A call that everything after it needs.
    pub fn must(&mut self, command: &str) -> Result<Answer, Trouble> {
        let answer = self.ask(command)?;
        good(command, answer)
    }

    /// Gives commands and stops at the first that does not succeed: its name and status.
    pub fn all(&mut self, commands: &[String]) -> Result<Option<(String, Status)>, Trouble> {
        for command in commands {
            let answer = self.ask(command)?;
            if answer.status != Status::Code(0) {
                return Ok(Some((answer.name, answer.status)));
            }
        }
        Ok(None)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it by SIGKILL, and waits until it is gone.
    pub fn kill(mut self) {
        self.end_it();
    }

    /// Lets it end by itself.
    pub fn close(mut self) -> Ended {
        self.finish()
    }

    fn finish(&mut self) -> Ended {
        self.input = None;
        let pid = self.pid();
        let end = self.wait();
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        Ended { end, counters: Counters::parse(&stderr, pid), stderr }
    }

    fn gone(&mut self, command: &str) -> Trouble {
        // One that hangs does so in a call: it is not waited for a second time.
        let hangs = matches!(self.child.try_wait(), Ok(None));
        let limit = self.patience;
        if hangs {
            self.patience = Duration::from_millis(200);
        }
        let mut ended = self.finish();
        if let End::Hang(_) = ended.end {
            ended.end = End::Hang(limit);
        }
        Trouble(format!("{command}: the process {}", ended.describe()))
    }

    fn wait(&mut self) -> End {
        use std::os::unix::process::ExitStatusExt;
        let until = Instant::now() + self.patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code().map_or_else(|| End::Signal(status.signal().unwrap_or_default()), End::Exit),
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
                _ => {
                    self.end_it();
                    return End::Hang(self.patience);
                }
            }
        }
    }

    fn end_it(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_it();
    }
}

/// The answer to a call that everything after it needs.
pub fn good(command: &str, answer: Answer) -> Result<Answer, Trouble> {
    match answer.status {
        Status::Code(0) => Ok(answer),
        Status::Failed => Err(Trouble(format!("{command}: {}", answer.word("why")))),
        status => Err(Trouble(format!("{command} answered {}", show(status)))),
    }
}

/// A status for a row.
pub fn show(status: Status) -> String {
    match status {
        Status::Code(0) => "success".into(),
        Status::Code(2) => "2 (out of memory)".into(),
        Status::Code(801) => "801 (not supported)".into(),
        Status::Code(100) => "100 (no device)".into(),
        Status::Absent => "nothing: there is no such entry point".into(),
        Status::Code(0x1008) => "0x1008 (out of resources)".into(),
        Status::Unused => "nothing: what it needs was not made".into(),
        Status::Failed => "a failure".into(),
        Status::Code(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Session {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Session::start(command, Duration::from_millis(700)).unwrap()
    }

    #[test]
    fn a_probe_that_dies_hangs_or_talks_nonsense_is_trouble() {
        let died = shell("echo why >&2; kill -11 $$").ask("x").unwrap_err().0;
        assert!(died.contains("signal 11") && died.contains("why"), "{died}");
        let hung = shell("exec sleep 60").ask("x").unwrap_err().0;
        assert!(hung.contains("did not answer"), "{hung}");
        let left = shell("exit 3").ask("x").unwrap_err().0;
        assert!(left.contains("status 3"), "{left}");
        assert!(shell("echo PASS; sleep 60").ask("x").is_err());
    }

    #[test]
    fn an_answer_is_read_and_the_end_too() {
        let mut session = shell(r#"echo '{"name":"a","status":{"code":2}}'; echo "libvrocm[$$]: counter a calls=1 refused=1 failed=0" >&2; exit 5"#);
        assert_eq!(session.ask("a").unwrap().status, Status::Code(2));
        let ended = session.close();
        assert_eq!((ended.end, ended.counters.of("a").refused), (End::Exit(5), 1));
    }
}
