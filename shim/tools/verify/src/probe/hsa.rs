//! Calls of HSA by name, as UCX and OpenCL make them: on the first card, in its coarse-grained pool and region. `hsa_init` comes first and looks for them.

use std::ffi::c_void;

use super::call::{call6, number, ptr};
use super::library::Library;
use super::{Answer, Status};

const DEVICE: usize = 17;
const GPU: u64 = 1;
const SEGMENT: usize = 0;
const FLAGS: usize = 1;
const GLOBAL: u64 = 0;
const COARSE_GRAINED: u64 = 4;
/// Attributes of managed memory, whose value is an agent.
const ACCESSIBLE: u64 = 0x200;
const NO_ACCESS: u64 = 0x202;

/// What calls made, and the runtime that they go to. 0: nothing.
pub struct State<'a> {
    library: &'a Library,
    agent: usize,
    pool: usize,
    region: usize,
    pointers: Vec<usize>,
    handles: Vec<usize>,
    managed: Vec<(usize, usize)>,
    reader: usize,
    executable: usize,
}

impl<'a> State<'a> {
    /// Nothing made yet.
    pub fn new(library: &'a Library) -> Self {
        Self { library, agent: 0, pool: 0, region: 0, pointers: Vec::new(), handles: Vec::new(), managed: Vec::new(), reader: 0, executable: 0 }
    }

    fn all(&self, iterate: &str, arguments: &[usize]) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        let Some(function) = self.library.find(iterate) else { return found };
        let mut registers = [0; 6];
        registers[..arguments.len()].copy_from_slice(arguments);
        registers[arguments.len()] = collect as *const () as usize;
        registers[arguments.len() + 1] = ptr(&mut found);
        call6(function, registers);
        found
    }

    fn info(&self, function: &str, of: usize, attribute: usize) -> Option<u64> {
        let mut value = [0_u64; 8];
        let status = call6(self.library.find(function)?, [of, attribute, ptr(&mut value), 0, 0, 0]);
        (status == 0).then_some(value[0])
    }

    fn look_around(&mut self) {
        let agents = self.all("hsa_iterate_agents", &[]);
        // An enumeration has 32 bits.
        let card = agents.into_iter().find(|&agent| self.info("hsa_agent_get_info", agent, DEVICE).is_some_and(|kind| kind & 0xffff_ffff == GPU));
        self.agent = card.unwrap_or(0);
        self.pool = self.coarse("hsa_amd_agent_iterate_memory_pools", "hsa_amd_memory_pool_get_info");
        self.region = self.coarse("hsa_agent_iterate_regions", "hsa_region_get_info");
    }

    fn coarse(&self, iterate: &str, info: &str) -> usize {
        let is_coarse = |&found: &usize| {
            let number = |attribute| self.info(info, found, attribute).map(|value| value & 0xffff_ffff);
            number(SEGMENT) == Some(GLOBAL) && number(FLAGS).is_some_and(|flags| flags & COARSE_GRAINED != 0)
        };
        self.all(iterate, &[self.agent]).into_iter().find(is_coarse).unwrap_or(0)
    }
}

extern "C" fn collect(handle: usize, found: *mut c_void) -> u32 {
    // SAFETY: `found` is the vector of the caller, which nobody else uses meanwhile.
    unsafe { (*found.cast::<Vec<usize>>()).push(handle) };
    0
}

/// Calls the entry point of that name, if it is one of HSA.
pub fn call(state: &mut State, name: &str, arguments: &[&str]) -> Option<Answer> {
    if !name.starts_with("hsa_") {
        return None;
    }
    let mut answer = Answer::new(name, Status::Absent);
    if let Some(function) = state.library.find(name) {
        answer.status = dispatch(state, name, function, arguments, &mut answer).map_or(Status::Unused, Status::Code);
    }
    Some(answer)
}

