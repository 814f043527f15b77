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
pub(super) fn find(image: &Elf, names: &Names, thorough: bool) -> Result<Vec<(Range, Candidate)>> {
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
    let mut found: BTreeMap<Range, Candidate> = BTreeMap::new();
    let mut count = 0;
    let mut see = |reference: Reference| {
        let Some(name) = names.id_at(reference.to) else { return };
        if count < MOST_REFERENCES
            && let Some(range) = functions.around(reference.at)
        {
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
/// an immediate begins a name that is no string of the file.
pub(super) fn complete(image: &Elf, names: &Names, range: Range, candidate: &mut Candidate) -> Result<()> {
    let assembly = Assembly::new(image, TAG);
    let code = assembly.code(range)?;
    let generics = names.ids.iter().filter(|id| matches!(id.name, Name::Generic(_))).map(|id| id.name);
    let mut known: Vec<_> = candidate.names().chain(generics).map(|name| (name, name.to_string())).collect();
    known.dedup();
    let surprise = match image.header.machine {
        X86_64 => memmem::find_iter(&code, TAG).any(|position| match explain(&code, position, &known) {
            Some(name) => {
                candidate.add(name);
                false
            }
            None => true,
        }),
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

/// The known name that the immediate at a position of x86-64 code begins, if there is one whose rest is near.
pub(super) fn explain(code: &[u8], position: usize, known: &[(Name, String)]) -> Option<Name> {
    /// Bytes of the largest immediate. A name's rest may be kept in a register from before, so that many alone tell.
    const WIDEST: usize = 8;
    let here = code.get(position..)?;
    let around = &code[position.saturating_sub(NEAR)..code.len().min(position + NEAR)];
    let common = |text: &str| here.iter().zip(text.as_bytes()).take_while(|(here, name)| here == name).count();
    if let Some(start) = here.first_chunk::<WIDEST>() {
        let alike = known.iter().filter(|(_, text)| text.as_bytes().first_chunk() == Some(start));
        if let Some((name, _)) = alike.max_by_key(|(_, text)| common(text)) {
            return Some(*name);
        }
    }
    // The rest stands in another immediate, which may overlap the first.
    let whole = |text: &str| {
        let rest = &text.as_bytes()[common(text).max(text.len().saturating_sub(4))..];
        rest.is_empty() || memmem::find(around, rest).is_some()
    };
    known.iter().find(|(name, text)| matches!(name, Name::Target(_)) && common(text) > TAG.len() && whole(text)).map(|&(name, _)| name)
}

/// True for the AArch64 instruction `movz w, #"gf"` (little-endian 0x6667), with which a name in immediates begins.
pub(super) fn begins_name(word: &[u8]) -> bool {
    let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    word & 0x7f80_0000 == 0x5280_0000 && word >> 5 & 0xffff == 0x6667
}

#[cfg(test)]
mod tests {
    use memchr::memmem;

    use super::{Name, TAG, begins_name, explain};

    #[test]
    fn an_immediate_is_explained_by_a_known_name() {
        let known =
            ["gfx1011", "gfx90c", "gfx9-generic", "gfx9-4-generic", "gfx90c:xnack-"].map(|text| (text.parse::<Name>().unwrap(), text.to_owned()));
        let explained = |code: &[u8]| {
            let position = memmem::find(code, TAG).unwrap();
            explain(code, position, &known).map(|name| name.to_string())
        };
        for (code, name) in [
            // mov dword [rsp+80h], "gfx1"; mov dword [rsp+83h], "1011".
            (&b"\xc7\x84\x24\x80\0\0\0gfx1\xc7\x84\x24\x83\0\0\x001011"[..], "gfx1011"),
            // mov ecx, "0c" comes first.
            (b"\xb90c\0\0\xc7\x84\x24\x80\0\0\0gfx9", "gfx90c"),
            (b"\x48\xb8gfx9-4-g\x48\x89\x44\x24\x60\x48\xb8-generic", "gfx9-4-generic"),
            (b"\x48\xb8gfx9-4-g\x48\x89\x44\x24\x60\x48\x89\x6c\x24\x66", "gfx9-4-generic"),
            (b"\x48\xb8gfx90c:x\x48\x89\x44\x24\x60\xc7\x44\x24\x64ack-", "gfx90c:xnack-"),
        ] {
            assert_eq!(explained(code).as_deref(), Some(name), "{code:?}");
        }
        assert_eq!(explained(b"\xc7\x84\x24\x80\0\0\0gfx1\xc7\x84\x24\x83\0\0\x001250"), None);
        assert_eq!(explained(b"\xb951\0\0\xc7\x84\x24\x80\0\0\0gfx9"), None);
        // Of "gfx9" and "eric" a generic may be made or any other name; of "gfx" and "1011" gfx1011 is not, since "gfx9" begins another.
        assert_eq!(explained(b"\xc7\x84\x24\x80\0\0\0gfx9\xc7\x84\x24\x83\0\0\0eric"), None);
        assert_eq!(explained(b"\xc7\x84\x24\x80\0\0\0gfx9\xc7\x84\x24\x83\0\0\x001011"), None);
        // A rest that stands far off is another's.
        let far = [&b"\xc7\x84\x24\x80\0\0\0gfx1"[..], &[0x90; 80], b"\xc7\x84\x24\x83\0\0\x001011"].concat();
        assert_eq!(explained(&far), None);
    }

    #[test]
    fn aarch64_names_begin_with_a_move() {
        // mov w1, #0x6667 and mov x1, #0x6667; movk w1, #0x6667, lsl 16; mov w1, #0x6668.
        assert!(begins_name(&0x528c_cce1_u32.to_le_bytes()) && begins_name(&0xd28c_cce1_u32.to_le_bytes()));
        assert!(!begins_name(&0x72ac_cce1_u32.to_le_bytes()) && !begins_name(&0x528c_cd01_u32.to_le_bytes()));
    }
}
