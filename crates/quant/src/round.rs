//! The rounding rules and number conversions of the reference, named.
//!
//! If a conversion is undefined in C (a float outside the integer's range, infinity, NaN), these functions
//! behave like the reference on x86-64, because blocks of subnormal numbers cause such conversions: the
//! reciprocal of their scale is infinite.

pub use gguf_types::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

/// `3 * 2^22`: the sum of this and a float below 2^22 in magnitude lies between 2^23 and 2^24, where floats are 1
/// apart, so the addition rounds the float to its nearest integer, halves to even, and leaves it in the low bits.
pub(crate) const MAGIC: f32 = 12_582_912.0;
/// The bits of a float's mantissa, which contain the integer plus [`MAGIC_MANTISSA`].
pub(crate) const MANTISSA: u32 = 0x007f_ffff;
/// Mantissa of [`MAGIC`], which represents the integer 0.
pub(crate) const MAGIC_MANTISSA: u32 = 0x0040_0000;

/// Nearest integer, halves to even, by ggml's magic-number trick.
///
/// Source: `nearest_int` in `ggml/src/ggml-quants.c`. Meaningful for `|value| <= 4194303`; beyond that the
/// bits are meaningless, but equal to the reference's.
#[inline(always)]
pub fn nearest_int(value: f32) -> i32 {
    let bits = (value + MAGIC).to_bits();
    (bits & MANTISSA) as i32 - MAGIC_MANTISSA as i32
}

/// Nearest integer, halves away from zero: C's `roundf` followed by a conversion to an integer.
///
/// The number that is added is the largest below one half: with 0.5 itself, 0.49999997 would round up. From
/// 2^23 on, where every float is an integer, the sum rounds back to the value.
#[inline(always)]
pub fn round_away(value: f32) -> i32 {
    truncate_to_int(value + 0.499_999_97_f32.copysign(value))
}

/// The low byte of [`round_away`], under the bounds of [`truncate_to_byte`].
#[inline(always)]
pub fn round_away_to_byte(value: f32) -> u8 {
    truncate_to_byte(value + 0.499_999_97_f32.copysign(value))
}

/// The low byte of [`truncate_to_int`] for magnitudes below 2^22, and 0 for all others. Values times the
/// reciprocal of their scale are small numbers, or infinite or NaN, for which 0 is right too.
///
/// Adding 2^23 rounds the magnitude to an integer in the low bits; if that went up, one is subtracted. The
/// language's own conversion saturates, which costs a block of 32 about half of its time.
#[inline(always)]
pub fn truncate_to_byte(value: f32) -> u8 {
    let magnitude = value.abs();
    let shifted = magnitude + 8_388_608.0;
    let level = shifted.to_bits() as i32 - i32::from(shifted - 8_388_608.0 > magnitude);
    let signed = if value < 0.0 { -level } else { level };
    if magnitude < 4_194_304.0 { signed as u8 } else { 0 }
}

/// A float truncated to an integer, like by x86-64's conversion instruction: `i32::MIN` for NaN and
/// out-of-range values. Its low byte, which is all that block formats keep, is 0.
#[inline(always)]
pub fn truncate_to_int(value: f32) -> i32 {
    if value.abs() < 2_147_483_648.0 { value as i32 } else { i32::MIN }
}

/// The floor of the binary logarithm of a positive finite number, with the logarithm rounded to single
/// precision: C's `floorf(log2f(value))`.
///
/// Close below a power of two the logarithm rounds up to the integer. The range of such numbers, in steps of
/// 2^-24, follows from the spacing of floats there: `ln 2` times half of the spacing. The reference's C
/// library rounds correctly for all such numbers (glibc, all checked).
#[inline(always)]
pub fn floor_log2(value: f32) -> i32 {
    // `floor(ln 2 * 2^(b - 1))`, with `b` bits in the integer part of the logarithm: this many steps of 2^-24
    // below a power of two move the logarithm by at most half of its spacing `2^(b - 24)`.
    const STEPS: [u32; 9] = [0, 0, 1, 2, 5, 11, 22, 44, 88];
    let bits = value.to_bits();
    // Subnormal numbers are shifted until their leading bit is in the position of normal ones.
    let shift = (bits.leading_zeros().saturating_sub(8)).min(23) * u32::from(bits < 0x0080_0000);
    let exponent = (bits >> 23).max(1) as i32 - 127 - shift as i32;
    let steps_below = (1 << 23) - (bits << shift & MANTISSA);
    let next = exponent + 1;
    // The logarithm lies between `next - 1` and `next`; the one nearer to zero has the exponent of the values
    // in between.
    let magnitude = if next > 0 { next - 1 } else { -next } as u32;
    let may_be_below = STEPS[(32 - magnitude.leading_zeros()) as usize];
    if steps_below <= may_be_below { next } else { exponent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_follow_the_rounding_mode() {
        assert_eq!([0.5, 1.5, 2.5, -0.5, -1.5].map(nearest_int), [0, 2, 2, 0, -2]);
        assert_eq!([0.5, 1.5, 2.5, -0.5, -1.5].map(round_away), [1, 2, 3, -1, -2]);
        assert_eq!(round_away(0.499_999_97), 0);
        assert_eq!(round_away(8_388_607.5), 8_388_608);
        // From 2^-3 to 2^30, compared with the standard library; the step is odd, so halves are included.
        for bits in
            (0x3e00_0000u32..0x4e80_0000).step_by(61).chain((0x3f00_0000..0x4b00_0000).step_by(1 << 16))
        {
            for value in [f32::from_bits(bits), -f32::from_bits(bits)] {
                if value.abs() < 4_194_304.0 {
                    assert_eq!(truncate_to_byte(value), value as i32 as u8, "{value:e}");
                    assert_eq!(round_away_to_byte(value), value.round() as i32 as u8, "{value:e}");
                }
                assert_eq!(round_away(value), value.round() as i32, "{value:e}");
            }
        }
    }

    #[test]
    fn out_of_range_integers_become_the_minimum() {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2_147_483_648.0, -2_147_483_648.0, 3e38];
        assert_eq!(odd.map(truncate_to_int), [i32::MIN; 6]);
        assert_eq!(odd.map(truncate_to_byte), [0; 6]);
        assert_eq!([2.9, -2.9, 2_147_483_520.0].map(truncate_to_int), [2, -2, 2_147_483_520]);
    }

    #[test]
    fn logarithms_round_before_the_floor() {
        for exponent in -149..128 {
            let power = f64::from(exponent).exp2() as f32;
            assert_eq!(floor_log2(power), exponent);
            // The double logarithm is exact enough to be rounded to single like the true one.
            for below in 1..120 {
                let value = f32::from_bits(power.to_bits().saturating_sub(below));
                if value > 0.0 {
                    let expected = (f64::from(value).log2() as f32).floor() as i32;
                    assert_eq!(floor_log2(value), expected, "{below} below 2^{exponent}");
                }
            }
        }
        assert_eq!(floor_log2(f32::MAX), 128);
        assert_eq!([1.5, 3.99, 0.3].map(floor_log2), [0, 1, -2]);
    }
}
