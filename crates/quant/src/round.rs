//! The rounding rules and number conversions of the reference, named.
//!
//! Where C leaves a conversion undefined (a float outside the integer's range, infinity, NaN), these
//! functions do what the reference does on x86-64, because blocks of subnormal numbers reach those places:
//! the reciprocal of their scale is infinite.

/// `3 * 2^22`: the sum of this and a float below 2^22 in magnitude lies between 2^23 and 2^24, where floats are 1
/// apart, so the addition rounds the float to its nearest integer, halves to even, and leaves it in the low bits.
pub(crate) const MAGIC: f32 = 12_582_912.0;
/// The bits of a float's mantissa, where the integer stands, plus [`MAGIC_MANTISSA`].
pub(crate) const MANTISSA: u32 = 0x007f_ffff;
/// The mantissa of [`MAGIC`]: what stands for the integer 0.
pub(crate) const MAGIC_MANTISSA: u32 = 0x0040_0000;

/// Nearest integer, halves to even, as ggml's magic-number trick does it.
///
/// Source: `nearest_int` in `ggml/src/ggml-quants.c`. Meaningful for `|value| <= 4194303`;
/// beyond that the result is whatever the bits give, exactly as in the reference.
#[inline(always)]
pub fn nearest_int(value: f32) -> i32 {
    let bits = (value + MAGIC).to_bits();
    (bits & MANTISSA) as i32 - MAGIC_MANTISSA as i32
}

/// Nearest integer, halves away from zero: C's `roundf` and the conversion to an integer after it.
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
/// reciprocal of a scale that was made for them are small numbers, or infinite or NaN, for which 0 is right
/// too.
///
/// Adding 2^23 rounds the magnitude to an integer in the low bits; where that went up, one is taken off.
/// The language's own conversion saturates, which costs a block of 32 about half of its time.
#[inline(always)]
pub fn truncate_to_byte(value: f32) -> u8 {
    let magnitude = value.abs();
    let shifted = magnitude + 8_388_608.0;
    let level = shifted.to_bits() as i32 - i32::from(shifted - 8_388_608.0 > magnitude);
    let signed = if value < 0.0 { -level } else { level };
    if magnitude < 4_194_304.0 { signed as u8 } else { 0 }
}

/// A float cut to an integer, as x86-64's conversion instruction does it: `i32::MIN` for NaN and for
/// everything that does not fit. Its low byte, which is all that block formats keep, is 0.
#[inline(always)]
pub fn truncate_to_int(value: f32) -> i32 {
    if value.abs() < 2_147_483_648.0 { value as i32 } else { i32::MIN }
}

/// The floor of the binary logarithm, of a positive finite number, after that was rounded to single
/// precision: C's `floorf(log2f(value))`.
///
/// So close below a power of two the logarithm rounds up to the whole number. By how many steps of 2^-24 a
/// number may be below follows from the spacing of floats there: `ln 2` times half of it. The reference's
/// C library rounds correctly at all of these places (glibc, checked with each of them).
#[inline(always)]
pub fn floor_log2(value: f32) -> i32 {
    // `floor(ln 2 * 2^(b - 1))`, where the whole part of the logarithm has `b` bits: so many steps of 2^-24 below
    // a power of two move the logarithm by half of its spacing `2^(b - 24)` at most.
    const STEPS: [u32; 9] = [0, 0, 1, 2, 5, 11, 22, 44, 88];
    let bits = value.to_bits();
    // Subnormal numbers are shifted until their leading bit is where that of normal ones is.
    let shift = (bits.leading_zeros().saturating_sub(8)).min(23) * u32::from(bits < 0x0080_0000);
    let exponent = (bits >> 23).max(1) as i32 - 127 - shift as i32;
    let steps_below = (1 << 23) - (bits << shift & MANTISSA);
    let next = exponent + 1;
    // The logarithm lies between `next - 1` and `next`; the one that is nearer to zero has the exponent of
    // what lies between.
    let magnitude = if next > 0 { next - 1 } else { -next } as u32;
    let may_be_below = STEPS[(32 - magnitude.leading_zeros()) as usize];
    if steps_below <= may_be_below { next } else { exponent }
}