fn dispatch(state: &mut State, name: &str, function: usize, arguments: &[&str], answer: &mut Answer) -> Option<i32> {
    let (size, mut made) = (number(arguments, 0, 1 << 20), 0_usize);
    let some = |handle: usize| (handle != 0).then_some(handle);
    match name {
        "hsa_init" => {
            let status = call6(function, [0; 6]);
            if status == 0 {
                state.look_around();
            }
            Some(status)
        }
        "hsa_agent_get_info" | "hsa_amd_memory_pool_get_info" | "hsa_region_get_info" => {
            let of = [("hsa_agent_get_info", state.agent), ("hsa_region_get_info", state.region)];
            let of = of.iter().find(|(known, _)| *known == name).map_or(state.pool, |(_, handle)| *handle);
            let mut value = [0_u64; 8];
            let status = call6(function, [some(of)?, number(arguments, 0, 0), ptr(&mut value), 0, 0, 0]);
            answer.numbers.insert("total".into(), value[0]);
            Some(status)
        }
        "hsa_amd_memory_pool_allocate" => {
            let status = call6(function, [some(state.pool)?, size, 0, ptr(&mut made), 0, 0]);
            keep(&mut state.pointers, status, made)
        }
        "hsa_memory_allocate" => {
            let status = call6(function, [some(state.region)?, size, ptr(&mut made), 0, 0, 0]);
            keep(&mut state.pointers, status, made)
        }
        "hsa_amd_vmem_handle_create" => {
            let status = call6(function, [some(state.pool)?, size, 0, 0, ptr(&mut made), 0]);
            keep(&mut state.handles, status, made)
        }
        "hsa_amd_svm_attributes_set" if arguments.first() == Some(&"none") => {
            let &(address, size) = state.managed.last()?;
            let mut access = [NO_ACCESS, state.agent as u64];
            let status = call6(function, [address, size, ptr(&mut access), 1, 0, 0]);
            if status == 0 {
                state.managed.pop();
            }
            Some(status)
        }
        "hsa_amd_svm_attributes_set" => {
            let (address, mut access) = (pages(size)?, [ACCESSIBLE, some(state.agent)? as u64]);
            let status = call6(function, [address, size, ptr(&mut access), 1, 0, 0]);
            if status == 0 {
                state.managed.push((address, size));
            }
            Some(status)
        }
        "hsa_code_object_reader_create_from_memory" => {
            // The runtime reads it later.
            let image = std::fs::read(arguments.first()?).ok()?.leak();
            Some(call6(function, [image.as_ptr() as usize, image.len(), ptr(&mut state.reader), 0, 0, 0]))
        }
        // The full profile, and the default rounding.
        "hsa_executable_create_alt" => Some(call6(function, [1, 0, 0, ptr(&mut state.executable), 0, 0])),
        "hsa_executable_load_agent_code_object" => Some(call6(function, [some(state.executable)?, some(state.agent)?, some(state.reader)?, 0, 0, 0])),
        "hsa_executable_destroy" => Some(call6(function, [some(state.executable)?, 0, 0, 0, 0, 0])),
        "hsa_amd_memory_pool_free" | "hsa_memory_free" => give_back(&mut state.pointers, function),
        "hsa_amd_vmem_handle_release" => give_back(&mut state.handles, function),
        _ => None,
    }
}

/// Memory of the host, at whole pages.
fn pages(size: usize) -> Option<usize> {
    // SAFETY: fresh memory, wherever the kernel likes.
    let address = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0)
    };
    (address != libc::MAP_FAILED).then_some(address as usize)
}

fn keep(kept: &mut Vec<usize>, status: i32, made: usize) -> Option<i32> {
    if status == 0 {
        kept.push(made);
    }
    Some(status)
}

fn give_back(kept: &mut Vec<usize>, function: usize) -> Option<i32> {
    let status = call6(function, [*kept.last()?, 0, 0, 0, 0, 0]);
    if status == 0 {
        kept.pop();
    }
    Some(status)
}
