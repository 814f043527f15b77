//! What the ledger costs: `cargo bench -p vrocm-core` prints a table. The least and the median of 11 runs.
//!
//! A pair is reserve + commit + release, with room for all. "Processes" are real ones, started at the same moment.

// Nanoseconds of a benchmark are far below 2^53.
#![allow(clippy::cast_precision_loss)]

use std::ffi::{CStr, CString};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vrocm_core::card::CardId;
use vrocm_core::ledger::{Ledger, Process};
use vrocm_core::sys::private::Private;
use vrocm_core::table::{Entry, Key, Table};

const CARD: CardId = CardId::pci(0, 3, 0, 0, 0);
const PLENTY: u64 = 1 << 50;
const RUNS: usize = 11;

static PROCESS: Private<Process> = Private::new();

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, path] = arguments.as_slice()
        && role == "worker"
    {
        return worker(path);
    }
    println!("| what | ns, least | ns, median |\n|---|---|---|");
    pairs_by_slots();
    pairs_by_threads();
    pairs_by_processes();
    slow_paths();
    table();
    registration();
}

/// Least and median of several runs.
struct Timing(f64, f64);

fn row(what: &str, Timing(least, median): Timing) {
    println!("| {what} | {least:.0} | {median:.0} |");
}

fn timed(mut one: impl FnMut() -> f64) -> Timing {
    let mut all: Vec<f64> = (0..RUNS).map(|_| one()).collect();
    all.sort_by(f64::total_cmp);
    Timing(all[0], all[RUNS / 2])
}

fn per_call(calls: u32, mut call: impl FnMut()) -> Timing {
    timed(|| {
        let started = Instant::now();
        (0..calls).for_each(|_| call());
        started.elapsed().as_nanos() as f64 / f64::from(calls)
    })
}

fn fresh(name: &str) -> &'static CStr {
    let path: PathBuf = format!("/dev/shm/vrocm-bench-{}-{name}", std::process::id()).into();
    let _ = std::fs::remove_file(&path);
    Box::leak(CString::new(path.to_str().unwrap()).unwrap().into_boxed_c_str())
}

fn remove(path: &CStr) {
    let _ = std::fs::remove_file(path.to_str().unwrap());
}

/// A slot more, as another process would have it.
fn another(path: &'static CStr) -> Ledger {
    let process: &'static Private<Process> = Box::leak(Box::new(Private::new()));
    process.get().unwrap().attach(path).unwrap()
}

fn pair(ledger: Ledger) {
    let card = ledger.card(CARD).unwrap();
    ledger.reserve(card, 4096, PLENTY, 0).unwrap();
    ledger.commit(card, 4096);
    ledger.release(card, 4096);
}

fn pairs_by_slots() {
    let path = fresh("slots");
    let ledger = another(path);
    let mut slots = 1;
    for wanted in [1, 16, 64, 256, 1024] {
        while slots < wanted {
            another(path);
            slots += 1;
        }
        row(&format!("pair, 1 thread, {wanted} slots"), per_call(200_000, || pair(ledger)));
    }
    remove(path);
}

fn pairs_by_threads() {
    for threads in [1, 4] {
        let path = fresh("threads");
        let ledger = another(path);
        let ns = timed(|| {
            let started = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| (0..100_000).for_each(|_| pair(ledger)));
                }
            });
            started.elapsed().as_nanos() as f64 / 100_000.0 / f64::from(threads)
        });
        row(&format!("pair, {threads} threads of one process: elapsed / pairs of all"), ns);
        remove(path);
    }
}

fn worker(path: &str) {
    let path: &'static CStr = Box::leak(CString::new(path).unwrap().into_boxed_c_str());
    let ledger = PROCESS.get().unwrap().attach(path).unwrap();
    pair(ledger);
    println!("ready");
    let mut go = [0];
    std::io::stdin().read_exact(&mut go).unwrap();
    let (started, mut pairs) = (Instant::now(), 0_u64);
    while started.elapsed() < Duration::from_millis(300) {
        (0..1000).for_each(|_| pair(ledger));
        pairs += 1000;
    }
    println!("{pairs}");
}

fn pairs_by_processes() {
    let cores = std::thread::available_parallelism().unwrap().get();
    for processes in [1, 4, 16] {
        let path = fresh("processes");
        let ns = timed(|| {
            let mut workers: Vec<_> = (0..processes)
                .map(|_| {
                    let mut command = Command::new(std::env::current_exe().unwrap());
                    command.args(["worker", path.to_str().unwrap()]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
                })
                .collect();
            for worker in &mut workers {
                worker.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
            }
            for worker in &mut workers {
                worker.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            }
            let outputs = workers.into_iter().map(|worker| worker.wait_with_output().unwrap().stdout);
            let pairs: f64 = outputs.map(|output| String::from_utf8(output).unwrap().trim().parse::<f64>().unwrap()).sum();
            // Processor time of one pair: as many run at a time as there are cores.
            300e6 * (processes.min(cores) as f64) / pairs
        });
        row(&format!("pair, {processes} processes on {cores} cores: processor time"), ns);
        remove(path);
    }
}

fn slow_paths() {
    let path = fresh("slow");
    let (first, second) = (another(path), another(path));
    let card = first.card(CARD).unwrap();
    first.reserve(card, 64, 64, 0).unwrap();
    first.commit(card, 64);
    row("refusal, all of the quota one's own", per_call(2000, || assert!(first.reserve(card, 1, 64, 0).is_err())));
    row("refusal, another live process holds it", per_call(50, || assert!(second.reserve(card, 1, 64, 0).is_err())));
    row("bytes in use, only one's own", per_call(100_000, || assert_eq!(first.used(card), 64)));
    row("bytes in use, another's to be checked for life", per_call(2000, || assert_eq!(second.used(card), 64)));
    remove(path);
}

fn table() {
    let table = Table::new();
    let mut address = 0x7f00_0000_0000;
    row(
        "key table: insert + take",
        per_call(200_000, || {
            address += 4096;
            table.insert(Key::new(1, address), Entry::new(0, 0, 4096)).unwrap();
            table.take(Key::new(1, address)).unwrap();
        }),
    );
    row("key table: take of an unknown key", per_call(200_000, || assert!(table.take(Key::new(1, 5)).is_none())));
    for value in 0..100_000 {
        table.insert(Key::new(2, value << 12), Entry::new(0, 0, 4096)).unwrap();
    }
    row(
        "key table: insert + take, 100,000 other keys",
        per_call(200_000, || {
            address += 4096;
            table.insert(Key::new(1, address), Entry::new(0, 0, 4096)).unwrap();
            table.take(Key::new(1, address)).unwrap();
        }),
    );
}

fn registration() {
    let path = fresh("registration");
    another(path);
    for live in [1_u32, 20, 100, 256] {
        while another(path).slot() + 1 < live as usize {}
        row(
            &format!("a process takes its slot, beside {live} to {} live ones", live + 10),
            timed(|| {
                let started = Instant::now();
                another(path);
                started.elapsed().as_nanos() as f64
            }),
        );
    }
    remove(path);
}
