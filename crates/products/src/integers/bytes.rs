//! Products of bytes: one instruction multiplies and adds up four neighbors (`vpdpbusd`).

use fearless_simd::{SimdBase, SimdCvtFloat, SimdFloat, f32x16, i32x16, x86::Avx512};
use fearless_simd_macros::simd;

use super::{BlockForm, Panel, Tiles, quants::Row, totals, weights::IntLine};
use crate::panels::{LINE, Line};

const V: usize = 2;

fearless_simd::kernel!(
    /// `sum_j + w_4j x_4j + .. + w_4j+3 x_4j+3`: `w` unsigned, `x` signed bytes.
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

fearless_simd::kernel!(
    /// `sum_j + w_2j x_2j + w_2j+1 x_2j+1` of 16 bits.
    #[inline(always)]
    fn add_pairs(token: Avx512, sum: i32x16<Avx512>, w: i32x16<Avx512>, x: i32x16<Avx512>) -> i32x16<Avx512> {
        use fearless_simd::SimdInto;
        std::arch::x86_64::_mm512_dpwssd_epi32(sum.into(), w.into(), x.into()).simd_into(token)
    }
);

/// Tiles of six rows that multiply bytes: twelve sums, twelve totals, and their multipliers.
#[derive(Clone, Copy)]
pub(super) struct Bytes(pub Avx512);

impl Tiles for Bytes {
    const ROWS: usize = 6;
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
        // Words are processed in stretches of a compile-time length.
        let n_quads = form.elems / 4 / form.n_subs();
        match n_quads {
            8 if form.n_scales + form.n_minima == 0 => {
                tile_of_floats::<N, 8>(self.0, rows, panel, is_first, out, columns);
            }
            n if n.is_multiple_of(8) => tile::<N, 8>(self.0, form, rows, panel, is_first, out, columns),
            n if n.is_multiple_of(4) => tile::<N, 4>(self.0, form, rows, panel, is_first, out, columns),
            _ => tile::<N, 1>(self.0, form, rows, panel, is_first, out, columns),
        }
    }
}

/// Two lines: a panel's row.
type PanelRow = [IntLine; V];

