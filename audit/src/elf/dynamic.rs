//! The dynamic section, reached as the loader reaches it: `PT_DYNAMIC`'s address, its own `PT_LOAD`, entries up to `DT_NULL`.

use object::Endianness;
use object::elf;
use object::read::elf::{Dyn as _, FileHeader};

use super::Elf;
use super::error::Result;
use super::header::by_class;
use super::segment::{Segment, segment_type};
use super::string::Strings;

/// Entries read before a missing `DT_NULL` is called an error.
const MOST_ENTRIES: u64 = 4096;

/// One entry: tag, value, and where it stands in the file.
#[derive(Debug, Clone, Copy)]
struct Entry {
    tag: i64,
    value: u64,
    offset: u64,
}

/// The dynamic section of one file.
#[derive(Debug, Default)]
pub struct Dynamic {
    entries: Vec<Entry>,
}

/// A string of the dynamic section that names another file or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// `DT_NEEDED`, `DT_AUXILIARY`, `DT_FILTER`, `DT_AUDIT` or `DT_DEPAUDIT`.
    pub tag: &'static str,
    /// The string as it stands.
    pub name: String,
}

impl Dynamic {
    /// Value of the last entry with this tag; the loader too keeps the last.
    pub fn value(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.entry(tag).map(|entry| entry.value)
    }

    /// Offset in the file of the last entry with this tag, for messages.
    pub fn offset(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.entry(tag).map(|entry| entry.offset)
    }

    /// True if an entry with this tag is present.
    pub fn has(&self, tag: elf::DynamicTag) -> bool {
        self.entry(tag).is_some()
    }

    /// True for a file without a dynamic section (a static program).
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// `DT_FLAGS`, with the older single-purpose tags folded in: `DT_SYMBOLIC`, `DT_TEXTREL`, `DT_BIND_NOW`.
    pub fn flags(&self) -> u64 {
        let folded = [(elf::DT_SYMBOLIC, elf::DF_SYMBOLIC), (elf::DT_TEXTREL, elf::DF_TEXTREL), (elf::DT_BIND_NOW, elf::DF_BIND_NOW)];
        folded.into_iter().filter(|&(tag, _)| self.has(tag)).fold(self.value(elf::DT_FLAGS).unwrap_or(0), |flags, (_, flag)| flags | flag.0)
    }

    /// `DT_FLAGS_1`.
    pub fn flags_1(&self) -> u64 {
        self.value(elf::DT_FLAGS_1).unwrap_or(0)
    }

    /// True if the loader resolves every symbol before the program starts: `DF_BIND_NOW` or `DF_1_NOW`.
    pub fn binds_now(&self) -> bool {
        self.flags() & elf::DF_BIND_NOW.0 != 0 || self.flags_1() & elf::DF_1_NOW.0 != 0
    }

    /// Addresses of all tables that the dynamic section points to, for telling where one table must end.
    pub(super) fn table_addresses(&self) -> impl Iterator<Item = u64> + '_ {
        const TABLES: [elf::DynamicTag; 17] = [
            elf::DT_PLTGOT,
            elf::DT_HASH,
            elf::DT_STRTAB,
            elf::DT_SYMTAB,
            elf::DT_RELA,
            elf::DT_INIT,
            elf::DT_FINI,
            elf::DT_REL,
            elf::DT_JMPREL,
            elf::DT_INIT_ARRAY,
            elf::DT_FINI_ARRAY,
            elf::DT_PREINIT_ARRAY,
            elf::DT_RELR,
            elf::DT_GNU_HASH,
            elf::DT_VERSYM,
            elf::DT_VERDEF,
            elf::DT_VERNEED,
        ];
        TABLES.into_iter().filter_map(|tag| self.value(tag))
    }

    fn entry(&self, tag: elf::DynamicTag) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.tag == tag.0)
    }

    fn all(&self, tag: elf::DynamicTag) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.tag == tag.0)
    }
}

