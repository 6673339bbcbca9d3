//! The kernel: `M` rows of the left side with one panel of the right side.

use std::ops::Range;

use fearless_simd::{Simd, SimdBase, SimdFloat};
use fearless_simd_macros::simd;

use crate::{
    Update,
    panels::{LINE, Line},
};

/// `out[i][columns] <- out[i][columns] + scale * sum over k of left[i][k] panel[k]` for `M` rows. The panel
/// is `V` vectors (`L` lines) wide, of which the first `columns` are used.
///
/// `M * V` sums stay in registers: 12 x 2 vectors of AVX-512, 6 x 2 of AVX2, 6 x 4 of NEON. That must be at
/// least the number of fused multiply-adds in flight, and leave registers for the panel's row and one element
/// of the left side. More rows read the panel less often: the panel and its rows slightly exceed the L1
/// cache.
#[simd]
pub(crate) fn tile<S: Simd, const M: usize, const V: usize, const L: usize>(
    simd: S,
    left: &[&[f32]],
    panel: &[Line],
    update: Update,
    out: &mut [&mut [f32]],
    columns: Range<usize>,
) {
    let elems = S::f32s::LEN;
    let panel = panel.as_chunks::<L>().0;
    let mut rows = [&[][..]; M];
    for i in 0..M {
        // All have the length of the sum, which tells the compiler the bounds inside the loop.
        rows[i] = &left[i][..panel.len()];
    }
    let mut sums = [[S::f32s::splat(simd, 0.0); V]; M];
    for k in 0..panel.len() {
        let mut b = [S::f32s::splat(simd, 0.0); V];
        for v in 0..V {
            let at = v * elems;
            b[v] = S::f32s::from_slice(simd, &panel[k][at / LINE].0[at % LINE..at % LINE + elems]);
        }
        for i in 0..M {
            // s_ij = fma(a_ik, b_kj, s_ij): one element of the left side for all columns.
            let a = S::f32s::splat(simd, rows[i][k]);
            for v in 0..V {
                sums[i][v] = a.mul_add_precise(b[v], sums[i][v]);
            }
        }
    }
    let out = &mut out[..M];
    if columns.len() == L * LINE {
        // `out` in pieces of a fixed length and a short loop: otherwise the sums leave the registers.
        let mut lines: [&mut [[f32; LINE]]; M] = std::array::from_fn(|_| &mut [][..]);
        for (lines, out) in lines.iter_mut().zip(out) {
            *lines = out[columns.clone()].as_chunks_mut().0;
        }
        return update_rows::<S, M, V, L>(simd, update, &sums, lines);
    }
    // The last, partial panel of a matrix is computed in a temporary buffer.
    let mut wide = [[[0.0; LINE]; L]; M];
    for (wide, out) in wide.iter_mut().zip(&*out) {
        wide.as_flattened_mut()[..columns.len()].copy_from_slice(&out[columns.clone()]);
    }
    update_rows::<S, M, V, L>(simd, update, &sums, wide.each_mut().map(|lines| &mut lines[..]));
    for (wide, out) in wide.iter().zip(out) {
        out[columns.clone()].copy_from_slice(&wide.as_flattened()[..columns.len()]);
    }
}

/// `out <- out + scale * sums`, in two roundings, or without `out +`.
#[inline(always)]
fn update_rows<S: Simd, const M: usize, const V: usize, const L: usize>(
    simd: S,
    Update { add, scale }: Update,
    sums: &[[S::f32s; V]; M],
    out: [&mut [[f32; LINE]]; M],
) {
    let elems = S::f32s::LEN;
    let scale = S::f32s::splat(simd, scale);
    for (i, out) in out.into_iter().enumerate() {
        let Some(out) = out.first_chunk_mut::<L>() else { continue };
        for v in 0..V {
            let out = &mut out[v * elems / LINE][v * elems % LINE..v * elems % LINE + elems];
            let mut total = sums[i][v] * scale;
            if add {
                total = S::f32s::from_slice(simd, out) + total;
            }
            total.store_slice(out);
        }
    }
}