/// Single to half precision, halves to even, any NaN to 0x7e00 with its sign.
///
/// Source: `ggml_compute_fp32_to_fp16` in `ggml/src/ggml-impl.h`. The two products overflow to infinity
/// exactly where half precision does; adding the power of two `base` then leaves the rounded mantissa in
/// the low bits.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    // Together a factor of 4. From 2^16 on the first product is infinite and stays so; from 65520 on the sum
    // below carries into the exponent of infinity.
    let scale_to_infinity = f32::from_bits(0x7780_0000); // 2^112
    let scale_to_zero = f32::from_bits(0x0880_0000); // 2^-110
    let scaled = (value.abs() * scale_to_infinity) * scale_to_zero;

    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits << 1;
    // With `E` the exponent of the value, adding `2^(E + 15)` to its fourfold pushes all but ten bits of the
    // mantissa out of the float, which rounds them. Below 2^-14 `E` stays at -14: these halves are subnormal.
    let exponent = (magnitude & 0xff00_0000).max(0x7100_0000);
    let base = f32::from_bits((exponent >> 1) + 0x0780_0000);
    let rounded = (base + scaled).to_bits();
    // The exponent field of the sum is `E + 142`, so its low five bits are `E + 14`. The leading one of the
    // mantissa, which now stands at bit 10, makes `E + 15` of it: the exponent of the half.
    let number = ((rounded >> 13) & 0x7c00) + (rounded & 0x0fff);
    (sign | if magnitude > 0xff00_0000 { 0x7e00 } else { number }) as u16
}

/// Half to single precision, exact.
///
/// Source: `ggml_compute_fp16_to_fp32` in `ggml/src/ggml-impl.h`.
#[inline(always)]
pub fn f16_to_f32(half: u16) -> f32 {
    let bits = u32::from(half) << 16;
    let sign = bits & 0x8000_0000;
    let magnitude = bits << 1;
    let scale = f32::from_bits(0x0780_0000); // 2^-112
    // Adding 224 to the exponent, of which 112 are the difference of the biases, lifts that of infinity and
    // NaN from 31 to 255; the product takes the other 112 off the numbers.
    let normal = f32::from_bits((magnitude >> 4) + (0xe0 << 23)) * scale;
    // The mantissa in units of 2^-24 behind a leading 2^-1, which the subtraction takes away.
    let subnormal = f32::from_bits((magnitude >> 17) | (126 << 23)) - 0.5;
    let number = if magnitude < 1 << 27 { subnormal } else { normal };
    f32::from_bits(sign | number.to_bits())
}

/// Single precision to bfloat16, halves to even; NaN keeps its upper bits and becomes quiet.
///
/// Source: `ggml_compute_fp32_to_bf16` in `ggml/src/ggml-impl.h`.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return (bits >> 16) as u16 | 64;
    }
    // Half a unit of what is kept, less the least, which an odd number gets back: ties go to even.
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// bfloat16 to single precision, exact.
#[inline(always)]
pub fn bf16_to_f32(bf16: u16) -> f32 {
    f32::from_bits(u32::from(bf16) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_where_they_should() {
        assert_eq!([0.5, 1.5, 2.5, -0.5, -1.5].map(nearest_int), [0, 2, 2, 0, -2]);
        assert_eq!([0.5, 1.5, 2.5, -0.5, -1.5].map(round_away), [1, 2, 3, -1, -2]);
        assert_eq!(round_away(0.499_999_97), 0);
        assert_eq!(round_away(8_388_607.5), 8_388_608);
        // From 2^-3 to 2^30, against the standard library's rule; the step is odd, so halves are met too.
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
    fn integers_that_do_not_fit_are_the_smallest() {
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

    #[test]
    fn every_half_comes_back() {
        for half in 0..=u16::MAX {
            let value = f16_to_f32(half);
            if value.is_nan() {
                assert_eq!(f32_to_f16(value), (half & 0x8000) | 0x7e00);
            } else {
                assert_eq!(f32_to_f16(value), half);
            }
        }
        assert_eq!([65504.0, 65519.0, 65520.0, 1e9].map(f32_to_f16), [0x7bff, 0x7bff, 0x7c00, 0x7c00]);
        // Ties: between 1 and its successor, and below the smallest subnormal.
        assert_eq!([1.000_488_3, 1.001_464_8].map(f32_to_f16), [0x3c00, 0x3c02]);
        assert_eq!([2f32.powi(-25), 1.000_001 * 2f32.powi(-25)].map(f32_to_f16), [0, 1]);
    }

    #[test]
    fn every_bf16_comes_back() {
        for bf16 in 0..=u16::MAX {
            let value = bf16_to_f32(bf16);
            let expected = if value.is_nan() { bf16 | 64 } else { bf16 };
            assert_eq!(f32_to_bf16(value), expected);
        }
        assert_eq!(f32_to_bf16(f32::MAX), 0x7f80);
        assert_eq!(
            [0x3f80_8000, 0x3f81_8000].map(|bits| f32_to_bf16(f32::from_bits(bits))),
            [0x3f80, 0x3f82]
        );
    }
}
