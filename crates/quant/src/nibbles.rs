//! Packing of levels shared by 32-element formats: element `i` and element `i + 16` in one byte, and fifth
//! bits, if any, in a `u32` with bit `i` for element `i`.

/// The low 4 bits of 32 levels.
#[inline(always)]
pub fn pack(levels: &[u8; 32]) -> [u8; 16] {
    std::array::from_fn(|i| (levels[i] & 0x0f) | (levels[i + 16] << 4))
}

/// The 32 levels of [`pack`].
#[inline(always)]
pub fn unpack(bytes: &[u8; 16]) -> [u8; 32] {
    std::array::from_fn(|i| if i < 16 { bytes[i] & 0x0f } else { bytes[i - 16] >> 4 })
}

/// Bit 4 of 32 levels.
#[inline(always)]
pub fn fifth_bits(levels: &[u8; 32]) -> u32 {
    levels.iter().enumerate().fold(0, |bits, (i, level)| bits | (u32::from(level >> 4 & 1) << i))
}

/// 5-bit levels from their low 4 bits and their fifth bits.
#[inline(always)]
pub fn unpack_five(bytes: &[u8; 16], fifth: u32) -> [u8; 32] {
    let low = unpack(bytes);
    std::array::from_fn(|i| low[i] | ((fifth >> i & 1) as u8) << 4)
}
