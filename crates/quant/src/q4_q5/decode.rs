//! Q4_0, Q4_1, Q5_0 and Q5_1 to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::{ELEMS, Layout};
use crate::{
    block::{array_at, f16_at, u32_at},
    lanes::{
        decode::{fifth_bits, nibbles},
        to_float,
    },
};

#[simd]
pub fn decode<S: Simd, T: Layout<B>, const B: usize>(simd: S, block: &[u8; B], values: &mut [f32; ELEMS]) {
    let scale = S::f32s::splat(simd, f16_at(block, 0));
    // The minimum, or the offset of the levels.
    let base = S::f32s::splat(simd, if T::HAS_MIN { f16_at(block, 2) } else { f32::from(T::HALF) });
    let fifth = if T::FIVE { u32_at(block, B - 20) } else { 0 };
    nibbles(
        simd,
        array_at(block, B - 16),
        values,
        #[inline(always)]
        |first, mut level| {
            if T::FIVE {
                level |= fifth_bits(simd, fifth, first);
            }
            let level = to_float(simd, level);
            if T::HAS_MIN { level * scale + base } else { (level - base) * scale }
        },
    );
}
