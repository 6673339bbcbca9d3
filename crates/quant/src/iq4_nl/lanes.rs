//! IQ4_NL, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{BYTES, scalar};
use crate::{
    Rows,
    iq_fit::nonlinear::SUB,
    lanes::{
        encode_units,
        halves::to_half,
        nonlinear::{inverse, nearest_indices, sigma2, sub_scale, weights},
        thirty_two::put_nibbles,
    },
};

const WORDS: usize = BYTES.div_ceil(4);

#[simd]
pub fn encode<S: Simd>(simd: S, rows: Rows<'_>, out: &mut [u8]) {
    encode_units::<S, SUB, BYTES, WORDS>(
        simd,
        rows,
        out,
        #[inline(always)]
        |_, x, importance, words| encode_unit(simd, x, importance, words).to_bitmask(),
        scalar::encode,
    );
}

#[simd]
fn encode_unit<S: Simd>(
    simd: S,
    x: &[S::f32s; SUB],
    importance: Option<&[S::f32s; SUB]>,
    words: &mut [S::u32s; WORDS],
) -> S::mask32s {
    let mut wild = S::mask32s::splat(simd, false);
    let mut w = [S::f32s::splat(simd, 0.0); SUB];
    let importance = match importance {
        None => None,
        Some(importance) => Some((importance, sigma2(simd, x))),
    };
    weights(simd, x, importance, &mut w);
    // The scale is only rounded for the file: indices are found with the exact one, like in the reference.
    let scale = sub_scale(simd, x, &w, &mut wild);
    let mut indices = [S::u32s::splat(simd, 0); SUB];
    nearest_indices(simd, x, inverse(simd, scale, &mut wild), &mut indices);
    words.fill(S::u32s::splat(simd, 0));
    words[0] = to_half(simd, scale);
    put_nibbles(simd, &indices, 2, words);
    wild
}
