//! Libraries that the C compiler at hand does not make: AArch64 code, vector copies as clang makes them, constants among the code.

use vrocm_audit::elf::Elf;
use vrocm_audit::gfx::verdict::{Reason, Verdict};
use vrocm_audit::gfx::{self, Library, Tier};

use crate::stand_in::{TARGETS, ids};

const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// Code of one function that refers to addresses, and stands at one.
type Code = dyn Fn(u64, &[u64]) -> Vec<u8>;

/// A `libhsa-runtime64.so.1` in one executable segment: strings and functions, each of which refers to all ids it is given.
fn library(machine: u16, ids: &[String], functions: &[&Code]) -> Vec<u8> {
    let mut file = vec![0; 64 + 3 * 56];
    let mut place = |bytes: &[u8]| {
        file.resize(file.len().next_multiple_of(8), 0);
        let at = file.len() as u64;
        file.extend_from_slice(bytes);
        (at, file.len() as u64)
    };
    let names = ["", "libhsa-runtime64.so.1", "hsa_init", "hsa_iterate_agents", "hsa_isa_from_name"];
    let offsets: Vec<u32> = names.iter().scan(0, |at, name| Some(std::mem::replace(at, *at + name.len() as u32 + 1))).collect();
    let (strings, strings_end) = place(&names.map(|name| format!("{name}\0")).concat().into_bytes());
    let mut symbols = vec![0_u8; 24];
    for offset in &offsets[2..] {
        symbols.extend(offset.to_le_bytes());
        // GLOBAL FUNC, default visibility, section 1, value 64, size 0.
        symbols.extend([0x12, 0, 1, 0, 64]);
        symbols.extend([0; 15]);
    }
    let (symbols, _) = place(&symbols);
    // DT_HASH with one bucket: 1, 2, 3 in a chain.
    let hash: Vec<u8> = [1_u32, 4, 1, 0, 2, 3, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let (hash, _) = place(&hash);
    let mut addresses = Vec::new();
    for id in ids {
        addresses.push(place(format!("{id}\0").as_bytes()).0);
    }
    let mut starts = Vec::new();
    for function in functions {
        let at = place(&[]).0;
        starts.push(place(&function(at, &addresses)).0);
    }
    let header = place(&[]).0;
    let mut frames = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0];
    frames.extend((starts.len() as u32).to_le_bytes());
    for start in &starts {
        frames.extend(start.wrapping_sub(header).to_le_bytes()[..4].iter().chain(&[0; 4]));
    }
    let (_, frames_end) = place(&frames);
    let tags = [(14, u64::from(offsets[1])), (5, strings), (10, strings_end - strings), (6, symbols), (11, 24), (4, hash), (0, 0)];
    let dynamic: Vec<u8> = tags.iter().flat_map(|&(tag, value): &(u64, u64)| [tag.to_le_bytes(), value.to_le_bytes()].concat()).collect();
    let (dynamic, dynamic_end) = place(&dynamic);
    let size = file.len() as u64;
    file[..20].copy_from_slice(&[&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0][..], &machine.to_le_bytes()].concat());
    file[20] = 1;
    file[32] = 64;
    (file[52], file[54], file[56]) = (64, 56, 3);
    for (index, (kind, start, end)) in [(1_u32, 0, size), (2, dynamic, dynamic_end), (0x6474_e550, header, frames_end)].into_iter().enumerate() {
        let len = end - start;
        let words = [u64::from(kind) | 5 << 32, start, start, start, len, len, 8];
        let raw: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file[64 + index * 56..][..56].copy_from_slice(&raw);
    }
    file
}

