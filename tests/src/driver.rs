//! Runs a driver under a mock and reads what it answers: `probes/driver.c`, which calls HIP under a runtime, or `probes/hsa.c`, which calls HSA directly.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::mock::{self, Mock};
use crate::runtime::Runtime;

/// How long a run may take before it is ended and counts as hanging.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// How the driver comes by an entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Linked.
    Direct,
    /// `dlsym` on a handle that was opened `RTLD_LOCAL`.
    Dlsym,
    /// `dlvsym` on such a handle, with `hip_4.2`.
    Dlvsym,
    /// `dlsym` on `RTLD_DEFAULT`, in a program that is linked.
    Default,
    /// `hipGetProcAddress`, itself found by `dlsym`.
    ProcAddress,
    /// `hipGetDriverEntryPoint`, itself found by `dlsym`.
    DriverEntryPoint,
    /// `hipGetDriverEntryPoint_spt`, likewise.
    DriverEntryPointSpt,
}

impl Way {
    /// The three that a user of HIP has.
    pub const COMMON: [Self; 3] = [Self::Direct, Self::Dlsym, Self::ProcAddress];

    fn option(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Dlsym => "dlsym",
            Self::Dlvsym => "dlvsym",
            Self::Default => "default",
            Self::ProcAddress => "proc",
            Self::DriverEntryPoint => "entry",
            Self::DriverEntryPointSpt => "entry_spt",
        }
    }

    /// Whether a runtime has this way at all.
    pub fn exists_in(self, runtime: &Runtime) -> bool {
        match self {
            Self::ProcAddress => runtime.is_at_least("6.4.3"),
            Self::DriverEntryPoint | Self::DriverEntryPointSpt => runtime.is_at_least("7.2.4"),
            _ => true,
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// HIP's own status: 0 success, 1 invalid value, 2 out of memory, 801 not supported, …; or HSA's: 0x1008 out of resources, …
    Code(i32),
    /// The way does not lead to the name.
    Absent,
    /// It needs something that no command made.
    Unused,
    /// A command of the driver that is not a call.
    Other,
}

/// One line of the driver's output.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The command's name.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// What else it said: `total`, `free`, `value`, `size`, …
    pub detail: BTreeMap<String, String>,
}

impl Answer {
    fn parse(line: &str) -> Self {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let status = match words.next() {
            Some("absent" | "unknown") => Status::Absent,
            Some("unused") => Status::Unused,
            Some(word) => word.parse().map_or(Status::Other, Status::Code),
            None => Status::Other,
        };
        let detail = words.filter_map(|word| word.split_once('=')).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Self { name, status, detail }
    }

    /// Whether it succeeded.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Code(0)
    }

    /// A number among the details.
    ///
    /// # Panics
    ///
    /// When there is no such detail, or it is no number.
    pub fn number(&self, key: &str) -> u64 {
        let value = self.detail.get(key).unwrap_or_else(|| panic!("{} says no {key}: {:?}", self.name, self.detail));
        value.parse().unwrap_or_else(|_| panic!("{}: {key}={value} is no number", self.name))
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It left with this status.
    Exit(i32),
    /// A signal ended it.
    Signal(i32),
    /// It had to be ended after [`PATIENCE`].
    Hang,
}

/// All of a finished run.
#[derive(Debug)]
pub struct Outcome {
    /// How the process ended.
    pub end: End,
    /// One for each line of standard output.
    pub answers: Vec<Answer>,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// The answers of one command, in order.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Answer> {
        self.answers.iter().filter(move |answer| answer.name == name)
    }

    /// The first answer of a command.
    ///
    /// # Panics
    ///
    /// When it did not answer, with all that is known of the run.
    pub fn first(&self, name: &str) -> &Answer {
        self.answers.iter().find(|answer| answer.name == name).unwrap_or_else(|| panic!("no answer of {name}: {self:?}"))
    }
}

