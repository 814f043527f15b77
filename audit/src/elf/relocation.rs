//! Relocations: those that bind a symbol (`DT_JMPREL`, `DT_RELA`, `DT_REL`), relative ones, `DT_RELR`, and Android's packed form.

use object::elf;
use object::endian::{U32, U64};
use object::pod;
use object::read::elf::{FileHeader, Rel as _, Rela as _};

use super::error::Result;
use super::header::{Header, by_class};
use super::{Class, Elf, Endianness, Window};

/// What a relocation does, across machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RelocationKind {
    /// A call through the PLT, bound at load or at the first call.
    JumpSlot,
    /// An address in the GOT, bound at load.
    GlobDat,
    /// Copies a library's data into the program.
    Copy,
    /// The symbol's address plus addend, in data.
    Absolute,
    /// Load address plus addend; names no symbol.
    Relative,
    /// The result of a resolver function; names no symbol.
    IRelative,
    /// Thread-local storage.
    Tls,
    /// Any other, by its number.
    Other(u32),
}

/// One relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// `r_offset`: the address that is patched.
    pub place: u64,
    /// Index in `DT_SYMTAB`; 0 for none.
    pub symbol: u32,
    /// What it does.
    pub kind: RelocationKind,
    /// `r_addend`; 0 for a REL entry, whose addend stands at the place.
    pub addend: i64,
    /// True if the addend stands at the place (REL).
    pub implicit_addend: bool,
}

impl Relocation {
    /// True if the loader looks the symbol up: not for entry 0, and not for the kinds that have no symbol whatever the entry says. Number 0 is
    /// `NONE` on every machine.
    fn binds(&self) -> bool {
        self.symbol != 0 && !matches!(self.kind, RelocationKind::Relative | RelocationKind::IRelative | RelocationKind::Other(0))
    }
}

/// Relocations that name a symbol. A run of relative ones announced by `DT_RELACOUNT` is passed over unread, as the loader does.
pub(super) fn read_symbolic(image: &Elf) -> Result<Vec<Relocation>> {
    let mut found = Vec::new();
    for table in tables(image)? {
        let skip = table.relative_run;
        by_class!(
            image.header.class,
            read_table(image, &table, skip, &mut |relocation| {
                if relocation.binds() {
                    found.push(relocation);
                }
            })
        )?;
    }
    read_android(image, &mut |relocation| {
        if relocation.binds() {
            found.push(relocation);
        }
    })?;
    Ok(found)
}

