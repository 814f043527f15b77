//! Commands about the card and about kernels on it. They go through what `rocm-cumask-check` has for that, and fail with words.
//!
//! `card` what the first card is · `compile,KIND,BYTES,FILE` a kernel for it ([`crate::kernels`]) · `tenant,FILE,PCI` loads the kernel that keeps units busy, and warms
//! up · `soak,MILLISECONDS` runs it for that long.

use std::time::{Duration, Instant};

use rocm_cumask::runtime::hip::{Hip, Kernel, Stream, Words};
use rocm_cumask::runtime::{hsa, rtc};

use super::{Answer, Status};
use crate::kernels::{self, Code};

/// Launches between two waits: the card has the next while one ends.
const AT_ONCE: u32 = 2;
/// Before anything is measured: the code is loaded and clocks have risen.
const WARM_UP: Duration = Duration::from_millis(300);

/// A kernel that is ready to keep the card busy.
pub struct Tenant {
    hip: Hip,
    kernel: Kernel,
    words: Words,
    blocks: u32,
}

/// One of the commands above; `None` for any other.
pub fn obey(runtime: &str, tenant: &mut Option<Tenant>, name: &str, arguments: &[&str]) -> Option<Answer> {
    let mut answer = Answer::new(name, Status::Code(0));
    let done = match (name, arguments) {
        ("card", []) => card(&mut answer),
        ("compile", [kind, bytes, file]) => compile(runtime, kind, bytes, file),
        ("tenant", [file, pci]) => prepare(runtime, file, pci).map(|ready| *tenant = Some(ready)),
        ("soak", [milliseconds]) => soak(tenant.as_ref(), milliseconds, &mut answer),
        _ => return None,
    };
    if let Err(why) = done {
        answer.status = Status::Failed;
        answer.words.insert("why".into(), why);
    }
    Some(answer)
}

fn first_card() -> Result<rocm_cumask::topology::Topology, String> {
    hsa::cards()?.into_iter().next().ok_or_else(|| "the HSA runtime shows no GPU".to_owned())
}

fn card(answer: &mut Answer) -> Result<(), String> {
    let card = first_card()?;
    for (key, value) in [("gfx", card.gfx), ("name", card.name), ("pci", card.pci)] {
        answer.words.insert(key.into(), value);
    }
    for (key, value) in [("cu", card.cu), ("se", card.se), ("sa", card.sa_per_se), ("xcc", card.xcc)] {
        answer.numbers.insert(key.into(), value.into());
    }
    Ok(())
}

fn compile(runtime: &str, kind: &str, bytes: &str, file: &str) -> Result<(), String> {
    let code = Code::of(kind, bytes).ok_or_else(|| format!("{kind},{bytes} is no kind of code"))?;
    let libraries = rtc::of_runtime(runtime);
    let libraries: Vec<&str> = libraries.iter().map(String::as_str).collect();
    let bytes = rtc::compile(&code.source(), &first_card()?.gfx, &libraries)?;
    std::fs::write(file, bytes).map_err(|error| format!("{file}: {error}"))
}

fn prepare(runtime: &str, file: &str, pci: &str) -> Result<Tenant, String> {
    let code = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let units = hsa::cards()?.into_iter().find(|card| card.pci == pci).map(|card| card.cu).ok_or_else(|| format!("there is no card {pci}"))?;
    let hip = Hip::open(&[runtime], pci)?;
    let (kernel, words) = (hip.load(&code, kernels::SOAK)?, hip.words(64)?);
    let tenant = Tenant { hip, kernel, words, blocks: kernels::blocks(units) };
    keep_busy(&tenant, WARM_UP)?;
    Ok(tenant)
}

/// Launches until the time is up. The blocks that the card counted; an error if they are not those that were launched.
fn keep_busy(tenant: &Tenant, time: Duration) -> Result<u64, String> {
    let Tenant { hip, kernel, words, blocks } = tenant;
    hip.clear(words)?;
    let (until, mut launched, mut counted) = (Instant::now() + time, 0_u32, 0_u64);
    loop {
        for _ in 0..AT_ONCE {
            hip.launch(kernel, *blocks, kernels::THREADS, &Stream::NULL, words, kernels::TURNS)?;
            launched = launched.wrapping_add(*blocks);
            counted += u64::from(*blocks);
        }
        hip.wait()?;
        if Instant::now() >= until {
            break;
        }
    }
    let on_card = hip.read(words)?.first().copied().unwrap_or(0);
    // The card counts in 32 bits, as is done here.
    if on_card == launched {
        Ok(counted)
    } else {
        Err(format!("{counted} blocks were launched, and the card counted {on_card}: the kernel did not run, or not to its end"))
    }
}

fn soak(tenant: Option<&Tenant>, milliseconds: &str, answer: &mut Answer) -> Result<(), String> {
    let tenant = tenant.ok_or("no kernel is loaded")?;
    let time = milliseconds.parse().map(Duration::from_millis).map_err(|_| format!("{milliseconds:?} is no time"))?;
    let begin = now();
    let blocks = keep_busy(tenant, time)?;
    for (key, value) in [("begin", begin), ("end", now()), ("blocks", blocks)] {
        answer.numbers.insert(key.into(), value);
    }
    Ok(())
}

/// Nanoseconds of a clock that is the same in all processes.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
