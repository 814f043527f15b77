//! The monitor beside processes that write as fast as they can. Workers are this program run again, so there is no test harness.
//!
//! Each worker moves bytes through the product's own ledger, counting calls as the shim does. The quota is so tight that two readings of different instants put
//! together exceed it sooner or later: a snapshot that calls itself consistent never may.

use std::ffi::{CStr, CString};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rocm_monitor::raw::Source;
use rocm_monitor::snapshot::{Snapshot, State, take};
use vrocm_core::card::CardId;
use vrocm_core::ledger::{Ledger, Process};
use vrocm_core::sys::private::Private;

const CARD: CardId = CardId::pci(0, 0xc3, 0, 0, 0);
const UNIT: u64 = 1 << 20;
const QUOTA: u64 = 4 * UNIT;
const PROGRAM: &str = env!("CARGO_BIN_EXE_rocm-monitor");

/// Gets a folder of its own.
type Test = fn(&Path);

static PROCESS: Private<Process> = Private::new();

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, path] = arguments.as_slice() {
        return worker(role, path);
    }
    let only = arguments.get(1).filter(|argument| !argument.starts_with('-'));
    let tests: [(&str, Test); 11] = [
        ("a_quota_that_changes_hands_is_never_seen_twice", handover),
        ("a_consistent_snapshot_never_mixes_two_instants", snapshots_under_load),
        ("passes_that_differ_are_not_called_consistent", single_passes_mix),
        ("reading_changes_nothing", reading_changes_nothing),
        ("a_killed_process_is_stale_until_it_is_swept", stale),
        ("another_pid_namespace_says_what_it_cannot_know", other_namespace),
        ("exit_statuses", statuses),
        ("the_default_path_is_the_shims", default_path),
        ("a_line_for_each_change_in_a_pipe", watch_in_a_pipe),
        ("a_terminal_is_redrawn", watch_on_a_terminal),
        ("what_prometheus_reads", prometheus),
    ];
    for (name, test) in tests.iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only.as_str()))) {
        let folder = tempfile::TempDir::new_in("/dev/shm").expect("a folder");
        test(folder.path());
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

fn attach(path: &str) -> Ledger {
    let path: &'static CStr = Box::leak(CString::new(path).expect("no NUL").into_boxed_c_str());
    PROCESS.get().expect("memory").attach(path).expect("a ledger")
}

fn worker(role: &str, path: &str) -> ExitCode {
    let ledger = attach(path);
    let card = ledger.card(CARD).expect("a card");
    if role == "hold" {
        ledger.reserve(card, 3 * UNIT, QUOTA, 0).expect("room");
        ledger.commit(card, 3 * UNIT);
        println!("ready");
        let _ = std::io::stdin().read(&mut [0]);
        return ExitCode::SUCCESS;
    }
    if role == "crowd" {
        // As many slots more as a block has, so that whoever comes next is in another block.
        let path: &'static CStr = Box::leak(CString::new(path).expect("no NUL").into_boxed_c_str());
        for _ in 0..63 {
            let process: &'static Private<Process> = Box::leak(Box::new(Private::new()));
            process.get().expect("memory").attach(path).expect("a slot");
        }
    }
    println!("ready");
    if role == "crowd" || role == "baton" {
        hand_over(ledger);
    }
    let mut size = 1;
    loop {
        ledger.counters(1).calls.fetch_add(1, Relaxed);
        if ledger.reserve(card, size * UNIT, QUOTA, 0).is_ok() {
            ledger.commit(card, size * UNIT);
            ledger.counters(2).calls.fetch_add(1, Relaxed);
            ledger.release(card, size * UNIT);
        }
        size = size % 4 + 1;
        // As long as a real call is away. Two cores, and the reader needs one of them now and then.
        if role == "slow" {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Takes all there is and gives it back, for ever.
fn hand_over(ledger: Ledger) -> ! {
    let card = ledger.card(CARD).expect("a card");
    loop {
        ledger.counters(1).calls.fetch_add(1, Relaxed);
        if ledger.reserve(card, QUOTA, QUOTA, 0).is_ok() {
            ledger.commit(card, QUOTA);
            std::thread::sleep(Duration::from_micros(500));
            ledger.counters(2).calls.fetch_add(1, Relaxed);
            ledger.release(card, QUOTA);
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(role: &str, path: &Path) -> Worker {
    let mut child = Command::new(std::env::current_exe().expect("a name"))
        .args([role.as_ref(), path.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a worker");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    Worker(child)
}

fn monitor(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).env_remove("VROCM_LEDGER_PATH").output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn c(path: &Path) -> CString {
    CString::new(path.to_str().expect("UTF-8")).expect("no NUL")
}

fn snapshot(path: &Path) -> Snapshot {
    take(&c(path)).expect("a ledger")
}

fn snapshots_under_load(folder: &Path) {
    let path = folder.join("ledger");
    let _workers: Vec<Worker> = ["fast", "slow", "slow", "slow"].map(|role| start(role, &path)).into();
    let (mut consistent, mut looks) = (0_u32, 0_u32);
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        let seen = snapshot(&path);
        looks += 1;
        assert_eq!(seen.processes.len(), 4);
        assert!(seen.processes.iter().all(|process| process.state == State::Alive));
        if seen.consistent {
            consistent += 1;
            assert!(seen.cards[0].used <= QUOTA, "a snapshot over the quota: {seen:?}");
        }
    }
    println!("{looks} snapshots, {consistent} of one instant");
    assert!(looks > 10 && consistent > 0, "{consistent} of {looks}");
}

/// Two processes hand the whole quota to and fro, and their words lie in two blocks of the file: a single pass sees it twice about every tenth time.
fn handover(folder: &Path) {
    let path = folder.join("ledger");
    let _workers: Vec<Worker> = ["crowd", "baton"].map(|role| start(role, &path)).into();
    let (mut consistent, mut looks) = (0_u32, 0_u32);
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        let seen = snapshot(&path);
        assert_eq!(seen.processes.len(), 65);
        looks += 1;
        consistent += u32::from(seen.consistent);
        assert!(!seen.consistent || seen.cards[0].used <= QUOTA, "the quota seen twice after {looks} looks");
    }
    println!("handed over: {looks} snapshots, {consistent} of one instant");
    assert!(consistent > 20, "{consistent} of {looks}");
}

/// The proof that the test above could fail: readings that differ between two passes do happen here.
fn single_passes_mix(folder: &Path) {
    let path = folder.join("ledger");
    let _workers: Vec<Worker> = ["fast", "fast"].map(|role| start(role, &path)).into();
    let source = Source::open(&c(&path)).expect("a ledger");
    let most = (0..2000).map(|_| source.read().expect("readable").passes).max();
    assert!(most > Some(2), "no pass ever differed from the one before: nothing was hammered");
}

fn reading_changes_nothing(folder: &Path) {
    let path = folder.join("ledger");
    let worker = start("hold", &path);
    let facts = || {
        let names: Vec<_> = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
        let meta = path.metadata().expect("a file");
        (names, std::fs::read(&path).expect("a file"), meta.modified().expect("a time"), meta.permissions())
    };
    let before = facts();
    for format in ["text", "json", "prometheus"] {
        assert!(monitor(&[path.to_str().expect("UTF-8"), "--format", format]).status.success());
    }
    assert!(before == facts(), "the monitor changed something");
    drop(worker);
}

fn stale(folder: &Path) {
    let path = folder.join("ledger");
    let worker = start("hold", &path);
    let seen = snapshot(&path);
    assert_eq!((seen.cards[0].used, seen.cards[0].free, seen.cards[0].quota, seen.cards[0].stale), (3 * UNIT, Some(UNIT), Some(QUOTA), 0));
    assert_eq!(seen.cards[0].card, "0000:c3:00.0");
    drop(worker);
    let seen = snapshot(&path);
    assert_eq!((seen.processes[0].state, seen.cards[0].stale, seen.cards[0].used), (State::Stale, 3 * UNIT, 3 * UNIT));
    let report = text(&monitor(&[path.to_str().expect("UTF-8")]).stdout);
    assert!(report.contains("STALE") && report.contains("3 MiB left by dead processes"), "{report}");
    assert!(!report.contains('\x1b'), "colour without a terminal");
    // Another process needs the room and takes it.
    let _other = start("hold", &path);
    let seen = snapshot(&path);
    assert_eq!((seen.processes.len(), seen.cards[0].stale, seen.cards[0].reclaimed), (1, 0, 3 * UNIT));
}

fn other_namespace(folder: &Path) {
    let path = folder.join("ledger");
    let _worker = start("hold", &path);
    let output = Command::new("unshare").args(["--user", "--pid", "--fork", PROGRAM]).arg(&path).output();
    match output {
        Ok(output) if output.status.success() => {
            let report = text(&output.stdout);
            assert!(report.contains("of pid namespace") && report.contains("mean nothing here"), "{report}");
            assert!(!report.contains("STALE"), "a live process taken for a dead one: {report}");
        }
        other => println!("not tested: a pid namespace cannot be made here ({other:?})"),
    }
    let here = text(&monitor(&[path.to_str().expect("UTF-8")]).stdout);
    assert!(!here.contains("pid namespace"), "{here}");
}

fn statuses(folder: &Path) {
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("written");
        path
    };
    let path = folder.join("ledger");
    drop(start("hold", &path));
    let good = std::fs::read(&path).expect("a file");
    let mut newer = good.clone();
    newer[8] += 1;
    let version = format!("version {}", newer[8]);
    let mut counts = good.clone();
    counts[64] = 0xff;
    for (path, status, says) in [
        (path, 0, ""),
        (folder.join("absent"), 1, "there is no ledger"),
        (folder.join("absent/deeper"), 1, "there is no ledger"),
        (folder.to_path_buf(), 2, "not a regular file"),
        (file("empty", b""), 2, "too few for a ledger"),
        (file("foreign", &[7; 100]), 2, "not a ledger"),
        (file("newer", &newer), 2, version.as_str()),
        (file("counts", &counts), 2, "damaged"),
        (file("cut", &good[..20_000]), 2, "too few"),
    ] {
        for format in ["text", "json", "prometheus"] {
            let output = monitor(&[path.to_str().expect("UTF-8"), "--format", format]);
            assert_eq!(output.status.code(), Some(status), "{}", path.display());
            let error = text(&output.stderr);
            assert!(error.contains(says) && error.lines().count() <= 1, "{error}");
            assert_eq!(output.stdout.is_empty(), status != 0);
        }
    }
    assert!(!folder.join("absent").exists(), "nothing is created");
    assert_eq!(monitor(&["--format", "prometheus", "--watch"]).status.code(), Some(2));
    assert_eq!(monitor(&["--interval", "0", "--watch"]).status.code(), Some(2));
    assert_eq!(monitor(&["a", "b"]).status.code(), Some(2));
}

/// Whatever is printed keeps to the published shape, and the shape is not empty.
fn holds_to_schema(json: &serde_json::Value) {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../../../docs/tools/rocm-monitor.schema.json")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = validator.iter_errors(json).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(!validator.is_valid(&serde_json::json!({ "schema_version": 1 })));
}

fn default_path(folder: &Path) {
    let path = folder.join("ledger");
    let worker = start("hold", &path);
    let run = |value: &str| Command::new(PROGRAM).arg("--json").env("VROCM_LEDGER_PATH", value).output().expect("it runs");
    let json: serde_json::Value = serde_json::from_slice(&run(path.to_str().expect("UTF-8")).stdout).expect("JSON");
    holds_to_schema(&json);
    assert_eq!(json["path"], path.to_str().expect("UTF-8"));
    assert_eq!((json["schema_version"].as_u64(), json["cards"][0]["used"].as_u64()), (Some(1), Some(3 * UNIT)));
    assert_eq!(json["processes"][0]["pid"].as_u64(), Some(u64::from(worker.0.id())));
    assert_eq!(json["processes"][0]["state"], "alive");
    assert_eq!(run(&"x".repeat(2000)).status.code(), Some(2), "a path that the shim cannot keep either");
    if !Path::new("/dev/shm/vrocm-ledger").exists() {
        let output = run("");
        assert!(output.status.code() == Some(1) && text(&output.stderr).contains("/dev/shm/vrocm-ledger"), "an empty value means the default");
    }
}

fn watch_in_a_pipe(folder: &Path) {
    let path = folder.join("ledger");
    let first = start("hold", &path);
    let mut child = Command::new(PROGRAM).args(["--watch", "--interval", "0.02"]).arg(&path).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map(|line| line.expect("a line"));
    let line = lines.next().expect("a line");
    assert!(line.contains("card 0000:c3:00.0: quota 4 MiB, used 3 MiB, free 1 MiB"), "{line}");
    let line = lines.next().expect("a line");
    assert!(
        line.contains(&format!("process {} (hammer", first.0.id())) && line.ends_with("new: holds 3 MiB of 0000:c3:00.0, 0 calls refused"),
        "{line}"
    );
    drop(first);
    assert!(lines.next().expect("a line").contains("stale 3 MiB"));
    assert!(lines.next().expect("a line").contains("stale: left 3 MiB"));
    std::fs::remove_file(&path).expect("removed");
    assert!(lines.next().expect("a line").contains("there is no ledger"));
    drop(lines);
    // The reader is gone: the next line ends the monitor, and that is no failure.
    let _second = start("hold", &path);
    assert_eq!(child.wait().expect("ended").code(), Some(0));
    let quiet = text(&monitor(&["--watch", "--count", "3", "--interval", "0.01", path.to_str().expect("UTF-8")]).stdout);
    assert_eq!(quiet.lines().count(), 2, "without a change there is no line: {quiet}");
}

/// A real terminal, as `script` of util-linux makes one.
fn watch_on_a_terminal(folder: &Path) {
    let path = folder.join("ledger");
    let _worker = start("hold", &path);
    let watch = |options: &str| {
        let command = format!("{PROGRAM} --watch --count 3 --interval 0.01 {options} {}", path.display());
        let done = Command::new("script").args(["-qec", &command, "/dev/null"]).env_remove("NO_COLOR").stdin(Stdio::null()).output();
        done.map(|done| (done.status.code(), text(&done.stdout)))
    };
    let Ok((status, shown)) = watch("") else {
        println!("not tested: the terminal; script (util-linux) is not installed");
        return;
    };
    // One picture a look, each on an emptied screen, whole, and in colour.
    let pictures: Vec<&str> = shown.split("\x1b[H\x1b[2J").skip(1).collect();
    assert_eq!((status, pictures.len()), (Some(0), 3), "{shown}");
    assert!(pictures.iter().all(|picture| picture.contains("0000:c3:00.0") && picture.contains("\x1b[")), "{shown}");
    // What a program reads is one object a line, there as in a pipe.
    let (_, lines) = watch("--format json").expect("as before");
    assert!(!lines.contains('\x1b') && lines.lines().all(|line| line.starts_with('{')), "{lines}");
}

fn prometheus(folder: &Path) {
    let path = folder.join("ledger");
    let _worker = start("hold", &path);
    let report = text(&monitor(&[path.to_str().expect("UTF-8"), "--format", "prometheus"]).stdout);
    assert!(report.contains("\nvrocm_card_quota_bytes{card=\"0000:c3:00.0\"} 4194304\n"), "{report}");
    assert!(report.contains("\nvrocm_card_used_bytes{card=\"0000:c3:00.0\"} 3145728\n"), "{report}");
    // The grammar: every sample belongs to the metric announced last, and ends in a number.
    let mut announced = String::new();
    for line in report.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a kind");
            assert!(["gauge", "counter"].contains(&kind) && (kind == "counter") == name.ends_with("_total"), "{line}");
            name.clone_into(&mut announced);
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(value.parse::<u64>().is_ok() && series.split('{').next() == Some(&announced), "{line}");
        }
    }
}
