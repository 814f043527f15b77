//! Relocations: those that bind a symbol (`DT_JMPREL`, `DT_RELA`, `DT_REL`), relative ones, `DT_RELR`, and Android's packed form.

use object::elf;
use object::endian::{U32, U64};
use object::pod;
use object::read::elf::{FileHeader, Rel as _, Rela as _};

use super::error::Result;
use super::header::by_class;
use super::{Elf, Endianness, Window};

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

/// Relocations that name a symbol. A run of relative ones announced by `DT_RELACOUNT` is passed over unread, as the loader does.
pub(super) fn read_symbolic(image: &Elf) -> Result<Vec<Relocation>> {
    let mut found = Vec::new();
    for table in tables(image)? {
        let skip = table.relative_run;
        by_class!(
            image.header.class,
            read_table(image, &table, skip, &mut |relocation| {
                if relocation.symbol != 0 {
                    found.push(relocation);
                }
            })
        )?;
    }
    read_android(image, &mut |relocation| {
        if relocation.symbol != 0 {
            found.push(relocation);
        }
    })?;
    Ok(found)
}

/// Places that hold an address of this file after loading, as (place, address), sorted by place.
pub(super) fn read_relative(image: &Elf) -> Result<Vec<(u64, u64)>> {
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

/// One table of the dynamic section.
struct Table {
    name: &'static str,
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
        ("DT_RELA", elf::DT_RELA, "DT_RELASZ", elf::DT_RELASZ, elf::DT_RELACOUNT, true),
        ("DT_REL", elf::DT_REL, "DT_RELSZ", elf::DT_RELSZ, elf::DT_RELCOUNT, false),
    ];
    for (name, tag, size_name, size_tag, count_tag, with_addend) in plain {
        let Some(address) = dynamic.value(tag) else { continue };
        let Some(size) = dynamic.value(size_tag) else {
            return Err(image.error(size_name, dynamic.offset(tag), format!("{name} without {size_name}")));
        };
        tables.push(Table { name, address, size, with_addend, relative_run: dynamic.value(count_tag).unwrap_or(0) });
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
                return Err(image.error("DT_PLTREL", dynamic.offset(elf::DT_PLTREL), problem));
            }
        };
        // Some linkers let DT_RELASZ cover the PLT's entries as well; they are read once.
        for table in tables.iter_mut().filter(|table| table.with_addend == with_addend) {
            let end = table.address.wrapping_add(table.size);
            if address >= table.address && address.wrapping_add(size) == end {
                table.size = address - table.address;
            }
        }
        tables.push(Table { name: "DT_JMPREL", address, size, with_addend, relative_run: 0 });
    }
    Ok(tables)
}

fn read_table<H: FileHeader<Endian = Endianness>>(image: &Elf, table: &Table, skip: u64, take: &mut dyn FnMut(Relocation)) -> Result<()> {
    let entry = if table.with_addend { size_of::<H::Rela>() } else { size_of::<H::Rel>() } as u64;
    if !table.size.is_multiple_of(entry) {
        let problem = format!("a size of {} bytes is no multiple of the entry's {entry}", table.size);
        return Err(image.error(table.name, None, problem));
    }
    let skipped = skip.checked_mul(entry).filter(|&skipped| skipped <= table.size);
    let Some(skipped) = skipped else {
        let problem = format!("DT_RELACOUNT of {skip} entries is more than the table holds ({})", table.size / entry);
        return Err(image.error(table.name, None, problem));
    };
    let window = image.window(table.name, table.address.wrapping_add(skipped), table.size - skipped)?;
    let (endian, machine) = (image.header.endian, image.header.machine);
    if table.with_addend {
        for raw in pod::slice_from_all_bytes::<H::Rela>(&window.bytes).unwrap_or_default() {
            take(Relocation {
                place: raw.r_offset(endian).into(),
                symbol: raw.r_sym(endian, false),
                kind: kind(machine, raw.r_type(endian, false).0),
                addend: raw.r_addend(endian).into(),
                implicit_addend: false,
            });
        }
    } else {
        for raw in pod::slice_from_all_bytes::<H::Rel>(&window.bytes).unwrap_or_default() {
            take(Relocation {
                place: raw.r_offset(endian).into(),
                symbol: raw.r_sym(endian),
                kind: kind(machine, raw.r_type(endian).0),
                addend: 0,
                implicit_addend: true,
            });
        }
    }
    Ok(())
}

