//! Q4_0, Q4_1, Q5_0 and Q5_1: 32 elements with a scale. They differ in a minimum and in the bits of a level.
//! The minimum follows the scale; the last 16 bytes are the low four bits of all levels, and the four bytes
//! before them the fifth bits.

mod decode;
mod lanes;
mod scalar;

use gguf_types::DType;

use crate::{
    Codec, Search,
    block::{array_at, array_at_mut, assert_sizes, decode_blocks, encode_blocks, put_u32, u32_at},
    frozen::{Codes, Frozen, Points},
    level::at_level,
    nibbles,
};

const ELEMS: usize = 32;

/// A type with blocks of `B` bytes.
pub trait Layout<const B: usize> {
    const DTYPE: DType;
    /// Half of the number of levels.
    const HALF: u8;
    /// True if levels count up from a minimum, `x = d * q + m`; otherwise `x = d * (q - HALF)`.
    const HAS_MIN: bool;
    /// True if encoding without importance weights bounds the levels.
    const BOUNDED: bool = true;
    const MAX_LEVEL: u8 = 2 * Self::HALF - 1;
    /// True if levels have a fifth bit.
    const FIVE: bool = Self::MAX_LEVEL > 15;
}

/// The row of such a type, whose blocks have `W` words.
pub const fn codec<T: Layout<B>, const B: usize, const W: usize>() -> Codec {
    assert_sizes(T::DTYPE, ELEMS, B);
    Codec {
        dtype: T::DTYPE,
        needs_weights: false,
        search: Search::Weighted,
        encode: Some(|level, rows, out| match rows.weights {
            None => at_level!(
                level,
                simd => lanes::encode::<_, T, B>(simd, rows.values, out),
                encode_blocks(rows.values, out, scalar::encode::<T, B>)
            ),
            Some(weights) => at_level!(
                level,
                simd => lanes::encode_weighted::<_, T, B, W>(simd, rows, weights, out),
                scalar::encode_weighted_rows::<T, B>(rows, out)
            ),
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
    const GROUP: usize = ELEMS;
    // Without a minimum, level 0 represents -HALF and has no positive counterpart; the encoder uses it for
    // the value of the largest magnitude.
    const POINTS: Points =
        Points::Steps { zero: if T::HAS_MIN { 0 } else { T::HALF }, lowest: 0, highest: T::MAX_LEVEL };
    const CODES: [Codes; 2] = [Codes::Halves, if T::HAS_MIN { Codes::Halves } else { Codes::None }];

    #[inline(always)]
    fn levels(block: &[u8; B]) -> [u8; ELEMS] {
        let low = array_at(block, B - 16);
        if T::FIVE { nibbles::unpack_five(low, u32_at(block, B - 20)) } else { nibbles::unpack(low) }
    }

    #[inline(always)]
    fn put_levels(levels: &[u8; ELEMS], block: &mut [u8; B]) {
        if T::FIVE {
            put_u32(block, B - 20, nibbles::fifth_bits(levels));
        }
        *array_at_mut(block, B - 16) = nibbles::pack(levels);
    }
}
