//! Q4_K and Q5_K, which differ in the bits of a level: scales and minima in the layout of [`k_scales`], then
//! the fifth bits if any, and in the last 128 bytes the low four.

mod decode;
mod lanes;
mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{array_at, array_at_mut, assert_sizes, decode_blocks, encode_rows, f16_at},
    fit::Candidates,
    frozen::{Codes, Frozen, Points},
    k_scales::{self, ELEMS},
    level::at_level,
};

/// A type with blocks of `B` bytes.
pub trait Layout<const B: usize> {
    const DTYPE: DType;
    const MAX_LEVEL: u8;
    /// The candidate scales of the search without importance weights.
    const CANDIDATES: Candidates;
    /// Bound of the packed scales in the search with importance weights, see [`k_scales::fit_weighted`].
    const MAX_SCALE: u8;
    /// True if levels have a fifth bit.
    const FIVE: bool = Self::MAX_LEVEL > 15;
}

/// The row of such a type, whose blocks have `W` words.
pub const fn codec<T: Layout<B>, const B: usize, const W: usize>() -> Codec {
    assert_sizes(T::DTYPE, ELEMS, B);
    Codec {
        dtype: T::DTYPE,
        needs_weights: false,
        search: Search::Always,
        encode: Some(|level, rows, out| {
            at_level!(
                level,
                simd => lanes::encode::<_, T, B, W>(simd, rows, out),
                encode_rows(rows, out, scalar::encode::<T, B>)
            )
        }),
        decode: |level, blocks, out| {
            at_level!(
                level,
                simd => decode_blocks(
                    blocks,
                    out,
                    #[inline(always)]
                    |block, values| decode::decode::<_, T, B>(simd, block, values)
                ),
                decode_blocks(blocks, out, scalar::decode::<T, B>)
            )
        },
    }
}

impl<T: Layout<B>, const B: usize> Frozen<ELEMS, B> for T {
    const DTYPE: DType = T::DTYPE;
    const GROUP: usize = 32;
    const POINTS: Points = Points::Steps { zero: 0, lowest: 0, highest: T::MAX_LEVEL };
    // Six bits each, all of a block in 12 bytes.
    const CODES: [Codes; 2] = [Codes::Integers { lowest: 0, highest: 63, zero: 0 }; 2];

    #[inline(always)]
    fn codes(block: &[u8; B], group: usize) -> [u16; 2] {
        let (scales, mins) = k_scales::unpack(array_at(block, 4));
        [u16::from(scales[group]), u16::from(mins[group])]
    }

    #[inline(always)]
    fn scale(block: &[u8; B], [scale, min]: [u16; 2]) -> [f32; 2] {
        // The decoder subtracts the minimum after the product: adding its negative is equal to the last bit.
        [f16_at(block, 0) * f32::from(scale), -(f16_at(block, 2) * f32::from(min))]
    }

    #[inline(always)]
    fn put_codes([scale, min]: [u16; 2], block: &mut [u8; B], group: usize) {
        // Scales and minima of six bits share twelve bytes: all are unpacked to change one.
        let (mut scales, mut mins) = k_scales::unpack(array_at(block, 4));
        (scales[group], mins[group]) = (scale as u8, min as u8);
        *array_at_mut(block, 4) = k_scales::pack(&scales, &mins);
    }

    #[inline(always)]
    fn levels(block: &[u8; B]) -> [u8; ELEMS] {
        let mut levels = [0; ELEMS];
        for (sub, levels) in levels.as_chunks_mut().0.iter_mut().enumerate() {
            *levels = scalar::levels::<T, B>(block, sub);
        }
        levels
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; B]) {
        scalar::put_levels::<T, B>(levels, block);
    }
}
