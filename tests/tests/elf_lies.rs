//! One field of a small library lies at a time, and the real loader judges what our reader makes of it.
//!
//! The outcome for each must be an error that names a field and an offset, or exactly the facts that the loader sees: the same exports at the same
//! addresses, the same symbols bound by relocations, the same needed libraries. Where the loader refuses the file or dies of it, facts may be given, but
//! none may be missing. `lies/` holds the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use vrocm_audit::elf::{Binding, Class, Elf, ElfError, Endianness, Kind, Place, Visibility, constants};
use vrocm_tests::files::{in_parallel, repository};

/// A place in the file, as the specification names it.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    offset: usize,
    width: usize,
}

/// The compiled library with its surroundings.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        bench.cc(&["-shared", "-nostdlib", "-fPIC", "-Wl,-soname,libneed.so.1", "-Wl,--version-script=need.map", "need.c"], "libneed.so.1");
        bench.cc(&["probe.c", "-ldl"], "probe");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn cc(&self, arguments: &[&str], output: &str) -> Vec<u8> {
        let sources = repository("tests/tests/lies");
        let status = Command::new("cc").current_dir(sources).args(["-O1", "-w"]).args(arguments).arg("-o").arg(self.path(output)).status();
        assert!(status.expect("a C compiler (cc) must be installed").success(), "cc {arguments:?}");
        std::fs::read(self.path(output)).unwrap()
    }

    fn library(&self, name: &str, extra: &[&str]) -> Vec<u8> {
        let need = self.path("libneed.so.1");
        let link =
            ["-shared", "-nostdlib", "-fPIC", "-Wl,-s", "-Wl,--build-id=sha1", "-Wl,--version-script=lie.map", "lie.c", need.to_str().unwrap()];
        self.cc(&[&link, extra].concat(), name)
    }

    /// What the loader makes of the bytes; `None` if it refuses them or dies.
    fn load(&self, name: &str, bytes: &[u8], symbols: &BTreeSet<String>) -> Option<Loaded> {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        let output = Command::new(self.path("probe"))
            .arg(&path)
            .args(symbols)
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("LD_DEBUG", "bindings")
            .output()
            .unwrap();
        if !output.status.success() {
            return None;
        }
        let mut loaded = Loaded::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["symbol", name, address] => loaded.exports.extend(u64::from_str_radix(address, 16).map(|address| (name.to_owned(), address))),
                ["object", path] => loaded.needs |= path.ends_with("/libneed.so.1"),
                _ => {}
            }
        }
        // `  123:	binding file /x/lib.so [0] to /x/libneed.so.1 [0]: normal symbol `need_call' [NEED_1]`
        let ours = format!("binding file {} ", path.display());
        for line in String::from_utf8_lossy(&output.stderr).lines().filter(|line| line.contains(&ours)) {
            let Some((_, symbol)) = line.split_once("symbol `") else { continue };
            let (name, version) = symbol.split_once('\'').unwrap();
            // The probe's own look-ups are shown as bindings too, for symbols of this library.
            let version = version.trim().trim_start_matches('[').trim_end_matches(']');
            loaded.bindings.insert(if version.is_empty() { name.to_owned() } else { format!("{name}@{version}") });
        }
        Some(loaded)
    }
}

/// What the loader saw.
#[derive(Debug, Default, PartialEq)]
struct Loaded {
    /// Exports found, with their addresses as the file has them.
    exports: BTreeMap<String, u64>,
    /// Symbols bound by the library's relocations.
    bindings: BTreeSet<String>,
    /// Whether libneed.so.1 came along.
    needs: bool,
}

/// What our reader says, in the loader's terms.
#[derive(Debug, Default, Clone)]
struct Facts {
    /// Exports that a look-up binds; two of one name and version are possible, and the order of the hash chain then decides.
    exports: BTreeMap<String, BTreeSet<u64>>,
    /// Symbols that relocations name and that must be found.
    bound: BTreeSet<String>,
    /// Those that need not be found: weak ones, and those of this file's own.
    may_be_bound: BTreeSet<String>,
    /// Exports whose address the probe does not tell.
    untold: BTreeSet<String>,
    /// False for a file without version tables: the loader then finds each name under any version.
    versioned: bool,
    needed: Vec<String>,
    counts: [usize; 4],
}

