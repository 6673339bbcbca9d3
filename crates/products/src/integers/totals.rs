//! Sums of the rows of a tile between blocks, loaded from and stored to `out`.

use std::ops::Range;

use fearless_simd::{Simd, SimdBase};

/// Maximum number of columns per panel.
const WIDTH: usize = 32;

/// Initial totals: zeros, or the values that earlier blocks left in `out`.
#[inline(always)]
pub(super) fn first<S: Simd, const M: usize, const V: usize>(
    simd: S,
    is_first: bool,
    out: &[&mut [f32]],
    columns: &Range<usize>,
) -> [[S::f32s; V]; M] {
    let elems = S::f32s::LEN;
    let mut totals = [[S::f32s::splat(simd, 0.0); V]; M];
    if is_first {
        return totals;
    }
    for i in 0..M {
        let out = &out[i][columns.clone()];
        if out.len() == V * elems {
            for v in 0..V {
                totals[i][v] = S::f32s::from_slice(simd, &out[v * elems..(v + 1) * elems]);
            }
            continue;
        }
        let mut whole = [0.0; WIDTH];
        whole[..out.len()].copy_from_slice(out);
        for v in 0..V {
            totals[i][v] = S::f32s::from_slice(simd, &whole[v * elems..(v + 1) * elems]);
        }
    }
    totals
}

/// Writes totals to `out`.
#[inline(always)]
pub(super) fn write<S: Simd, const M: usize, const V: usize>(
    _: S,
    totals: &[[S::f32s; V]; M],
    out: &mut [&mut [f32]],
    columns: Range<usize>,
) {
    let elems = S::f32s::LEN;
    for i in 0..M {
        let out = &mut out[i][columns.clone()];
        if out.len() == V * elems {
            for v in 0..V {
                totals[i][v].store_slice(&mut out[v * elems..(v + 1) * elems]);
            }
            continue;
        }
        let mut whole = [0.0; WIDTH];
        for v in 0..V {
            totals[i][v].store_slice(&mut whole[v * elems..(v + 1) * elems]);
        }
        out.copy_from_slice(&whole[..out.len()]);
    }
}
