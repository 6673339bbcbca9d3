//! IQ4_XS, one block per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{BYTES, scalar};
use crate::{
    Rows,
    iq_fit::{SUPER, nonlinear::SUB},
    lanes::{
        encode_units,
        halves::to_half,
        nearest_int,
        nonlinear::{inverse, nearest_indices, sigma2, sub_scale, weights},
        signed::largest,
        thirty_two::put_nibbles,
        to_float,
    },
};

const WORDS: usize = BYTES / 4;
const SUBS: usize = SUPER / SUB;

#[simd]
pub fn encode<S: Simd>(simd: S, rows: Rows<'_>, out: &mut [u8]) {
    encode_units::<S, SUPER, BYTES, WORDS>(
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
    x: &[S::f32s; SUPER],
    importance: Option<&[S::f32s; SUPER]>,
    words: &mut [S::u32s; WORDS],
) -> S::mask32s {
    let zero = S::f32s::splat(simd, 0.0);
    let mut wild = S::mask32s::splat(simd, false);
    let importance = match importance {
        None => None,
        Some(importance) => Some((importance.as_chunks::<SUB>().0, sigma2(simd, x))),
    };
    let x = x.as_chunks::<SUB>().0;
    let mut w = [zero; SUB];
    let mut scales = [zero; SUBS];
    for sub in 0..SUBS {
        let importance = importance.map(|(importance, sigma2)| (&importance[sub], sigma2));
        weights(simd, &x[sub], importance, &mut w);
        scales[sub] = sub_scale(simd, &x[sub], &w, &mut wild);
    }

    let (max_scale, _) = largest(simd, &scales);
    // The block's scale is only rounded for the file: levels and indices are found with the exact one.
    let d = -max_scale / S::f32s::splat(simd, 32.0);
    let id = inverse(simd, d, &mut wild);
    words.fill(S::u32s::splat(simd, 0));
    words[0] = to_half(simd, d);
    let mut indices = [S::u32s::splat(simd, 0); SUB];
    for sub in 0..SUBS {
        // The largest scale has level -32, so only the other end is clamped.
        let level = nearest_int(simd, id * scales[sub]) + S::u32s::splat(simd, 32);
        let level = level.min(S::u32s::splat(simd, 63));
        let scale = d * (to_float(simd, level) - S::f32s::splat(simd, 32.0));
        let inv_scale = inverse(simd, scale, &mut wild);
        nearest_indices(simd, &x[sub], inv_scale, &mut indices);
        put_nibbles(simd, &indices, 8 + 16 * sub, words);
        words[0] |= (level >> 4) << (16 + 2 * sub as u32);
        words[1] |= (level & S::u32s::splat(simd, 15)) << (4 * sub as u32);
    }
    wild
}