/// A run that is being prepared.
pub struct Driver<'a> {
    runtime: Option<&'a Runtime>,
    mock: &'a Mock,
    way: Way,
    preload: Option<PathBuf>,
    environment: Vec<(String, String)>,
    options: Vec<String>,
    patience: Duration,
    alone: bool,
}

impl<'a> Driver<'a> {
    /// By `dlsym`, nothing preloaded.
    pub fn new(runtime: &'a Runtime, mock: &'a Mock) -> Self {
        Self {
            runtime: Some(runtime),
            mock,
            way: Way::Dlsym,
            preload: None,
            environment: Vec::new(),
            options: Vec::new(),
            patience: PATIENCE,
            alone: false,
        }
    }

    /// The driver that calls HSA directly, on the machine's own C library. Ways, options and other libraries do not apply to it.
    pub fn hsa(mock: &'a Mock) -> Self {
        Self { runtime: None, mock, way: Way::Direct, preload: None, environment: Vec::new(), options: Vec::new(), patience: PATIENCE, alone: false }
    }

    /// Under a stand-in for the runtime that has no HSA beneath (`probes/alone.c`), on the machine's own C library. The mock is its folder alone.
    pub fn alone(mock: &'a Mock) -> Self {
        let library = concat!("--lib=", env!("OUT_DIR"), "/alone/libamdhip64.so.7");
        Self { options: vec![library.to_owned()], alone: true, ..Self::hsa(mock) }.way(Way::Dlsym)
    }

    /// Another way to the entry points.
    #[must_use]
    pub fn way(mut self, way: Way) -> Self {
        self.way = way;
        self
    }

    /// Loads this library before everything else.
    #[must_use]
    pub fn preload(mut self, library: &Path) -> Self {
        self.preload = Some(library.to_owned());
        self
    }

    /// One more variable in the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &(impl ToString + ?Sized)) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// Another library for dlopen than the runtime's soname: its path, a renamed copy.
    #[must_use]
    pub fn library(mut self, name: &str) -> Self {
        self.options.push(format!("--lib={name}"));
        self
    }

    /// All commands so many times over.
    #[must_use]
    pub fn repeat(mut self, times: u32) -> Self {
        self.options.push(format!("--repeat={times}"));
        self
    }

    /// All commands in each of so many threads at once.
    #[must_use]
    pub fn threads(mut self, count: u32) -> Self {
        self.options.push(format!("--threads={count}"));
        self
    }

    /// Another limit than [`PATIENCE`].
    #[must_use]
    pub fn patience(mut self, limit: Duration) -> Self {
        self.patience = limit;
        self
    }

