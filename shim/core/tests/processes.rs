//! The ledger under real processes: killed, forked, replaced by `exec`, robbed of their descriptors, in other namespaces, under
//! another user, on overlayfs, by the thousand.
//!
//! Run without arguments it runs all tests; arguments pick tests by name. A worker is this program again, and obeys one command
//! a line on standard input.

use std::ffi::{CString, c_int};
use std::io::{BufRead, BufReader, Write};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use vrocm_core::card::CardId;
use vrocm_core::ledger::layout::{self, Constants};
use vrocm_core::ledger::trouble::Trouble;
use vrocm_core::ledger::view::View;
use vrocm_core::ledger::{Ledger, Process};
use vrocm_core::quota::Source;
use vrocm_core::shim::{self, CardOf, Count, Memo, Refusal, Reserved};
use vrocm_core::sys::private::Private;
use vrocm_core::table::Key;

unsafe extern "C" {
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
    fn close(fd: c_int) -> c_int;
    fn setuid(uid: u32) -> c_int;
    fn umask(mask: u32) -> u32;
    fn signal(signal: c_int, action: usize) -> usize;
    fn geteuid() -> u32;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
}

const CARD: CardId = CardId::pci(0, 3, 0, 0, 0);
const QUOTA: u64 = 16;
const SIGKILL: c_int = 9;
const SIGSTOP: c_int = 19;
const SIGCONT: c_int = 18;

