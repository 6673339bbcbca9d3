//! The kernel: `M` rows of the left side with one panel of the right side.

use std::ops::Range;

use fearless_simd::{Simd, SimdBase, SimdFloat};
use fearless_simd_macros::simd;

use crate::{
    Update,
    panels::{LINE, Line},
};

/// `out[i][columns] <- out[i][columns] + scale * sum over k of left[i][k] panel[k]`, for `M` rows; `V` vectors are the width of the
/// panel, of which `columns` are the first.
///
/// `M * V` sums are in registers: 12 x 2 vectors of AVX-512, 6 x 2 of AVX2, 6 x 4 of NEON. Each needs to be at least as many
/// as fused multiply-adds are in flight, and few enough for the panel's row and an element of the left side beside them. More
/// rows read the panel less often: it and the rows that go over it are a little too much for the first cache.
#[simd]
pub(crate) fn tile<S: Simd, const M: usize, const V: usize>(
    simd: S,
    left: &[&[f32]],
    panel: &[Line],
    update: Update,
    out: &mut [&mut [f32]],
    columns: Range<usize>,
) {
    let elems = S::f32s::LEN;
    let row_lines = V * elems / LINE;
    let n_k = panel.len() / row_lines;
    let mut rows = [&[][..]; M];
    for i in 0..M {
        // All as long as the sum, which the compiler so knows inside the loop.
        rows[i] = &left[i][..n_k];
    }
    let mut sums = [[S::f32s::splat(simd, 0.0); V]; M];
    let mut steps = panel.chunks_exact(row_lines);
    for k in 0..n_k {
        let Some(lines) = steps.next() else { break };
        let mut b = [S::f32s::splat(simd, 0.0); V];
        for v in 0..V {
            let at = v * elems;
            b[v] = S::f32s::from_slice(simd, &lines[at / LINE].0[at % LINE..at % LINE + elems]);
        }
        for i in 0..M {
            // s_ij = fma(a_ik, b_kj, s_ij): one element of the left side for all columns.
            let a = S::f32s::splat(simd, rows[i][k]);
            for v in 0..V {
                sums[i][v] = a.mul_add_precise(b[v], sums[i][v]);
            }
        }
    }
    for (out, sums) in out[..M].iter_mut().zip(sums) {
        let out = &mut out[columns.clone()];
        if out.len() == V * elems {
            for v in 0..V {
                update_vector(simd, update, sums[v], &mut out[v * elems..(v + 1) * elems]);
            }
            continue;
        }
        // The last panel of a matrix: the same in a row of its own.
        let mut whole = [0.0; 2 * LINE];
        whole[..out.len()].copy_from_slice(out);
        for v in 0..V {
            update_vector(simd, update, sums[v], &mut whole[v * elems..(v + 1) * elems]);
        }
        out.copy_from_slice(&whole[..out.len()]);
    }
}

/// `out <- out + scale * sums`, in two roundings.
#[inline(always)]
fn update_vector<S: Simd>(simd: S, update: Update, sums: S::f32s, out: &mut [f32]) {
    let scaled = sums * S::f32s::splat(simd, update.scale);
    let total = if update.add { S::f32s::from_slice(simd, out) + scaled } else { scaled };
    total.store_slice(out);
}
