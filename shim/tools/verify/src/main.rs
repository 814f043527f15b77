//! `vrocm-verify`

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(order) = vrocm_verify::probe::Order::from_environment() {
        return vrocm_verify::probe::run(&order);
    }
    vrocm_verify::cli::main().unwrap_or_else(|error| {
        eprintln!("vrocm-verify: {error:#}");
        ExitCode::from(2)
    })
}
