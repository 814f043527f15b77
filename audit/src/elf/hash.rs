//! `DT_GNU_HASH` and `DT_HASH`: how many symbols there are, and whether a loader's look-up would find each of them.
//!
//! A symbol that the hash table does not reach does not exist for the loader. A table that leads elsewhere than the symbol
//! table says is therefore an error, not a detail: the list of exports would be right and the shim would still not bind.
//!
//! Each question is answered in constant time from what one pass over the table found: a file can put all symbols into one chain.

use object::elf;
use object::endian::{U32, U64};
use object::pod;

use super::error::Result;
use super::{Class, Elf, Endianness};

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
    /// For each entry of `chain`, where its run starts: after the last end mark before it.
    run_starts: Vec<u32>,
    offset: u64,
}

/// A parsed `DT_HASH`.
#[derive(Debug)]
pub struct Sysv {
    bucket_count: u32,
    /// For each symbol, the bucket whose chain it is in, or `NO_BUCKET`.
    owners: Vec<u32>,
    offset: u64,
}

/// No bucket has this number: a table of so many would not fit any file.
const NO_BUCKET: u32 = u32::MAX;

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
    let width = sysv_width(image);
    let head = image.window("DT_HASH", address, 2 * width)?;
    let counts = words(image, &head.bytes, width);
    let &[bucket_count, chain_count] = counts.as_slice() else {
        return Err(image.error("DT_HASH", Some(head.offset), "the header is cut short"));
    };
    let fail = |field: &str, problem: String| image.error(&format!("DT_HASH {field}"), Some(head.offset), problem);
    let size = bucket_count.checked_add(chain_count).and_then(|count| count.checked_mul(width));
    let (Some(size), Ok(bucket_count), Ok(chain_count)) = (size, u32::try_from(bucket_count), u32::try_from(chain_count)) else {
        return Err(fail("nbucket + nchain", format!("{bucket_count} buckets and {chain_count} symbols leave the address space")));
    };
    let body = image.window("DT_HASH nbucket + nchain", address.wrapping_add(2 * width), size)?;
    let all = words(image, &body.bytes, width);
    let (buckets, chain) = all.split_at(bucket_count as usize);
    let mut owners = vec![NO_BUCKET; chain_count as usize];
    for (bucket, &start) in buckets.iter().enumerate() {
        let mut current = start;
        while current != 0 {
            // The loader follows the numbers and never looks at nchain.
            let Some(owner) = usize::try_from(current).ok().and_then(|index| owners.get_mut(index)) else {
                return Err(fail("nchain", format!("{chain_count}, yet the chain of bucket {bucket} leads to symbol {current}")));
            };
            if *owner != NO_BUCKET {
                let problem = format!("symbol {current} is met twice, from buckets {owner} and {bucket}: a ring, or two chains in one");
                return Err(fail("chain", problem));
            }
            *owner = bucket as u32;
            current = chain[current as usize];
        }
    }
    Ok(Some(Sysv { bucket_count, owners, offset: head.offset }))
}

/// Bytes of an entry of `DT_HASH`: 4, but 8 on the two 64-bit machines whose psABI came before the gABI settled it.
fn sysv_width(image: &Elf) -> u64 {
    let wide = matches!(elf::Machine(image.header.machine), elf::EM_S390 | elf::EM_ALPHA);
    if wide && image.header.class == Class::Elf64 { 8 } else { 4 }
}

fn read_gnu(image: &Elf, address: u64) -> Result<Gnu> {
    let head = image.window("DT_GNU_HASH", address, 16)?;
    let counts = words_32(image, &head.bytes);
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
    let bloom = words(image, &bloom.bytes, word);
    let bucket_address = bloom_address.wrapping_add(bloom_size);
    let bucket_size = u64::from(bucket_count) * 4;
    let buckets = image.window("DT_GNU_HASH nbuckets", bucket_address, bucket_size)?;
    let buckets = words_32(image, &buckets.bytes);
    let chain = read_chain(image, bucket_address.wrapping_add(bucket_size), first, &buckets, head.offset)?;
    let mut run_start = 0;
    let mut run_starts = Vec::with_capacity(chain.len());
    for (index, value) in chain.iter().enumerate() {
        run_starts.push(run_start);
        if value & 1 != 0 {
            run_start = index as u32 + 1;
        }
    }
    Ok(Gnu { first, shift, bloom, word_bits: word as u32 * 8, buckets, chain, run_starts, offset: head.offset })
}

