//! Half precision in every lane.

use fearless_simd::{Simd, prelude::*};
use fearless_simd_macros::simd;

/// [`f32_to_f16`](crate::round::f32_to_f16) in every lane; equal for every input.
#[simd]
pub fn to_half<S: Simd>(simd: S, value: S::f32s) -> S::u32s {
    let splat = |bits: u32| S::u32s::splat(simd, bits);
    let power = |bits: u32| S::f32s::splat(simd, f32::from_bits(bits));
    // Step by step like the scalar code, which explains the constants.
    let scaled = (value.abs() * power(0x7780_0000)) * power(0x0880_0000);
    let bits = value.bitcast::<S::u32s>();
    let sign = (bits >> 16) & splat(0x8000);
    let magnitude = bits + bits;
    let exponent = (magnitude & splat(0xff00_0000)).max(splat(0x7100_0000));
    let base = ((exponent >> 1) + splat(0x0780_0000)).bitcast::<S::f32s>();
    let rounded = (base + scaled).bitcast::<S::u32s>();
    let number = ((rounded >> 13) & splat(0x7c00)) + (rounded & splat(0x0fff));
    sign | magnitude.simd_gt(splat(0xff00_0000)).select(splat(0x7e00), number)
}

/// [`f16_to_f32`](crate::round::f16_to_f32) in every lane; equal for every half, whose upper 16 bits are 0.
#[simd]
pub fn from_half<S: Simd>(simd: S, half: S::u32s) -> S::f32s {
    let splat = |bits: u32| S::u32s::splat(simd, bits);
    let sign = (half << 16) & splat(0x8000_0000);
    let magnitude = half << 17;
    let scale = S::f32s::splat(simd, f32::from_bits(0x0780_0000));
    let normal = ((magnitude >> 4) + splat(0xe0 << 23)).bitcast::<S::f32s>() * scale;
    let subnormal = ((magnitude >> 17) | splat(126 << 23)).bitcast::<S::f32s>() - S::f32s::splat(simd, 0.5);
    let number = magnitude.simd_lt(splat(1 << 27)).select(subnormal, normal);
    (sign | number.bitcast::<S::u32s>()).bitcast()
}

#[cfg(test)]
mod tests {
    use fearless_simd::{Simd, prelude::*};

    use crate::{
        Level,
        level::at_level,
        round::{f16_to_f32, f32_to_f16},
    };

    fn levels() -> Vec<Level> {
        let levels = Level::available();
        gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
        levels
    }

    #[test]
    fn every_level_rounds_as_scalar_does() {
        // Every 4099th float, and all that lie near a tie between two halves.
        let strided = (0..=u32::MAX).step_by(4099);
        let ties = (0..=u32::MAX).step_by(1 << 12).flat_map(|tie| [tie.wrapping_sub(1), tie, tie | 1]);
        let values: Vec<f32> = strided.chain(ties).map(f32::from_bits).collect();
        let expected: Vec<u32> = values.iter().map(|value| u32::from(f32_to_f16(*value))).collect();
        for level in levels() {
            let found = at_level!(level, simd => halves(simd, &values), expected.clone());
            assert!(found == expected, "{level:?}");
        }
    }

    #[test]
    fn every_level_reads_as_scalar_does() {
        let expected: Vec<u32> = (0..=u16::MAX).map(|half| f16_to_f32(half).to_bits()).collect();
        for level in levels() {
            let found = at_level!(level, simd => floats(simd), expected.clone());
            assert!(found == expected, "{level:?}");
        }
    }

    #[inline(always)]
    fn floats<S: Simd>(simd: S) -> Vec<u32> {
        let mut found = Vec::new();
        for first in (0..=u32::from(u16::MAX)).step_by(S::u32s::LEN) {
            let halves = S::u32s::from_fn(simd, |lane| first + lane as u32);
            found.extend_from_slice(super::from_half(simd, halves).bitcast::<S::u32s>().as_slice());
        }
        found
    }

    #[inline(always)]
    fn halves<S: Simd>(simd: S, values: &[f32]) -> Vec<u32> {
        let mut found = Vec::new();
        for values in values.chunks(S::f32s::LEN) {
            let padded = S::f32s::from_fn(simd, |lane| values.get(lane).copied().unwrap_or(0.0));
            let halves = super::to_half(simd, padded);
            found.extend_from_slice(&halves.as_slice()[..values.len()]);
        }
        found
    }
}