/// `N` rows with blocks of `Q` words and only a float scale.
#[simd]
fn tile_of_floats<const N: usize, const Q: usize>(
    simd: Avx512,
    rows: &[Row<'_>],
    panel: Panel<'_>,
    is_first: bool,
    out: &mut [&mut [f32]],
    columns: std::ops::Range<usize>,
) {
    let blocks = panel.lines.as_chunks::<V>().0.as_chunks::<Q>().0;
    let n_blocks = blocks.len();
    let scales = &panel.scales.as_chunks::<V>().0[..n_blocks];
    let (mut quads, mut starts, mut factors) = ([&[][..]; N], [&[][..]; N], [&[][..]; N]);
    for i in 0..N {
        // All have the panel's length, which tells the compiler the bounds inside the loop.
        quads[i] = &rows[i].values.as_chunks::<4>().0.as_chunks::<Q>().0[..n_blocks];
        starts[i] = &rows[i].starts[..n_blocks];
        factors[i] = &rows[i].scales[..n_blocks];
    }
    let mut totals = totals::first::<Avx512, N, V>(simd, is_first, out, &columns);
    for block in 0..n_blocks {
        let mut sums = [[i32x16::splat(simd, 0); V]; N];
        for i in 0..N {
            sums[i] = [i32x16::splat(simd, starts[i][block]); V];
        }
        let mut x = [&[[0; 4]; Q]; N];
        for i in 0..N {
            x[i] = &quads[i][block];
        }
        add_words(simd, &mut sums, x, &blocks[block]);
        for i in 0..N {
            add_scaled(simd, &mut totals[i], factors[i][block], &scales[block], sums[i]);
        }
    }
    totals::write::<Avx512, N, V>(simd, &totals, out, columns);
}

/// `N` rows with some blocks of a panel; only the first `columns` are used. The number of words per scale is
/// a multiple of `Q`.
#[simd]
fn tile<const N: usize, const Q: usize>(
    simd: Avx512,
    form: BlockForm,
    rows: &[Row<'_>],
    panel: Panel<'_>,
    is_first: bool,
    out: &mut [&mut [f32]],
    columns: std::ops::Range<usize>,
) {
    let (n_quads, n_min_pairs) = (form.elems / 4, form.n_minima.div_ceil(2));
    let n_subs = form.n_subs();
    // Stretches of `Q` words per block, and per integer scale.
    let (n_stretches, sub_stretches) = (n_quads / Q, n_quads / Q / n_subs);
    let panel_rows = panel.lines.as_chunks::<V>().0;
    let scales = panel.scales.as_chunks::<V>().0.chunks_exact(if form.n_minima > 0 { 2 } else { 1 });
    let mut totals = totals::first::<Avx512, N, V>(simd, is_first, out, &columns);
    let blocks = panel_rows.chunks_exact(n_quads + form.n_scales + n_min_pairs);
    for (block, (lines, scales)) in blocks.zip(scales).enumerate() {
        let (lines, rest) = lines.split_at(n_quads);
        let (int_scales, min_lines) = rest.split_at(form.n_scales);
        let lines = lines.as_chunks::<Q>().0;
        let mut quads = [&[][..]; N];
        let mut starts = [&[][..]; N];
        for i in 0..N {
            let all = rows[i].values.as_chunks::<4>().0.as_chunks::<Q>().0;
            quads[i] = &all[block * n_stretches..(block + 1) * n_stretches];
            starts[i] = &rows[i].starts[block * n_subs..(block + 1) * n_subs];
        }
        let mut sums = [[i32x16::splat(simd, 0); V]; N];
        for sub in 0..n_subs {
            let mut sub_sums = [[i32x16::splat(simd, 0); V]; N];
            for i in 0..N {
                sub_sums[i] = [i32x16::splat(simd, starts[i][sub]); V];
            }
            for at in sub * sub_stretches..(sub + 1) * sub_stretches {
                let mut x = [&[[0; 4]; Q]; N];
                for i in 0..N {
                    x[i] = &quads[i][at];
                }
                add_words(simd, &mut sub_sums, x, &lines[at]);
            }
            if form.n_scales == 0 {
                sums = sub_sums;
                continue;
            }
            for v in 0..V {
                let int_scale = i32x16::from_slice(simd, &int_scales[sub][v].0);
                for i in 0..N {
                    sums[i][v] += sub_sums[i][v] * int_scale;
                }
            }
        }
        for i in 0..N {
            add_scaled(simd, &mut totals[i], rows[i].scales[block], &scales[0], sums[i]);
        }
        if n_min_pairs == 0 {
            continue;
        }
        let mut pairs = [&[][..]; N];
        for i in 0..N {
            pairs[i] = &rows[i].sums[block * n_min_pairs..(block + 1) * n_min_pairs];
        }
        let mut sums = [[i32x16::splat(simd, 0); V]; N];
        for pair in 0..n_min_pairs {
            for v in 0..V {
                let minima = i32x16::from_slice(simd, &min_lines[pair][v].0);
                for i in 0..N {
                    let x = i32x16::splat(simd, pairs[i][pair]);
                    sums[i][v] = add_pairs(simd, sums[i][v], minima, x);
                }
            }
        }
        for i in 0..N {
            add_scaled(simd, &mut totals[i], rows[i].scales[block], &scales[1], sums[i]);
        }
    }
    totals::write::<Avx512, N, V>(simd, &totals, out, columns);
}

/// `sum_ij <- sum_ij + sum_k x_ik w_kj` over `Q` words of `N` rows and `Q` rows of a panel.
#[inline(always)]
fn add_words<const N: usize, const Q: usize>(
    simd: Avx512,
    sums: &mut [[i32x16<Avx512>; V]; N],
    x: [&[[i8; 4]; Q]; N],
    lines: &[PanelRow; Q],
) {
    for quad in 0..Q {
        let w = [0, 1].map(
            #[inline(always)]
            |v| i32x16::from_slice(simd, &lines[quad][v].0),
        );
        for i in 0..N {
            // Four bytes of the left side, for all columns.
            let [a, b, c, d] = x[i][quad];
            let word = i32::from_le_bytes([
                a.cast_unsigned(),
                b.cast_unsigned(),
                c.cast_unsigned(),
                d.cast_unsigned(),
            ]);
            let x = i32x16::splat(simd, word);
            for v in 0..V {
                sums[i][v] = add_products(simd, sums[i][v], w[v], x);
            }
        }
    }
}

/// `total_j <- fma(factor scale_j, sum_j, total_j)`.
#[inline(always)]
fn add_scaled(
    simd: Avx512,
    totals: &mut [f32x16<Avx512>; V],
    factor: f32,
    scales: &[Line; V],
    sums: [i32x16<Avx512>; V],
) {
    let factor = f32x16::splat(simd, factor);
    for v in 0..V {
        let factor = factor * f32x16::from_slice(simd, &scales[v].0);
        totals[v] = factor.mul_add_precise(f32x16::float_from(sums[v]), totals[v]);
    }
}
