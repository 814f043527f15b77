//! `vrocm-audit`: parse, run, exit status.

use std::process::ExitCode;

use clap::Parser;
use vrocm_audit::cli::Cli;
use vrocm_audit::commands;

fn main() -> ExitCode {
    commands::run(&Cli::parse())
}