fn read(bytes: &[u8]) -> Result<Facts, ElfError> {
    let image = Elf::from_bytes("lie", bytes.to_vec())?;
    let table = image.symbols()?;
    let mut facts = Facts { needed: image.names()?.needed, ..Facts::default() };
    let full = |symbol| table.version(symbol).map_or_else(|| symbol.name.to_string(), |version| format!("{}@{}", symbol.name, version.node));
    // The probe cannot tell the value of an absolute symbol (no address) or an IFUNC (its resolver runs), and finds an undefined one with a value
    // (a program's PLT entry): those are left out on both sides.
    for symbol in &table.symbols {
        if symbol.place != Place::Here || symbol.kind == Kind::IFunc {
            facts.untold.insert(full(symbol));
        }
    }
    for symbol in table.exports().filter(|symbol| symbol.place == Place::Here) {
        let seen = matches!(symbol.visibility, Visibility::Default | Visibility::Protected);
        let bindable = matches!(symbol.kind, Kind::NoType | Kind::Object | Kind::Func | Kind::Common);
        if seen && bindable && symbol.value != 0 {
            facts.exports.entry(full(symbol)).or_default().insert(symbol.value);
        }
    }
    let relocations = image.symbolic_relocations()?;
    for symbol in relocations.iter().filter_map(|relocation| table.get(relocation.symbol)) {
        let looked_up = matches!(symbol.visibility, Visibility::Default | Visibility::Protected);
        let strong = symbol.is_import() && symbol.binding != Binding::Weak && looked_up;
        if strong {
            facts.bound.insert(full(symbol))
        } else {
            facts.may_be_bound.insert(full(symbol))
        };
    }
    image.relative_relocations()?;
    image.build_id()?;
    image.interpreter()?;
    facts.versioned = !(table.versions.definitions.is_empty() && table.versions.requirements.is_empty());
    // Where a library is required but not needed, that is said by the facts as they are.
    let required = table.versions.requirements.iter().filter(|need| !facts.needed.contains(&need.file)).count();
    facts.counts = [table.symbols.len(), table.imports().count(), facts.needed.len().max(required.min(1)), image.requirements()?.len()];
    Ok(facts)
}

