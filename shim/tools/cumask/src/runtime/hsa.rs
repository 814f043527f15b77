//! The cards, as ROCr enumerates them: the positions that `HSA_CU_MASK` counts. Attribute numbers are those of `hsa.h` and `hsa_ext_amd.h`.

use std::ffi::{CStr, c_void};

use libloading::{Library, Symbol};

use super::library::{function, open};
use crate::topology::Topology;

const NAME: u32 = 0;
const DEVICE: u32 = 17;
const GPU: u32 = 1;
const COMPUTE_UNITS: u32 = 0xA002;
const BDFID: u32 = 0xA006;
const PRODUCT_NAME: u32 = 0xA009;
const SHADER_ENGINES: u32 = 0xA00C;
const ARRAYS_PER_ENGINE: u32 = 0xA00D;
const DOMAIN: u32 = 0xA00F;
const NUM_XCC: u32 = 0xA111;

type Visit = extern "C" fn(u64, *mut c_void) -> u32;
type GetInfo = unsafe extern "C" fn(u64, u32, *mut c_void) -> u32;

/// All GPUs, in order.
pub fn cards() -> Result<Vec<Topology>, String> {
    let library: &'static Library = open(&["libhsa-runtime64.so.1", "libhsa-runtime64.so"])?;
    // SAFETY: `hsa_status_t hsa_init(void)`; an enumeration is 32 bits.
    let init: Symbol<unsafe extern "C" fn() -> u32> = unsafe { function(library, c"hsa_init") }?;
    // SAFETY: `hsa_status_t hsa_iterate_agents(hsa_status_t (*)(hsa_agent_t, void *), void *)`; an agent is a struct of one 64-bit handle.
    let iterate: Symbol<unsafe extern "C" fn(Visit, *mut c_void) -> u32> = unsafe { function(library, c"hsa_iterate_agents") }?;
    // SAFETY: `hsa_status_t hsa_agent_get_info(hsa_agent_t, hsa_agent_info_t, void *)`.
    let get_info: Symbol<GetInfo> = unsafe { function(library, c"hsa_agent_get_info") }?;
    // SAFETY: no arguments.
    let status = unsafe { init() };
    if status != 0 {
        return Err(format!("hsa_init answers {status:#x}: no card, no driver (/dev/kfd), or no right to use it"));
    }
    let mut agents: Vec<u64> = Vec::new();
    // SAFETY: the callback gets our vector back and is not called after this returns.
    let status = unsafe { iterate(collect, (&raw mut agents).cast()) };
    if status != 0 {
        return Err(format!("hsa_iterate_agents answers {status:#x}"));
    }
    let agents = agents.into_iter().map(|handle| Agent { handle, get_info: &get_info });
    let gpus: Vec<Agent> = agents.filter(|agent| agent.number(DEVICE) == Some(GPU)).collect();
    if gpus.is_empty() {
        return Err("the HSA runtime sees no GPU: check /dev/kfd, /dev/dri/renderD* and ROCR_VISIBLE_DEVICES".to_owned());
    }
    gpus.iter().map(Agent::topology).collect()
}

extern "C" fn collect(agent: u64, found: *mut c_void) -> u32 {
    // SAFETY: `found` is the vector of the caller of `hsa_iterate_agents`, which nobody else uses meanwhile.
    unsafe { (*found.cast::<Vec<u64>>()).push(agent) };
    0
}

struct Agent<'a> {
    handle: u64,
    get_info: &'a GetInfo,
}

impl Agent<'_> {
    fn number(&self, attribute: u32) -> Option<u32> {
        // 64 bytes, whatever the attribute's size: no answer to these attributes is longer.
        let mut value = [0_u32; 16];
        // SAFETY: the handle came from the runtime; there is room for the answer.
        let status = unsafe { (self.get_info)(self.handle, attribute, value.as_mut_ptr().cast()) };
        (status == 0).then_some(value[0])
    }

    fn text(&self, attribute: u32) -> Option<String> {
        let mut value = [0_u8; 65];
        // SAFETY: names have at most 64 bytes; the last one here stays 0.
        let status = unsafe { (self.get_info)(self.handle, attribute, value.as_mut_ptr().cast()) };
        (status == 0).then(|| CStr::from_bytes_until_nul(&value).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default())
    }

    fn topology(&self) -> Result<Topology, String> {
        let need = |attribute| self.number(attribute).ok_or_else(|| format!("hsa_agent_get_info does not answer attribute {attribute:#x}"));
        let pci = self.number(BDFID).map_or_else(String::new, |bdf| {
            format!("{:04x}:{:02x}:{:02x}.{:x}", self.number(DOMAIN).unwrap_or(0), bdf >> 8 & 0xff, bdf >> 3 & 0x1f, bdf & 7)
        });
        Ok(Topology {
            gfx: self.text(NAME).unwrap_or_default(),
            name: self.text(PRODUCT_NAME).unwrap_or_default(),
            pci,
            cu: need(COMPUTE_UNITS)?,
            se: need(SHADER_ENGINES)?,
            sa_per_se: need(ARRAYS_PER_ENGINE)?,
            // Unknown to older runtimes, which know no card with several.
            xcc: self.number(NUM_XCC).filter(|&count| count != 0).unwrap_or(1),
        })
    }
}
