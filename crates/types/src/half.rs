//! Numbers of 16 bits and single precision.
//!
//! Only bit operations and single operations, so that loops over them are vectorized at every CPU level.

/// Single to half precision, ties to even, any NaN to 0x7e00 with its sign.
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
    // With `E` the exponent of the value, adding `2^(E + 15)` to four times the value shifts all but ten bits
    // of the mantissa out of the float, which rounds them. Below 2^-14 `E` stays at -14: these halves are
    // subnormal.
    let exponent = (magnitude & 0xff00_0000).max(0x7100_0000);
    let base = f32::from_bits((exponent >> 1) + 0x0780_0000);
    let rounded = (base + scaled).to_bits();
    // The exponent field of the sum is `E + 142`, so its low five bits are `E + 14`. Adding the leading one
    // of the mantissa, which is now bit 10, gives `E + 15`: the exponent of the half.
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
    // Adding 224 to the exponent, of which 112 are the difference of the biases, raises that of infinity and
    // NaN from 31 to 255; the product subtracts the other 112 for numbers.
    let normal = f32::from_bits((magnitude >> 4) + (0xe0 << 23)) * scale;
    // The mantissa in units of 2^-24 after a leading 2^-1, which the subtraction removes.
    let subnormal = f32::from_bits((magnitude >> 17) | (126 << 23)) - 0.5;
    let number = if magnitude < 1 << 27 { subnormal } else { normal };
    f32::from_bits(sign | number.to_bits())
}

/// Single precision to bfloat16, ties to even; NaN keeps its upper bits and becomes quiet.
///
/// Source: `ggml_compute_fp32_to_bf16` in `ggml/src/ggml-impl.h`.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 {
        return (bits >> 16) as u16 | 64;
    }
    // Half a unit of the result minus the lowest bit, which is added back for an odd number: ties go to even.
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
    fn every_f16_round_trips() {
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
    fn every_bf16_round_trips() {
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