/// Every field of the file that a reader goes by.
fn fields(bytes: &[u8]) -> Vec<Field> {
    let image = Elf::from_bytes("base", bytes.to_vec()).unwrap();
    assert_eq!((image.header.class, image.header.endian), (Class::Elf64, Endianness::Little), "the lies are told in 64-bit little-endian");
    let mut fields = Vec::new();
    let mut record = |what: &str, mut offset: usize, parts: &[(&str, usize)]| {
        for &(name, width) in parts {
            fields.push(Field { name: format!("{what}{name}"), offset, width });
            offset += width;
        }
    };
    record("e_ident", 4, &[("[EI_CLASS]", 1), ("[EI_DATA]", 1), ("[EI_VERSION]", 1)]);
    record("", 16, &[("e_type", 2), ("e_machine", 2), ("e_version", 4), ("e_entry", 8), ("e_phoff", 8), ("e_shoff", 8), ("e_flags", 4)]);
    record("", 52, &[("e_ehsize", 2), ("e_phentsize", 2), ("e_phnum", 2), ("e_shentsize", 2), ("e_shnum", 2), ("e_shstrndx", 2)]);
    for segment in &image.segments {
        let parts = [("p_type", 4), ("p_flags", 4), ("p_offset", 8), ("p_vaddr", 8), ("p_paddr", 8), ("p_filesz", 8), ("p_memsz", 8), ("p_align", 8)];
        record(&format!("segment {:x} ", segment.kind), segment.header_offset as usize, &parts);
    }
    let dynamic = image.segment(vrocm_audit::elf::segment_type::DYNAMIC).unwrap();
    let entries = (dynamic.offset as usize..(dynamic.offset + dynamic.file_size) as usize).step_by(16);
    for offset in entries.take_while(|&offset| offset == dynamic.offset as usize || word(bytes, offset - 16, 8) != 0) {
        let tag = word(bytes, offset, 8);
        record(&format!("dynamic {tag:x} "), offset, &[("d_tag", 8), ("d_val", 8)]);
    }
    // Everything else is in the first segment, where address and offset are the same.
    let table = |tag: constants::DynamicTag| image.dynamic.value(tag).map(|address| address as usize);
    let count = image.symbols().unwrap().symbols.len() + 1;
    for index in 0..count {
        let parts = [("st_name", 4), ("st_info", 1), ("st_other", 1), ("st_shndx", 2), ("st_value", 8), ("st_size", 8)];
        record(&format!("symbol {index} "), table(constants::DT_SYMTAB).unwrap() + index * 24, &parts);
        record(&format!("versym {index}"), table(constants::DT_VERSYM).unwrap() + index * 2, &[("", 2)]);
    }
    if let Some(offset) = table(constants::DT_GNU_HASH) {
        record("DT_GNU_HASH ", offset, &[("nbuckets", 4), ("symoffset", 4), ("maskwords", 4), ("shift", 4)]);
        let (buckets, first, bloom) = (word(bytes, offset, 4) as usize, word(bytes, offset + 4, 4) as usize, word(bytes, offset + 8, 4) as usize);
        (0..bloom).for_each(|index| record(&format!("DT_GNU_HASH bloom {index}"), offset + 16 + index * 8, &[("", 8)]));
        let start = offset + 16 + bloom * 8;
        (0..buckets).for_each(|index| record(&format!("DT_GNU_HASH bucket {index}"), start + index * 4, &[("", 4)]));
        (0..count - first).for_each(|index| record(&format!("DT_GNU_HASH chain {index}"), start + (buckets + index) * 4, &[("", 4)]));
    }
    if let Some(offset) = table(constants::DT_HASH) {
        let words = 2 + word(bytes, offset, 4) as usize + word(bytes, offset + 4, 4) as usize;
        (0..words).for_each(|index| record(&format!("DT_HASH word {index}"), offset + index * 4, &[("", 4)]));
    }
    let mut offset = table(constants::DT_VERNEED).unwrap();
    record("", offset, &[("vn_version", 2), ("vn_cnt", 2), ("vn_file", 4), ("vn_aux", 4), ("vn_next", 4)]);
    for index in 0..2 {
        let parts = [("vna_hash", 4), ("vna_flags", 2), ("vna_other", 2), ("vna_name", 4), ("vna_next", 4)];
        record(&format!("{index} "), offset + 16 + index * 16, &parts);
    }
    offset = table(constants::DT_VERDEF).unwrap();
    for index in 0..3 {
        let parts = [("vd_version", 2), ("vd_flags", 2), ("vd_ndx", 2), ("vd_cnt", 2), ("vd_hash", 4), ("vd_aux", 4), ("vd_next", 4)];
        record(&format!("{index} "), offset, &parts);
        record(&format!("{index} "), offset + word(bytes, offset + 12, 4) as usize, &[("vda_name", 4), ("vda_next", 4)]);
        offset += word(bytes, offset + 16, 4) as usize;
    }
    for (tag, size) in [(constants::DT_RELA, constants::DT_RELASZ), (constants::DT_JMPREL, constants::DT_PLTRELSZ)] {
        for offset in (0..table(size).unwrap()).step_by(24) {
            record(
                &format!("relocation {tag:?} {offset} "),
                table(tag).unwrap() + offset,
                &[("r_offset", 8), ("r_type", 4), ("r_sym", 4), ("r_addend", 8)],
            );
        }
    }
    fields
}

