//! Common part of decoding: bytes of a block become lanes of 32 bits, LEN elements at a time.
//!
//! Here a lane is an element. The compiler's own vectorization of the scalar loops is as fast if a byte is an
//! element; if bits must be spread, it was two to four times slower.

use fearless_simd::{Simd, prelude::*, u8x16};
use fearless_simd_macros::simd;

use super::to_float;

pub const GROUP: usize = 16;

/// Position of each of 16 bytes: the lowest of four. Indices beyond the table give zero.
const SPREAD: [u8; 4 * GROUP] = {
    let mut spread = [0x80; 4 * GROUP];
    let mut elem = 0;
    while elem < GROUP {
        spread[4 * elem] = elem as u8;
        elem += 1;
    }
    spread
};

const LANES: [u32; GROUP] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Decodes 16 elements: `value(first, bytes)` returns those from `first` on, LEN at a time; `bytes` has LEN
/// bytes from each source.
#[inline(always)]
pub fn sixteen<S: Simd, const K: usize>(
    simd: S,
    sources: [&[u8; GROUP]; K],
    values: &mut [f32; GROUP],
    value: impl Fn(usize, [S::u32s; K]) -> S::f32s,
) {
    let lanes = S::f32s::LEN;
    for (part, values) in values.chunks_exact_mut(lanes).enumerate() {
        let spread = S::u8s::from_slice(simd, &SPREAD[4 * lanes * part..][..4 * lanes]);
        let mut bytes = [S::u32s::splat(simd, 0); K];
        for k in 0..K {
            // The 16 bytes are repeated in every block of 128 bits, from which each lane selects one.
            let source = S::u8s::block_splat(u8x16::from_slice(simd, sources[k]));
            bytes[k] = source.swizzle_dyn_within_blocks(spread).bitcast();
        }
        value(part * lanes, bytes).store_slice(values);
    }
}

/// Decodes 32 elements of 4 bits, element `i` and element `i + 16` in one byte: `value(first, level)`.
#[inline(always)]
pub fn nibbles<S: Simd>(
    simd: S,
    packed: &[u8; GROUP],
    values: &mut [f32; 2 * GROUP],
    value: impl Fn(usize, S::u32s) -> S::f32s,
) {
    let (low, high) = values.split_at_mut(GROUP);
    let low: &mut [f32; GROUP] = low.try_into().expect("half of 32");
    let high: &mut [f32; GROUP] = high.try_into().expect("half of 32");
    sixteen(
        simd,
        [packed],
        low,
        #[inline(always)]
        |first, [bytes]| value(first, bytes & S::u32s::splat(simd, 0x0f)),
    );
    sixteen(
        simd,
        [packed],
        high,
        #[inline(always)]
        |first, [bytes]| value(GROUP + first, bytes >> 4),
    );
}

/// `16 * bit` for the bits of a word from bit `first` on, one per lane.
#[simd]
pub fn fifth_bits<S: Simd>(simd: S, word: u32, first: usize) -> S::u32s {
    // Lane `i` shifts by `i`.
    let bits = S::u32s::splat(simd, word >> first) >> S::u32s::from_slice(simd, &LANES[..S::u32s::LEN]);
    (bits & S::u32s::splat(simd, 1)) << 4
}

/// `magnitude`, negated in the lanes whose bit of the word, from bit `first` on, is set.
#[simd]
pub fn with_signs<S: Simd>(simd: S, magnitude: f32, word: u16, first: usize) -> S::f32s {
    // The 16 signs at the top of the word; lane `i` shifts its own into the sign bit of a float.
    let word = S::u32s::splat(simd, u32::from(word) >> first << (32 - GROUP));
    let up = S::u32s::splat(simd, 15) - S::u32s::from_slice(simd, &LANES[..S::u32s::LEN]);
    let sign = (word << up) & S::u32s::splat(simd, 0x8000_0000);
    (sign | S::u32s::splat(simd, magnitude.to_bits())).bitcast()
}

/// Sixteen elements of IQ2 or IQ3: `scale * magnitude * sign`.
#[simd]
pub fn signed_values<S: Simd>(
    simd: S,
    scale: f32,
    magnitudes: &[u8; GROUP],
    signs: u16,
    values: &mut [f32; GROUP],
) {
    let scale = S::f32s::splat(simd, scale);
    sixteen(
        simd,
        [magnitudes],
        values,
        #[inline(always)]
        |first, [magnitudes]| scale * to_float(simd, magnitudes) * with_signs(simd, 1.0, signs, first),
    );
}

/// Two points of the grid side by side.
#[inline(always)]
pub fn join(points: [[u8; 8]; 2]) -> [u8; GROUP] {
    let [low, high] = points.map(|point| u128::from(u64::from_le_bytes(point)));
    (low | (high << 64)).to_le_bytes()
}

/// The value of a table of 16 in each lane minus `bias`; lanes contain its index.
#[simd]
pub fn look_up<S: Simd>(simd: S, table: &[u8; 16], index: S::u32s, bias: f32) -> S::f32s {
    let table = S::u8s::block_splat(u8x16::from_slice(simd, table));
    // The other three bytes of a lane look beyond the table, which gives zero.
    let at = (index | S::u32s::splat(simd, 0x8080_8000)).bitcast::<S::u8s>();
    let value = table.swizzle_dyn_within_blocks(at).bitcast::<S::u32s>();
    to_float(simd, value) - S::f32s::splat(simd, bias)
}
