//! From arguments to audits to a report: one file per command.
//!
//! A command returns an exit status and writes its report to standard output; what could not be read goes to standard error, one
//! line each, as `program: file: what`.

mod bindings;
mod consumers;
mod coverage;
mod diff;
mod evidence;
mod explain;
mod gate;
mod generated;
mod gfx;
pub mod inputs;
mod libraries;
mod linkage;
mod manifest;
mod patience;
mod preflight;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context as _;

use crate::bindings::checks as bindings_checks;
use crate::cli::{Cli, Command, GfxCommand, GfxScan};
use crate::consumers::checks as consumers_checks;
use crate::coverage::checks as coverage_checks;
use crate::diff::checks as diff_checks;
use crate::evidence::checks as evidence_checks;
use crate::finding::{self, Check};
use crate::gate::checks as gate_checks;
use crate::gfx::checks as gfx_checks;
use crate::gfx::preflight::reasons;
use crate::linkage::RULES;
use crate::loader::unknown;
use crate::report::printable::one_line;
use crate::report::{Format, Report, github};

/// File name of our own shim: its acceptances and the list of its exports ship inside the program.
const OWN_SHIM: &str = "libvrocm.so";

/// True for a file called as our own shim is.
fn is_own_shim(path: &std::path::Path) -> bool {
    path.file_name().is_some_and(|name| name == OWN_SHIM)
}

/// Exit status of an audit that was not possible.
const NO_AUDIT: u8 = 2;

/// Why a command gave up: a line for standard error.
pub type Result<T> = std::result::Result<T, anyhow::Error>;

/// Runs `vrocm-audit` and turns whatever happens into an exit status.
pub fn run(cli: &Cli) -> ExitCode {
    let done = match &cli.command {
        Command::Bindings(arguments) => bindings::run(arguments),
        Command::Completions { shell, program } => generated::completions(*shell, *program),
        Command::Man { program } => generated::man(*program),
        Command::Consumers(arguments) => consumers::run(arguments),
        Command::Coverage(arguments) => coverage::run(arguments),
        Command::Diff(arguments) => diff::run(arguments),
        Command::Evidence(arguments) => evidence::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Gate(arguments) => gate::run(arguments),
        Command::Linkage(arguments) => linkage::run(arguments),
        Command::Manifest(arguments) => manifest::run(arguments),
    };
    finish("vrocm-audit", done)
}

/// Runs `gfx-scan`.
pub fn run_gfx_scan(arguments: &GfxScan) -> ExitCode {
    match &arguments.command {
        Some(GfxCommand::Preflight(preflight)) => {
            let status = finish("gfx-scan", preflight::run(preflight));
            if preflight.warn_only { ExitCode::SUCCESS } else { status }
        }
        None => finish("gfx-scan", gfx::run(arguments)),
    }
}

/// Prints an error as one line; a closed pipe is nobody's error.
fn finish(program: &str, done: Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        complain(program, &format!("{error:#}"));
        ExitCode::from(NO_AUDIT)
    })
}

/// One line on standard error.
fn complain(program: &str, what: &str) {
    let _ = writeln!(io::stderr(), "{program}: {}", one_line(what));
}

/// Writes the report and says what follows from it: 0, 1, or 2 where something could not be audited.
fn deliver(report: Report, format: Format) -> Result<ExitCode> {
    for file in &report.unread {
        complain(report.program, file);
    }
    let stdout = io::stdout();
    let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut out = BufWriter::with_capacity(1 << 16, stdout.lock());
    report.show(format, colour, || checks().collect(), &mut out)?;
    out.flush()?;
    if format == Format::Github {
        append_summary(&report)?;
    }
    let status = if !report.unread.is_empty() {
        ExitCode::from(NO_AUDIT)
    } else if finding::any_deny(&report.findings) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    };
    // The process ends here; to free thousands of strings first takes a tenth of the whole run.
    std::mem::forget(report);
    Ok(status)
}

/// In a step of a GitHub workflow the report in Markdown becomes the step's summary.
fn append_summary(report: &Report) -> Result<()> {
    let Some(path) = github::summary_file() else { return Ok(()) };
    let shown = std::path::Path::new(&path).display().to_string();
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path).with_context(|| shown.clone())?;
    report.show(Format::Markdown, false, || checks().collect(), &mut file).context(shown)
}

/// Every check of every audit.
pub fn checks() -> impl Iterator<Item = &'static Check> {
    let rules = RULES.iter().map(|rule| &rule.check);
    let own = coverage_checks::ALL.into_iter().chain(bindings_checks::ALL).chain(consumers_checks::ALL).chain(diff_checks::ALL);
    let own = own.chain(evidence_checks::ALL).chain(gate_checks::ALL).chain(gfx_checks::ALL);
    own.chain(rules).chain(unknown::ALL).chain(reasons::ALL)
}