/// `adrp x0, page; add x0, x0, #offset; nop` for each address.
fn adrp_add(at: u64, addresses: &[u64]) -> Vec<u8> {
    let mut code = Vec::new();
    for &to in addresses {
        let pages = (to >> 12).wrapping_sub((at + code.len() as u64) >> 12) as u32;
        let words = [0x9000_0000 | (pages & 3) << 29 | (pages >> 2 & 0x7_ffff) << 5, 0x9100_0000 | ((to & 0xfff) as u32) << 10, 0xd503_201f];
        code.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    code
}

/// An instruction with the operand `[rip + x]` for each address.
fn relative(instruction: [u8; 3], at: u64, addresses: &[u64]) -> Vec<u8> {
    let mut code = Vec::new();
    for &to in addresses {
        code.extend(instruction);
        let next = at + code.len() as u64 + 4;
        code.extend(&to.wrapping_sub(next).to_le_bytes()[..4]);
    }
    code
}

/// `lea rdi, [rip + x]` for each address.
fn taken_addresses(at: u64, addresses: &[u64]) -> Vec<u8> {
    relative([0x48, 0x8d, 0x3d], at, addresses)
}

/// `movups xmm0, [rip + x]` for each address.
fn vector_copies(at: u64, addresses: &[u64]) -> Vec<u8> {
    relative([0x0f, 0x10, 0x05], at, addresses)
}

/// Code that refers to nothing.
fn nothing(_: u64, _: &[u64]) -> Vec<u8> {
    vec![0x1f, 0x20, 0x03, 0xd5]
}

/// `movz x1, "gf"; movk x1, "x1"…; str x1, [sp]`: gfx1250 in immediates.
fn moved_immediates(_: u64, _: &[u64]) -> Vec<u8> {
    let parts = [*b"gf", *b"x1", *b"25", *b"0\0"].map(|part| u32::from(u16::from_le_bytes(part)));
    let moves = parts.iter().enumerate().map(|(index, part)| if index == 0 { 0xd280_0001 } else { 0xf280_0001 } | (index as u32) << 21 | part << 5);
    moves.chain([0xf900_03e1]).flat_map(u32::to_le_bytes).collect()
}

fn scan(bytes: Vec<u8>) -> Library {
    gfx::scan(&Elf::from_bytes("libhsa-runtime64.so.1", bytes).unwrap()).unwrap()
}

fn reason(bytes: Vec<u8>, name: &str) -> Reason {
    gfx::scan_for(&Elf::from_bytes("libhsa-runtime64.so.1", bytes).unwrap(), name.parse().unwrap()).unwrap().1.reason
}

#[test]
fn aarch64() {
    let bytes = library(AARCH64, &ids(&TARGETS), &[&nothing, &adrp_add, &nothing]);
    let scanned = scan(bytes.clone());
    assert_eq!((scanned.tier, scanned.targets.len()), (Tier::Registry, 39), "{:?}", scanned.why_no_registry);
    assert_eq!(reason(bytes.clone(), "gfx1250"), Reason::NotRegistered);
    let (_, answer) = gfx::scan_for(&Elf::from_bytes("libhsa-runtime64.so.1", bytes).unwrap(), "gfx942:xnack-".parse().unwrap()).unwrap();
    assert_eq!(answer.verdict, Verdict::Supported);
}

#[test]
fn aarch64_immediates() {
    let elsewhere = library(AARCH64, &ids(&TARGETS), &[&adrp_add, &moved_immediates]);
    assert_eq!(reason(elsewhere, "gfx1250"), Reason::Contradiction);
    let builder = |at: u64, addresses: &[u64]| [adrp_add(at, addresses), moved_immediates(at, addresses)].concat();
    let within = library(AARCH64, &ids(&TARGETS), &[&builder, &nothing]);
    assert_eq!(scan(within.clone()).targets.len(), 40);
    assert_eq!(reason(within, "gfx1250"), Reason::Registered);
}

#[test]
fn vector_copies_where_no_address_is_taken() {
    let bytes = library(X86_64, &ids(&TARGETS), &[&nothing, &vector_copies, &nothing]);
    let scanned = scan(bytes.clone());
    assert_eq!((scanned.tier, scanned.targets.len()), (Tier::Registry, 39), "{:?}", scanned.why_no_registry);
    assert_eq!(reason(bytes, "gfx1250"), Reason::NotRegistered);
}

#[test]
fn copies_elsewhere_do_not_count_where_an_address_is_taken() {
    let bytes = library(X86_64, &ids(&TARGETS), &[&taken_addresses, &vector_copies]);
    let scanned = scan(bytes);
    assert_eq!((scanned.tier, scanned.targets.len()), (Tier::Registry, 39), "{:?}", scanned.why_no_registry);
}

/// Where the parts that the file is read in meet, and in a segment that begins at an odd address.
#[test]
fn aarch64_immediates_are_found_wherever_they_stand() {
    const PART: u64 = 1 << 16;
    let at_the_seam = |at: u64, addresses: &[u64]| {
        let nops = ((PART - at) / 4) as usize;
        [[0x1f, 0x20, 0x03, 0xd5].repeat(nops), moved_immediates(at, addresses)].concat()
    };
    let bytes = library(AARCH64, &ids(&TARGETS), &[&adrp_add, &at_the_seam]);
    assert!(bytes.len() as u64 > PART && reason(bytes, "gfx1250") == Reason::Contradiction);
    let mut odd = library(AARCH64, &ids(&TARGETS), &[&adrp_add, &moved_immediates]);
    let size = odd.len() as u64;
    // Offset, address, physical address, size in the file and in memory of the first segment.
    for (at, value) in [(72, 1), (80, 1), (88, 1), (96, size - 1), (104, size - 1)] {
        odd[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    assert_eq!(reason(odd, "gfx1250"), Reason::Contradiction);
}

#[test]
fn another_machine_is_read_by_mention() {
    let bytes = library(243, &ids(&TARGETS), &[&adrp_add]);
    assert_eq!(scan(bytes.clone()).tier, Tier::Mentions);
    assert_eq!(reason(bytes.clone(), "gfx942"), Reason::NoRegistry);
    assert_eq!(reason(bytes, "gfx1250"), Reason::NameAbsent);
}

#[test]
fn segments_that_overlap_are_refused() {
    let mut bytes = library(AARCH64, &ids(&TARGETS), &[&adrp_add]);
    // The same bytes loaded three times.
    let first: Vec<u8> = bytes[64..120].to_vec();
    let mut headers = bytes[64..64 + 3 * 56].to_vec();
    headers.extend([first.clone(), first].concat());
    let at = bytes.len().next_multiple_of(8);
    bytes.resize(at, 0);
    bytes.extend(headers);
    bytes[32..40].copy_from_slice(&(at as u64).to_le_bytes());
    bytes[56] = 5;
    let error = Elf::from_bytes("x", bytes).map(|_| ());
    assert!(error.is_err_and(|error| error.to_string().contains("overlaps PT_LOAD")));
}