fn word(bytes: &[u8], offset: usize, width: usize) -> u64 {
    let mut word = [0; 8];
    word[..width].copy_from_slice(&bytes[offset..offset + width]);
    u64::from_le_bytes(word)
}

fn patched(bytes: &[u8], offset: usize, width: usize, value: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[offset..offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
    bytes
}

/// Why the outcome of one lie is wrong; `None` if it is right.
fn judge(bench: &Bench, scratch: &str, base: &Facts, bytes: &[u8]) -> Option<String> {
    let facts = match read(bytes) {
        Ok(facts) => facts,
        // An address that no segment maps has no offset.
        Err(error) => return (error.offset.is_none() && !error.problem.contains("is in no PT_LOAD")).then(|| format!("no offset: {error}")),
    };
    let names = base.exports.keys().chain(facts.exports.keys()).cloned().collect();
    let Some(mut loaded) = bench.load(scratch, bytes, &names) else {
        let fewer = facts.counts.iter().zip(base.counts).any(|(&count, base)| count < base);
        return fewer.then(|| format!("the loader does not take it, and facts are missing: {:?} of {:?}", facts.counts, base.counts));
    };
    loaded.exports.retain(|name, _| !facts.untold.contains(name));
    if !facts.versioned {
        loaded.exports.retain(|name, _| !name.contains('@'));
    }
    let same_names = loaded.exports.keys().eq(facts.exports.keys());
    if !same_names || !loaded.exports.iter().all(|(name, address)| facts.exports[name].contains(address)) {
        return Some(format!("exports: loader {:x?}, ours {:x?}", loaded.exports, facts.exports));
    }
    // The probe's look-ups count as bindings of this file; they are exports.
    let bound: BTreeSet<String> =
        loaded.bindings.iter().filter(|name| !facts.exports.contains_key(*name) && !facts.untold.contains(*name)).cloned().collect();
    let missing: Vec<&String> = bound.iter().filter(|name| !facts.bound.contains(*name) && !facts.may_be_bound.contains(*name)).collect();
    let invented: Vec<&String> = facts.bound.iter().filter(|name| !loaded.bindings.contains(*name)).collect();
    if !missing.is_empty() || !invented.is_empty() {
        return Some(format!("bound by the loader, not ours: {missing:?}; ours, not bound by the loader: {invented:?}"));
    }
    let needed = facts.needed.iter().any(|name| name == "libneed.so.1");
    (needed != loaded.needs).then(|| format!("needed: loader {}, ours {:?}", loaded.needs, facts.needed))
}

fn tell_every_lie(name: &str, extra: &[&str]) {
    let bench = Bench::new();
    let bytes = bench.library(name, extra);
    let base = read(&bytes).unwrap();
    assert_eq!(judge(&bench, "base.so", &base, &bytes), None, "the untouched library");
    assert_eq!(base.exports.len(), 6, "{:?}", base.exports);
    assert_eq!(base.bound.len(), 3, "{:?}", base.bound);
    let mut lies = Vec::new();
    for field in fields(&bytes) {
        let value = word(&bytes, field.offset, field.width);
        let most = u64::MAX >> (64 - 8 * field.width);
        let values =
            [0, 1, 2, value + 1, value.wrapping_sub(1), value + 8, value.wrapping_sub(8), value ^ 0x10, value + 0x1000, most, most / 2, most / 2 + 1];
        let values: BTreeSet<u64> = values.into_iter().map(|value| value & most).filter(|&other| other != value).collect();
        lies.extend(values.into_iter().map(|value| (field.clone(), value)));
    }
    let wrong = in_parallel(&lies, |(field, value)| {
        let bytes = patched(&bytes, field.offset, field.width, *value);
        let scratch = format!("{}-{value:x}.so", field.name.replace(['/', ' '], "_"));
        let wrong = judge(&bench, &scratch, &base, &bytes).map(|why| format!("{} at {:#x} = {value:#x}: {why}", field.name, field.offset));
        let _ = std::fs::remove_file(bench.path(&scratch));
        wrong
    });
    let told = wrong.len();
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    println!("{name}: {told} lies told, {} wrong outcomes", wrong.len());
    assert!(wrong.is_empty(), "{} of {told} lies:\n{}", wrong.len(), wrong[..wrong.len().min(60)].join("\n"));
    assert!(told > 1500, "only {told} lies were told");
}

#[test]
fn each_lying_field_is_an_error_or_what_the_loader_sees_gnu_hash() {
    tell_every_lie("gnu.so", &["-Wl,--hash-style=gnu"]);
}

#[test]
fn each_lying_field_is_an_error_or_what_the_loader_sees_sysv_hash() {
    tell_every_lie("sysv.so", &["-Wl,--hash-style=sysv"]);
}

#[test]
fn each_lying_field_is_an_error_or_what_the_loader_sees_both_hashes() {
    tell_every_lie("both.so", &["-Wl,--hash-style=both", "-Wl,-z,noseparate-code"]);
}

/// The error must name the field that lies, or the one that the lie contradicts.
#[test]
fn the_error_names_the_field() {
    let bench = Bench::new();
    let expected = [
        ("e_ident[EI_CLASS]", 3, "e_ident[EI_CLASS]"),
        ("e_ident[EI_DATA]", 0, "e_ident[EI_DATA]"),
        ("e_ident[EI_VERSION]", 2, "e_version"),
        ("e_version", 0, "e_version"),
        ("e_phoff", 1 << 40, "e_phoff"),
        ("e_phentsize", 32, "e_phentsize"),
        ("e_phnum", 0, "e_phnum"),
        ("e_phnum", 0xffff, "e_phoff"),
        ("segment 1 p_offset", 1 << 32, "PT_LOAD[0] p_offset + p_filesz"),
        ("segment 1 p_filesz", 1 << 32, "PT_LOAD[0] p_offset + p_filesz"),
        ("segment 1 p_vaddr", u64::MAX - 0xfff, "PT_LOAD[1] p_vaddr"),
        ("segment 1 p_memsz", 8, "PT_LOAD[0] p_filesz"),
        ("segment 2 p_type", 0, "PT_DYNAMIC"),
        ("segment 2 p_vaddr", 0x1234_5678, "PT_DYNAMIC"),
        ("segment 2 p_filesz", 0, "PT_DYNAMIC"),
        ("dynamic 1 d_val", 0x10_0000, "DT_NEEDED"),
        ("dynamic 5 d_tag", 0x7777, "DT_STRTAB"),
        ("dynamic 6 d_tag", 0x7777, "DT_SYMTAB"),
        ("dynamic a d_val", 1 << 40, "DT_STRTAB"),
        ("dynamic a d_tag", 0x7777, "DT_STRSZ"),
        ("dynamic b d_val", 16, "DT_SYMENT"),
        ("dynamic b d_tag", 0, "DT_NULL"),
        ("dynamic 2 d_val", 25, "DT_PLTRELSZ"),
        ("dynamic 2 d_tag", 0x7777, "DT_PLTRELSZ"),
        ("dynamic 14 d_val", 17, "DT_PLTREL"),
        ("dynamic 8 d_val", 25, "DT_RELASZ"),
        ("dynamic 9 d_val", 16, "DT_RELAENT"),
        ("dynamic 6ffffff9 d_val", 1000, "DT_RELACOUNT"),
        ("dynamic 6ffffff9 d_val", 3, "DT_RELACOUNT"),
        ("dynamic 6ffffff0 d_tag", 0x7777, "DT_VERSYM"),
        ("dynamic 6ffffffc d_tag", 0x7777, "DT_VERSYM"),
        ("dynamic 6ffffffd d_val", 0, "vd_next"),
        ("dynamic 6fffffff d_val", 0, "vn_next"),
        ("dynamic 6fffffff d_tag", 0x7777, "DT_VERNEEDNUM"),
        ("dynamic 6ffffef5 d_tag", 0x7777, "DT_GNU_HASH or DT_HASH (there is none)"),
        ("DT_GNU_HASH nbuckets", 0, "DT_GNU_HASH"),
        ("DT_GNU_HASH nbuckets", 0x4000_0000, "DT_GNU_HASH nbuckets"),
        ("DT_GNU_HASH symoffset", 0x7fff_ffff, "DT_GNU_HASH buckets"),
        ("DT_GNU_HASH maskwords", 3, "DT_GNU_HASH maskwords"),
        ("DT_GNU_HASH shift", 32, "DT_GNU_HASH shift2"),
        ("DT_GNU_HASH bloom 0", 0, "DT_GNU_HASH"),
        ("DT_GNU_HASH bucket 0", 0x7fff_ffff, "DT_GNU_HASH buckets"),
        ("DT_GNU_HASH chain 0", 0, "DT_GNU_HASH"),
        ("versym 1", 0x7fff, "DT_VERSYM"),
        ("vn_version", 2, "vn_version"),
        ("vn_cnt", 0, "vna_next"),
        ("vn_cnt", 3, "vna_next"),
        ("vn_file", 0x10_0000, "vn_file"),
        ("vn_aux", 0x10_0000, "vn_aux"),
        ("vn_next", 4, "vn_next"),
        ("0 vna_hash", 1, "vna_hash"),
        ("0 vna_other", 1, "vna_other"),
        ("0 vna_other", 2, "vd_ndx / vna_other"),
        ("0 vna_name", 0x10_0000, "vna_name"),
        ("0 vna_next", 0, "vna_next"),
        ("1 vd_version", 0, "vd_version"),
        ("1 vd_flags", 1, "vd_ndx"),
        ("1 vd_ndx", 0, "vd_ndx"),
        ("1 vd_hash", 0, "vd_hash"),
        ("1 vd_aux", 0x10_0000, "vd_aux"),
        ("1 vd_next", 0, "vd_next"),
        ("1 vda_name", 0x10_0000, "vda_name"),
        ("symbol 1 st_name", 0x10_0000, "st_name"),
    ];
    let bytes = bench.library("names.so", &["-Wl,--hash-style=gnu"]);
    let fields = fields(&bytes);
    for (name, value, expected) in expected {
        let field = fields.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("no field {name}"));
        let error = read(&patched(&bytes, field.offset, field.width, value)).err().unwrap_or_else(|| panic!("{name} = {value:#x} goes unnoticed"));
        assert_eq!(error.field, expected, "{name} = {value:#x}: {error}");
        assert!(error.offset.is_some(), "{name} = {value:#x}: {error}");
    }
}