static PROCESS: Private<Process> = Private::new();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, rest @ ..] = arguments.as_slice() {
        match role.as_str() {
            "worker" => return worker(&rest[0]),
            "churn" => return churn(&rest[0], &rest[1], rest[2].parse().unwrap(), rest.get(3).is_some()),
            "facade" => return facade(),
            "broken-pipe" => return broken_pipe(),
            "on-overlay" => return on_overlay(Path::new(&rest[0])),
            _ => {}
        }
    }
    let mut failed = 0;
    for (name, test) in TESTS {
        if !arguments.is_empty() && !arguments.iter().any(|argument| name.contains(argument.as_str())) {
            continue;
        }
        let started = Instant::now();
        let done = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {} ({} ms)", if done { "ok" } else { "FAILED" }, started.elapsed().as_millis());
        failed += i32::from(!done);
    }
    println!("{failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

const TESTS: &[(&str, fn())] = &[
    ("a_killed_process_is_reclaimed", a_killed_process_is_reclaimed),
    ("a_stopped_process_keeps_what_it_holds", a_stopped_process_keeps_what_it_holds),
    ("a_zombie_holds_nothing", a_zombie_holds_nothing),
    ("a_child_holds_nothing_and_keeps_nothing", a_child_holds_nothing_and_keeps_nothing),
    ("exec_gives_everything_back", exec_gives_everything_back),
    ("closed_descriptors_change_nothing", closed_descriptors_change_nothing),
    ("another_user_shares_the_ledger", another_user_shares_the_ledger),
    ("another_pid_namespace_shares_the_ledger", another_pid_namespace_shares_the_ledger),
    ("another_container_is_refused", another_container_is_refused),
    ("overlayfs_keeps_a_descriptor", overlayfs_keeps_a_descriptor),
    ("foreign_files_are_never_modified", foreign_files_are_never_modified),
    ("many_makers_make_one_ledger", many_makers_make_one_ledger),
    ("thousands_of_short_processes_use_few_slots", thousands_of_short_processes_use_few_slots),
    ("slots_of_the_dead_are_not_added_up", slots_of_the_dead_are_not_added_up),
    ("more_slots_than_a_block", more_slots_than_a_block),
    ("a_full_table_is_swept_before_it_refuses", a_full_table_is_swept_before_it_refuses),
    ("a_limit_on_file_sizes_refuses_and_kills_nobody", a_limit_on_file_sizes_refuses_and_kills_nobody),
    ("requests_that_wrap_are_refused", requests_that_wrap_are_refused),
    ("the_monitor_sees_and_disturbs_nothing", the_monitor_sees_and_disturbs_nothing),
    ("room_for_all_is_given_to_all", room_for_all_is_given_to_all),
    ("the_calls_of_the_wrappers", the_calls_of_the_wrappers),
    ("a_broken_pipe_for_standard_error_kills_nobody", a_broken_pipe_for_standard_error_kills_nobody),
    ("killed_at_random", killed_at_random),
];

// ---- the worker -------------------------------------------------------------------------------------------------------------

fn ledger_at(path: &str) -> Result<Ledger, Trouble> {
    let path: &'static CString = Box::leak(Box::new(CString::new(path).unwrap()));
    PROCESS.get().ok_or(Trouble::NoMemory)?.attach(path)
}

fn take(path: &str, bytes: u64) -> String {
    let ledger = match ledger_at(path) {
        Ok(ledger) => ledger,
        Err(trouble) => return format!("{trouble:?}"),
    };
    let card = ledger.card(CARD).unwrap();
    match ledger.reserve(card, bytes, QUOTA, 0) {
        Ok(()) => {
            ledger.commit(card, bytes);
            "ok".to_owned()
        }
        Err(full) => format!("full {}", full.used),
    }
}

fn worker(path: &str) -> ExitCode {
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (command, number) = (words.next().unwrap(), words.next().map_or(0, |word| word.parse::<u64>().unwrap()));
        let answer = match command {
            "take" => take(path, number),
            "free" => {
                let ledger = ledger_at(path).unwrap();
                ledger.release(ledger.card(CARD).unwrap(), number);
                "ok".to_owned()
            }
            "used" => ledger_at(path).map(|ledger| ledger.used(ledger.card(CARD).unwrap()).to_string()).unwrap(),
            // Takes a quarter of the quota and frees it again, so many times; answers how often it was refused.
            "steady" => {
                let ledger = ledger_at(path).unwrap();
                let card = ledger.card(CARD).unwrap();
                let refused = (0..number).filter(|_| match ledger.reserve(card, QUOTA / 4, QUOTA, 0) {
                    Ok(()) => {
                        ledger.commit(card, QUOTA / 4);
                        ledger.release(card, QUOTA / 4);
                        false
                    }
                    Err(_) => true,
                });
                refused.count().to_string()
            }
            "slot" => ledger_at(path).unwrap().slot().to_string(),
            // SAFETY: the descriptors above 2 belong to nobody here.
            "close" => unsafe {
                (3..1024).for_each(|fd| _ = close(fd));
                // Whoever gets these numbers now is not the ledger.
                (0..64).for_each(|_| std::mem::forget(std::fs::File::open("/dev/null").unwrap()));
                "ok".to_owned()
            },
            // SAFETY: the child only waits, or takes and leaves, without returning from here.
            "fork" => unsafe {
                match fork() {
                    0 if number == 0 => {
                        // Long enough for the test; not for ever, should the test fail.
                        std::thread::sleep(Duration::from_secs(20));
                        _exit(0)
                    }
                    0 => {
                        let answer = take(path, number);
                        println!("{answer}");
                        _exit(i32::from(answer != "ok"))
                    }
                    child if number == 0 => child.to_string(),
                    child => {
                        let mut status = 0;
                        waitpid(child, &raw mut status, 0);
                        let signal = status & 0x7f;
                        if signal == 0 {
                            // The child has answered.
                            continue;
                        }
                        format!("the child died of signal {signal}")
                    }
                }
            },
            "exec" => {
                println!("ok");
                let error = std::os::unix::process::CommandExt::exec(Command::new("sleep").arg("100"));
                panic!("{error}");
            }
            // SAFETY: no memory is passed.
            "setuid" => unsafe { format!("{}", setuid(number as u32)) },
            // SAFETY: no memory is passed.
            "umask" => unsafe { format!("{}", umask(number as u32)) },
            other => panic!("{other}?"),
        };
        println!("{answer}");
    }
    ExitCode::SUCCESS
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Worker {
    fn new(path: &Path) -> Self {
        Self::behind(&[], path)
    }

    /// A worker started through another program.
    fn behind(prefix: &[&str], path: &Path) -> Self {
        let own = std::env::current_exe().unwrap();
        let mut words: Vec<&std::ffi::OsStr> = prefix.iter().map(std::ffi::OsStr::new).collect();
        words.extend([own.as_os_str(), "worker".as_ref(), path.as_os_str()]);
        let mut child = Command::new(words[0]).args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.stdin, "{command}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        answer.trim_end().to_owned()
    }

    fn signal(&self, signal: c_int) {
        // SAFETY: no memory is passed; the child is ours and not waited for yet.
        unsafe { kill(self.child.id() as c_int, signal) };
    }

    fn kill_and_wait(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until the answer comes: a process that was killed takes a moment to die.
fn until(command: &str, wanted: &str, worker: &mut Worker) {
    let started = Instant::now();
    loop {
        let answer = worker.ask(command);
        if answer == wanted {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "{command}: {answer}, wanted {wanted}");
    }
}

/// A folder of its own for a test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let root = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let folder = root.join(format!("vrocm-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&folder, open).unwrap();
        Self(folder)
    }

    fn ledger(&self) -> PathBuf {
        self.0.join("ledger")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

// ---- one kind each ----------------------------------------------------------------------------------------------------------

fn a_killed_process_is_reclaimed() {
    let folder = Folder::new("killed");
    let (mut first, mut second) = (Worker::new(&folder.ledger()), Worker::new(&folder.ledger()));
    assert_eq!(first.ask("take 12"), "ok");
    assert_eq!(second.ask("take 12"), "full 12");
    assert_eq!(second.ask("used"), "12");
    first.kill_and_wait();
    assert_eq!(second.ask("used"), "0", "asking is enough to see it");
    assert_eq!(second.ask("take 16"), "ok");
}

fn a_stopped_process_keeps_what_it_holds() {
    let folder = Folder::new("stopped");
    let (mut first, mut second) = (Worker::new(&folder.ledger()), Worker::new(&folder.ledger()));
    assert_eq!(first.ask("take 12"), "ok");
    first.signal(SIGSTOP);
    assert_eq!(second.ask("take 12"), "full 12");
    assert_eq!(second.ask("take 4"), "ok");
    first.signal(SIGCONT);
    assert_eq!(first.ask("used"), "16");
}

fn a_zombie_holds_nothing() {
    let folder = Folder::new("zombie");
    let (mut first, mut second) = (Worker::new(&folder.ledger()), Worker::new(&folder.ledger()));
    assert_eq!(first.ask("take 12"), "ok");
    first.signal(SIGKILL);
    // Not waited for: until the end of this test it is a zombie.
    until("used", "0", &mut second);
    assert_eq!(second.ask("take 16"), "ok");
}

fn a_child_holds_nothing_and_keeps_nothing() {
    let folder = Folder::new("child");
    let (mut first, mut second) = (Worker::new(&folder.ledger()), Worker::new(&folder.ledger()));
    assert_eq!(first.ask("take 8"), "ok");
    assert_eq!(first.ask("fork 8"), "ok", "a child has a slot of its own and may take the rest");
    // It answers when its child has ended.
    first.ask("slot");
    assert_eq!(second.ask("used"), "8", "the child has ended, and the parent's charge is untouched");
    assert_eq!(first.ask("fork 9"), "full 8");
    let child: c_int = first.ask("fork").parse().unwrap();
    first.kill_and_wait();
    assert_eq!(second.ask("used"), "0", "a child that lives on does not keep its dead parent's charge");
    // SAFETY: no memory is passed; the child is the worker's and only sleeps.
    unsafe { kill(child, SIGKILL) };
}

fn exec_gives_everything_back() {
    let folder = Folder::new("exec");
    let (mut first, mut second) = (Worker::new(&folder.ledger()), Worker::new(&folder.ledger()));
    assert_eq!(first.ask("take 12"), "ok");
    assert_eq!(first.ask("exec"), "ok");
    until("used", "0", &mut second);
    assert!(first.child.try_wait().unwrap().is_none(), "the new program lives");
}

fn closed_descriptors_change_nothing() {
    let folder = Folder::new("closed");
    let (mut first, mut second) = (Worker::new(&folder.ledger()), Worker::new(&folder.ledger()));
    assert_eq!(first.ask("take 4"), "ok");
    assert_eq!(first.ask("close"), "ok");
    assert_eq!(second.ask("take 13"), "full 4");
    assert_eq!(second.ask("take 12"), "ok");
    assert_eq!(first.ask("close"), "ok");
    assert_eq!(first.ask("take 1"), "full 16");
    second.kill_and_wait();
    assert_eq!(first.ask("take 12"), "ok", "it can still sweep");
}

fn as_root(what: &str) -> bool {
    // SAFETY: no memory is passed.
    let root = unsafe { geteuid() } == 0;
    assert!(root || std::env::var_os("VROCM_NOT_ROOT").is_some(), "{what} needs root; set VROCM_NOT_ROOT=1 to go without");
    root
}

fn another_user_shares_the_ledger() {
    if !as_root("another user") {
        return;
    }
    let folder = Folder::new("user");
    let (mut first, mut second) = (Worker::new(&folder.ledger()), Worker::new(&folder.ledger()));
    first.ask("umask 63");
    assert_eq!(first.ask("take 8"), "ok");
    assert_eq!(second.ask("setuid 65534"), "0");
    assert_eq!(second.ask("take 9"), "full 8");
    assert_eq!(second.ask("take 8"), "ok");
    first.kill_and_wait();
    assert_eq!(second.ask("take 8"), "ok", "it sweeps what another user's process left");
}

fn another_pid_namespace_shares_the_ledger() {
    if !as_root("another pid namespace") {
        return;
    }
    let folder = Folder::new("pidns");
    let mut outer = Worker::new(&folder.ledger());
    for unshare in [&["unshare", "--pid", "--fork", "--kill-child"][..], &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"][..]] {
        let mut inner = Worker::behind(unshare, &folder.ledger());
        assert_eq!(inner.ask("take 8"), "ok");
        assert_eq!(outer.ask("take 9"), "full 8", "nobody here has the pid, and it is alive");
        assert_eq!(outer.ask("take 8"), "ok");
        assert_eq!(inner.ask("take 1"), "full 16");
        // What is killed here is `unshare`; the worker follows.
        inner.kill_and_wait();
        until("used", "8", &mut outer);
        assert_eq!(outer.ask("take 8"), "ok");
        assert_eq!(outer.ask("free 16"), "ok");
    }
}

fn another_container_is_refused() {
    if !as_root("another container") {
        return;
    }
    let folder = Folder::new("container");
    let mut first = Worker::new(&folder.ledger());
    assert_eq!(first.ask("take 8"), "ok");
    let mut stranger = Worker::behind(&["unshare", "--mount", "--cgroup", "--pid", "--fork", "--kill-child"], &folder.ledger());
    assert_eq!(stranger.ask("take 1"), "OtherContainer");
    assert_eq!(first.ask("take 8"), "ok");
    first.kill_and_wait();
    until("take 16", "ok", &mut stranger);
    assert_eq!(Worker::new(&folder.ledger()).ask("take 1"), "OtherContainer");
    stranger.kill_and_wait();
}

fn overlayfs_keeps_a_descriptor() {
    if !as_root("overlayfs") {
        return;
    }
    let folder = Folder::new("overlay");
    let script = "cd \"$1\" && mkdir l u w m && mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w m && exec \"$0\" on-overlay \"$1/m\"";
    let own = std::env::current_exe().unwrap();
    let status = Command::new("unshare").args(["--mount", "sh", "-c", script]).arg(&own).arg(&folder.0).status().unwrap();
    assert!(status.success());
}

fn on_overlay(folder: &Path) -> ExitCode {
    let path = folder.join("ledger");
    let (mut first, mut second) = (Worker::new(&path), Worker::new(&path));
    assert_eq!(first.ask("take 12"), "ok");
    assert_eq!(second.ask("take 12"), "full 12");
    let view = View::open(&c_path(&path)).unwrap();
    assert!(view.slots().all(|slot| slot.by_descriptor && slot.alive), "the slot says what keeps it");
    assert_eq!(first.ask("close"), "ok");
    assert_eq!(second.ask("take 12"), "full 12", "its descriptor is closed, and it is alive");
    assert_eq!(first.ask("fork 5"), "full 12");
    assert_eq!(first.ask("fork 4"), "ok");
    let child: c_int = first.ask("fork").parse().unwrap();
    first.kill_and_wait();
    let after = second.ask("take 12");
    // SAFETY: no memory is passed; the child only sleeps.
    unsafe { kill(child, SIGKILL) };
    if after != "ok" {
        // The child may have had a copy of the descriptor; with the child gone nothing keeps the charge.
        until("take 12", "ok", &mut second);
    }
    ExitCode::SUCCESS
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn foreign_files_are_never_modified() {
    let folder = Folder::new("foreign");
    let good = Constants::of_this_version().to_bytes();
    let mut newer = good.to_vec();
    newer[8] = layout::VERSION as u8 + 1;
    newer.resize(900_000, 7);
    let mut short = good.to_vec();
    short.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    let mut counts = good.to_vec();
    counts.extend([255; 8]);
    counts.resize(layout::size(1), 0);
    // All is well but one field of the first line.
    let changed = |offset: usize| {
        let mut bytes = good.to_vec();
        bytes[offset] ^= 1;
        bytes.extend([0, 0, 0, 0, 1, 0, 0, 0]);
        bytes.resize(layout::size(1), 0);
        bytes
    };
    let (geometry, reserved) = (changed(16), changed(44));
    let random: Vec<u8> = (0..65536_u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, bytes, wanted) in [
        ("empty", vec![], "Short(0)"),
        ("three bytes", b"abc".to_vec(), "Short(3)"),
        ("63 bytes", good[..63].to_vec(), "Short(63)"),
        ("header only", good.to_vec(), "Short(64)"),
        ("shorter than it says", short, "Short(72)"),
        ("random", random, "Foreign"),
        ("zeros", vec![0; 900_000], "Foreign"),
        ("newer", newer, "Version(3)"),
        ("impossible counts", counts, "Damaged"),
        ("another geometry", geometry, "Damaged"),
        ("reserved words in use", reserved, "Damaged"),
    ] {
        std::fs::write(folder.ledger(), &bytes).unwrap();
        let before = std::fs::metadata(folder.ledger()).unwrap();
        assert_eq!(Worker::new(&folder.ledger()).ask("take 1"), wanted, "{name}");
        assert_eq!(std::fs::read(folder.ledger()).unwrap(), bytes, "{name}");
        let after = std::fs::metadata(folder.ledger()).unwrap();
        assert_eq!((before.modified().unwrap(), before.len()), (after.modified().unwrap(), after.len()), "{name}");
        std::fs::remove_file(folder.ledger()).unwrap();
    }
    std::fs::create_dir(folder.ledger()).unwrap();
    assert_eq!(Worker::new(&folder.ledger()).ask("take 1"), "NotAFile");
    std::fs::remove_dir(folder.ledger()).unwrap();
    assert!(Command::new("mkfifo").arg(folder.ledger()).status().unwrap().success());
    assert_eq!(Worker::new(&folder.ledger()).ask("take 1"), "NotAFile");
    std::fs::remove_file(folder.ledger()).unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.ledger()).unwrap();
    assert_eq!(Worker::new(&folder.ledger()).ask("take 1"), "NotAFile");
    assert_eq!(Worker::new(Path::new("/no/such/folder/ledger")).ask("take 1"), "Create(Errno(2))");
}

fn many_makers_make_one_ledger() {
    let folder = Folder::new("makers");
    for _ in 0..40 {
        let mut workers: Vec<Worker> = (0..8).map(|_| Worker::new(&folder.ledger())).collect();
        for worker in &mut workers {
            writeln!(worker.stdin, "take 4").unwrap();
        }
        let mut granted = 0;
        for worker in &mut workers {
            let mut answer = String::new();
            worker.stdout.read_line(&mut answer).unwrap();
            granted += u32::from(answer == "ok\n");
        }
        assert_eq!(granted, 4, "16 units in pieces of 4");
        let left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["ledger"], "nothing is left of the making");
        drop(workers);
        std::fs::remove_file(folder.ledger()).unwrap();
    }
}

fn thousands_of_short_processes_use_few_slots() {
    let folder = Folder::new("short");
    let mut keeper = Worker::new(&folder.ledger());
    assert_eq!(keeper.ask("take 1"), "ok");
    for _ in 0..2000 {
        // SAFETY: the child leaves by _exit, without unwinding into this program.
        let child = unsafe { fork() };
        if child == 0 {
            let path = folder.ledger();
            let answer = take(path.to_str().unwrap(), 8);
            // SAFETY: ends the child.
            unsafe { _exit(i32::from(answer != "ok")) };
        }
        let mut status = 0;
        // SAFETY: our child.
        unsafe { waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0, "each finds room, though none has freed anything");
    }
    let view = View::open(&c_path(&folder.ledger())).unwrap();
    assert!(view.slots().count() <= 2, "{}", view.slots().count());
    assert_eq!(keeper.ask("used"), "1");
}

fn slots_of_the_dead_are_not_added_up() {
    let folder = Folder::new("high");
    let mut workers: Vec<Worker> = (0..6).map(|_| Worker::new(&folder.ledger())).collect();
    for (slot, worker) in workers.iter_mut().enumerate() {
        assert_eq!((worker.ask("take 1"), worker.ask("slot")), ("ok".into(), slot.to_string()));
    }
    let mut keeper = workers.remove(0);
    workers.into_iter().for_each(Worker::kill_and_wait);
    assert_eq!(keeper.ask("used"), "1");
    let mut last = Worker::new(&folder.ledger());
    assert_eq!((last.ask("take 1"), last.ask("slot")), ("ok".into(), "1".into()));
    assert_eq!(View::open(&c_path(&folder.ledger())).unwrap().added_up(), 2);
}

fn more_slots_than_a_block() {
    let folder = Folder::new("blocks");
    let path: &'static CString = Box::leak(Box::new(c_path(&folder.ledger())));
    let mut slots = Vec::new();
    for _ in 0..150 {
        let process: &'static Private<Process> = Box::leak(Box::new(Private::new()));
        let ledger = process.get().unwrap().attach(path).unwrap();
        let card = ledger.card(CARD).unwrap();
        ledger.reserve(card, 1, 150, 0).unwrap();
        ledger.commit(card, 1);
        slots.push(ledger);
    }
    assert!(slots.iter().enumerate().all(|(index, ledger)| ledger.slot() == index));
    let card = slots[0].card(CARD).unwrap();
    assert_eq!(slots[149].used(card), 150);
    assert!(slots[3].reserve(card, 1, 150, 0).is_err());
    slots[100].release(card, 1);
    slots[3].reserve(card, 1, 150, 0).unwrap();
    assert_eq!(std::fs::metadata(folder.ledger()).unwrap().len(), layout::size(3) as u64);
}

fn a_full_table_is_swept_before_it_refuses() {
    let folder = Folder::new("full");
    let mut first = Worker::new(&folder.ledger());
    assert_eq!(first.ask("take 1"), "ok");
    first.kill_and_wait();
    // A ledger as 4096 processes leave it, of which one held the whole quota.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(folder.ledger()).unwrap();
    file.set_len(layout::size(layout::BLOCKS) as u64).unwrap();
    let write = |offset: usize, value: u32| file.write_at(&value.to_le_bytes(), offset as u64).unwrap();
    let slots = layout::BLOCKS * layout::SLOTS_PER_BLOCK;
    let slot_offset = |slot: usize| layout::BASE + slot / 64 * size_of::<layout::Block>() + slot % 64 * size_of::<layout::SlotRecord>();
    let held_offset = |slot: usize| layout::BASE + slot / 64 * size_of::<layout::Block>() + offset_of!(layout::Block, cells) + slot % 64 * 64 + 8;
    write(64, slots as u32);
    write(68, layout::BLOCKS as u32);
    (0..slots).for_each(|slot| _ = write(slot_offset(slot), layout::TAKEN));
    write(held_offset(4000), QUOTA as u32);
    // All alive: this process holds all their locks.
    let mut lock = Flock { kind: 1, whence: 0, start: layout::lock::slot(0) as i64, length: slots as i64, pid: 0 };
    // SAFETY: F_OFD_SETLK with a `struct flock`.
    assert_eq!(unsafe { fcntl(file.as_raw_fd(), 37, &raw mut lock) }, 0);
    assert_eq!(Worker::new(&folder.ledger()).ask("take 1"), "Full");
    drop(file);
    // All dead.
    let mut last = Worker::new(&folder.ledger());
    assert_eq!((last.ask("take 16"), last.ask("slot")), ("ok".into(), "0".into()));
    Worker::new(&folder.ledger()).ask("take 1");
    assert!(View::open(&c_path(&folder.ledger())).unwrap().added_up() <= slots);
}

fn a_limit_on_file_sizes_refuses_and_kills_nobody() {
    let folder = Folder::new("fsize");
    let limited = ["sh", "-c", "ulimit -f 100 && exec \"$0\" \"$@\""];
    assert_eq!(Worker::behind(&limited, &folder.ledger()).ask("take 1"), "Create(Errno(27))");
    assert!(!folder.ledger().exists());
    assert_eq!(Worker::new(&folder.ledger()).ask("take 1"), "ok");
    assert_eq!(Worker::behind(&limited, &folder.ledger()).ask("take 1"), "Create(Errno(27))");
}

fn requests_that_wrap_are_refused() {
    let folder = Folder::new("wrap");
    let mut first = Worker::new(&folder.ledger());
    assert_eq!(first.ask("take 8"), "ok");
    for bytes in [u64::MAX, u64::MAX - 7, u64::MAX - 8, 1 << 63] {
        assert_eq!(first.ask(&format!("take {bytes}")), "full 8", "{bytes}");
        assert_eq!(Worker::new(&folder.ledger()).ask(&format!("take {bytes}")), "full 8", "{bytes}");
    }
    assert_eq!(first.ask("take 8"), "ok");
}

fn the_monitor_sees_and_disturbs_nothing() {
    let folder = Folder::new("monitor");
    let path = c_path(&folder.ledger());
    assert!(matches!(View::open(&path), Err(Trouble::Open(_))) && !folder.ledger().exists(), "watching does not make a ledger");
    let (mut first, mut second) = (Worker::new(&folder.ledger()), Worker::new(&folder.ledger()));
    assert_eq!((first.ask("take 5"), second.ask("take 7"), second.ask("take 7")), ("ok".into(), "ok".into(), "full 12".into()));
    let view = View::open(&path).unwrap();
    let cards: Vec<_> = view.cards().collect();
    assert_eq!((cards.len(), cards[0].id, cards[0].quota, cards[0].refusals), (1, CARD, QUOTA, 1));
    let slots: Vec<_> = view.slots().collect();
    let pids: Vec<_> = slots.iter().map(|slot| slot.identity.pid).collect();
    assert_eq!(pids, [first.child.id(), second.child.id()]);
    assert!(slots.iter().all(|slot| slot.alive && slot.identity.name.starts_with(b"processes")));
    assert_eq!((view.cell(0, 0).held, view.cell(0, 1).held, view.cell(0, 0).flight), (5, 7, 0));
    first.kill_and_wait();
    let alive: Vec<_> = view.slots().map(|slot| slot.alive).collect();
    assert_eq!(alive, [false, true], "dead, and not reclaimed by looking");
    assert_eq!(view.cell(0, 0).held, 5);
    assert_eq!(second.ask("used"), "7");
}

fn room_for_all_is_given_to_all() {
    let folder = Folder::new("steady");
    // Four that want a quarter each: there is room at every moment, and their bids are in each other's way all the time.
    let mut workers: Vec<Worker> = (0..4).map(|_| Worker::new(&folder.ledger())).collect();
    for worker in &mut workers {
        writeln!(worker.stdin, "steady 2000000").unwrap();
    }
    for worker in &mut workers {
        let mut answer = String::new();
        worker.stdout.read_line(&mut answer).unwrap();
        assert_eq!(answer, "0\n", "refused");
    }
}

// ---- the calls that wrappers are made of ------------------------------------------------------------------------------------

fn the_calls_of_the_wrappers() {
    let folder = Folder::new("facade");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("facade").env("VROCM_LEDGER_PATH", folder.ledger()).env("VROCM_DEVICE_MEMORY_LIMIT_0000_03_00_0", "16");
    let output = command.env("VROCM_DEVICE_MEMORY_LIMIT_1", "x").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let pid = said.split(['[', ']']).nth(1).unwrap().to_owned();
    let wanted = [
        "refused 1 B of card 0000:13:00.0: VROCM_DEVICE_MEMORY_LIMIT_1 is not a number of MiB above 0",
        "refused 1 B of card 0000:23:00.0: no VROCM_DEVICE_MEMORY_LIMIT gives it a quota",
        "refused 5 MiB of card 0000:03:00.0: 12 MiB of its quota of 16 MiB in use",
        "refused 1 MiB of card 0000:03:00.0: 16 MiB of its quota of 16 MiB in use",
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), wanted.map(|line| format!("libvrocm[{pid}]: {line}")));
}

fn a_broken_pipe_for_standard_error_kills_nobody() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(std::env::current_exe().unwrap()).arg("broken-pipe").stderr(writer).status().unwrap();
    assert!(status.success(), "{status}");
}