/// Places that hold an address of this file after loading, as (place, address), sorted by place.
///
/// An error for a machine whose relocation numbers this file does not know: an empty list would say that there are none.
pub(super) fn read_relative(image: &Elf) -> Result<Vec<(u64, u64)>> {
    if numbers(image.header.machine).is_none() && !image.dynamic.is_empty() {
        let problem = format!("relocations of {} are not known here", image.header.machine_name());
        return Err(image.error("e_machine", Some(18), problem));
    }
    let mut found = Vec::new();
    let mut implicit = Vec::new();
    let mut take = |relocation: Relocation| {
        if relocation.kind == RelocationKind::Relative {
            if relocation.implicit_addend {
                implicit.push(relocation.place);
            } else {
                found.push((relocation.place, relocation.addend.cast_unsigned()));
            }
        }
    };
    for table in tables(image)? {
        by_class!(image.header.class, read_table(image, &table, 0, &mut take))?;
    }
    read_android(image, &mut take)?;
    implicit.extend(read_relr(image)?);
    implicit.sort_unstable();
    found.extend(read_addends(image, &implicit)?);
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Every relocation, those of `DT_RELR` last.
pub(super) fn read_each(image: &Elf, take: &mut dyn FnMut(Relocation)) -> Result<()> {
    for table in tables(image)? {
        by_class!(image.header.class, read_table(image, &table, 0, take))?;
    }
    read_android(image, take)?;
    for place in read_relr(image)? {
        take(Relocation { place, symbol: 0, kind: RelocationKind::Relative, addend: 0, implicit_addend: true });
    }
    Ok(())
}

/// One table of the dynamic section.
struct Table {
    name: &'static str,
    size_name: &'static str,
    size_tag: elf::DynamicTag,
    count_name: &'static str,
    count_tag: elf::DynamicTag,
    address: u64,
    size: u64,
    with_addend: bool,
    /// Entries at the start that are relative by the file's own word.
    relative_run: u64,
}

fn tables(image: &Elf) -> Result<Vec<Table>> {
    let dynamic = &image.dynamic;
    let mut tables = Vec::new();
    let plain = [
        ("DT_RELA", elf::DT_RELA, "DT_RELASZ", elf::DT_RELASZ, "DT_RELACOUNT", elf::DT_RELACOUNT, true),
        ("DT_REL", elf::DT_REL, "DT_RELSZ", elf::DT_RELSZ, "DT_RELCOUNT", elf::DT_RELCOUNT, false),
    ];
    for (name, tag, size_name, size_tag, count_name, count_tag, with_addend) in plain {
        let Some(address) = dynamic.value(tag) else { continue };
        let Some(size) = dynamic.value(size_tag) else {
            return Err(image.error(size_name, dynamic.offset(tag), format!("{name} without {size_name}")));
        };
        tables.push(Table {
            name,
            size_name,
            size_tag,
            count_name,
            count_tag,
            address,
            size,
            with_addend,
            relative_run: dynamic.value(count_tag).unwrap_or(0),
        });
    }
    if let Some(address) = dynamic.value(elf::DT_JMPREL) {
        let Some(size) = dynamic.value(elf::DT_PLTRELSZ) else {
            return Err(image.error("DT_PLTRELSZ", dynamic.offset(elf::DT_JMPREL), "DT_JMPREL without DT_PLTRELSZ"));
        };
        let with_addend = match dynamic.value(elf::DT_PLTREL) {
            Some(tag) if tag == elf::DT_RELA.0.cast_unsigned() => true,
            Some(tag) if tag == elf::DT_REL.0.cast_unsigned() => false,
            other => {
                let problem = format!("{} is neither DT_REL (17) nor DT_RELA (7)", other.unwrap_or(0));
                return Err(image.error("DT_PLTREL", dynamic.offset(elf::DT_PLTREL).or(dynamic.offset(elf::DT_JMPREL)), problem));
            }
        };
        if only_form(image).is_some_and(|only| only != with_addend) {
            let problem = "the other of DT_REL (17) and DT_RELA (7) is this machine's only form: the loader would stop";
            return Err(image.error("DT_PLTREL", dynamic.offset(elf::DT_PLTREL), problem));
        }
        // Some linkers let DT_RELASZ cover the PLT's entries as well; they are read once.
        for table in tables.iter_mut().filter(|table| table.with_addend == with_addend) {
            let end = table.address.wrapping_add(table.size);
            if address >= table.address && address.wrapping_add(size) == end {
                table.size = address - table.address;
            }
        }
        let (size_name, size_tag, count_name, count_tag) = ("DT_PLTRELSZ", elf::DT_PLTRELSZ, "DT_RELACOUNT", elf::DT_RELACOUNT);
        tables.push(Table { name: "DT_JMPREL", size_name, size_tag, count_name, count_tag, address, size, with_addend, relative_run: 0 });
    }
    Ok(tables)
}

/// Whether the machine's loaders know RELA (true) or REL (false) entries only; `None` where both are in use.
fn only_form(image: &Elf) -> Option<bool> {
    match elf::Machine(image.header.machine) {
        elf::EM_X86_64 | elf::EM_AARCH64 | elf::EM_PPC64 | elf::EM_PPC | elf::EM_RISCV | elf::EM_S390 | elf::EM_LOONGARCH | elf::EM_ALPHA => {
            Some(true)
        }
        elf::EM_386 => Some(false),
        _ => None,
    }
}

fn read_table<H: FileHeader<Endian = Endianness>>(image: &Elf, table: &Table, skip: u64, take: &mut dyn FnMut(Relocation)) -> Result<()> {
    let entry = if table.with_addend { size_of::<H::Rela>() } else { size_of::<H::Rel>() } as u64;
    let dynamic = &image.dynamic;
    let (entry_name, entry_tag) = if table.with_addend { ("DT_RELAENT", elf::DT_RELAENT) } else { ("DT_RELENT", elf::DT_RELENT) };
    if let Some(claimed) = dynamic.value(entry_tag).filter(|&claimed| claimed != entry) {
        return Err(image.error(entry_name, dynamic.offset(entry_tag), format!("{claimed} where this class has entries of {entry} bytes")));
    }
    if !table.size.is_multiple_of(entry) {
        let problem = format!("a size of {} bytes is no multiple of the entry's {entry}", table.size);
        return Err(image.error(table.size_name, dynamic.offset(table.size_tag), problem));
    }
    if table.relative_run > table.size / entry {
        let problem = format!("{} entries are more than the table holds ({})", table.relative_run, table.size / entry);
        return Err(image.error(table.count_name, dynamic.offset(table.count_tag), problem));
    }
    // One entry of the run is read even where the run is passed over: linkers sort it first, so that its last entry tells whether it ends here.
    let skip = skip.saturating_sub(1);
    let skipped = skip * entry;
    let window = image.window(table.name, table.address.wrapping_add(skipped), table.size - skipped)?;
    let endian = image.header.endian;
    let mut index = skip;
    let mut take = |relocation: Relocation| {
        if index < table.relative_run && relocation.symbol != 0 {
            let at = window.offset + (index - skip) * entry;
            let problem = format!("{} entries are relative, yet entry {index} names symbol {}", table.relative_run, relocation.symbol);
            return Err(image.error(table.count_name, Some(at), problem));
        }
        index += 1;
        take(relocation);
        Ok(())
    };
    if table.with_addend {
        for raw in pod::slice_from_all_bytes::<H::Rela>(&window.bytes).unwrap_or_default() {
            let (symbol, kind) = split_info(&image.header, raw.r_info(endian, false).into());
            take(Relocation { place: raw.r_offset(endian).into(), symbol, kind, addend: raw.r_addend(endian).into(), implicit_addend: false })?;
        }
    } else {
        for raw in pod::slice_from_all_bytes::<H::Rel>(&window.bytes).unwrap_or_default() {
            let (symbol, kind) = split_info(&image.header, raw.r_info(endian).into());
            take(Relocation { place: raw.r_offset(endian).into(), symbol, kind, addend: 0, implicit_addend: true })?;
        }
    }
    Ok(())
}

/// `DT_RELR`: addresses, and bit maps of the words after them.
fn read_relr(image: &Elf) -> Result<Vec<u64>> {
    let dynamic = &image.dynamic;
    let word = image.header.word_size();
    let endian = image.header.endian;
    let mut places = Places { image, found: Vec::new(), segment_end: 0 };
    let kinds = [
        ("DT_RELR", elf::DT_RELR, "DT_RELRSZ", elf::DT_RELRSZ, "DT_RELRENT", elf::DT_RELRENT),
        ("DT_ANDROID_RELR", elf::DT_ANDROID_RELR, "DT_ANDROID_RELRSZ", elf::DT_ANDROID_RELRSZ, "DT_ANDROID_RELRENT", elf::DT_ANDROID_RELRENT),
    ];
    for (name, tag, size_name, size_tag, entry_name, entry_tag) in kinds {
        let Some(address) = dynamic.value(tag) else { continue };
        let Some(size) = dynamic.value(size_tag) else {
            return Err(image.error(size_name, dynamic.offset(tag), format!("{name} without {size_name}")));
        };
        if let Some(claimed) = dynamic.value(entry_tag).filter(|&claimed| claimed != word) {
            return Err(image.error(entry_name, dynamic.offset(entry_tag), format!("{claimed} where this class has entries of {word} bytes")));
        }
        if !size.is_multiple_of(word) {
            return Err(image.error(size_name, dynamic.offset(size_tag), format!("{size} bytes are no multiple of the entry's {word}")));
        }
        let window = image.window(name, address, size)?;
        let entries: Vec<u64> = if word == 8 {
            pod::slice_from_all_bytes::<U64<Endianness>>(&window.bytes).unwrap_or_default().iter().map(|entry| entry.get(endian)).collect()
        } else {
            pod::slice_from_all_bytes::<U32<Endianness>>(&window.bytes).unwrap_or_default().iter().map(|entry| entry.get(endian).into()).collect()
        };
        let mut next = 0_u64;
        for (index, entry) in entries.into_iter().enumerate() {
            let at = window.offset + index as u64 * word;
            if entry & 1 == 0 {
                places.push(name, at, entry)?;
                next = entry.wrapping_add(word);
                continue;
            }
            for bit in (1..word * 8).filter(|bit| entry >> bit & 1 != 0) {
                places.push(name, at, next.wrapping_add((bit - 1) * word))?;
            }
            next = next.wrapping_add((word * 8 - 1) * word);
        }
    }
    Ok(places.found)
}

/// Places that `DT_RELR` relocates. Each lies in the file and above the one before it: this bounds how far a few bytes of bit map can expand.
struct Places<'a> {
    image: &'a Elf,
    found: Vec<u64>,
    /// Where the file's part of the segment of the last place ends.
    segment_end: u64,
}