/// Lies in two places, where one alone does not show the rule.
#[test]
fn the_table_that_the_loader_uses_decides() {
    let bench = Bench::new();
    let bytes = bench.library("two.so", &["-Wl,--hash-style=both"]);
    let base = read(&bytes).unwrap();
    let image = Elf::from_bytes("base", bytes.clone()).unwrap();
    let address = |tag| image.dynamic.value(tag).unwrap() as usize;

    // DT_HASH full of nonsense beside a right DT_GNU_HASH: nobody looks at it.
    let mut lie = bytes.clone();
    lie[address(constants::DT_HASH)..][..16].fill(0xff);
    assert_eq!(judge(&bench, "lying-sysv.so", &base, &lie), None);
    assert_eq!(read(&lie).unwrap().exports, base.exports);

    // Both lie.
    lie[address(constants::DT_GNU_HASH) + 12] = 31;
    let error = read(&lie).unwrap_err();
    assert_eq!(error.field, "DT_GNU_HASH", "{error}");

    // Two DT_STRTAB: the last one counts. DT_PLTGOT comes later and nothing here needs it.
    let (strings, spare) =
        (image.dynamic.offset(constants::DT_STRTAB).unwrap() as usize, image.dynamic.offset(constants::DT_PLTGOT).unwrap() as usize);
    assert!(spare > strings);
    let mut lie = patched(&bytes, spare, 8, 5);
    lie = patched(&lie, spare + 8, 8, address(constants::DT_STRTAB) as u64);
    lie = patched(&lie, strings + 8, 8, address(constants::DT_SYMTAB) as u64);
    assert_eq!(judge(&bench, "two-strtab.so", &base, &lie), None);
    assert_eq!(read(&lie).unwrap().exports, base.exports);

    // No DT_NULL before the segment ends.
    let dynamic = image.segment(vrocm_audit::elf::segment_type::DYNAMIC).unwrap();
    let load = image.segments.iter().rfind(|segment| segment.kind == vrocm_audit::elf::segment_type::LOAD).unwrap();
    let mut lie = bytes.clone();
    for offset in (dynamic.offset as usize..(load.offset + load.file_size) as usize).step_by(16) {
        if word(&lie, offset, 8) == 0 || offset >= (dynamic.offset + dynamic.file_size) as usize {
            lie[offset] = 0x77;
        }
    }
    let error = read(&lie).unwrap_err();
    assert_eq!((error.field.as_str(), error.offset), ("PT_DYNAMIC", Some(dynamic.offset)), "{error}");

    // No section headers.
    let mut lie = patched(&bytes, 40, 8, 0);
    lie = patched(&lie, 60, 4, 0);
    assert_eq!(judge(&bench, "no-sections.so", &base, &lie), None);
    assert_eq!(read(&lie).unwrap().exports, base.exports);
}