fn broken_pipe() -> ExitCode {
    const SIGPIPE: c_int = 13;
    // SAFETY: back to the default action, as in a C program: death.
    unsafe { signal(SIGPIPE, 0) };
    let card = CardOf { ids: &[CARD], position: None, memo: &Memo::new() };
    let refused = (0..3).all(|_| shim::reserve(&card, 1, 0).is_err());
    shim::start();
    if refused { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn facade() -> ExitCode {
    const MIB: u64 = 1 << 20;
    shim::start();
    let ids = [[CARD], [CardId::pci(0, 0x13, 0, 0, 0)], [CardId::pci(0, 0x23, 0, 0, 0)]];
    let memos = [const { Memo::new() }; 3];
    let card = |index: usize| CardOf { ids: &ids[index], position: Some(index), memo: &memos[index] };
    let key = |value: u64| Key::new(1, value << 12);
    shim::count_call(7);
    assert_eq!(shim::reserve(&card(1), 1, 0).err(), Some(Refusal::BadFigure(Some(Source::Position(1)))));
    assert_eq!(shim::reserve(&card(2), 1, 0).err(), Some(Refusal::NoFigure));
    assert_eq!(shim::reserve(&card(2), 1, 0).err(), Some(Refusal::NoFigure), "said once");
    let room = || shim::room(&card(0), 32 * MIB, 31 * MIB);
    assert_eq!(room(), (16 * MIB, 16 * MIB));
    assert_eq!((shim::room(&card(0), 8 * MIB, 7 * MIB), shim::room(&card(2), 8, 7)), ((8 * MIB, 7 * MIB), (8, 0)));
    // More reserved than the driver took: the rest is back. Less: it is charged all the same.
    shim::reserve(&card(0), 8 * MIB, 0).unwrap().commit(key(1), 1, 4 * MIB);
    shim::reserve(&card(0), 7 * MIB, 0).unwrap().commit(key(2), 1, 8 * MIB);
    assert_eq!(room().1, 4 * MIB);
    assert_eq!(shim::reserve(&card(0), 5 * MIB, 0).err(), Some(Refusal::Full { used: 12 * MIB, quota: 16 * MIB }));
    shim::reserve(&card(0), 4 * MIB, 0).unwrap().cancel();
    assert_eq!(room().1, 4 * MIB);
    // A call in flight elsewhere may give its bytes back: it is waited for. One's own outer call cannot: it is not.
    let outer = shim::reserve(&card(0), 4 * MIB, 0).unwrap();
    let started = Instant::now();
    assert!(shim::reserve(&card(0), MIB, 4 * MIB).is_err() && started.elapsed() < Duration::from_millis(60));
    let inner = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            outer.cancel();
        });
        shim::reserve(&card(0), MIB, 0).unwrap()
    });
    inner.cancel();
    assert_eq!(room().1, 4 * MIB);
    // Handed down in parts.
    let mut whole = shim::reserve(&card(0), 3 * MIB, 0).unwrap();
    let part = whole.split(MIB);
    let (index, bytes) = whole.into_parts();
    let mut whole = Reserved::from_parts(index, bytes).unwrap();
    whole.join(part);
    assert_eq!(whole.bytes(), 3 * MIB);
    whole.commit(key(3), 2, 3 * MIB);
    assert_eq!(room().1, MIB);
    // A free that the driver refuses, and one that it does; a key that is not there; an address used again.
    shim::claim(key(3)).unwrap().restore();
    assert_eq!(room().1, MIB);
    shim::claim(key(3)).unwrap().release();
    assert!(shim::claim(key(3)).is_none() && shim::claim(key(99)).is_none());
    assert_eq!(room().1, 4 * MIB);
    shim::reserve(&card(0), 2 * MIB, 0).unwrap().commit(key(1), 1, 2 * MIB);
    assert_eq!(room().1, 6 * MIB, "what was at the address before is refunded");
    // References and uses.
    for (refs, uses) in [(1, 0), (-1, 1), (-1, 0)] {
        assert!(matches!(shim::count(key(2), refs, uses), Count::Kept));
    }
    // What the driver refuses is counted back, also from nothing.
    for (refs, uses) in [(1, 0), (0, -1)] {
        let counted = shim::count(key(2), refs, uses);
        shim::uncount(counted, key(2), refs, uses);
        assert_eq!(shim::find(key(2)).map(|entry| (entry.refs, entry.uses)), Some((0, 1)));
    }
    shim::drop_claim(shim::count(key(2), 0, -1));
    assert_eq!(room().1, 14 * MIB);
    shim::release_all(|entry| entry.kind == 1);
    assert_eq!(room().1, 16 * MIB);
    shim::count_call(7);
    shim::count_refusal(7);
    shim::count_failure(7);
    assert_eq!(shim::counts(7), (2, 1, 1));
    ExitCode::SUCCESS
}