impl Places<'_> {
    fn push(&mut self, field: &str, at: u64, place: u64) -> Result<()> {
        if let Some(&last) = self.found.last().filter(|&&last| place <= last) {
            let problem = format!("relocates address {place:#x} after {last:#x}, where addresses ascend");
            return Err(self.image.error(field, Some(at), problem));
        }
        if place >= self.segment_end || self.found.is_empty() {
            let Some((_, left)) = self.image.locate(place) else {
                let problem = format!("relocates address {place:#x}, which no PT_LOAD takes from the file");
                return Err(self.image.error(field, Some(at), problem));
            };
            self.segment_end = place + left;
        }
        self.found.push(place);
        Ok(())
    }
}

/// Reads the addends that stand at the places themselves, in a few large windows.
fn read_addends(image: &Elf, places: &[u64]) -> Result<Vec<(u64, u64)>> {
    const WINDOW: u64 = 1 << 16;
    let word = image.header.word_size() as usize;
    let endian = image.header.endian;
    let mut window: Option<Window> = None;
    let mut found = Vec::with_capacity(places.len());
    for &place in places {
        let at = |window: &Window| place.checked_sub(window.address).and_then(|skip| usize::try_from(skip).ok());
        let holds = |window: &Window| at(window).is_some_and(|skip| skip < window.bytes.len().saturating_sub(word - 1));
        if !window.as_ref().is_some_and(holds) {
            window = Some(image.window_up_to("r_offset", place, WINDOW)?);
        }
        let Some(bytes) = window.as_ref().and_then(|window| window.bytes.get(at(window)?..)) else { continue };
        let value = if word == 8 {
            pod::from_bytes::<U64<Endianness>>(bytes).map(|(value, _)| value.get(endian))
        } else {
            pod::from_bytes::<U32<Endianness>>(bytes).map(|(value, _)| value.get(endian).into())
        };
        let Ok(value) = value else {
            return Err(image.error("r_offset", None, format!("the addend at {place:#x} leaves the segment's part of the file")));
        };
        found.push((place, value));
    }
    Ok(found)
}