/// The odd files of the cases.
#[test]
fn odd_files_are_read_or_named_for_what_they_are() {
    let case = |path: &str| Elf::open(&repository(&format!("fixtures/cases/{path}")));
    let exports = |path: &str| {
        let image = case(path).unwrap();
        let table = image.symbols().unwrap();
        let mut names: Vec<String> = table.exports().map(|symbol| symbol.name.to_string()).collect();
        names.sort_unstable();
        (names, image.names().unwrap().needed)
    };
    let libc = vec!["libc.so.6".to_owned()];
    assert_eq!(exports("e01-no-sections/libpre.so"), (["hipFree", "hipMalloc", "vr_len"].map(str::to_owned).to_vec(), libc.clone()));
    assert_eq!(exports("e01-no-sections/libpre.so"), exports("e01-no-sections/x.so"));
    assert_eq!(exports("e07-dynstr-other-bias/libpre.so"), (vec!["hipMalloc".to_owned()], libc.clone()));
    for style in ["both", "gnu", "sysv"] {
        assert_eq!(exports(&format!("e10-hash-styles/lib-{style}.so")), (["hipFree", "hipMalloc"].map(str::to_owned).to_vec(), libc.clone()));
    }
    let image = case("e10-hash-styles/imports-only").unwrap();
    let table = image.symbols().unwrap();
    assert!(table.imports().any(|symbol| symbol.name == "puts"));
    assert_eq!((table.exports().count(), image.names().unwrap().needed), (0, libc));

    let refused = [
        ("e03-debug-file/libpre.so.debug", "debug-only"),
        ("e08-truncated/lib-60.so", "PT_LOAD[3] p_offset + p_filesz"),
        ("e08-truncated/lib-05.so", "PT_LOAD[0] p_offset + p_filesz"),
        ("p10-not-a-library/libdir.so", "is a directory"),
        ("p10-not-a-library/libscript.so", "GNU ld script"),
        ("p10-not-a-library/liblfs.so", "Git LFS pointer"),
        ("p10-not-a-library/libempty.so", "is empty"),
        ("p10-not-a-library/libmagic.so", "ends after 4 bytes"),
        ("p10-not-a-library/libdangling.so", "dangling link"),
    ];
    for (path, expected) in refused {
        let error = case(path).err().unwrap_or_else(|| panic!("{path} opens")).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
