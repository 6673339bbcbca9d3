//! Definition of a product, in plain loops.

use crate::{BLOCK, Matrix, Product};

/// See the [crate](crate).
pub(crate) fn matmul(Product { update, lower, a, b, mut out }: Product<'_, '_>) {
    let element = |k: usize, j: usize| match &b {
        Matrix::View(b) => b[[k, j]],
        Matrix::Packed(right) => right.element(k, j),
    };
    let n_k = a.ncols();
    for ((i, j), out) in out.indexed_iter_mut() {
        if lower && j > i {
            continue;
        }
        let mut total = update.add.then_some(*out);
        for first in (0..n_k).step_by(BLOCK) {
            // s_p = fma(a_il, b_lj, s_p), l ascending
            let block = first..(first + BLOCK).min(n_k);
            let sum = block.fold(0.0, |sum, k| fused(a[[i, k]], element(k, j), sum));
            total = Some(match total {
                None => update.scale * sum,
                Some(total) => total + update.scale * sum,
            });
        }
        *out = total.unwrap_or(0.0);
    }
}

/// `a * b + c`, rounded once: the instruction that every level except scalar has.
///
/// [`f32::mul_add`] has the same definition but calls the platform's library if there is no instruction, and
/// some libraries round incorrectly near zero.
#[inline(always)]
pub fn fused(a: f32, b: f32, c: f32) -> f32 {
    // Exact: 24 bits by 24 are at most 48 of 53, and no product of f32 leaves the range of f64.
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    // Rounding error of the sum (Knuth's two-sum, exact): sum + error = product + c.
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    // Round to odd: of the two doubles around the exact sum, take the one with an odd last bit. With at least
    // two more bits than twice those of f32, rounding that to f32 equals rounding the exact sum (Boldo and
    // Melquiond, "When double rounding is odd", 2004). The error of a non-finite sum is NaN.
    let bits = sum.to_bits();
    let odd = if (error > 0.0) == (sum > 0.0) { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let is_exact = error == 0.0 || error.is_nan();
    f64::from_bits(if is_exact || bits & 1 == 1 { bits } else { odd }) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fused_multiply_add_matches_platform() {
        // Numbers of similar and very different size, exact ties, subnormals, zeros of both signs, non-finite
        // numbers.
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f32::EPSILON,
            1.0 + f32::EPSILON,
            f32::MIN_POSITIVE,
            f32::from_bits(1),
            f32::from_bits(0x007f_ffff),
            -f32::from_bits(3),
            f32::MAX,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            1.0 / 4096.0,
            1.0 / 16_777_216.0,
        ];
        let number = |i: u64| match gguf_testkit::mix(7, i) {
            word if word % 4 == 0 => special[(word >> 8) as usize % special.len()],
            // Any bits, but with exponents near those of 1 in half of the cases.
            word if word % 4 == 1 => f32::from_bits((word >> 16) as u32),
            word => f32::from_bits((word >> 16) as u32 & 0x83ff_ffff | 0x3c00_0000),
        };
        let mut n_finite = 0;
        for i in 0..200_000 {
            let (a, b, c) = (number(3 * i), number(3 * i + 1), number(3 * i + 2));
            let (found, expected) = (fused(a, b, c), a.mul_add(b, c));
            n_finite += usize::from(expected.is_finite());
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{a:e} * {b:e} + {c:e}: {found:e} {expected:e}");
        }
        assert!(n_finite > 50_000);
    }

    #[test]
    fn fused_rounds_once_near_zero() {
        // Sums of k 2^-149 and slightly more or less than 2^-150, so close that f64 rounds them to half way
        // between two subnormals.
        let tiny = 2f32.powi(-98);
        // 8392705 * 8384513 = 2^46 + 1: more than half, so up from the even neighbor.
        let (a, b) = (8_392_705.0 * tiny, 8_384_513.0 * tiny);
        assert_eq!(fused(a, b, f32::from_bits(0x0040_0000)).to_bits(), 0x0040_0001);
        assert_eq!(fused(-a, b, -f32::from_bits(0x0040_0000)).to_bits(), 0x8040_0001);
        // (2^23 + 1)(2^23 - 1) = 2^46 - 1: less than half, so not up to the even neighbor.
        let (a, b) = (8_388_609.0 * tiny, 8_388_607.0 * tiny);
        assert_eq!(fused(a, b, f32::from_bits(0x0040_0001)).to_bits(), 0x0040_0001);
        assert_eq!(fused(-a, b, f32::from_bits(0x0040_0001)).to_bits(), 0x0040_0001);
    }
}