/// Android's packed relocations ("APS2"): SLEB128 numbers in groups that share fields.
fn read_android(image: &Elf, take: &mut dyn FnMut(Relocation)) -> Result<()> {
    let dynamic = &image.dynamic;
    let kinds = [
        ("DT_ANDROID_RELA", elf::DT_ANDROID_RELA, elf::DT_ANDROID_RELASZ, true),
        ("DT_ANDROID_REL", elf::DT_ANDROID_REL, elf::DT_ANDROID_RELSZ, false),
    ];
    for (name, tag, size_tag, with_addend) in kinds {
        let (Some(address), Some(size)) = (dynamic.value(tag), dynamic.value(size_tag)) else { continue };
        let window = image.window(name, address, size)?;
        let fail = |problem: &str| image.error(name, Some(window.offset), problem);
        let Some(packed) = window.bytes.strip_prefix(b"APS2") else { return Err(fail("does not start with APS2")) };
        let mut numbers = Sleb { bytes: packed };
        let cut = || fail("the packed numbers are cut short");
        let total = numbers.next().ok_or_else(cut)?;
        // Grouped entries take no bytes of their own, so the file's size has to bound them: each patches a word of the file.
        let most = i64::try_from(image.len() / image.header.word_size()).unwrap_or(i64::MAX);
        if !(0..=most).contains(&total) {
            return Err(fail(&format!("announces {total} relocations in a file of {} bytes", image.len())));
        }
        let mut place = numbers.next().ok_or_else(cut)?;
        let (mut done, mut addend) = (0, 0_i64);
        while done < total {
            let (size, flags) = (numbers.next().ok_or_else(cut)?, numbers.next().ok_or_else(cut)?);
            if !(1..=total - done).contains(&size) {
                return Err(fail(&format!("a group of {size} relocations where {} are left", total - done)));
            }
            let [by_info, by_offset, by_addend, has_addend] = [1, 2, 4, 8].map(|bit| flags & bit != 0);
            let group_offset = if by_offset { Some(numbers.next().ok_or_else(cut)?) } else { None };
            let group_info = if by_info { Some(numbers.next().ok_or_else(cut)?) } else { None };
            if has_addend && by_addend {
                addend = addend.wrapping_add(numbers.next().ok_or_else(cut)?);
            } else if !has_addend {
                addend = 0;
            }
            for _ in 0..size {
                place = place.wrapping_add(match group_offset {
                    Some(step) => step,
                    None => numbers.next().ok_or_else(cut)?,
                });
                let info = match group_info {
                    Some(info) => info,
                    None => numbers.next().ok_or_else(cut)?,
                }
                .cast_unsigned();
                if has_addend && !by_addend {
                    addend = addend.wrapping_add(numbers.next().ok_or_else(cut)?);
                }
                let (symbol, kind) = split_info(&image.header, info);
                take(Relocation { place: place.cast_unsigned(), symbol, kind, addend, implicit_addend: !with_addend });
            }
            done += size;
        }
    }
    Ok(())
}

