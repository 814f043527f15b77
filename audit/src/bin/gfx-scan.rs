//! `gfx-scan`: parse, run, exit status.

use std::process::ExitCode;

use clap::Parser;
use vrocm_audit::cli::GfxScan;
use vrocm_audit::commands;

fn main() -> ExitCode {
    commands::run_gfx_scan(&GfxScan::parse())
}