// ---- at random --------------------------------------------------------------------------------------------------------------

/// Kills churning workers for some seconds. Each worker also forks, executes itself anew and closes descriptors.
fn killed_at_random() {
    let seconds = std::env::var("VROCM_CHURN_SECONDS").map_or(5, |seconds| seconds.parse().unwrap());
    let folder = Folder::new("random");
    let vram = folder.0.join("vram");
    std::fs::write(&vram, vec![0; QUOTA as usize]).unwrap();
    let own = std::env::current_exe().unwrap();
    let mut seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    let mut start = |number: u64| Command::new(&own).arg("churn").arg(folder.ledger()).arg(&vram).arg(number.to_string()).spawn().unwrap();
    let mut workers: Vec<Child> = (0..6).map(&mut start).collect();
    let (end, mut killed) = (Instant::now() + Duration::from_secs(seconds), 0);
    while Instant::now() < end {
        std::thread::sleep(Duration::from_micros(next() % 6000));
        let victim = (next() % 6) as usize;
        if let Some(status) = workers[victim].try_wait().unwrap() {
            panic!("a worker ended with {status}");
        }
        workers[victim].kill().unwrap();
        workers[victim].wait().unwrap();
        killed += 1;
        workers[victim] = start(next());
    }
    for worker in &mut workers {
        assert!(worker.try_wait().unwrap().is_none(), "a worker ended");
        worker.kill().unwrap();
        worker.wait().unwrap();
    }
    println!("killed {killed}");
    // Children of workers that were killed may live for a moment.
    let mut last = Worker::new(&folder.ledger());
    until("take 16", "ok", &mut last);
}