/// A row of SLEB128 numbers.
struct Sleb<'a> {
    bytes: &'a [u8],
}

impl Sleb<'_> {
    fn next(&mut self) -> Option<i64> {
        let mut value = 0_i64;
        let mut shift = 0;
        loop {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            if shift < 64 {
                value |= i64::from(byte & 0x7f) << shift;
            }
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(if shift < 64 && byte & 0x40 != 0 { value | -1 << shift } else { value });
            }
            if shift > 70 {
                return None;
            }
        }
    }
}

/// `r_info`: the symbol's index and what the relocation does.
fn split_info(header: &Header, info: u64) -> (u32, RelocationKind) {
    let (symbol, number) = match header.class {
        Class::Elf32 => ((info >> 8) as u32, info as u32 & 0xff),
        // Little-endian MIPS keeps the big-endian order of the fields: the symbol first, then three types of a byte each.
        Class::Elf64 if elf::Machine(header.machine) == elf::EM_MIPS && header.endian == Endianness::Little => {
            (info as u32, ((info >> 32) as u32).swap_bytes())
        }
        Class::Elf64 => ((info >> 32) as u32, info as u32),
    };
    (symbol, kind(header.machine, number))
}

/// Relocation numbers of one machine's psABI supplement.
struct Numbers {
    machine: elf::Machine,
    absolute: &'static [u32],
    copy: u32,
    glob_dat: u32,
    jump_slot: u32,
    relative: &'static [u32],
    irelative: &'static [u32],
    tls: &'static [u32],
}

/// A number that no relocation has, for machines that lack a kind.
const NONE: u32 = u32::MAX;

