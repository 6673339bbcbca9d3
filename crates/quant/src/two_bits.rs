//! Packing of 2-bit levels shared by Q2_K and Q3_K: byte `32 * h + i` contains, lowest bits first, elements
//! `i`, `i + 32`, `i + 64` and `i + 96` of half `h`.

/// 256 levels of 2 bits.
#[inline(always)]
pub fn pack(levels: &[u8; 256]) -> [u8; 64] {
    let mut out = [0; 64];
    for (levels, out) in levels.as_chunks::<128>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        *out = std::array::from_fn(|i| {
            levels[i] | levels[i + 32] << 2 | levels[i + 64] << 4 | levels[i + 96] << 6
        });
    }
    out
}

/// The 16 levels of sub-block `sub`.
#[inline(always)]
pub fn unpack(bytes: &[u8; 64], sub: usize) -> [u8; 16] {
    let (half, pair, side) = (sub / 8, sub % 8 / 2, sub % 2);
    std::array::from_fn(|i| bytes[32 * half + 16 * side + i] >> (2 * pair) & 3)
}
