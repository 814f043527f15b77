//! One process's look at a card, under whatever mask its environment has. ROCr reads the mask when it starts, so each mask needs a process.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::hip::{self, Hip, Stream};
use super::{hsa, rtc};
use crate::grammar::Limits;
use crate::hwid::{Unit, decode};
use crate::kernel;
use crate::topology::Topology;

/// Launches that are compared, on two streams in turn.
pub const LAUNCHES: u32 = 6;

/// What a process saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The card.
    pub topology: Topology,
    /// GPUs that the runtime shows.
    pub gpus: u32,
    /// The most compute units that one of them has.
    pub most_cus: u32,
    /// The units of each launch.
    pub launches: Vec<BTreeSet<Unit>>,
}

impl Seen {
    /// The limits that ROCr's reader goes by.
    pub fn limits(&self) -> Limits {
        Limits { gpus: self.gpus, cus: self.most_cus }
    }
}

/// Looks at the card at position `device`.
pub fn look(device: u32) -> Result<Seen, String> {
    let cards = hsa::cards()?;
    let gpus = u32::try_from(cards.len()).unwrap_or(u32::MAX);
    let most_cus = cards.iter().map(|card| card.cu).max().unwrap_or(0);
    let topology =
        cards.into_iter().nth(device as usize).ok_or_else(|| format!("there is no card {device}: the runtime shows {gpus}, counted from 0"))?;
    let family = topology.check()?;
    let code = rtc::compile(&kernel::source(&topology.gfx)?, &topology.gfx, &rtc::LIBRARIES)?;
    let words = run(&Hip::open(&hip::LIBRARIES, &topology.pci)?, &code, kernel::blocks(topology.cu))?;
    let mut launches = Vec::new();
    for launch in words {
        let idle = launch.iter().filter(|[_, xcc]| xcc & kernel::RAN == 0).count();
        if idle != 0 {
            return Err(format!("{idle} of {} blocks of the kernel left no word: it did not run, or not to its end", launch.len()));
        }
        launches.push(launch.iter().map(|&[place, xcc]| decode(family, place, xcc & !kernel::RAN)).collect());
    }
    Ok(Seen { topology, gpus, most_cus, launches })
}

/// Runs the kernel, on the null stream and on one of its own in turn, so that more than one queue is made under the mask. Answers two words of each block,
/// once for each launch.
fn run(hip: &Hip, code: &[u8], blocks: u32) -> Result<Vec<Vec<[u32; 2]>>, String> {
    let kernel = hip.load(code, kernel::ENTRY)?;
    let (stream, words) = (hip.stream()?, hip.words(blocks as usize * 2)?);
    let mut all = Vec::new();
    for launch in 0..LAUNCHES {
        hip.clear(&words)?;
        let stream = if launch % 2 == 0 { &Stream::NULL } else { &stream };
        hip.launch(&kernel, blocks, kernel::THREADS, stream, &words, kernel::TURNS)?;
        hip.wait()?;
        all.push(hip.read(&words)?.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect());
    }
    hip.free(words)?;
    Ok(all)
}
