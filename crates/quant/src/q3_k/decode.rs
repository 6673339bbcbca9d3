//! Q3_K to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{BYTES, ELEMS, read_scales};
use crate::{
    block::array_at,
    lanes::{
        decode::{GROUP, sixteen},
        to_float,
    },
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    let scales = read_scales(block);
    let (one, three, four) = (S::u32s::splat(simd, 1), S::u32s::splat(simd, 3), S::f32s::splat(simd, 4.0));
    for (sub, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let scale = S::f32s::splat(simd, scales[sub]);
        let (half, pair, side) = (sub / 8, sub % 8 / 2, sub % 2);
        sixteen(
            simd,
            [array_at(block, 32 + 32 * half + 16 * side), array_at(block, 16 * side)],
            values,
            #[inline(always)]
            |_, [low, third]| {
                let low = (low >> (2 * pair as u32)) & three;
                let level = low | (((third >> (sub as u32 / 2)) & one) << 2);
                scale * (to_float(simd, level) - four)
            },
        );
    }
}
