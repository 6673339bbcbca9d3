//! Q1_0, one block per lane: the sum of magnitudes is a chain of 128 additions.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{self, BYTES, ELEMS};
use crate::{
    Rows,
    lanes::{encode_units, half},
};

const WORDS: usize = BYTES.div_ceil(4);

#[simd]
pub fn encode<S: Simd>(simd: S, values: &[f32], out: &mut [u8]) {
    encode_units::<S, ELEMS, BYTES, WORDS>(
        simd,
        Rows { values, row_elems: values.len(), weights: None },
        out,
        #[inline(always)]
        |_, x, _, words| {
            put_block(simd, x, words);
            0
        },
        |values, _, block| scalar::encode(values, block),
    );
}

#[simd]
fn put_block<S: Simd>(simd: S, x: &[S::f32s; ELEMS], words: &mut [S::u32s; WORDS]) {
    let zero = S::f32s::splat(simd, 0.0);
    let mut magnitudes = zero;
    for x in x {
        magnitudes += x.abs();
    }
    let (bits, _) = half(simd, magnitudes / S::f32s::splat(simd, ELEMS as f32));
    // The scale fills two bytes, so each word contains 16 new signs and 16 of the previous group.
    let mut before = bits;
    for word in 0..ELEMS / 32 {
        let mut signs = S::u32s::splat(simd, 0);
        for i in 0..32 {
            let plus = x[32 * word + i].simd_ge(zero);
            signs |= plus.select(S::u32s::splat(simd, 1 << i), S::u32s::splat(simd, 0));
        }
        words[word] = before | (signs << 16);
        before = signs >> 16;
    }
    words[ELEMS / 32] = before;
}
