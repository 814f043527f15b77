//! `rocm-monitor`: arguments, and what follows from them. Exit status: 0 read, 1 no ledger, 2 not a ledger (or wrong usage).
#![forbid(unsafe_code)]

use std::ffi::{CString, OsString};
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rocm_monitor::raw::Failure;
use rocm_monitor::snapshot::{Snapshot, take};
use rocm_monitor::text::Style;
use rocm_monitor::{prometheus, text, watch};
use vrocm_core::quota::Config;

const AFTER_HELP: &str = "\
Examples:
  rocm-monitor                                  the ledger of this container
  rocm-monitor /run/slices/a/ledger --json      one ledger, for a program
  rocm-monitor --watch                          redrawn every second; in a pipe, a line for each change
  rocm-monitor --format prometheus >/var/lib/node_exporter/vrocm.prom.new

Without PATH the ledger is where the shim has it: $VROCM_LEDGER_PATH, else /dev/shm/vrocm-ledger.
Reading takes no lock, creates nothing and writes nothing.

Exit status: 0 read; 1 there is no ledger; 2 it is not a ledger or cannot be read, or the arguments are wrong.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// One object with `schema_version`; with --watch one a line.
    Json,
    /// The text format of Prometheus.
    Prometheus,
}

/// Shows what the processes of a container hold of each card: the ledger of libvrocm.so.
#[derive(Parser)]
#[command(name = "rocm-monitor", version, after_help = AFTER_HELP)]
struct Arguments {
    /// The ledger.
    path: Option<OsString>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Short for `--format json`.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Go on: redraw on a terminal, print a line for each change elsewhere.
    #[arg(long)]
    watch: bool,
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", requires = "watch", value_parser = seconds)]
    interval: Duration,
    /// Stop after this many looks.
    #[arg(long, value_name = "N", requires = "watch")]
    count: Option<u64>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "a number of seconds from 0.01 to 86400".to_owned();
    let value: f64 = text.parse().map_err(|_| wrong())?;
    if (0.01..=86400.0).contains(&value) { Ok(Duration::from_secs_f64(value)) } else { Err(wrong()) }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let format = if arguments.json { Format::Json } else { arguments.format };
    let path = match path(arguments.path) {
        Ok(path) => path,
        Err(why) => return complain("VROCM_LEDGER_PATH", &why, 2),
    };
    if arguments.watch && format == Format::Prometheus {
        return complain("--watch", "a scrape is one look; leave --watch away, and run it as often as you scrape", 2);
    }
    let snapshot = match take(&path) {
        Ok(snapshot) => snapshot,
        Err(failure) => return failed(&path, &failure),
    };
    let done = if arguments.watch {
        follow(&path, snapshot, format, arguments.interval, arguments.count)
    } else {
        print(&(if format == Format::Prometheus { prometheus::report(&snapshot) } else { whole(&snapshot, format) }))
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the pipe has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => complain("standard output", &error.to_string(), 2),
    }
}

/// The path of the argument, or the one that the shim would take in this environment.
fn path(argument: Option<OsString>) -> Result<CString, String> {
    if let Some(path) = argument {
        return CString::new(path.into_vec()).map_err(|_| "the path has a NUL".to_owned());
    }
    let mut config = Config::new();
    for (name, value) in std::env::vars_os() {
        config.take(&[name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    config.ledger_path().map(CString::from).ok_or_else(|| "the path is too long; the shim refuses every request with it".to_owned())
}

fn colour() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn whole(snapshot: &Snapshot, format: Format) -> String {
    match format {
        Format::Json => serde_json::to_string_pretty(snapshot).unwrap_or_default() + "\n",
        _ => text::report(snapshot, Style { colour: colour() }),
    }
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Looks again and again. A ledger that is removed and made anew is followed.
fn follow(path: &CString, first: Snapshot, format: Format, interval: Duration, count: Option<u64>) -> std::io::Result<()> {
    let redraw = format == Format::Text && std::io::stdout().is_terminal();
    let mut last: Option<Snapshot> = None;
    let mut gone: Option<Failure> = None;
    let mut next = Ok(first);
    let mut looks = 0;
    loop {
        match next {
            Ok(snapshot) => {
                let lines = watch::changes(last.as_ref(), &snapshot);
                if redraw {
                    print(&format!("\x1b[H\x1b[2J{}", whole(&snapshot, format)))?;
                } else if !lines.is_empty() || last.is_none() {
                    log(&lines, &snapshot, format)?;
                }
                (last, gone) = (Some(snapshot), None);
            }
            Err(failure) if gone != Some(failure) => {
                // Also on the terminal: an old picture must not look like a new one.
                let clear = if redraw { "\x1b[H\x1b[2J" } else { "" };
                match format {
                    Format::Json => print(&format!(
                        "{}\n",
                        serde_json::json!({ "schema_version": 1, "path": path.to_string_lossy(), "error": failure.to_string() })
                    ))?,
                    _ => print(&format!("{clear}{} {}: {failure}\n", now(), path.to_string_lossy()))?,
                }
                (last, gone) = (None, Some(failure));
            }
            Err(_) => {}
        }
        looks += 1;
        if count.is_some_and(|count| looks >= count) {
            return Ok(());
        }
        std::thread::sleep(interval);
        next = take(path);
    }
}

fn log(lines: &[String], snapshot: &Snapshot, format: Format) -> std::io::Result<()> {
    if format == Format::Json {
        return print(&(serde_json::to_string(snapshot).unwrap_or_default() + "\n"));
    }
    let now = now();
    if lines.is_empty() {
        return print(&format!("{now} {}: nobody uses it\n", snapshot.path));
    }
    print(&lines.iter().map(|line| format!("{now} {line}\n")).collect::<String>())
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn failed(path: &CString, failure: &Failure) -> ExitCode {
    complain(&path.to_string_lossy(), &failure.to_string(), if *failure == Failure::Absent { 1 } else { 2 })
}

fn complain(subject: &str, why: &str, status: u8) -> ExitCode {
    eprintln!("rocm-monitor: {subject}: {why}");
    ExitCode::from(status)
}
