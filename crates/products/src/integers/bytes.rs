//! Products of bytes: four neighbours multiplied and added up by one instruction (`vpdpbusd`).

use fearless_simd::{SimdBase, SimdCvtFloat, SimdFloat, f32x16, i32x16, x86::Avx512};
use fearless_simd_macros::simd;

use super::{BlockForm, Panel, Tiles, dot, floats, quants::Row, weights::IntLine};
use crate::panels::LINE;

/// Vectors of a panel.
const V: usize = 2;

fearless_simd::kernel!(
    /// `sum_j + w_4j x_4j + .. + w_4j+3 x_4j+3`: `w` bytes without, `x` with a sign.
    #[inline(always)]
    fn add_products(
        token: Avx512,
        sum: i32x16<Avx512>,
        w: i32x16<Avx512>,
        x: i32x16<Avx512>,
    ) -> i32x16<Avx512> {
        use fearless_simd::SimdInto;
        std::arch::x86_64::_mm512_dpbusd_epi32(sum.into(), w.into(), x.into()).simd_into(token)
    }
);

/// Tiles of eight rows that multiply bytes.
#[derive(Clone, Copy)]
pub(super) struct Bytes(pub Avx512);

impl Tiles for Bytes {
    const ROWS: usize = 8;
    /// 20 KB with 32 columns.
    const GROUP_ELEMS: usize = 640;

    #[inline(always)]
    fn width(self) -> usize {
        V * LINE
    }

    #[inline(always)]
    fn tile<const N: usize>(
        self,
        form: BlockForm,
        rows: &[Row<'_>],
        panel: Panel<'_>,
        is_first: bool,
        out: &mut [&mut [f32]],
        columns: std::ops::Range<usize>,
    ) {
        tile::<N>(self.0, form, rows, panel, is_first, out, columns);
    }
}

/// `N` rows with some blocks of a panel, of which `columns` are the first.
#[simd]
fn tile<const N: usize>(
    simd: Avx512,
    form: BlockForm,
    rows: &[Row<'_>],
    panel: Panel<'_>,
    is_first: bool,
    out: &mut [&mut [f32]],
    columns: std::ops::Range<usize>,
) {
    let (n_quads, n_min_pairs) = (form.elems / 4, form.n_minima.div_ceil(2));
    let (n_subs, sub_quads) = (form.n_subs(), n_quads / form.n_subs());
    let scale_lines = if form.n_minima > 0 { 2 * V } else { V };
    let mut totals = [[f32x16::splat(simd, 0.0); V]; N];
    if !is_first {
        for i in 0..N {
            let mut whole = [0.0; V * LINE];
            let out = &out[i][columns.clone()];
            match out.try_into() {
                Ok(all) => whole = all,
                Err(_) => whole[..out.len()].copy_from_slice(out),
            }
            for v in 0..V {
                totals[i][v] = f32x16::from_slice(simd, &whole[v * LINE..(v + 1) * LINE]);
            }
        }
    }
    let blocks = panel.lines.chunks_exact((n_quads + form.n_scales + n_min_pairs) * V);
    for (block, (lines, scales)) in blocks.zip(panel.scales.chunks_exact(scale_lines)).enumerate() {
        let (lines, rest) = lines.split_at(n_quads * V);
        let (int_scales, min_lines) = rest.split_at(form.n_scales * V);
        let (d, m) = scales.split_at(V);
        let mut quads = [&[][..]; N];
        let mut starts = [&[][..]; N];
        for i in 0..N {
            quads[i] = &rows[i].values.as_chunks::<4>().0[block * n_quads..(block + 1) * n_quads];
            starts[i] = &rows[i].starts[block * n_subs..(block + 1) * n_subs];
        }
        let mut sums = [[i32x16::splat(simd, 0); V]; N];
        if form.n_scales == 0 {
            sums = dot_bytes(simd, quads, starts.map(|start| start[0]), lines);
        } else {
            let lines = lines.chunks_exact(sub_quads * V).zip(int_scales.chunks_exact(V));
            for (sub, (lines, int_scale)) in lines.enumerate() {
                let quads = quads.map(|quads| &quads[sub * sub_quads..(sub + 1) * sub_quads]);
                let of_sub = dot_bytes(simd, quads, starts.map(|start| start[sub]), lines);
                for v in 0..V {
                    let int_scale = i32x16::from_slice(simd, &int_scale[v].0);
                    for i in 0..N {
                        sums[i][v] += of_sub[i][v] * int_scale;
                    }
                }
            }
        }
        for i in 0..N {
            let scale = f32x16::splat(simd, rows[i].scales[block]);
            for v in 0..V {
                let factor = scale * floats(simd, d, v);
                totals[i][v] = factor.mul_add_precise(f32x16::float_from(sums[i][v]), totals[i][v]);
            }
        }
        if n_min_pairs == 0 {
            continue;
        }
        let mut pairs = [&[][..]; N];
        for i in 0..N {
            pairs[i] = &rows[i].sums[block * n_min_pairs..(block + 1) * n_min_pairs];
        }
        let sums = dot::<Avx512, N, V>(simd, pairs, min_lines);
        for i in 0..N {
            let scale = f32x16::splat(simd, rows[i].scales[block]);
            for v in 0..V {
                let factor = scale * floats(simd, m, v);
                totals[i][v] = factor.mul_add_precise(f32x16::float_from(sums[i][v]), totals[i][v]);
            }
        }
    }
    for (out, totals) in out[..N].iter_mut().zip(totals) {
        let mut whole = [0.0; V * LINE];
        for v in 0..V {
            totals[v].store_slice(&mut whole[v * LINE..(v + 1) * LINE]);
        }
        let out = &mut out[columns.clone()];
        match <&mut [f32; V * LINE]>::try_from(&mut *out) {
            Ok(all) => *all = whole,
            Err(_) => out.copy_from_slice(&whole[..out.len()]),
        }
    }
}

/// `start_i + sum_k x_ik w_kj` for `N` rows and a panel: the offset of the bytes is in where sums begin.
#[inline(always)]
fn dot_bytes<const N: usize>(
    simd: Avx512,
    rows: [&[[i8; 4]]; N],
    starts: [i32; N],
    lines: &[IntLine],
) -> [[i32x16<Avx512>; V]; N] {
    let n_quads = lines.len() / V;
    let mut quads = [&[][..]; N];
    let mut sums = [[i32x16::splat(simd, 0); V]; N];
    for i in 0..N {
        quads[i] = &rows[i][..n_quads];
        sums[i] = [i32x16::splat(simd, starts[i]); V];
    }
    let mut steps = lines.chunks_exact(V);
    for quad in 0..n_quads {
        let Some(lines) = steps.next() else { break };
        let w = [0, 1].map(|v| i32x16::from_slice(simd, &lines[v].0));
        for i in 0..N {
            // The same four of the left side for all columns.
            let x = i32x16::splat(simd, i32::from_le_bytes(quads[i][quad].map(i8::cast_unsigned)));
            for v in 0..V {
                sums[i][v] = add_products(simd, sums[i][v], w[v], x);
            }
        }
    }
    sums
}
