//! Addresses that instructions make, found without decoding: `lea reg, [rip + x]` on x86-64, `adrp` and `add` on AArch64.
//!
//! Both are sweeps over bytes. What they call a reference may by chance be none; an address that is exactly the start of a looked-for
//! string is no chance, so callers match addresses and judge by many of them.

use super::sweep::Chunk;

/// An instruction that makes an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Where the instruction stands (the one that completes the address).
    pub at: u64,
    /// The address it makes.
    pub to: u64,
}

/// Finds every `lea r64, [rip + disp32]` of a chunk: `REX.W`, `8D`, `ModRM` with mod 0 and rm 5.
pub fn x86_64(chunk: Chunk<'_>, mut see: impl FnMut(Reference)) {
    let bytes = chunk.bytes;
    for position in memchr::memchr_iter(0x8d, &bytes[chunk.from..chunk.to]).map(|position| position + chunk.from) {
        let Some(start) = position.checked_sub(1) else { continue };
        let Some(&[rex, _, modrm, a, b, c, d]) = bytes[start..].first_chunk() else { break };
        // One comparison: either is a coin toss, and a branch for each is what this costs.
        if u16::from_be_bytes([rex & 0xf8, modrm & 0xc7]) != 0x4805 {
            continue;
        }
        let at = chunk.address + start as u64;
        let next = at + 7;
        see(Reference { at, to: next.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into()) });
    }
}

/// Finds every place of a chunk that could be an operand relative to the end of its instruction, whatever the instruction: `ModRM` with mod 0
/// and rm 5, a displacement, no immediate after it.
///
/// Compilers copy a long string with vector loads from where it stands, without taking its address. Slower than [`x86_64`], and far more of
/// what it finds is chance.
pub fn x86_64_operands(chunk: Chunk<'_>, mut see: impl FnMut(Reference)) {
    for position in chunk.from..chunk.to {
        if chunk.bytes[position] & 0xc7 != 0x05 {
            continue;
        }
        let Some(&[a, b, c, d]) = chunk.bytes.get(position + 1..position + 5) else { continue };
        let next = chunk.address + position as u64 + 5;
        see(Reference { at: chunk.address + position as u64, to: next.wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into()) });
    }
}

/// Addresses that the registers of an AArch64 sweep hold, carried from chunk to chunk.
#[derive(Debug, Default)]
pub struct AArch64 {
    values: [Option<u64>; 32],
}

impl AArch64 {
    /// Finds every address that `adr`, or `adrp` and `add` of an immediate, make in a chunk.
    ///
    /// Of all instructions only these are looked at, so a register may hold an address that other code has overwritten since.
    pub fn sweep(&mut self, chunk: Chunk<'_>, mut see: impl FnMut(Reference)) {
        // Instructions are aligned in memory; a chunk need not be.
        let misaligned = (chunk.address.wrapping_add(chunk.from as u64) & 3) as usize;
        let first = chunk.from + (4 - misaligned) % 4;
        let Some(words) = chunk.bytes.get(first..) else { return };
        for (index, word) in words.chunks_exact(4).enumerate() {
            let position = first + index * 4;
            if position >= chunk.to {
                break;
            }
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let at = chunk.address + position as u64;
            let register = (word & 31) as usize;
            match word {
                _ if word & 0x9f00_0000 == 0x9000_0000 => self.values[register] = Some((at & !0xfff).wrapping_add_signed(adr_offset(word) << 12)),
                _ if word & 0x9f00_0000 == 0x1000_0000 => {
                    let to = at.wrapping_add_signed(adr_offset(word));
                    self.values[register] = Some(to);
                    see(Reference { at, to });
                }
                _ if word & 0xffc0_0000 == 0x9100_0000 => {
                    let base = self.values[(word >> 5 & 31) as usize];
                    let sum = base.map(|base| base.wrapping_add(u64::from(word >> 10 & 0xfff)));
                    self.values[register] = sum;
                    if let Some(to) = sum {
                        see(Reference { at, to });
                    }
                }
                _ => {}
            }
        }
    }
}

/// The signed 21-bit immediate of `adr` and `adrp`.
fn adr_offset(word: u32) -> i64 {
    let raw = (word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3;
    i64::from((raw << 11).cast_signed() >> 11)
}

#[cfg(test)]
mod tests {
    use super::super::sweep::Chunk;
    use super::{AArch64, Reference, x86_64};

    fn whole(bytes: &[u8], address: u64) -> Chunk<'_> {
        Chunk { bytes, address, from: 0, to: bytes.len() }
    }

    #[test]
    fn lea_relative_to_rip() {
        // lea rcx, [rip+0x10]; lea r15, [rip-1]; lea eax, [rip+1] (no REX.W); lea rax, [rbp+8].
        let code = [0x48, 0x8d, 0x0d, 0x10, 0, 0, 0, 0x4c, 0x8d, 0x3d, 0xff, 0xff, 0xff, 0xff, 0x8d, 0x05, 1, 0, 0, 0, 0x48, 0x8d, 0x45, 8];
        let mut found = Vec::new();
        x86_64(whole(&code, 0x1000), |reference| found.push(reference));
        assert_eq!(found, [Reference { at: 0x1000, to: 0x1017 }, Reference { at: 0x1007, to: 0x100d }]);
    }

    #[test]
    fn lea_cut_short_is_none() {
        x86_64(whole(&[0x48, 0x8d, 0x0d, 0x10, 0], 0), |reference| panic!("{reference:?}"));
        x86_64(whole(&[0x8d, 0x0d, 0, 0, 0, 0], 0), |reference| panic!("{reference:?}"));
    }

    #[test]
    fn operands_relative_to_rip() {
        // movups xmm0, [rip+0x10]; mov rax, [rbp+8].
        let code = [0x0f, 0x10, 0x05, 0x10, 0, 0, 0, 0x48, 0x8b, 0x45, 8];
        let mut found = Vec::new();
        super::x86_64_operands(whole(&code, 0x1000), |reference| found.push(reference));
        assert_eq!(found, [Reference { at: 0x1002, to: 0x1017 }]);
    }

    #[test]
    fn page_and_offset() {
        // As GNU as 2.40 encodes them at 0x1000: adrp x1, 0x3000; add x1, x1, #0x18; add x2, x1, #8; adr x3, . - 4; add x4, x9, #1.
        let code: Vec<u8> =
            [0xd000_0001_u32, 0x9100_6021, 0x9100_2022, 0x10ff_ffe3, 0x9100_0524].iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = Vec::new();
        AArch64::default().sweep(whole(&code, 0x1000), |reference| found.push(reference));
        assert_eq!(found, [Reference { at: 0x1004, to: 0x3018 }, Reference { at: 0x1008, to: 0x3020 }, Reference { at: 0x100c, to: 0x1008 }]);
    }

    #[test]
    fn registers_live_across_chunks_and_chunks_may_be_odd() {
        let code: Vec<u8> = [0_u32, 0xd000_0001, 0x9100_6021].iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = Vec::new();
        let mut sweep = AArch64::default();
        sweep.sweep(Chunk { bytes: &code, address: 0xffc, from: 2, to: 8 }, |reference| found.push(reference));
        sweep.sweep(Chunk { bytes: &code, address: 0xffc, from: 8, to: 12 }, |reference| found.push(reference));
        assert_eq!(found, [Reference { at: 0x1004, to: 0x3018 }]);
    }
}
