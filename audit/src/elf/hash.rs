//! `DT_GNU_HASH` and `DT_HASH`: how many symbols there are, and whether a loader's look-up would find each of them.
//!
//! A symbol that the hash table does not reach does not exist for the loader. A table that leads elsewhere than the symbol
//! table says is therefore an error, not a detail: the list of exports would be right and the shim would still not bind.

use object::elf;
use object::endian::{U32, U64};
use object::pod::{self, Pod};

use super::error::Result;
use super::{Elf, Endianness};

/// What the hash tables of a file say.
#[derive(Debug)]
pub enum Tables {
    /// `DT_GNU_HASH`, which every current loader prefers.
    Gnu(Gnu),
    /// `DT_HASH` only.
    Sysv(Sysv),
    /// Neither.
    None,
}

/// A parsed `DT_GNU_HASH`.
#[derive(Debug)]
pub struct Gnu {
    first: u32,
    shift: u32,
    bloom: Vec<u64>,
    word_bits: u32,
    buckets: Vec<u32>,
    chain: Vec<u32>,
    offset: u64,
}

/// A parsed `DT_HASH`.
#[derive(Debug)]
pub struct Sysv {
    buckets: Vec<u32>,
    chain: Vec<u32>,
    offset: u64,
}

/// The hash of `DT_GNU_HASH`.
pub fn gnu_hash(name: &[u8]) -> u32 {
    elf::gnu_hash(name)
}

/// Reads the table a loader would use.
pub(super) fn read(image: &Elf) -> Result<Tables> {
    if let Some(address) = image.dynamic.value(elf::DT_GNU_HASH) {
        return read_gnu(image, address).map(Tables::Gnu);
    }
    Ok(read_sysv(image)?.map_or(Tables::None, Tables::Sysv))
}

/// Reads `DT_HASH` where the file has one.
pub(super) fn read_sysv(image: &Elf) -> Result<Option<Sysv>> {
    let Some(address) = image.dynamic.value(elf::DT_HASH) else { return Ok(None) };
    let endian = image.header.endian;
    let head = image.window("DT_HASH", address, 8)?;
    let counts = words::<U32<Endianness>>(&head.bytes);
    let (buckets, chains) = (counts[0].get(endian), counts[1].get(endian));
    let body = (u64::from(buckets) + u64::from(chains)) * 4;
    let window = image.window("DT_HASH nbucket + nchain", address.wrapping_add(8), body)?;
    let all: Vec<u32> = words::<U32<Endianness>>(&window.bytes).iter().map(|word| word.get(endian)).collect();
    let (buckets, chain) = all.split_at(buckets as usize);
    Ok(Some(Sysv { buckets: buckets.to_vec(), chain: chain.to_vec(), offset: head.offset }))
}

fn read_gnu(image: &Elf, address: u64) -> Result<Gnu> {
    let endian = image.header.endian;
    let head = image.window("DT_GNU_HASH", address, 16)?;
    let counts: Vec<u32> = words::<U32<Endianness>>(&head.bytes).iter().map(|word| word.get(endian)).collect();
    let &[bucket_count, first, bloom_count, shift] = counts.as_slice() else {
        return Err(image.error("DT_GNU_HASH", Some(head.offset), "the header is cut short"));
    };
    if bloom_count == 0 || !bloom_count.is_power_of_two() {
        return Err(image.error(
            "DT_GNU_HASH maskwords",
            Some(head.offset + 8),
            format!("{bloom_count} is not a power of two: the loader would read outside the filter"),
        ));
    }
    if shift >= 32 {
        return Err(image.error("DT_GNU_HASH shift2", Some(head.offset + 12), format!("{shift}, where a hash has 32 bits")));
    }
    let word = image.header.word_size();
    let bloom_address = address.wrapping_add(16);
    let bloom_size = u64::from(bloom_count) * word;
    let bloom = image.window("DT_GNU_HASH maskwords", bloom_address, bloom_size)?;
    let bloom: Vec<u64> = if word == 8 {
        words::<U64<Endianness>>(&bloom.bytes).iter().map(|word| word.get(endian)).collect()
    } else {
        words::<U32<Endianness>>(&bloom.bytes).iter().map(|word| word.get(endian).into()).collect()
    };
    let bucket_address = bloom_address.wrapping_add(bloom_size);
    let bucket_size = u64::from(bucket_count) * 4;
    let buckets = image.window("DT_GNU_HASH nbuckets", bucket_address, bucket_size)?;
    let buckets: Vec<u32> = words::<U32<Endianness>>(&buckets.bytes).iter().map(|word| word.get(endian)).collect();
    let chain = read_chain(image, bucket_address.wrapping_add(bucket_size), first, &buckets, head.offset)?;
    Ok(Gnu { first, shift, bloom, word_bits: word as u32 * 8, buckets, chain, offset: head.offset })
}

