//! The kernel that asks the hardware where it runs; compiled at run time for the card that is there.

use crate::family::Family;

/// Name of the entry.
pub const ENTRY: &str = "cumask_probe";
/// Threads of a block: one wave, or two on RDNA, which share a WGP.
pub const THREADS: u32 = 64;
/// How often a block sleeps, about 6,400 clocks each time: long enough that all units get blocks before the first ends.
pub const TURNS: u32 = 32;
/// Set in a block's second word, so that a block that never ran is seen.
pub const RAN: u32 = 0x8000_0000;

/// Blocks of a launch: eight for each compute unit.
pub fn blocks(cu: u32) -> u32 {
    cu.saturating_mul(8).clamp(1, 1 << 16)
}

/// The source. It uses the compiler's builtins only, so no header has to be found.
pub fn source(gfx: &str) -> Result<String, String> {
    let registers = Family::of(gfx)?.registers(gfx);
    // All 32 bits: number, offset 0 in bits 10:6, width less one in bits 15:11.
    let read = |register: u32| format!("__builtin_amdgcn_s_getreg({})", register | 31 << 11);
    let xcc = registers.xcc.map_or_else(|| "0u".to_owned(), |register| format!("(unsigned){}", read(register)));
    Ok(format!(
        "extern \"C\" __attribute__((global)) void {ENTRY}(unsigned *out, unsigned turns) {{\n\
         \x20   unsigned place = (unsigned){};\n\
         \x20   unsigned xcc = {xcc} & 15u;\n\
         \x20   for (unsigned turn = 0; turn < turns; turn++) __builtin_amdgcn_s_sleep(100);\n\
         \x20   unsigned block = __builtin_amdgcn_workgroup_id_x();\n\
         \x20   if (__builtin_amdgcn_workitem_id_x() == 0) {{\n\
         \x20       out[2 * block] = place;\n\
         \x20       out[2 * block + 1] = xcc | {RAN:#x}u;\n\
         \x20   }}\n\
         }}\n",
        read(registers.place)
    ))
}
