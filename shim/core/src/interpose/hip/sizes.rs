//! What a request will take of the card: arithmetic alone, every product checked.
//!
//! `None` is more than 64 bits can say: no card has room for it, and a runtime whose own product wraps must not be asked.
//! An estimate that is too low is made good beneath, where HSA shows what is really taken; one that is too high would refuse
//! what has room. So padding is counted only where all four releases pad so.

use super::abi::{Array3dDesc, ArrayDesc, ChannelDesc, Extent};

/// Rows of pitched memory begin at multiples of this many bytes on every part that ROCm runs on.
pub const PITCH: u64 = 256;
/// What the default pool of 7.x grows by.
pub const CHUNK: u64 = 32 << 20;
/// What that pool adds to each request before it looks for a place.
pub const CHUNK_MARGIN: u64 = 256;

/// `value` rounded up to a multiple of `step`, a power of two.
pub fn round_up(value: u64, step: u64) -> Option<u64> {
    Some(value.checked_add(step - 1)? & !(step - 1))
}

/// `hipMallocPitch`, `hipMemAllocPitch`, `hipMalloc3D`: rows of `width` bytes. Nothing is taken if any extent is 0.
pub fn pitched(width: usize, height: usize, depth: usize) -> Option<u64> {
    if width == 0 || height == 0 || depth == 0 {
        return Some(0);
    }
    settled(round_up(width as u64, PITCH)?, height, depth)
}

/// The same once the runtime has said what the pitch is.
pub fn settled(pitch: u64, height: usize, depth: usize) -> Option<u64> {
    pitch.checked_mul(height as u64)?.checked_mul(depth as u64)
}

/// An array of runtime's form: `hipMallocArray`, `hipMalloc3DArray`. Height and depth of 0 mean fewer dimensions.
pub fn array(desc: &ChannelDesc, extent: Extent) -> Option<u64> {
    let mut bits = 0_u64;
    for channel in desc.bits {
        bits = bits.checked_add(u64::from(channel.max(0).unsigned_abs()))?;
    }
    elements(bits.div_ceil(8), extent)
}

/// An array of the driver's form: `hipArrayCreate`.
pub fn array_of(desc: &ArrayDesc) -> Option<u64> {
    elements(element(desc.format, desc.channels)?, Extent { width: desc.width, height: desc.height, depth: 0 })
}

/// `hipArray3DCreate`.
pub fn array_of_3d(desc: &Array3dDesc) -> Option<u64> {
    elements(element(desc.format, desc.channels)?, Extent { width: desc.width, height: desc.height, depth: desc.depth })
}

/// All levels of a mipmapped array, each half as wide, as high and as deep as the one before. Layers do not shrink.
pub fn mipmap(bytes_per_element: u64, extent: Extent, levels: u32, layered: bool) -> Option<u64> {
    let mut sum = 0_u64;
    let mut level = extent;
    for _ in 0..levels.clamp(1, 64) {
        sum = sum.checked_add(elements(bytes_per_element, level)?)?;
        let depth = if layered { level.depth } else { level.depth / 2 };
        let next = Extent { width: (level.width / 2).max(1), height: level.height / 2, depth };
        if next == level {
            break;
        }
        level = next;
    }
    Some(sum)
}

/// Bytes of an element by channel bits.
pub fn channel_bytes(desc: &ChannelDesc) -> u64 {
    desc.bits.iter().map(|bits| u64::from((*bits).max(0).unsigned_abs())).sum::<u64>().div_ceil(8)
}

/// Bytes of an element by `hipArray_Format`; a format that is not known counts as the largest.
pub fn element(format: u32, channels: u32) -> Option<u64> {
    let bytes = match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        _ => 4,
    };
    u64::from(channels.max(1)).checked_mul(bytes)
}

fn elements(bytes: u64, extent: Extent) -> Option<u64> {
    let rows = |count: usize| (count as u64).max(1);
    bytes.checked_mul(extent.width as u64)?.checked_mul(rows(extent.height))?.checked_mul(rows(extent.depth))
}

#[cfg(test)]
mod tests {
    use super::super::abi::{Array3dDesc, ArrayDesc, ChannelDesc, Extent};
    use super::{array, array_of, array_of_3d, channel_bytes, element, mipmap, pitched, round_up, settled};

    const FLOAT: u32 = 0x20;
    const HALF: u32 = 0x10;

    fn extent(width: usize, height: usize, depth: usize) -> Extent {
        Extent { width, height, depth }
    }

    fn bits(bits: [i32; 4]) -> ChannelDesc {
        ChannelDesc { bits, kind: 2 }
    }

    #[test]
    fn rows_are_padded_and_nothing_is_nothing() {
        assert_eq!(pitched(1, 1, 1), Some(256));
        assert_eq!(pitched(65536, 1024, 1), Some(64 << 20));
        assert_eq!(pitched(257, 3, 2), Some(512 * 6));
        for (width, height, depth) in [(0, 5, 5), (5, 0, 5), (5, 5, 0)] {
            assert_eq!(pitched(width, height, depth), Some(0));
        }
        assert_eq!(settled(512, 3, 2), Some(3072));
    }

    #[test]
    fn a_product_that_wraps_is_no_size() {
        assert_eq!(pitched(usize::MAX, 1, 1), None);
        assert_eq!(pitched(1 << 33, 1 << 33, 1), None);
        assert_eq!(pitched(1 << 20, 1 << 22, 1 << 22), None);
        assert_eq!(settled(1 << 32, 1 << 16, 1 << 16), None);
        assert_eq!(array(&bits([32, 32, 32, 32]), extent(1 << 30, 1 << 30, 1 << 30)), None);
        assert_eq!(mipmap(16, extent(1 << 30, 1 << 30, 4), 1, true), None);
        assert_eq!(round_up(u64::MAX, 4096), None);
    }

    #[test]
    fn missing_dimensions_count_once() {
        let float = bits([32, 0, 0, 0]);
        assert_eq!(array(&float, extent(1000, 0, 0)), Some(4000));
        assert_eq!(array(&float, extent(1000, 10, 0)), Some(40_000));
        assert_eq!(array(&bits([8, 8, 0, 0]), extent(10, 10, 10)), Some(2000));
        assert_eq!(array_of(&ArrayDesc { width: 10, height: 0, format: HALF, channels: 4 }), Some(80));
        assert_eq!(array_of_3d(&Array3dDesc { width: 10, height: 2, depth: 3, format: FLOAT, channels: 1, flags: 0 }), Some(240));
    }

    #[test]
    fn a_strange_description_does_not_shrink() {
        assert_eq!(channel_bytes(&bits([-8, 8, 0, 0])), 1);
        assert_eq!(channel_bytes(&bits([1, 0, 0, 0])), 1);
        assert_eq!(element(0x7777, 3), Some(12));
        assert_eq!(element(1, 0), Some(1));
    }

    #[test]
    fn levels_halve_and_layers_do_not() {
        // 16 + 4 + 1 elements; more levels than there are stop at one element.
        assert_eq!(mipmap(4, extent(4, 4, 0), 3, false), Some(84));
        assert_eq!(mipmap(4, extent(4, 4, 0), 0, false), Some(64));
        assert_eq!(mipmap(1, extent(4, 4, 4), 2, false), Some(64 + 8));
        assert_eq!(mipmap(1, extent(4, 4, 4), 2, true), Some(64 + 16));
        assert!(mipmap(1, extent(4, 4, 4), u32::MAX, true).is_some());
    }
}