/// Takes and frees at random. The independent record is the file `vram`: as many bytes as the quota has units, and a process owns
/// the bytes that it has a record lock on. The kernel drops these at death, like the driver its memory. A unit that was admitted
/// and cannot be locked means that more was admitted than there is.
fn churn(path: &str, vram: &str, mut seed: u64, is_child: bool) -> ExitCode {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(vram).unwrap();
    let mut owned: Vec<Vec<i64>> = Vec::new();
    let ledger = ledger_at(path).unwrap();
    let card = ledger.card(CARD).unwrap();
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    for round in 0.. {
        if is_child && round == 40 {
            break;
        }
        match next() % 64 {
            0 => {
                // A child is a process of its own, with nothing held.
                // SAFETY: the child executes this program anew, or leaves.
                let child = unsafe { fork() };
                if child == 0 {
                    let seed = next().to_string();
                    let own = std::env::current_exe().unwrap();
                    let error = if seed.ends_with('1') {
                        std::os::unix::process::CommandExt::exec(Command::new(own).args(["churn", path, vram, &seed, "child"]))
                    } else {
                        let code = churn(path, vram, next(), true);
                        // SAFETY: ends the child.
                        unsafe { _exit(i32::from(code != ExitCode::SUCCESS)) }
                    };
                    panic!("{error}");
                }
                let mut status = 0;
                // SAFETY: our child.
                unsafe { waitpid(child, &raw mut status, 0) };
                if status != 0 {
                    eprintln!("the child failed with {status:#x}");
                    return ExitCode::FAILURE;
                }
            }
            1 => {
                // SAFETY: only the record's descriptor and the standard ones are needed.
                (3..64).filter(|&fd| fd != file.as_raw_fd()).for_each(|fd| unsafe { _ = close(fd) });
            }
            2 if !is_child => {
                let seed = next().to_string();
                let error =
                    std::os::unix::process::CommandExt::exec(Command::new(std::env::current_exe().unwrap()).args(["churn", path, vram, &seed]));
                panic!("{error}");
            }
            number if number % 2 == 0 => {
                let bytes = 1 + next() % 6;
                if ledger.reserve(card, bytes, QUOTA, 0).is_err() {
                    continue;
                }
                if next() % 8 == 0 {
                    ledger.cancel(card, bytes);
                    continue;
                }
                let Some(units) = lock_units(&file, bytes, &owned) else {
                    eprintln!("{bytes} units were admitted and are not there");
                    return ExitCode::FAILURE;
                };
                owned.push(units);
                ledger.commit(card, bytes);
            }
            _ => {
                if owned.is_empty() {
                    continue;
                }
                let units = owned.swap_remove(next() as usize % owned.len());
                for &unit in &units {
                    lock_unit(&file, unit, 2);
                }
                ledger.release(card, units.len() as u64);
            }
        }
    }
    ExitCode::SUCCESS
}

/// `struct flock` of a 64-bit libc.
#[repr(C)]
struct Flock {
    kind: i16,
    whence: i16,
    start: i64,
    length: i64,
    pid: i32,
}

fn lock_unit(file: &std::fs::File, unit: i64, kind: i16) -> bool {
    let mut lock = Flock { kind, whence: 0, start: unit, length: 1, pid: 0 };
    // SAFETY: F_SETLK with a `struct flock`.
    unsafe { fcntl(file.as_raw_fd(), 6, &raw mut lock) == 0 }
}

/// Locks so many free units. A killed process loses the ledger's lock a moment before its record locks: that is waited for.
fn lock_units(file: &std::fs::File, count: u64, owned: &[Vec<i64>]) -> Option<Vec<i64>> {
    let mut units = Vec::new();
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        for unit in 0..QUOTA as i64 {
            if units.len() as u64 == count {
                return Some(units);
            }
            if !units.contains(&unit) && !owned.iter().any(|held| held.contains(&unit)) && lock_unit(file, unit, 1) {
                units.push(unit);
            }
        }
        if units.len() as u64 == count {
            return Some(units);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    None
}
