//! What is made from the arguments' own description: completion scripts and the manual pages.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;

use super::Result;
use crate::cli::{Cli, GfxScan, Program};

fn command(program: Program) -> clap::Command {
    match program {
        Program::VrocmAudit => Cli::command(),
        Program::GfxScan => GfxScan::command(),
    }
}

pub(super) fn completions(shell: clap_complete::Shell, program: Program) -> Result<ExitCode> {
    let mut command = command(program);
    let name = command.get_name().to_string();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The page of a program, then one section of each command: a single file, so that one `man -l` shows all.
pub(super) fn man(program: Program) -> Result<ExitCode> {
    let mut command = command(program);
    command.build();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    let name = command.get_name().to_uppercase();
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let page = clap_mangen::Man::new(sub.clone());
        writeln!(text, ".SH \"{name} {}\"", sub.get_name().to_uppercase())?;
        page.render_description_section(&mut text)?;
        page.render_options_section(&mut text)?;
    }
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}
