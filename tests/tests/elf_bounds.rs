//! Any bytes at all: no panic, little memory, little time. Random damage to real small libraries, and files made to cost as much as they can.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use vrocm_tests::files::{elf_files, repository};
use vrocm_tests::walk;

/// Counts what each thread holds, and the most it held.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    let held = HELD.get() + change;
    HELD.set(held);
    MOST.set(MOST.get().max(held));
}

// SAFETY: every call goes on to the system's allocator unchanged; the counters are plain thread-local cells without destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls every reader; returns how many answered, the most bytes held beyond the input, and the time.
fn cost(bytes: &[u8]) -> (usize, usize, Duration) {
    let before = HELD.get();
    MOST.set(before);
    let start = Instant::now();
    let answered = walk::everything(bytes);
    (answered, usize::try_from(MOST.get() - before).unwrap_or(0), start.elapsed())
}

/// Bounds for one input: the input itself is held once, a symbol takes four times its bytes in the file, a relocation twice.
fn check(bytes: &[u8]) -> usize {
    let (answered, most, time) = cost(bytes);
    assert!(most <= (2 << 20) + 16 * bytes.len(), "{most} bytes held for a file of {}", bytes.len());
    assert!(time < Duration::from_secs(3), "{time:?} for a file of {}", bytes.len());
    answered
}

/// Small real libraries of six machines.
fn libraries() -> Vec<Vec<u8>> {
    let files = elf_files(&[repository("fixtures/elf"), repository("fixtures/cases")]);
    let libraries: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(libraries.len() >= 15, "only {} libraries under fixtures", libraries.len());
    libraries
}

