//! Q4_0, Q4_1, Q5_0 and Q5_1, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{ELEMS, Layout, scalar};
use crate::{
    Rows,
    fit::WEIGHTED,
    lanes::{
        elements,
        halves::to_half,
        scale_and_min::{Found, scale_and_min, searched_level},
        signed::signed,
        thirty_two,
    },
};

/// Encodes without importance weights.
#[simd]
pub fn encode<S: Simd, T: Layout<B>, const B: usize>(simd: S, values: &[f32], out: &mut [u8]) {
    elements::encode::<S, B>(
        simd,
        values,
        out,
        #[inline(always)]
        |values, blocks| {
            if T::HAS_MIN {
                elements::ranged(simd, values, T::HALF, blocks)
            } else {
                elements::signed(simd, values, T::HALF, blocks)
            }
        },
        scalar::encode::<T, B>,
    );
}

/// Encodes with importance weights, of which `weights` is one row.
#[simd]
pub fn encode_weighted<S: Simd, T: Layout<B>, const B: usize, const W: usize>(
    simd: S,
    rows: Rows<'_>,
    weights: &[f32],
    out: &mut [u8],
) {
    let mut levels = [S::u32s::splat(simd, 0); ELEMS];
    if T::HAS_MIN {
        thirty_two::encode_weighted::<S, B, W, 4>(
            simd,
            rows,
            weights,
            out,
            #[inline(always)]
            |x, w, words| {
                let mut found = [[Found::none(simd); 2]; 2];
                let wild = scale_and_min::<S, ELEMS, 2, false>(
                    simd,
                    [[&x[0], &x[1]], [&x[2], &x[3]]],
                    [[&w[0], &w[1]], [&w[2], &w[3]]],
                    T::MAX_LEVEL,
                    WEIGHTED,
                    &mut found,
                );
                for g in 0..4 {
                    let (x, words, found) = (&x[g], &mut words[g], &found[g / 2][g % 2]);
                    for i in 0..ELEMS {
                        levels[i] = searched_level(simd, found, x[i], u32::from(T::MAX_LEVEL));
                    }
                    let head = to_half(simd, found.scale) | (to_half(simd, -found.min) << 16);
                    put_block::<S, T, B, W>(simd, head, &mut levels, words);
                }
                [wild.to_bitmask(); 4]
            },
            scalar::encode_weighted::<T, B>,
        );
    } else {
        thirty_two::encode_weighted::<S, B, W, 1>(
            simd,
            rows,
            weights,
            out,
            #[inline(always)]
            |[x], [w], [words]| {
                let mut wild = S::mask32s::splat(simd, false);
                let found = signed(simd, x, w, T::HALF, &mut wild);
                for i in 0..ELEMS {
                    levels[i] = found.searched_level(simd, x[i], T::HALF);
                }
                put_block::<S, T, B, W>(simd, to_half(simd, found.scale), &mut levels, words);
                [wild.to_bitmask()]
            },
            scalar::encode_weighted::<T, B>,
        );
    }
}

/// Writes blocks that begin with these halves, and with the fifth bits at an odd half if there is no minimum.
#[simd]
fn put_block<S: Simd, T: Layout<B>, const B: usize, const W: usize>(
    simd: S,
    head: S::u32s,
    levels: &mut [S::u32s; ELEMS],
    words: &mut [S::u32s; W],
) {
    words.fill(S::u32s::splat(simd, 0));
    words[0] = head;
    if T::FIVE {
        let fifth = thirty_two::take_fifth_bits(simd, levels);
        if T::HAS_MIN {
            words[1] = fifth;
        } else {
            words[0] |= fifth << 16;
            words[1] = fifth >> 16;
        }
    }
    thirty_two::put_nibbles(simd, levels, B - 16, words);
}
