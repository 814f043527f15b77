//! The objects that are in the process, and their symbols, read as the loader left them in memory.
//!
//! `dl_iterate_phdr` shows every object of the caller's namespace, also what was opened `RTLD_LOCAL`, where `RTLD_NEXT` finds
//! nothing. It needs no `dlsym`, which a process on glibc 2.31 without libdl does not have. A symbol is looked up in *one* object,
//! so neither another interposer nor a stub library in between is ever found by mistake.
//!
//! What is read here was mapped and relocated by the loader; a file that it refused is not here. Tables are still walked with
//! bounds, since a runtime may be damaged in ways the loader does not look at.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::AtomicUsize;

#[repr(C)]
struct Phdr {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

#[repr(C)]
struct PhdrInfo {
    base: u64,
    name: *const c_char,
    headers: *const Phdr,
    count: u16,
    /// Objects that were ever added and removed; glibc and musl both have them since long before anything that we run on.
    added: u64,
    removed: u64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

unsafe extern "C" {
    /// `GLIBC_2.2.5`. Calls `visit` for each object until it answers other than 0; holds the loader's (recursive) lock meanwhile.
    fn dl_iterate_phdr(visit: unsafe extern "C" fn(*mut PhdrInfo, usize, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;

/// Relocations that put the address of a symbol as it is: a function's, in a table or for a call.
#[cfg(target_arch = "x86_64")]
const OF_SYMBOL: [u32; 3] = [1, 6, FOR_CALLS];
/// The one of them that is for calls alone.
#[cfg(target_arch = "x86_64")]
const FOR_CALLS: u32 = 7;
/// Relocations that put the address of a symbol as it is: a function's, in a table or for a call.
#[cfg(target_arch = "aarch64")]
const OF_SYMBOL: [u32; 3] = [257, 1025, FOR_CALLS];
/// The one of them that is for calls alone.
#[cfg(target_arch = "aarch64")]
const FOR_CALLS: u32 = 1026;

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: u64,
}

/// What the loader knows of an object: the part of its record that is public, and a handle of `dlopen` points to one.
#[repr(C)]
struct LinkMap {
    base: u64,
    name: *const c_char,
    dynamic: u64,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// An object in the process.
#[derive(Clone, Copy)]
pub struct Object {
    base: u64,
    name: *const c_char,
    /// Lowest and highest address of its segments.
    range: (u64, u64),
    strings: u64,
    string_bytes: u64,
    symbols: u64,
    gnu_hash: u64,
    hash: u64,
    versions: u64,
    definitions: u64,
    definition_count: u64,
    soname: Option<u64>,
    dynamic: u64,
    /// Two tables of relocations: where, and bytes.
    relocations: [(u64, u64); 2],
    read_only: (u64, u64),
}

/// Changes whenever an object was loaded or unloaded.
pub fn generation() -> u64 {
    unsafe extern "C" fn call(info: *mut PhdrInfo, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the number below; `info` is the loader's.
        unsafe { *data.cast::<u64>() = (*info).added.wrapping_add((*info).removed) };
        1
    }
    let mut changes = 0_u64;
    // SAFETY: the number outlives the call.
    unsafe { dl_iterate_phdr(call, (&raw mut changes).cast()) };
    changes
}

/// True if the loader holds more objects than this namespace has: `dlmopen` was called, or there are auditors. glibc counts the
/// objects of all namespaces, and shows those of one. (musl has one namespace and counts otherwise; it may be `true` there.)
pub fn are_elsewhere() -> bool {
    unsafe extern "C" fn call(info: *mut PhdrInfo, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the two numbers below; `info` is the loader's.
        let ([here, all], info) = unsafe { (&mut *data.cast::<[u64; 2]>(), &*info) };
        *here += 1;
        *all = info.added.wrapping_sub(info.removed);
        0
    }
    let mut counts = [0_u64; 2];
    // SAFETY: the numbers outlive the call.
    unsafe { dl_iterate_phdr(call, (&raw mut counts).cast()) };
    counts[1] > counts[0]
}

/// Visits the objects of the namespace that `handle` leads into, first to last, until `visit` answers `true`. What it visits has
/// no segments: it contains no address.
///
/// # Safety
///
/// A look-up has just succeeded with the handle, and it is none of the special ones.
pub unsafe fn each_beside(handle: usize, mut visit: impl FnMut(&Object) -> bool) {
    /// More than a process has objects: a chain that is a ring ends, too.
    const STEPS: usize = 1 << 16;
    // SAFETY: such a handle is the loader's record, and so is all that it is chained to, as long as the lists stay as they are.
    frozen(&mut || unsafe {
        let mut next = handle as *const LinkMap;
        for _ in 0..STEPS {
            let Some(previous) = (*next).previous.as_ref() else { break };
            next = previous;
        }
        for _ in 0..STEPS {
            let Some(record) = next.as_ref() else { break };
            // The loader stands in for itself in every namespace but the first, by a record without an address.
            let is_whole = record.base != 0 && record.dynamic != 0;
            if is_whole && Object::dynamic(record.base, record.name, record.dynamic).is_some_and(|object| visit(&object)) {
                break;
            }
            next = record.next;
        }
    });
}

/// Does something while the loader adds no object and takes none away.
fn frozen(mut work: &mut dyn FnMut()) {
    unsafe extern "C" fn call(_info: *mut PhdrInfo, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the reference that was passed, used by nobody else meanwhile.
        unsafe { (*data.cast::<&mut dyn FnMut()>())() };
        1
    }
    // SAFETY: the reference outlives the call.
    unsafe { dl_iterate_phdr(call, (&raw mut work).cast()) };
}

/// Visits the objects in load order until `visit` answers `true`. `visit` must not open or close libraries.
pub fn each(mut visit: impl FnMut(&Object) -> bool) {
    unsafe extern "C" fn call<F: FnMut(&Object) -> bool>(info: *mut PhdrInfo, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the closure that `each` passed, used by nobody else meanwhile; `info` is the loader's.
        let (info, visit) = unsafe { (&*info, &mut *data.cast::<F>()) };
        // SAFETY: the loader describes an object that it has mapped.
        let object = unsafe { Object::read(info) };
        object.is_some_and(|object| visit(&object)).into()
    }
    fn of<F: FnMut(&Object) -> bool>(_: &F) -> unsafe extern "C" fn(*mut PhdrInfo, usize, *mut c_void) -> c_int {
        call::<F>
    }
    let call = of(&visit);
    // SAFETY: the closure outlives the call, and is passed to the function made for its type.
    unsafe { dl_iterate_phdr(call, (&raw mut visit).cast()) };
}

/// The address of a symbol in the first object that `wanted` picks and that defines it. See [`Object::symbol`].
pub fn find(name: &[u8], version: Option<&[u8]>, wanted: impl Fn(&Object) -> bool) -> Option<usize> {
    let mut found = None;
    each(|object| {
        if wanted(object) {
            found = object.symbol(name, version);
        }
        found.is_some()
    });
    found
}

impl Object {
    /// Reads the dynamic section of a mapped object. `None`: it has none, or no symbols. One copy of it for all who visit.
    #[inline(never)]
    unsafe fn read(info: &PhdrInfo) -> Option<Self> {
        let mut dynamic = 0;
        let mut range = (u64::MAX, 0);
        let mut read_only = (0, 0);
        for index in 0..usize::from(info.count) {
            // SAFETY: the loader gives `count` headers.
            let header = unsafe { &*info.headers.add(index) };
            let start = info.base.wrapping_add(header.address);
            if header.kind == PT_DYNAMIC {
                dynamic = start;
            } else if header.kind == PT_GNU_RELRO {
                read_only = (start, start.wrapping_add(header.memory_size));
            } else if header.kind == PT_LOAD {
                range = (range.0.min(start), range.1.max(start.wrapping_add(header.memory_size)));
            }
        }
        if dynamic == 0 {
            return None;
        }
        // SAFETY: where the headers say, in an object that the loader has mapped.
        let object = unsafe { Self::dynamic(info.base, info.name, dynamic) }?;
        Some(Self { range, read_only, ..object })
    }

    /// Reads a dynamic section; what only the headers say stays empty. `None`: it leads to no symbols.
    ///
    /// # Safety
    ///
    /// The loader has mapped the object, and has read the section.
    unsafe fn dynamic(base: u64, name: *const c_char, dynamic: u64) -> Option<Self> {
        let mut object = Self {
            base,
            name,
            range: (0, 0),
            strings: 0,
            string_bytes: 0,
            symbols: 0,
            gnu_hash: 0,
            hash: 0,
            versions: 0,
            definitions: 0,
            definition_count: 0,
            soname: None,
            dynamic,
            relocations: [(0, 0); 2],
            read_only: (0, 0),
        };
        let mut entry = dynamic as *const [u64; 2];
        loop {
            // SAFETY: the loader has walked this array to its end mark.
            let [tag, value] = unsafe { *entry };
            match tag {
                0 => break,
                2 => object.relocations[1].1 = value,
                7 => object.relocations[0].0 = object.address(value),
                8 => object.relocations[0].1 = value,
                23 => object.relocations[1].0 = object.address(value),
                4 => object.hash = object.address(value),
                5 => object.strings = object.address(value),
                6 => object.symbols = object.address(value),
                10 => object.string_bytes = value,
                14 => object.soname = Some(value),
                0x6fff_fef5 => object.gnu_hash = object.address(value),
                0x6fff_fff0 => object.versions = object.address(value),
                0x6fff_fffc => object.definitions = object.address(value),
                0x6fff_fffd => object.definition_count = value,
                _ => {}
            }
            // SAFETY: as above.
            entry = unsafe { entry.add(1) };
        }
        (object.strings != 0 && object.symbols != 0).then_some(object)
    }

    /// glibc relocates the addresses in the dynamic section, musl and the vDSO do not.
    fn address(&self, value: u64) -> u64 {
        if value < self.base { value.wrapping_add(self.base) } else { value }
    }

    /// Where it is loaded.
    pub fn base(&self) -> usize {
        self.base as usize
    }

    /// True if `address` lies in it.
    pub fn contains(&self, address: usize) -> bool {
        (self.range.0..self.range.1).contains(&(address as u64))
    }

    /// The path it was opened by; empty for the program itself.
    pub fn path(&self) -> &[u8] {
        if self.name.is_null() {
            return b"";
        }
        // SAFETY: the loader's own string, which lives as long as the object.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// `DT_SONAME`; empty where there is none.
    pub fn soname(&self) -> &[u8] {
        self.soname.and_then(|offset| self.string(offset)).unwrap_or_default()
    }

    /// True if it names `soname` among what it needs (`DT_NEEDED`).
    pub fn needs(&self, soname: &[u8]) -> bool {
        let mut entry = self.dynamic as *const [u64; 2];
        loop {
            // SAFETY: the loader has walked this array to its end mark.
            let [tag, value] = unsafe { *entry };
            if tag == 0 {
                return false;
            }
            if tag == 1 && self.string(value) == Some(soname) {
                return true;
            }
            // SAFETY: as above.
            entry = unsafe { entry.add(1) };
        }
    }

    /// Visits the places where this object keeps addresses of symbols that it refers to by name, and says of each whether it is for
    /// calls alone, which the loader may leave until the first one.
    pub fn each_reference(&self, mut visit: impl FnMut(&'static [u8], &'static AtomicUsize, bool)) {
        for (table, bytes) in self.relocations {
            for index in 0..bytes as usize / size_of::<Relocation>() {
                if table == 0 {
                    break;
                }
                // SAFETY: inside the table, which the loader has walked.
                let relocation = unsafe { &*(table as *const Relocation).add(index) };
                let (kind, symbol) = (relocation.info as u32, (relocation.info >> 32) as usize);
                if symbol == 0 || relocation.addend != 0 || !OF_SYMBOL.contains(&kind) {
                    continue;
                }
                let place = self.base.wrapping_add(relocation.offset);
                if !place.is_multiple_of(8) || !self.contains(place as usize) {
                    continue;
                }
                // SAFETY: the loader uses the same index; the place lies in the object and is aligned.
                let (symbol, place) = unsafe { (&*(self.symbols as *const Symbol).add(symbol), &*(place as *const AtomicUsize)) };
                if let Some(name) = self.string(symbol.name.into()) {
                    visit(name, place, kind == FOR_CALLS);
                }
            }
        }
    }

    /// True if the loader has made the place read-only once it had put its addresses there.
    pub fn is_read_only(&self, place: usize) -> bool {
        (self.read_only.0..self.read_only.1).contains(&(place as u64))
    }

    /// A number that tells it from another file at the same place.
    pub fn mark(&self) -> usize {
        let words = [self.dynamic, self.strings, self.string_bytes, self.symbols, self.gnu_hash, self.hash];
        words.iter().fold(0_u64, |mark, &word| mark.rotate_left(9) ^ word.wrapping_sub(self.base)) as usize
    }

    /// Lowest and one past the highest address of its segments.
    pub fn range(&self) -> (usize, usize) {
        (self.range.0 as usize, self.range.1 as usize)
    }

    /// True if the symbol is defined here, whatever its version: how a runtime is recognised that was renamed.
    pub fn defines(&self, name: &[u8]) -> bool {
        self.symbol(name, None).is_some()
    }

    /// The address of a function that this object defines.
    ///
    /// With a version: the definition of that version, hidden or not, or the unversioned one; if there is none, and without a
    /// version: the default definition (`name@@node`), else an unversioned one. Never another version's hidden definition.
    pub fn symbol(&self, name: &[u8], version: Option<&[u8]>) -> Option<usize> {
        let mut exact = None;
        let mut default = None;
        self.each_named(name, |index, symbol| {
            let (number, hidden) = self.version_of(index);
            if version.is_some_and(|wanted| self.node(number) == Some(wanted)) {
                exact = Some(symbol);
            } else if !hidden {
                default = Some(symbol);
            }
        });
        let symbol: &Symbol = exact.or(default)?;
        let address = self.base.wrapping_add(symbol.value) as usize;
        if symbol.info & 15 != 10 {
            return Some(address);
        }
        // SAFETY: an IFUNC's value is its resolver; on x86-64 it takes nothing. The loader has run it already, or would.
        let resolver: extern "C" fn() -> usize = unsafe { core::mem::transmute(address) };
        Some(resolver())
    }

    /// Visits the defined functions with this name, one per version.
    fn each_named(&self, name: &[u8], mut visit: impl FnMut(u32, &'static Symbol)) {
        let mut check = |index: u32| {
            // SAFETY: the index comes from a hash table, which covers the symbol table.
            let symbol: &'static Symbol = unsafe { &*(self.symbols as *const Symbol).add(index as usize) };
            let bound = matches!(symbol.info >> 4, 1 | 2 | 10) && matches!(symbol.info & 15, 0 | 2 | 10);
            if symbol.section != 0 && bound && self.string(symbol.name.into()) == Some(name) {
                visit(index, symbol);
            }
        };
        if self.gnu_hash != 0 {
            self.walk_gnu(name, &mut check);
        } else if self.hash != 0 {
            self.walk_sysv(name, &mut check);
        }
    }

    fn walk_gnu(&self, name: &[u8], check: &mut impl FnMut(u32)) {
        let hash = name.iter().fold(5381_u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
        let table = self.gnu_hash as *const u32;
        // SAFETY: the table that the loader uses: four words, the filter, the buckets, the chains.
        unsafe {
            let (buckets, first, words) = (*table, *table.add(1), *table.add(2));
            let Some(bucket) = hash.checked_rem(buckets) else { return };
            let heads = table.add(4 + words as usize * 2);
            let chains = heads.add(buckets as usize);
            let mut index = *heads.add(bucket as usize);
            while index >= first && index != 0 {
                let value = *chains.add((index - first) as usize);
                if value | 1 == hash | 1 {
                    check(index);
                }
                if value & 1 != 0 {
                    return;
                }
                index += 1;
            }
        }
    }

    fn walk_sysv(&self, name: &[u8], check: &mut impl FnMut(u32)) {
        let hash = name.iter().fold(0_u32, |hash, &byte| {
            let hash = (hash << 4).wrapping_add(byte.into());
            (hash ^ (hash & 0xf000_0000) >> 24) & 0x0fff_ffff
        });
        let table = self.hash as *const u32;
        // SAFETY: the table that the loader uses: two counts, the buckets, the chains.
        unsafe {
            let (buckets, symbols) = (*table, *table.add(1));
            let Some(bucket) = hash.checked_rem(buckets) else { return };
            let mut index = *table.add(2 + bucket as usize);
            // A chain that is a ring would have more steps than symbols.
            for _ in 0..symbols {
                if index == 0 || index >= symbols {
                    return;
                }
                check(index);
                index = *table.add(2 + buckets as usize + index as usize);
            }
        }
    }

    /// Version number of a symbol and whether it is hidden; (1, false) in an object without versions.
    fn version_of(&self, index: u32) -> (u16, bool) {
        if self.versions == 0 {
            return (1, false);
        }
        // SAFETY: DT_VERSYM has a half-word for each symbol.
        let value = unsafe { *(self.versions as *const u16).add(index as usize) };
        (value & 0x7fff, value & 0x8000 != 0)
    }

    /// The name of a version that this object defines.
    fn node(&self, number: u16) -> Option<&[u8]> {
        let mut definition = self.definitions;
        for _ in 0..self.definition_count {
            // SAFETY: a verdef entry of DT_VERDEFNUM, 20 bytes: version, flags, number, count, hash, aux, next.
            let (found, aux, next) =
                unsafe { (*(definition as *const u16).add(2), *(definition as *const u32).add(3), *(definition as *const u32).add(4)) };
            if found == number {
                // SAFETY: its first verdaux entry: name, next.
                return self.string(u64::from(unsafe { *((definition + u64::from(aux)) as *const u32) }));
            }
            if next == 0 {
                return None;
            }
            definition += u64::from(next);
        }
        None
    }

    /// A string of the string table.
    fn string(&self, offset: u64) -> Option<&'static [u8]> {
        if self.string_bytes != 0 && offset >= self.string_bytes {
            return None;
        }
        // SAFETY: inside the string table, which ends with NUL.
        Some(unsafe { CStr::from_ptr((self.strings + offset) as *const c_char) }.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::{each, find};

    fn is_libc(object: &super::Object) -> bool {
        object.soname() == b"libc.so.6"
    }

    unsafe extern "C" {
        fn getenv(name: *const core::ffi::c_char) -> *mut core::ffi::c_char;
        fn dlvsym(handle: *mut core::ffi::c_void, name: *const core::ffi::c_char, version: *const core::ffi::c_char) -> *mut core::ffi::c_void;
    }

    #[test]
    fn libc_is_found_and_its_symbols_are_the_loaders() {
        let own: unsafe extern "C" fn(*const core::ffi::c_char) -> *mut core::ffi::c_char = getenv;
        let found = find(b"getenv", None, is_libc).unwrap();
        // SAFETY: both are the C function.
        let found: unsafe extern "C" fn(*const core::ffi::c_char) -> *mut core::ffi::c_char = unsafe { core::mem::transmute(found) };
        // SAFETY: a C string.
        assert_eq!(unsafe { (found(c"PATH".as_ptr()), own(c"NOT_SET_AT_ALL".as_ptr()).is_null()) }, (unsafe { own(c"PATH".as_ptr()) }, true));
        assert_eq!(find(b"no_such_function", None, is_libc), None);
        assert_eq!(find(b"getenv", None, |object| object.soname() == b"libm.so.6"), None);
    }

    #[test]
    fn every_version_is_the_one_that_the_loader_gives() {
        for (name, version) in
            [(c"realpath", c"GLIBC_2.2.5"), (c"realpath", c"GLIBC_2.3"), (c"pthread_cond_wait", c"GLIBC_2.3.2"), (c"memcpy", c"GLIBC_2.14")]
        {
            // SAFETY: C strings; the null handle is RTLD_DEFAULT.
            let wanted = unsafe { dlvsym(core::ptr::null_mut(), name.as_ptr(), version.as_ptr()) } as usize;
            assert_eq!(find(name.to_bytes(), Some(version.to_bytes()), is_libc), Some(wanted), "{name:?}@{version:?}");
        }
        let hidden = find(b"realpath", Some(b"GLIBC_2.2.5"), is_libc);
        assert_ne!(hidden, find(b"realpath", None, is_libc), "without a version the default counts");
        assert_eq!(find(b"realpath", Some(b"GLIBC_9"), is_libc), find(b"realpath", None, is_libc), "an unknown version falls back on the default");
    }

    #[test]
    fn an_address_belongs_to_its_object() {
        let here = an_address_belongs_to_its_object as fn() as usize;
        let mut owners = Vec::new();
        each(|object| {
            if object.contains(here) {
                owners.push((object.base(), object.path().to_vec()));
            }
            false
        });
        assert_eq!(owners.len(), 1);
        assert_eq!(owners[0].1, b"", "the test program itself");
    }
}
