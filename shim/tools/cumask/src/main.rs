//! `rocm-cumask-check`: arguments, and what follows from them. Exit status: 0 effective, 1 not effective, 2 could not run.
#![forbid(unsafe_code)]

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rocm_cumask::report::Report;
use rocm_cumask::runtime::{child, probe, rtc};
use rocm_cumask::topology::Topology;
use rocm_cumask::verdict::{Measured, Variables, judge, read};
use rocm_cumask::{derive, grammar, kernel, measured, place, report};

const AFTER_HELP: &str = "\
Examples:
  rocm-cumask-check                            derives a mask for half of card 0 and verifies it
  rocm-cumask-check --percent 25 --device 1
  HSA_CU_MASK=0:0-14 rocm-cumask-check         verifies the mask that is set, as it stands
  rocm-cumask-check --mask '0:0-29;1:0x3fff' --device 1 --json
  rocm-cumask-check --card gfx942,304,32,1,8 --mask 0:0-3
                                               no card needed: what the platform makes of a mask

The platform discards a mask that it dislikes without any error. So a kernel runs
without the mask and under it, and each wave reads from the hardware where it is.
Nothing is concluded from return codes or times.

Exit status: 0 the mask is effective; 1 it is not; 2 it could not run (no card, a
share that is too small, wrong arguments). With --card: 0 it would be kept, 1 it would
be discarded, 2 wrong arguments.";

/// Fails a card whose compute-unit mask the platform silently discarded.
#[derive(Parser)]
#[command(name = "rocm-cumask-check", version, after_help = AFTER_HELP)]
struct Arguments {
    /// Position of the card among the GPUs of the HSA runtime (after `ROCR_VISIBLE_DEVICES`), as in the mask.
    #[arg(long, default_value = "0", value_name = "N")]
    device: u32,
    /// Share of the card for which a mask is derived; 50 when no mask is set either.
    #[arg(long, value_name = "P", conflicts_with = "mask", value_parser = clap::value_parser!(u32).range(1..=100))]
    percent: Option<u32>,
    /// Verifies this `HSA_CU_MASK` instead of the one in the environment.
    #[arg(long, value_name = "MASK")]
    mask: Option<String>,
    /// No card: foresees what the platform would do on this one (processor, CUs, engines of all XCCs, arrays in each engine, XCCs).
    #[arg(long, value_name = "GFX,CU,SE,SA,XCC", value_parser = measured::card)]
    card: Option<Topology>,
    /// Prints JSON (`schema_version` 1).
    #[arg(long)]
    json: bool,
    /// Seconds after which a kernel that does not come back is given up.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = clap::value_parser!(u64).range(1..=86400))]
    timeout: u64,
    /// Only compiles the kernel for a processor, and says how long the code is. No card needed.
    #[arg(long, value_name = "GFX", exclusive = true)]
    compile: Option<String>,
    /// The process under the mask: prints what it saw.
    #[arg(long, hide = true)]
    probe: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.probe {
        let answer = serde_json::to_string(&probe::look(arguments.device)).unwrap_or_default();
        return print(&format!("\n{}{answer}\n", child::ANSWER), 0);
    }
    if let Some(gfx) = &arguments.compile {
        return match kernel::source(gfx).and_then(|source| rtc::compile(&source, gfx, &rtc::LIBRARIES)) {
            Ok(code) => print(&format!("{gfx}: {} bytes of code\n", code.len()), 0),
            Err(why) => complain(&why),
        };
    }
    let variables = match variables(&arguments) {
        Ok(variables) => variables,
        Err(why) => return complain(&why),
    };
    if let Some(card) = &arguments.card {
        return foresee(card, variables, &arguments);
    }
    let mut report = Report { device: arguments.device, percent: arguments.percent, variables, ..Report::default() };
    if let Err(why) = verify(&mut report, &arguments) {
        report.could_not_run = Some(why);
    }
    let status = report.status();
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let text = if arguments.json { pretty(&report.json()) } else { report.text(colour) };
    print(&text, status)
}

