//! Products of 32 bytes, with the instructions of a level or, if there is no such instruction, in wider
//! integers.

use fearless_simd::{Simd, i8x32, i16x16, i32x8, prelude::*, u8x32};

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use fearless_simd::{
        SimdInto, i8x32, i16x16, i32x8, u8x32,
        x86::{Avx2, Avx512},
    };

    fearless_simd::kernel!(
        /// [`pair_products`](super::pair_products) with AVX2; sums that do not fit saturate.
        #[inline(always)]
        pub fn pair_products(token: Avx2, w: u8x32<Avx2>, x: i8x32<Avx2>) -> i16x16<Avx2> {
            std::arch::x86_64::_mm256_maddubs_epi16(w.into(), x.into()).simd_into(token)
        }
    );

    fearless_simd::kernel!(
        #[inline(always)]
        pub fn with_sign_of(token: Avx2, x: i8x32<Avx2>, w: i8x32<Avx2>) -> i8x32<Avx2> {
            std::arch::x86_64::_mm256_sign_epi8(x.into(), w.into()).simd_into(token)
        }
    );

    fearless_simd::kernel!(
        #[inline(always)]
        pub fn quad_products(token: Avx512, w: u8x32<Avx512>, x: i8x32<Avx512>) -> i32x8<Avx512> {
            use std::arch::x86_64::{_mm256_dpbusd_epi32, _mm256_setzero_si256};
            _mm256_dpbusd_epi32(_mm256_setzero_si256(), w.into(), x.into()).simd_into(token)
        }
    );
}

/// `w_2k x_2k + w_2k+1 x_2k+1`, which must fit signed 16 bits.
#[inline(always)]
pub(super) fn pair_products<S: Simd>(simd: S, w: u8x32<S>, x: i8x32<S>) -> i16x16<S> {
    // Arrays convert vectors between the types of two tokens, and are optimized away.
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = simd.level().as_avx2() {
        let (w, x): ([u8; 32], [i8; 32]) = (w.into(), x.into());
        let sums: [i16; 16] = x86::pair_products(token, w.simd_into(token), x.simd_into(token)).into();
        return sums.simd_into(simd);
    }
    let ((w_low, w_high), (x_low, x_high)) = (w.widen(), x.widen());
    let (w_low, w_high): (i16x16<S>, i16x16<S>) = (w_low.bitcast(), w_high.bitcast());
    let (low, high) = (w_low * x_low, w_high * x_high);
    let _ = simd;
    low.unzip_low(high) + low.unzip_high(high)
}

/// `x` for positive `w`, `-x` for negative `w`; unspecified for 0.
#[inline(always)]
pub(super) fn with_sign_of<S: Simd>(simd: S, x: i8x32<S>, w: i8x32<S>) -> i8x32<S> {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = simd.level().as_avx2() {
        let (w, x): ([i8; 32], [i8; 32]) = (w.into(), x.into());
        let signed: [i8; 32] = x86::with_sign_of(token, x.simd_into(token), w.simd_into(token)).into();
        return signed.simd_into(simd);
    }
    w.simd_lt(i8x32::splat(simd, 0)).select(-x, x)
}

/// True if [`quad_products`] has an instruction.
#[inline(always)]
pub(super) fn has_quad_products<S: Simd>(simd: S) -> bool {
    #[cfg(target_arch = "x86_64")]
    return simd.level().as_avx512().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = simd;
        false
    }
}

/// Sums of four neighboring products, if the level has an instruction for them.
#[inline(always)]
pub(super) fn quad_products<S: Simd>(simd: S, w: u8x32<S>, x: i8x32<S>) -> Option<i32x8<S>> {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = simd.level().as_avx512() {
        let (w, x): ([u8; 32], [i8; 32]) = (w.into(), x.into());
        let sums: [i32; 8] = x86::quad_products(token, w.simd_into(token), x.simd_into(token)).into();
        return Some(sums.simd_into(simd));
    }
    let _ = (simd, w, x);
    None
}