    fn command(&self) -> Command {
        let mut command = match self.runtime {
            Some(runtime) => self.hip_command(runtime),
            None if self.alone => self.alone_command(),
            None => self.hsa_command(),
        };
        command.envs(self.mock.environment()).envs(self.environment.iter().cloned());
        command.stderr(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    fn hip_command(&self, runtime: &Runtime) -> Command {
        let linked = matches!(self.way, Way::Direct | Way::Default);
        let program = if linked { runtime.linked_driver() } else { PathBuf::from(concat!(env!("OUT_DIR"), "/driver")) };
        let mut command = runtime.command(&program, self.preload.as_deref());
        command.arg(format!("--way={}", self.way.option()));
        command.arg(format!("--lib={}", runtime.soname));
        command.args(&self.options);
        command
    }

    fn alone_command(&self) -> Command {
        let mut command = Command::new(concat!(env!("OUT_DIR"), "/driver"));
        command.arg(format!("--way={}", self.way.option())).args(&self.options);
        if let Some(preload) = &self.preload {
            command.env("LD_PRELOAD", preload);
        }
        command
    }

    fn hsa_command(&self) -> Command {
        let mut command = Command::new(concat!(env!("OUT_DIR"), "/hsa"));
        command.env("LD_LIBRARY_PATH", mock::library_folder());
        if let Some(preload) = &self.preload {
            command.env("LD_PRELOAD", preload);
        }
        command
    }

    /// Runs the commands in a process of their own.
    ///
    /// # Panics
    ///
    /// When the process cannot be started.
    pub fn run<S: AsRef<str>>(&self, commands: &[S]) -> Outcome {
        let mut command = self.command();
        command.args(commands.iter().map(AsRef::as_ref)).stdin(Stdio::null());
        let mut child = command.spawn().expect("the driver starts");
        let stdout = collect(child.stdout.take().expect("a pipe"));
        let stderr = collect(child.stderr.take().expect("a pipe"));
        let end = wait(&mut child, self.patience);
        let text = stdout.join().unwrap_or_default();
        Outcome { end, answers: text.lines().map(Answer::parse).collect(), stderr: stderr.join().unwrap_or_default() }
    }

    /// Starts a process that takes one command after the other, so that a test can look at the mock in between.
    ///
    /// # Panics
    ///
    /// When the process cannot be started.
    pub fn start(&self) -> Session {
        let mut child = self.command().stdin(Stdio::piped()).spawn().expect("the driver starts");
        let stderr = collect(child.stderr.take().expect("a pipe"));
        let (input, lines) = (child.stdin.take().expect("a pipe"), lines(child.stdout.take().expect("a pipe")));
        Session { child, input: Some(input), lines, stderr: Some(stderr), patience: self.patience, answers: Vec::new() }
    }
}

/// A process that waits for commands.
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<thread::JoinHandle<String>>,
    patience: Duration,
    answers: Vec<Answer>,
}

impl Session {
    /// Gives a command and waits for its answer; `None` when the process ended or does not answer in time.
    pub fn ask(&mut self, command: &str) -> Option<Answer> {
        self.tell(command);
        let answer = match self.lines.recv_timeout(self.patience) {
            Ok(line) => Some(Answer::parse(&line)),
            Err(RecvTimeoutError::Disconnected) => None,
            // One that hangs is ended: whoever asks on is not kept waiting as long again.
            Err(RecvTimeoutError::Timeout) => {
                self.kill();
                None
            }
        };
        self.answers.extend(answer.clone());
        answer
    }

    /// Gives a command whose answer has to come and to be a success.
    ///
    /// # Panics
    /// If it does not or is none.
    pub fn must(&mut self, command: &str) -> Answer {
        let answer = self.ask(command);
        assert!(answer.as_ref().is_some_and(Answer::is_ok), "{command}: {answer:?}");
        answer.expect("it is there")
    }

    /// Gives a command whose answer has to come, whatever it is.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn status(&mut self, command: &str) -> Status {
        self.ask(command).unwrap_or_else(|| panic!("{command}: gone")).status
    }

    /// Gives a command and does not wait. The next answer that is asked for may be this one's.
    pub fn tell(&mut self, command: &str) {
        if let Some(input) = &mut self.input {
            // A process that is gone is noticed by whoever waits for the answer.
            let _ = writeln!(input, "{command}").and_then(|()| input.flush());
        }
    }

    /// The process, to be looked at or killed. With a loader of its own this is the same process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process by SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Lets the process end by itself and says how it did, with every answer it gave.
    pub fn close(mut self) -> Outcome {
        self.input = None;
        let end = wait(&mut self.child, self.patience);
        let mut answers = std::mem::take(&mut self.answers);
        answers.extend(self.lines.iter().map(|line| Answer::parse(&line)));
        let stderr = self.stderr.take().map(|reader| reader.join().unwrap_or_default()).unwrap_or_default();
        Outcome { end, answers, stderr }
    }
}

impl Drop for Session {
    /// A test that fails leaves no process behind.
    fn drop(&mut self) {
        self.input = None;
        self.kill();
    }
}

fn collect(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn lines(from: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn wait(child: &mut Child, patience: Duration) -> End {
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return end(status),
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return End::Hang;
            }
        }
    }
}

fn end(status: ExitStatus) -> End {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exit(code),
        (None, signal) => End::Signal(signal.unwrap_or_default()),
    }
}