/// The mask to test: of the arguments, else of the environment. An empty variable is none, as for ROCr.
fn variables(arguments: &Arguments) -> Result<Variables, String> {
    let set = |name: &str| -> Result<Option<String>, String> {
        let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        value.into_string().map(Some).map_err(|value| format!("{name} is not text: {}", value.display()))
    };
    let skip = set(child::SKIP)?.as_deref() == Some("1");
    if let Some(mask) = &arguments.mask {
        return Ok(Variables { hsa: Some(mask.clone()), global: None, skip });
    }
    let variables = Variables { hsa: set(child::HSA)?, global: set(child::GLOBAL)?, skip };
    if arguments.percent.is_some() && (variables.hsa.is_some() || variables.global.is_some()) {
        return Err("--percent derives a mask, and one is set in the environment already: unset it, or leave --percent away to verify it".to_owned());
    }
    Ok(variables)
}

/// Gives a report without a mask one that is derived.
fn derive_mask(report: &mut Report, card: &Topology) -> Result<(), String> {
    if report.variables.hsa.is_none() && report.variables.global.is_none() {
        let percent = *report.percent.get_or_insert(50);
        report.variables.hsa = Some(format!("{}:{}", report.device, derive::derive(card.check()?, card, percent)?));
    }
    Ok(())
}

fn verify(report: &mut Report, arguments: &Arguments) -> Result<(), String> {
    let patience = Duration::from_secs(arguments.timeout);
    let control = child::look(report.device, &Variables::default(), patience)?;
    let card = control.topology.clone();
    let family = card.check()?;
    report.topology = Some(card.clone());
    report.gpus = Some(control.gpus);
    derive_mask(report, &card)?;
    let asked = read(family, &card, &report.variables, report.device, control.limits());
    report.rows = asked.rows;
    let whole = control.launches.into_iter().flatten().collect();
    let counted = place::count_xccs(&whole);
    report.whole = whole.into_iter().map(&counted).collect();
    let seen = child::look(report.device, &report.variables, patience)?;
    if seen.topology.pci != card.pci {
        return Err(format!("card {} was {} without a mask and is {} under it", report.device, card.pci, seen.topology.pci));
    }
    report.launches = seen.launches.into_iter().map(|launch| launch.into_iter().map(&counted).collect()).collect();
    if let Some(bits) = &asked.bits {
        report.asked = place::asked(family, &card, &report.whole, bits);
    }
    let measured = Measured { whole: report.whole.clone(), launches: report.launches.clone() };
    report.rows.extend(judge(family, &card, asked.bits.as_ref(), &measured)?);
    Ok(())
}

/// What the platform would do, from what was measured on other cards: no kernel runs.
fn foresee(card: &Topology, variables: Variables, arguments: &Arguments) -> ExitCode {
    let Ok(family) = card.check() else { return ExitCode::from(2) };
    let mut report = Report { device: arguments.device, percent: arguments.percent, variables, ..Report::default() };
    if let Err(why) = derive_mask(&mut report, card) {
        return complain(&why);
    }
    let limits = grammar::Limits { gpus: (arguments.device + 1).max(64), cus: card.cu };
    let asked = read(family, card, &report.variables, report.device, limits);
    let whole = place::regular(family, card);
    let bits = asked.bits.as_ref().filter(|_| !report.variables.skip);
    let runs = place::outcome(family, card, &whole, bits);
    report.rows = asked.rows;
    report.topology = Some(card.clone());
    report.asked = asked.bits.as_ref().map(|bits| place::asked(family, card, &whole, bits)).unwrap_or_default();
    let kept = !report.rows.iter().any(|row| row.status == rocm_cumask::verdict::Status::Fail);
    report.whole = whole;
    report.launches = vec![runs.clone()];
    let text = if arguments.json { pretty(&report::foreseen_json(&report, kept)) } else { report.foreseen_text(kept) };
    print(&text, u8::from(!kept))
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn print(text: &str, status: u8) -> ExitCode {
    let mut out = std::io::stdout().lock();
    // Whoever closed the pipe has the status still.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    ExitCode::from(status)
}

fn complain(why: &str) -> ExitCode {
    eprintln!("rocm-cumask-check: {why}");
    ExitCode::from(2)
}