/// Reads the chain up to the end mark of the last bucket's run.
fn read_chain(image: &Elf, address: u64, first: u32, buckets: &[u32], offset: u64) -> Result<Vec<u32>> {
    let Some(last) = buckets.iter().copied().filter(|&bucket| bucket != 0).max() else { return Ok(Vec::new()) };
    if let Some(&bad) = buckets.iter().find(|&&bucket| bucket != 0 && bucket < first) {
        return Err(image.error("DT_GNU_HASH buckets", Some(offset), format!("a bucket starts at symbol {bad}, before symoffset ({first})")));
    }
    let mut chain: Vec<u32> = Vec::new();
    // The last run is a few entries long; the window grows only if its end mark is not in it.
    let mut room = u64::from(last - first) + 64;
    loop {
        let window = image.window_up_to("DT_GNU_HASH chain", address, room * 4)?;
        let whole = window.bytes.len() - window.bytes.len() % 4;
        chain.clear();
        chain.extend(words::<U32<Endianness>>(&window.bytes[..whole]).iter().map(|word| word.get(image.header.endian)));
        let start = (last - first) as usize;
        if let Some(run) = chain.get(start..).and_then(|tail| tail.iter().position(|value| value & 1 != 0)) {
            chain.truncate(start + run + 1);
            return Ok(chain);
        }
        if (chain.len() as u64) < room {
            return Err(image.error("DT_GNU_HASH chain", Some(window.offset), "the last chain has no end within the segment"));
        }
        room *= 2;
    }
}

impl Gnu {
    /// Number of symbols, or `None` for a table that holds none: it then says nothing about the undefined symbols before it.
    pub fn symbol_count(&self) -> Option<u32> {
        (!self.chain.is_empty()).then(|| u32::try_from(self.chain.len()).unwrap_or(u32::MAX).saturating_add(self.first))
    }

    /// True if a look-up of `name` meets symbol `index`: filter, bucket, and an unbroken chain up to it with the right hash.
    pub fn reaches(&self, index: u32, name: &[u8]) -> bool {
        let hash = gnu_hash(name);
        let filter = self.bloom[((hash / self.word_bits) as usize) & (self.bloom.len() - 1)];
        let bits = (1_u64 << (hash % self.word_bits)) | (1_u64 << ((hash >> self.shift) % self.word_bits));
        if filter & bits != bits || self.buckets.is_empty() {
            return false;
        }
        let start = self.buckets[hash as usize % self.buckets.len()];
        if start == 0 || index < start || index < self.first {
            return false;
        }
        let (from, to) = ((start - self.first) as usize, (index - self.first) as usize);
        self.chain.get(to).is_some_and(|value| value | 1 == hash | 1) && self.chain[from..to].iter().all(|value| value & 1 == 0)
    }

    /// Offset of the table in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Sysv {
    /// Number of symbols, `nchain`.
    pub fn symbol_count(&self) -> u32 {
        u32::try_from(self.chain.len()).unwrap_or(u32::MAX)
    }

    /// True if a look-up of `name` meets symbol `index`.
    pub fn reaches(&self, index: u32, name: &[u8]) -> bool {
        let Some(bucket) = (elf::hash(name) as usize).checked_rem(self.buckets.len()) else { return false };
        let mut current = self.buckets[bucket];
        // A chain that is a ring would have more steps than entries.
        for _ in 0..=self.chain.len() {
            if current == index {
                return true;
            }
            match self.chain.get(current as usize) {
                Some(&next) if current != 0 => current = next,
                _ => return false,
            }
        }
        false
    }

    /// Offset of the table in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

fn words<T: Pod>(bytes: &[u8]) -> &[T] {
    pod::slice_from_all_bytes(bytes).unwrap_or_default()
}