/// One piece of damage.
#[derive(Debug, Clone)]
enum Damage {
    Truncate(prop::sample::Index),
    FlipBit(prop::sample::Index, u8),
    /// Overwrites 1, 2, 4 or 8 aligned bytes with a value that fields are afraid of.
    Field(prop::sample::Index, u32, u64),
    Copy(prop::sample::Index, prop::sample::Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let feared = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX / 2),
        Just(0xffff_ffff),
        Just(0x7fff_ffff),
        0..0x200_u64,
        0..0x5000_u64,
        any::<u64>()
    ];
    prop_oneof![
        1 => any::<prop::sample::Index>().prop_map(Damage::Truncate),
        3 => (any::<prop::sample::Index>(), 0..8_u8).prop_map(|(at, bit)| Damage::FlipBit(at, bit)),
        6 => (any::<prop::sample::Index>(), 0..4_u32, feared).prop_map(|(at, width, value)| Damage::Field(at, width, value)),
        1 => (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..64_u8).prop_map(|(from, to, len)| Damage::Copy(from, to, len)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let place = |index: &prop::sample::Index| index.index(bytes.len());
    match damage {
        Damage::Truncate(at) => {
            let at = place(at);
            bytes.truncate(at);
        }
        Damage::FlipBit(at, bit) => {
            let at = place(at);
            bytes[at] ^= 1 << bit;
        }
        Damage::Field(at, width, value) => {
            let width = 1_usize << width;
            let at = place(at) / width * width;
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        Damage::Copy(from, to, len) => {
            let (from, to) = (place(from), place(to));
            let len = usize::from(*len).min(bytes.len() - from.max(to));
            bytes.copy_within(from..from + len, to);
        }
    }
}

/// Few without optimisation, where each takes thirty times as long.
const CASES: u32 = if cfg!(debug_assertions) { 4_000 } else { 50_000 };

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_libraries_cost_little(which in any::<prop::sample::Index>(), damages in prop::collection::vec(damage(), 1..5)) {
        thread_local!(static LIBRARIES: Vec<Vec<u8>> = libraries());
        LIBRARIES.with(|libraries| {
            let mut bytes = libraries[which.index(libraries.len())].clone();
            for damage in &damages {
                apply(&mut bytes, damage);
            }
            check(&bytes);
        });
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES / 5, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_behind_a_header_cost_little(class in 1..3_u8, endian in 1..3_u8, rest in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, endian, 1];
        bytes.extend(rest);
        check(&bytes);
    }
}

#[test]
fn untouched_libraries_answer_everything() {
    for (index, bytes) in libraries().iter().enumerate() {
        let answered = check(bytes);
        assert!(answered == 9 || answered == 0, "library {index} answered {answered} of 9 readers");
    }
}

/// A 64-bit x86-64 library put together by hand: header, program headers, dynamic section, tables, all in one segment at address 0.
struct Made {
    bytes: Vec<u8>,
    dynamic: Vec<(u64, u64)>,
    segments: Vec<[u64; 8]>,
}

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_REL: u64 = 17;
const DT_RELSZ: u64 = 18;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const DT_ANDROID_RELA: u64 = 0x6000_0011;
const DT_ANDROID_RELASZ: u64 = 0x6000_0012;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const DT_VERNEED: u64 = 0x6fff_fffe;
const DT_VERNEEDNUM: u64 = 0x6fff_ffff;

/// Room for the headers and the dynamic section.
const START: usize = 4096;

impl Made {
    fn new() -> Self {
        Self { bytes: vec![0; START], dynamic: Vec::new(), segments: Vec::new() }
    }

    /// Appends a table and returns its address.
    fn table(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let address = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        address
    }

    fn strings(&mut self, bytes: &[u8]) {
        let address = self.table(bytes);
        self.dynamic.extend([(DT_STRTAB, address), (DT_STRSZ, bytes.len() as u64)]);
    }

    /// Defined global functions by the offsets of their names, the null symbol first.
    fn symbols(&mut self, names: impl Iterator<Item = u32>) {
        let mut table = vec![0; 24];
        for name in names {
            table.extend(name.to_le_bytes());
            table.extend([0x12, 0, 1, 0]);
            table.extend([8, 0, 0, 0, 0, 0, 0, 0].repeat(2));
        }
        let address = self.table(&table);
        self.dynamic.push((DT_SYMTAB, address));
    }

    fn words(&mut self, tag: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let address = self.table(&bytes);
        self.dynamic.push((tag, address));
    }

    fn finish(mut self) -> Vec<u8> {
        let len = self.bytes.len() as u64;
        let dynamic_at = 64 + 56 * (self.segments.len() as u64 + 2);
        let mut segments = vec![[1, 6, 0, 0, 0, len, len, 4096], [2, 6, dynamic_at, dynamic_at, 0, 16, 16, 8]];
        segments.append(&mut self.segments);
        let mut head = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 62, 0, 1, 0, 0, 0];
        head.extend([0_u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
        head.extend([0, 0, 0, 0, 64, 0, 56, 0]);
        head.extend((segments.len() as u16).to_le_bytes());
        head.extend([0; 6]);
        for [kind, flags, rest @ ..] in segments {
            head.extend((kind as u32).to_le_bytes());
            head.extend((flags as u32).to_le_bytes());
            head.extend(rest.iter().flat_map(|word| word.to_le_bytes()));
        }
        head.extend(self.dynamic.iter().flat_map(|&(tag, value)| [tag, value]).flat_map(u64::to_le_bytes));
        assert!(head.len() <= START - 16, "the headers do not fit");
        self.bytes[..head.len()].copy_from_slice(&head);
        self.bytes
    }
}

/// The hash of `DT_GNU_HASH`, for tables made here.
fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

fn named(count: usize) -> (Vec<u8>, Vec<u32>) {
    let mut strings = vec![0];
    let offsets = (0..count).map(|index| {
        let offset = strings.len() as u32;
        strings.extend(format!("s{index}\0").bytes());
        offset
    });
    let offsets = offsets.collect();
    (strings, offsets)
}

/// A GNU hash table with one bucket: its chain holds every symbol, an end mark only at the last.
fn one_bucket(strings: &[u8], offsets: &[u32]) -> Vec<u32> {
    let mut table = vec![1, 1, 1, 0, u32::MAX, u32::MAX, 1];
    for (index, &offset) in offsets.iter().enumerate() {
        let name = strings[offset as usize..].split(|&byte| byte == 0).next().unwrap();
        table.push(gnu_hash(name) & !1 | u32::from(index + 1 == offsets.len()));
    }
    table
}

#[test]
fn one_chain_with_all_symbols_is_read_in_linear_time() {
    let (strings, offsets) = named(100_000);
    let mut made = Made::new();
    made.symbols(offsets.iter().copied());
    made.words(DT_GNU_HASH, &one_bucket(&strings, &offsets));
    made.strings(&strings);
    assert_eq!(check(&made.finish()), 9);

    let mut made = Made::new();
    made.symbols(offsets.iter().copied());
    // nbucket 1, nchain; bucket 0 starts at symbol 1, each symbol leads to the next.
    let mut table = vec![1, offsets.len() as u32 + 1, 1, 0];
    table.extend((2..=offsets.len() as u32).chain([0]));
    made.words(DT_HASH, &table);
    made.strings(&strings);
    assert_eq!(check(&made.finish()), 9);
}

#[test]
fn a_ring_in_the_hash_chain_is_an_error() {
    let (strings, offsets) = named(1000);
    let mut made = Made::new();
    made.symbols(offsets.iter().copied());
    let mut table = vec![1, offsets.len() as u32 + 1, 1, 0];
    table.extend((2..=offsets.len() as u32).chain([1]));
    made.words(DT_HASH, &table);
    made.strings(&strings);
    assert_eq!(check(&made.finish()), 8);
}

#[test]
fn many_symbols_of_one_long_name_are_an_error() {
    // Not UTF-8, so that each name would be written out four times as long.
    let mut strings = vec![0xff; 1 << 18];
    strings.push(0);
    let mut made = Made::new();
    made.symbols(std::iter::repeat_n(0, 20_000));
    let mut table = one_bucket(&strings, &[0]);
    let hash = table.pop().unwrap();
    table.extend(std::iter::repeat_n(hash & !1, 19_999).chain([hash]));
    made.words(DT_GNU_HASH, &table);
    made.strings(&strings);
    let bytes = made.finish();
    let (answered, most, time) = cost(&bytes);
    assert_eq!(answered, 8, "the symbols must be refused");
    assert!(most < 16 << 20 && time < Duration::from_secs(3), "{most} bytes, {time:?}");
}

#[test]
fn overlapping_requirements_are_an_error() {
    // One record of 16 bytes that stands for 60,000: vna_next is 0 only at the end, and steps of 4 bytes lead through the same words.
    let mut strings = vec![b'x'; 200_000];
    strings.push(0);
    let mut made = Made::new();
    made.symbols(std::iter::empty());
    made.words(DT_HASH, &[1, 1, 0, 0]);
    let mut need = vec![0x0001 | (60_000 << 16), 0, 16, 0];
    need.extend(std::iter::repeat_n(4_u32, 60_004));
    made.words(DT_VERNEED, &need);
    made.dynamic.push((DT_VERNEEDNUM, 1));
    made.words(DT_VERSYM, &[0]);
    made.strings(&strings);
    assert_eq!(check(&made.finish()), 7);
}

#[test]
fn relr_that_repeats_itself_is_an_error() {
    let mut made = Made::new();
    made.symbols(std::iter::empty());
    made.words(DT_HASH, &[1, 1, 0, 0]);
    made.strings(&[0]);
    // The same address and 63 words after it, again and again: 512 bytes of file for each 16 of table.
    let words: Vec<u32> = [0x1000, 0, u32::MAX, u32::MAX].repeat(20_000);
    made.words(DT_RELR, &words);
    made.dynamic.push((DT_RELRSZ, words.len() as u64 * 4));
    assert_eq!(check(&made.finish()), 8);
}

/// The distance from the first place to the second plus a word passes the last address.
#[test]
fn a_relative_place_at_the_end_of_the_address_space_is_an_error() {
    let mut made = Made::new();
    made.symbols(std::iter::empty());
    made.words(DT_HASH, &[1, 1, 0, 0]);
    made.strings(&[0]);
    made.words(DT_REL, &[START as u32, 0, 8, 0, u32::MAX - 3, u32::MAX, 8, 0]);
    made.dynamic.push((DT_RELSZ, 32));
    assert_eq!(check(&made.finish()), 8);
}

#[test]
fn a_packed_group_of_more_relocations_than_words_is_an_error() {
    let mut made = Made::new();
    made.symbols(std::iter::empty());
    made.words(DT_HASH, &[1, 1, 0, 0]);
    made.strings(&[0]);
    // "APS2", 2^34 relocations from offset 0, one group that shares offset and info.
    let packed = b"APS2\x80\x80\x80\x80\xc0\x00\x00\x80\x80\x80\x80\xc0\x00\x03\x08\x08";
    let address = made.table(packed);
    made.dynamic.extend([(DT_ANDROID_RELA, address), (DT_ANDROID_RELASZ, packed.len() as u64)]);
    assert_eq!(check(&made.finish()), 6);
}

#[test]
fn many_segments_over_the_same_bytes_are_an_error() {
    let base = |made: &mut Made| {
        made.symbols(std::iter::empty());
        made.words(DT_HASH, &[1, 1, 0, 0]);
        made.strings(&[0]);
        made.table(&vec![0; 200_000]);
    };
    let mut made = Made::new();
    base(&mut made);
    made.segments.extend((1..50).map(|index| [1, 6, 0, index << 24, 0, 200_000, 200_000, 4096]));
    assert_eq!(check(&made.finish()), 0, "PT_LOADs that repeat the file");

    let mut made = Made::new();
    base(&mut made);
    made.segments.extend((1..50).map(|_| [4, 4, 4096, 4096, 0, 200_000, 200_000, 4]));
    assert_eq!(check(&made.finish()), 7, "notes that repeat the file: neither build-id nor ISA level");
}

/// Inputs that the fuzzer once found something with.
#[test]
fn what_the_fuzzer_found_stays_fixed() {
    let folder = repository("fixtures/fuzz");
    let mut inputs = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().extension().is_some_and(|extension| extension == "bin")) {
        check(&std::fs::read(entry.path()).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "fixtures/fuzz holds no inputs");
}