/// `DT_RELR`: addresses, and bit maps of the words after them.
fn read_relr(image: &Elf) -> Result<Vec<u64>> {
    let dynamic = &image.dynamic;
    let (Some(address), Some(size)) = (dynamic.value(elf::DT_RELR), dynamic.value(elf::DT_RELRSZ)) else { return Ok(Vec::new()) };
    let window = image.window("DT_RELR", address, size)?;
    let word = image.header.word_size();
    let endian = image.header.endian;
    let entries: Vec<u64> = if word == 8 {
        pod::slice_from_all_bytes::<U64<Endianness>>(&window.bytes).unwrap_or_default().iter().map(|entry| entry.get(endian)).collect()
    } else {
        pod::slice_from_all_bytes::<U32<Endianness>>(&window.bytes).unwrap_or_default().iter().map(|entry| entry.get(endian).into()).collect()
    };
    let mut places = Vec::new();
    let mut next = 0_u64;
    for (index, entry) in entries.into_iter().enumerate() {
        let at = Some(window.offset + index as u64 * word);
        if entry & 1 == 0 {
            places.push(in_file(image, at, entry)?);
            next = entry.wrapping_add(word);
        } else {
            for bit in 1..word * 8 {
                if entry >> bit & 1 != 0 {
                    places.push(in_file(image, at, next.wrapping_add((bit - 1) * word))?);
                }
            }
            next = next.wrapping_add((word * 8 - 1) * word);
        }
    }
    Ok(places)
}

/// A relocated place must be in the file: this also bounds how far a few bytes of bit map can expand.
fn in_file(image: &Elf, at: Option<u64>, place: u64) -> Result<u64> {
    match super::segment::locate(&image.segments, place) {
        Some(_) => Ok(place),
        None => Err(image.error("DT_RELR", at, format!("relocates address {place:#x}, which no PT_LOAD takes from the file"))),
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
        let holds = |window: &Window| place >= window.address && (place - window.address) as usize + word <= window.bytes.len();
        if !window.as_ref().is_some_and(holds) {
            window = Some(image.window_up_to("DT_RELR", place, WINDOW)?);
        }
        let Some(bytes) = window.as_ref().and_then(|window| window.bytes.get((place - window.address) as usize..)) else { continue };
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
        let most = i64::try_from(image.len() / 4).unwrap_or(i64::MAX);
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
                let (symbol, number) = match image.header.class {
                    super::Class::Elf64 => ((info >> 32) as u32, info as u32),
                    super::Class::Elf32 => ((info >> 8) as u32, info as u32 & 0xff),
                };
                let kind = kind(image.header.machine, number);
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

/// Relocation numbers of the machines whose libraries this crate meets (psABI supplements).
fn kind(machine: u16, number: u32) -> RelocationKind {
    use RelocationKind::{Absolute, Copy, GlobDat, IRelative, JumpSlot, Other, Relative, Tls};
    match (elf::Machine(machine), number) {
        (elf::EM_X86_64, 1) | (elf::EM_386, 1) | (elf::EM_AARCH64, 257) | (elf::EM_ARM, 2) | (elf::EM_RISCV, 1 | 2) => Absolute,
        (elf::EM_X86_64 | elf::EM_386, 5) | (elf::EM_AARCH64, 1024) | (elf::EM_ARM, 20) | (elf::EM_RISCV, 4) => Copy,
        (elf::EM_X86_64 | elf::EM_386, 6) | (elf::EM_AARCH64, 1025) | (elf::EM_ARM, 21) => GlobDat,
        (elf::EM_X86_64 | elf::EM_386, 7) | (elf::EM_AARCH64, 1026) | (elf::EM_ARM, 22) | (elf::EM_RISCV, 5) => JumpSlot,
        (elf::EM_X86_64 | elf::EM_386, 8) | (elf::EM_AARCH64, 1027) | (elf::EM_ARM, 23) | (elf::EM_RISCV, 3) => Relative,
        (elf::EM_X86_64, 37) | (elf::EM_386, 42) | (elf::EM_AARCH64, 1032) | (elf::EM_ARM, 160) | (elf::EM_RISCV, 58) => IRelative,
        (elf::EM_X86_64, 16..=18 | 36) | (elf::EM_386, 14 | 35..=37 | 41) | (elf::EM_AARCH64, 1028..=1031) | (elf::EM_ARM, 17..=19 | 13) => Tls,
        (elf::EM_RISCV, 6..=11) => Tls,
        (elf::EM_PPC64, 38) | (elf::EM_S390, 22) | (elf::EM_LOONGARCH, 2) => Absolute,
        (elf::EM_PPC64, 19) | (elf::EM_S390, 9) | (elf::EM_LOONGARCH, 4) => Copy,
        (elf::EM_PPC64, 20) | (elf::EM_S390, 10) => GlobDat,
        (elf::EM_PPC64, 21) | (elf::EM_S390, 11) | (elf::EM_LOONGARCH, 5) => JumpSlot,
        (elf::EM_PPC64, 22) | (elf::EM_S390, 12) | (elf::EM_LOONGARCH, 3) => Relative,
        (_, number) => Other(number),
    }
}
