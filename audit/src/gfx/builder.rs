//! The function that builds ROCr's registry: how it is found, and the ids it registers.
//!
//! It is the only function that refers to ids with features; other tables (ELF flags, image kernels, conversion of old code objects) name
//! bare ids. Measured on ROCr 5.2.3, 6.1.2, 6.4.3 and 7.2.4 for x86-64 and AArch64: 46, 70, 62 and 62 such references there, none elsewhere.

use std::collections::BTreeMap;

use memchr::memmem;

use super::names::{Names, TAG};
use super::registry::Candidate;
use super::target::Name;
use crate::code::assembly::{AARCH64, Assembly, X86_64};
use crate::code::constants::Constant;
use crate::code::functions::{self, Functions};
use crate::code::references::{self, Reference};
use crate::code::sweep;
use crate::elf::{Elf, Result, Segment};

/// Bytes around an immediate in which the rest of a name it begins is looked for.
const NEAR: usize = 64;

/// References kept at most; the real libraries have about 200.
const MOST_REFERENCES: usize = 1 << 16;

/// Start and end of a function.
pub type Range = (u64, u64);

/// Which operands count as references on x86-64.
#[derive(Debug, Clone, Copy)]
enum Operands {
    /// Of `lea`, as GCC takes the address of a string.
    Addresses,
    /// Of any instruction, as clang copies a string.
    All,
}

/// The functions that refer to ids with features, each with all ids it refers to.
///
/// If no function takes the address of one and `thorough` is set, operands of any instruction count on x86-64.
pub fn find(image: &Elf, names: &Names, thorough: bool) -> Result<Vec<(Range, Candidate)>> {
    if !names.have_features() {
        return Ok(Vec::new());
    }
    let functions = functions::read(image)?;
    let mut found = sweep(image, names, &functions, Operands::Addresses)?;
    if found.is_empty() && thorough && image.header.machine == X86_64 {
        found = sweep(image, names, &functions, Operands::All)?;
    }
    Ok(found)
}

fn sweep(image: &Elf, names: &Names, functions: &Functions, operands: Operands) -> Result<Vec<(Range, Candidate)>> {
    let (Some(first), Some(last)) = (names.ids.first(), names.ids.last()) else { return Ok(Vec::new()) };
    let mut found: BTreeMap<Range, Candidate> = BTreeMap::new();
    let mut count = 0;
    let mut see = |reference: Reference| {
        if !(first.address..=last.address).contains(&reference.to) || count == MOST_REFERENCES {
            return;
        }
        if let (Some(name), Some(range)) = (names.id_at(reference.to), functions.around(reference.at)) {
            count += 1;
            found.entry(range).or_default().add(name);
        }
    };
    let mut registers = references::AArch64::default();
    sweep::segments(image, Segment::executable, |chunk| match (image.header.machine, operands) {
        (X86_64, Operands::Addresses) => references::x86_64(chunk, &mut see),
        (X86_64, Operands::All) => references::x86_64_operands(chunk, &mut see),
        (AARCH64, _) => registers.sweep(chunk, &mut see),
        _ => {}
    })?;
    Ok(found.into_iter().filter(|(_, candidate)| candidate.has_features()).collect())
}

/// Adds the ids that a function puts together from immediates.
///
/// Decoding costs more than all else here, and ROCr spells every name that it assembles a second time as a string. So code is decoded only if
/// an immediate begins a name that is not there yet.
pub fn complete(image: &Elf, range: Range, candidate: &mut Candidate) -> Result<()> {
    let assembly = Assembly::new(image, TAG);
    let code = assembly.code(range)?;
    let surprise = match image.header.machine {
        X86_64 => unexplained(&code, &candidate.spelled()),
        AARCH64 => code.chunks_exact(4).any(begins_name),
        _ => false,
    };
    if surprise {
        assembly.function(range, &mut |constant| {
            if let Constant::Text { bytes, .. } = constant
                && let Some(name) = Name::in_file(&bytes)
            {
                candidate.add(name);
            }
        })?;
    }
    Ok(())
}

/// True if an immediate in x86-64 code begins a name of which no known one can be the whole.
fn unexplained(code: &[u8], known: &[String]) -> bool {
    memmem::find_iter(code, TAG).any(|position| {
        let here = &code[position..];
        let around = &code[position.saturating_sub(NEAR)..code.len().min(position + NEAR)];
        !known.iter().any(|name| {
            let name = name.as_bytes();
            let common = here.iter().zip(name).take_while(|(here, name)| here == name).count();
            // The rest stands in another immediate, which may overlap the first.
            let rest = &name[common.max(name.len().saturating_sub(4))..];
            common > TAG.len() && (rest.is_empty() || memmem::find(around, rest).is_some())
        })
    })
}

/// True for the AArch64 instruction `movz w, #"gf"` (little-endian 0x6667), with which a name in immediates begins.
fn begins_name(word: &[u8]) -> bool {
    let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    word & 0x7f80_0000 == 0x5280_0000 && word >> 5 & 0xffff == 0x6667
}

#[cfg(test)]
mod tests {
    use super::{begins_name, unexplained};

    #[test]
    fn an_immediate_is_explained_by_a_known_name() {
        let known = ["gfx1011".to_owned(), "gfx90c".to_owned(), "gfx9-4-generic".to_owned(), "gfx90c:xnack-".to_owned()];
        for code in [
            // mov dword [rsp+80h], "gfx1"; mov dword [rsp+83h], "1011".
            &b"\xc7\x84\x24\x80\0\0\0gfx1\xc7\x84\x24\x83\0\0\x001011"[..],
            // mov ecx, "0c" comes first.
            b"\xb90c\0\0\xc7\x84\x24\x80\0\0\0gfx9",
            b"\x48\xb8gfx9-4-g\x48\x89\x44\x24\x60\x48\xb8-generic",
            b"\x48\xb8gfx90c:x\x48\x89\x44\x24\x60\xc7\x44\x24\x64ack-",
            b"no name",
        ] {
            assert!(!unexplained(code, &known), "{code:?}");
        }
        assert!(unexplained(b"\xc7\x84\x24\x80\0\0\0gfx1\xc7\x84\x24\x83\0\0\x001250", &known));
        assert!(unexplained(b"\xb951\0\0\xc7\x84\x24\x80\0\0\0gfx9", &known));
    }

    #[test]
    fn aarch64_names_begin_with_a_move() {
        // mov w1, #0x6667 and mov x1, #0x6667; movk w1, #0x6667, lsl 16; mov w1, #0x6668.
        assert!(begins_name(&0x528c_cce1_u32.to_le_bytes()) && begins_name(&0xd28c_cce1_u32.to_le_bytes()));
        assert!(!begins_name(&0x72ac_cce1_u32.to_le_bytes()) && !begins_name(&0x528c_cd01_u32.to_le_bytes()));
    }
}