/// Reads the chain up to the end mark of the last bucket's run.
fn read_chain(image: &Elf, address: u64, first: u32, buckets: &[u32], offset: u64) -> Result<Vec<u32>> {
    let Some(last) = buckets.iter().copied().filter(|&bucket| bucket != 0).max() else { return Ok(Vec::new()) };
    if let Some(&bad) = buckets.iter().find(|&&bucket| bucket != 0 && bucket < first) {
        return Err(image.error("DT_GNU_HASH buckets", Some(offset), format!("a bucket starts at symbol {bad}, before symoffset ({first})")));
    }
    let start = last - first;
    let mut chain = words_32(image, &image.window("DT_GNU_HASH buckets", address, u64::from(start) * 4)?.bytes);
    // The last run is a few entries long; more is read only if its end mark does not show up.
    let mut room = 64;
    loop {
        let window = image.window_up_to("DT_GNU_HASH chain", address.wrapping_add(u64::from(start) * 4), room * 4)?;
        let run = words_32(image, &window.bytes[..window.bytes.len() - window.bytes.len() % 4]);
        if let Some(end) = run.iter().position(|value| value & 1 != 0) {
            chain.extend_from_slice(&run[..=end]);
            return Ok(chain);
        }
        if (run.len() as u64) < room {
            return Err(image.error("DT_GNU_HASH chain", Some(window.offset), "the last chain has no end within the segment"));
        }
        room *= 4;
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
        let (from, to) = (start - self.first, (index - self.first) as usize);
        let (Some(value), Some(&run_start)) = (self.chain.get(to), self.run_starts.get(to)) else { return false };
        value | 1 == hash | 1 && run_start <= from
    }

    /// Offset of the table in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Sysv {
    /// Number of symbols, `nchain`.
    pub fn symbol_count(&self) -> u32 {
        u32::try_from(self.owners.len()).unwrap_or(u32::MAX)
    }

    /// True if a look-up of `name` meets symbol `index`.
    pub fn reaches(&self, index: u32, name: &[u8]) -> bool {
        let Some(bucket) = elf::hash(name).checked_rem(self.bucket_count) else { return false };
        self.owners.get(index as usize) == Some(&bucket)
    }

    /// Offset of the table in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// Words of 4 or 8 bytes.
fn words(image: &Elf, bytes: &[u8], width: u64) -> Vec<u64> {
    if width == 8 {
        let words = pod::slice_from_all_bytes::<U64<Endianness>>(bytes).unwrap_or_default();
        return words.iter().map(|word| word.get(image.header.endian)).collect();
    }
    words_32(image, bytes).into_iter().map(u64::from).collect()
}

fn words_32(image: &Elf, bytes: &[u8]) -> Vec<u32> {
    let words = pod::slice_from_all_bytes::<U32<Endianness>>(bytes).unwrap_or_default();
    words.iter().map(|word| word.get(image.header.endian)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Gnu, gnu_hash};

    /// Both bits of the filter are one where the shift is 0, and it has to be set all the same.
    #[test]
    fn a_filter_without_the_bit_hides_the_symbol() {
        let reaches = |filter: u64| {
            let chain = vec![gnu_hash(b"hipMalloc") | 1];
            let table = Gnu { first: 1, shift: 0, bloom: vec![filter], word_bits: 64, buckets: vec![1], chain, run_starts: vec![0], offset: 0 };
            table.reaches(1, b"hipMalloc")
        };
        assert!(reaches(u64::MAX) && reaches(1 << (gnu_hash(b"hipMalloc") % 64)) && !reaches(0));
    }
}