/// The machines whose libraries this crate meets.
#[rustfmt::skip]
const MACHINES: [Numbers; 10] = [
    Numbers { machine: elf::EM_X86_64, absolute: &[1, 10], copy: 5, glob_dat: 6, jump_slot: 7, relative: &[8, 38], irelative: &[37], tls: &[16, 17, 18, 36] },
    Numbers { machine: elf::EM_AARCH64, absolute: &[257], copy: 1024, glob_dat: 1025, jump_slot: 1026, relative: &[1027], irelative: &[1032], tls: &[1028, 1029, 1030, 1031] },
    Numbers { machine: elf::EM_386, absolute: &[1], copy: 5, glob_dat: 6, jump_slot: 7, relative: &[8], irelative: &[42], tls: &[14, 35, 36, 37, 41] },
    Numbers { machine: elf::EM_ARM, absolute: &[2], copy: 20, glob_dat: 21, jump_slot: 22, relative: &[23], irelative: &[160], tls: &[13, 17, 18, 19] },
    Numbers { machine: elf::EM_PPC64, absolute: &[38], copy: 19, glob_dat: 20, jump_slot: 21, relative: &[22], irelative: &[247, 248], tls: &[68, 73, 78] },
    Numbers { machine: elf::EM_PPC, absolute: &[1], copy: 19, glob_dat: 20, jump_slot: 21, relative: &[22], irelative: &[248], tls: &[68, 73, 78] },
    Numbers { machine: elf::EM_RISCV, absolute: &[1, 2], copy: 4, glob_dat: NONE, jump_slot: 5, relative: &[3], irelative: &[58], tls: &[6, 7, 8, 9, 10, 11, 12] },
    Numbers { machine: elf::EM_S390, absolute: &[4, 22], copy: 9, glob_dat: 10, jump_slot: 11, relative: &[12], irelative: &[61], tls: &[54, 55, 56] },
    Numbers { machine: elf::EM_LOONGARCH, absolute: &[1, 2], copy: 4, glob_dat: NONE, jump_slot: 5, relative: &[3], irelative: &[12], tls: &[6, 7, 8, 9, 10, 11, 13, 14] },
    Numbers { machine: elf::EM_ALPHA, absolute: &[2], copy: 24, glob_dat: 25, jump_slot: 26, relative: &[27], irelative: &[], tls: &[31, 33, 38] },
];

fn numbers(machine: u16) -> Option<&'static Numbers> {
    MACHINES.iter().find(|numbers| numbers.machine.0 == machine)
}

fn kind(machine: u16, number: u32) -> RelocationKind {
    let Some(numbers) = numbers(machine) else { return RelocationKind::Other(number) };
    match number {
        // By far the most.
        _ if numbers.relative.contains(&number) => RelocationKind::Relative,
        _ if number == numbers.glob_dat => RelocationKind::GlobDat,
        _ if number == numbers.jump_slot => RelocationKind::JumpSlot,
        _ if number == numbers.copy => RelocationKind::Copy,
        _ if numbers.absolute.contains(&number) => RelocationKind::Absolute,
        _ if numbers.irelative.contains(&number) => RelocationKind::IRelative,
        _ if numbers.tls.contains(&number) => RelocationKind::Tls,
        _ => RelocationKind::Other(number),
    }
}

#[cfg(test)]
mod tests {
    use super::Sleb;

    #[test]
    fn numbers_of_every_length() {
        let read = |bytes: &[u8]| Sleb { bytes }.next();
        let long = |continued: usize, last: u8| [vec![0x80; continued], vec![last]].concat();
        for (bytes, value) in [
            (vec![0x3f], Some(63)),
            (vec![0x40], Some(-64)),
            (vec![0x7f], Some(-1)),
            (vec![0xc0, 0x00], Some(64)),
            (vec![0xff, 0x7e], Some(-129)),
            ([vec![0xff; 9], vec![0x00]].concat(), Some(i64::MAX)),
            (long(9, 0x7f), Some(i64::MIN)),
            // More bytes than a number needs add nothing, and end somewhere.
            (long(10, 0), Some(0)),
            (long(11, 0), None),
            (vec![0x80], None),
            (Vec::new(), None),
        ] {
            assert_eq!(read(&bytes), value, "{bytes:x?}");
        }
    }
}