/// Reads the entries. A static program has none; a shared object without them, or a `PT_DYNAMIC` without bytes in the file, is an error.
pub(super) fn read(image: &Elf) -> Result<Dynamic> {
    let linkable = matches!(elf::FileType(image.header.file_type), elf::ET_EXEC | elf::ET_DYN);
    if linkable && image.loads.is_empty() {
        let problem = format!("none of the {} program headers is a PT_LOAD: there is nothing to map", image.segments.len());
        return Err(image.error("e_phnum", Some(image.header.program_headers_offset), problem));
    }
    // The loader too keeps the last one.
    let Some(segment) = image.segments.iter().rev().find(|segment| segment.kind == segment_type::DYNAMIC) else {
        let dynamic = image.header.file_type == elf::ET_DYN.0 || image.segment(segment_type::INTERP).is_some();
        if linkable && dynamic {
            let problem = "missing: a shared object or a program with an interpreter needs one, and the loader refuses this file";
            return Err(image.error("PT_DYNAMIC", Some(image.header.program_headers_offset), problem));
        }
        return Ok(Dynamic::default());
    };
    if segment.file_size == 0 || image.locate(segment.address).is_none() {
        let problem = "the file holds no bytes of the dynamic section: this is a debug-only file (objcopy --only-keep-debug) or a damaged one; \
                       audit the library itself";
        return Err(image.error("PT_DYNAMIC", Some(segment.header_offset), problem));
    }
    let dynamic = by_class!(image.header.class, read_entries(image, segment))?;
    for (name, tag) in [("DT_STRTAB", elf::DT_STRTAB), ("DT_SYMTAB", elf::DT_SYMTAB)] {
        if !dynamic.has(tag) {
            let problem = format!("missing among the {} entries of the dynamic section, where the gABI demands it", dynamic.entries.len());
            return Err(image.error(name, image.locate(segment.address).map(|(offset, _)| offset), problem));
        }
    }
    Ok(dynamic)
}

fn read_entries<H: FileHeader<Endian = Endianness>>(image: &Elf, segment: &Segment) -> Result<Dynamic> {
    let size = size_of::<H::Dyn>() as u64;
    let most = MOST_ENTRIES * size;
    let endian = image.header.endian;
    // The loader stops at DT_NULL and does not look at p_filesz; as a guess of how much to read it is nearly always enough.
    for room in [segment.file_size.min(most), most] {
        let window = image.window_up_to("PT_DYNAMIC", segment.address, room)?;
        let whole = window.bytes.len() - window.bytes.len() % size_of::<H::Dyn>();
        let raw = object::pod::slice_from_all_bytes::<H::Dyn>(&window.bytes[..whole]).unwrap_or_default();
        if let Some(count) = raw.iter().position(|raw| raw.tag(endian) == elf::DT_NULL) {
            let entry = |(index, raw): (usize, &H::Dyn)| Entry {
                tag: raw.tag(endian).0,
                value: raw.val(endian),
                offset: window.offset + index as u64 * size,
            };
            // Linkers leave spare entries behind the end mark, all of them null; anything else there was cut off by a wrong tag.
            if let Some(index) = raw.iter().take((segment.file_size / size) as usize).rposition(|raw| raw.tag(endian) != elf::DT_NULL)
                && index > count
            {
                let problem = format!("DT_NULL is entry {count}, yet entry {index} is none: the loader stops where the table goes on");
                return Err(image.error("DT_NULL", Some(window.offset + count as u64 * size), problem));
            }
            return Ok(Dynamic { entries: raw[..count].iter().enumerate().map(entry).collect() });
        }
    }
    Err(image.error("PT_DYNAMIC", image.locate(segment.address).map(|(offset, _)| offset), "no DT_NULL before the segment's end or 4096 entries"))
}

/// The strings of the dynamic section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// `DT_NEEDED`, in order.
    pub needed: Vec<String>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// `DT_RPATH`.
    pub rpath: Option<String>,
    /// `DT_RUNPATH`.
    pub runpath: Option<String>,
    /// `DT_AUXILIARY`, `DT_FILTER`, `DT_AUDIT`, `DT_DEPAUDIT`, in that order.
    pub linked: Vec<Linked>,
}

/// Reads every string that the dynamic section names.
pub(super) fn read_names(image: &Elf, strings: &Strings) -> Result<Names> {
    let dynamic = &image.dynamic;
    let mut meter = strings.meter();
    let mut text = |tag: &str, entry: &Entry| -> Result<String> {
        let name = strings.get(image, tag, Some(entry.offset), entry.value)?;
        meter.count(image, tag, entry.offset, name.len())?;
        Ok(name.into_owned())
    };
    let needed = dynamic.all(elf::DT_NEEDED).map(|entry| text("DT_NEEDED", entry)).collect::<Result<_>>()?;
    let mut one = |name: &str, tag| dynamic.entry(tag).map(|entry| text(name, entry)).transpose();
    let mut names = Names {
        needed,
        soname: one("DT_SONAME", elf::DT_SONAME)?,
        rpath: one("DT_RPATH", elf::DT_RPATH)?,
        runpath: one("DT_RUNPATH", elf::DT_RUNPATH)?,
        linked: Vec::new(),
    };
    let linked = [("DT_AUXILIARY", elf::DT_AUXILIARY), ("DT_FILTER", elf::DT_FILTER), ("DT_AUDIT", elf::DT_AUDIT), ("DT_DEPAUDIT", elf::DT_DEPAUDIT)];
    for (name, tag) in linked {
        for entry in dynamic.all(tag) {
            names.linked.push(Linked { tag: name, name: text(name, entry)? });
        }
    }
    Ok(names)
}
