//! TQ1_0 to floats, one element per lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

use super::scalar::{BYTES, ELEMS};
use crate::{
    block::{array_at, f16_at},
    lanes::{
        decode::{GROUP, sixteen},
        to_float,
    },
};

#[simd]
pub fn decode<S: Simd>(simd: S, block: &[u8; BYTES], values: &mut [f32; ELEMS]) {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let scale = S::f32s::splat(simd, f16_at(block, 52));
    let (byte, one) = (S::u32s::splat(simd, 0xff), S::f32s::splat(simd, 1.0));
    let mut tail = [0; GROUP];
    for (i, rest) in tail.iter_mut().enumerate() {
        *rest = block[48 + i % 4].wrapping_mul(POWERS[i / 4]);
    }
    for (group, values) in values.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        // Groups of bytes 0, 16, 0, 16, ... and five times 32; the last has every digit of 4 bytes.
        let (source, digit) = match group {
            0..10 => (array_at(block, group % 2 * 16), group / 2),
            10..15 => (array_at(block, 32), group - 10),
            _ => (&tail, 0),
        };
        let power = S::u32s::splat(simd, u32::from(POWERS[digit]));
        sixteen(
            simd,
            [source],
            values,
            #[inline(always)]
            |_, [bytes]| {
                let rest = (bytes * power) & byte;
                let level = (rest + rest + rest) >> 8;
                (to_float(simd, level) - one) * scale
            },
        );
    }
}
