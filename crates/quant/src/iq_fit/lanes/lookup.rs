//! The two instructions that the search needs beyond those of all levels.

use fearless_simd::Simd;

pub trait Lookup: Simd {
    /// True if the level has look-ups; otherwise the scalar code is faster.
    const AVAILABLE: bool;

    /// `table[index % LEN]` in every lane.
    fn look(self, table: Self::f32s, index: Self::u32s) -> Self::f32s;

    /// The first LEN items, widened.
    fn widen(self, items: &[u16]) -> Self::u32s;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256, __m256i, __m512, __m512i, _mm256_cvtepu16_epi32, _mm256_permutevar8x32_ps,
        _mm512_cvtepu16_epi32, _mm512_permutexvar_ps,
    };

    use fearless_simd::{
        kernel,
        prelude::*,
        u16x8, u16x16,
        x86::{Avx2, Avx512},
    };

    use super::{Lookup, Simd};

    kernel!(
        #[inline]
        fn look_16(_token: Avx512, table: __m512, index: __m512i) -> __m512 {
            _mm512_permutexvar_ps(index, table)
        }
    );

    kernel!(
        #[inline]
        fn widen_16(_token: Avx512, items: __m256i) -> __m512i {
            _mm512_cvtepu16_epi32(items)
        }
    );

    kernel!(
        #[inline]
        fn look_8(_token: Avx2, table: __m256, index: __m256i) -> __m256 {
            _mm256_permutevar8x32_ps(table, index)
        }
    );

    kernel!(
        #[inline]
        fn widen_8(_token: Avx2, items: __m128i) -> __m256i {
            _mm256_cvtepu16_epi32(items)
        }
    );

    impl Lookup for Avx512 {
        const AVAILABLE: bool = true;

        #[inline(always)]
        fn look(self, table: <Self as Simd>::f32s, index: <Self as Simd>::u32s) -> <Self as Simd>::f32s {
            look_16(self, table.into(), index.into()).simd_into(self)
        }

        #[inline(always)]
        fn widen(self, items: &[u16]) -> <Self as Simd>::u32s {
            widen_16(self, u16x16::from_slice(self, &items[..16]).into()).simd_into(self)
        }
    }

    impl Lookup for Avx2 {
        const AVAILABLE: bool = true;

        #[inline(always)]
        fn look(self, table: <Self as Simd>::f32s, index: <Self as Simd>::u32s) -> <Self as Simd>::f32s {
            look_8(self, table.into(), index.into()).simd_into(self)
        }

        #[inline(always)]
        fn widen(self, items: &[u16]) -> <Self as Simd>::u32s {
            widen_8(self, u16x8::from_slice(self, &items[..8]).into()).simd_into(self)
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Lookup for fearless_simd::aarch64::Neon {
    const AVAILABLE: bool = false;

    #[inline(always)]
    fn look(self, table: Self::f32s, _: Self::u32s) -> Self::f32s {
        table
    }

    #[inline(always)]
    fn widen(self, items: &[u16]) -> Self::u32s {
        use fearless_simd::prelude::*;
        Self::u32s::from_fn(self, |lane| u32::from(items[lane]))
    }
}
