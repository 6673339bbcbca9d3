//! The 4-bit floats that MXFP4 and NVFP4 share: a sign, 2 bits of exponent, 1 bit of mantissa.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

/// All 16 values, doubled, so that they are integers (`kvalues_mxfp4` in `ggml/src/ggml-common.h`).
pub const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Offset of [`BIASED`].
pub const BIAS: f32 = 12.0;
/// [`VALUES`] without signs: [`BIAS`] added.
pub const BIASED: [u8; 16] = {
    let mut biased = [0; 16];
    let mut index = 0;
    while index < 16 {
        biased[index] = (VALUES[index] + 12) as u8;
        index += 1;
    }
    biased
};

/// Index of the value nearest to each number, the first of equals, so that minus zero is never chosen.
///
/// Source: `best_index_mxfp4` in `ggml/src/ggml-quants.c`.
#[inline(always)]
pub fn nearest<const N: usize>(numbers: &[f32; N], scale: f32) -> [u8; N] {
    let mut indices = [0; N];
    // Eight at a time, so that the state of the scan fits in registers.
    for (numbers, indices) in numbers.as_chunks::<8>().0.iter().zip(indices.as_chunks_mut::<8>().0) {
        let mut best = [0u32; 8];
        let mut best_error = numbers.map(|x| (0.0 * scale - x).abs());
        // Index 8, minus zero, is never nearer than zero; skipping it was slower (10 for 6 ns an element).
        for index in 1..16 {
            let value = f32::from(VALUES[index]) * scale;
            for i in 0..8 {
                let error = (value - numbers[i]).abs();
                let better = error < best_error[i];
                best[i] = if better { index as u32 } else { best[i] };
                best_error[i] = if better { error } else { best_error[i] };
            }
        }
        *indices = best.map(|index| index as u8);
    }
    indices
}

/// [`nearest`], one number per lane: only values with the number's sign can be nearer than zero, so eight
/// magnitudes are compared.
#[simd]
pub fn nearest_lanes<S: Simd, const N: usize>(simd: S, numbers: &[f32; N], scale: f32) -> [u8; N] {
    let lanes = S::f32s::LEN;
    let mut indices = [0; N];
    for at in 0..N / lanes {
        let number = S::f32s::from_slice(simd, &numbers[at * lanes..][..lanes]);
        let magnitude = number.abs();
        let mut best = S::u32s::splat(simd, 0);
        let mut best_error = (S::f32s::splat(simd, 0.0 * scale) - magnitude).abs();
        for index in 1..8 {
            let error = (S::f32s::splat(simd, f32::from(VALUES[index]) * scale) - magnitude).abs();
            let better = error.simd_lt(best_error);
            best = better.select(S::u32s::splat(simd, index as u32), best);
            best_error = better.select(error, best_error);
        }
        // The sign bit moves to bit 3, its position in codes; zero has no sign.
        let sign = (number.bitcast::<S::u32s>() >> 28) & 8;
        let zero = S::u32s::splat(simd, 0);
        let index = best.simd_eq(zero).select(zero, best | sign);
        for (out, index) in indices[at * lanes..][..lanes].iter_mut().zip(index.as_slice()) {
            *out = *index as u8;
        }
    }
    indices
}
