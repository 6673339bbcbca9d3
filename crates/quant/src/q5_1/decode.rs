//! Q5_1 to floats, an element a lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, f16_at, u32_at},
    lanes::{
        decode::{fifth_bits, nibbles},
        to_float,
    },
};

/// Decodes a block.
#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scale = S::f32s::splat(simd, f16_at(block, 0));
    let min = S::f32s::splat(simd, f16_at(block, 2));
    let fifth = u32_at(block, 4);
    nibbles(
        simd,
        array_at(block, 8),
        values,
        #[inline(always)]
        |first, level| {
            let level = level | fifth_bits(simd, fifth, first);
            to_float(simd, level) * scale + min
        },
    );
}
