//! The rounding rules and half-precision conversions of the reference, named.

/// Nearest integer, halves to even, as ggml's magic-number trick does it.
///
/// Source: `nearest_int` in `ggml/src/ggml-quants.c`. Meaningful for `|value| <= 4194303`;
/// beyond that the result is whatever the bits give, exactly as in the reference.
#[inline(always)]
pub fn nearest_int(value: f32) -> i32 {
    let bits = (value + 12_582_912.0).to_bits() as i32;
    (bits & 0x007f_ffff) - 0x0040_0000
}
