//! Products of bytes added up in 16 bits, over the number of words that fit
//! ([`Words::ShortSums`](super::words::Words)).

use fearless_simd::{Bytes, SimdBase, SimdIntWiden, i16x16, i32x8, x86::Avx2};
use fearless_simd_macros::simd;

use super::{BlockForm, Panel, Tiles, add_scaled, bytes_256, dot, quants::Row, totals, weights::IntLine};
use crate::panels::LINE;

/// Vectors per panel: one line.
const V: usize = 2;

/// Tiles of three rows, whose six sums of 16 bits stay in registers.
#[derive(Clone, Copy)]
pub(super) struct ShortSums {
    pub token: Avx2,
    /// Number of words that are added up in 16 bits.
    pub run: usize,
}

impl Tiles for ShortSums {
    const ROWS: usize = 3;
    /// 16 KB with 16 columns.
    const GROUP_ELEMS: usize = 1024;

    #[inline(always)]
    fn width(self) -> usize {
        LINE
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
        match self.run {
            8 => tile::<N, 8>(self.token, form, rows, panel, is_first, out, columns),
            4 => tile::<N, 4>(self.token, form, rows, panel, is_first, out, columns),
            2 => tile::<N, 2>(self.token, form, rows, panel, is_first, out, columns),
            _ => tile::<N, 1>(self.token, form, rows, panel, is_first, out, columns),
        }
    }
}

/// `N` rows with some blocks of a panel, of which the first `columns` are used; `R` words are added up in 16
/// bits.
#[simd]
fn tile<const N: usize, const R: usize>(
    simd: Avx2,
    form: BlockForm,
    rows: &[Row<'_>],
    panel: Panel<'_>,
    is_first: bool,
    out: &mut [&mut [f32]],
    columns: std::ops::Range<usize>,
) {
    let (n_quads, n_min_pairs) = (form.elems / 4, form.n_minima.div_ceil(2));
    let (n_runs, sub_runs) = (n_quads / R, n_quads / R / form.n_subs());
    let scale_lines = if form.n_minima > 0 { 2 } else { 1 };
    let mut totals = totals::first::<Avx2, N, V>(simd, is_first, out, &columns);
    let blocks = panel.lines.chunks_exact(n_quads + form.n_scales + n_min_pairs);
    for (block, (lines, scales)) in blocks.zip(panel.scales.chunks_exact(scale_lines)).enumerate() {
        let (lines, rest) = lines.split_at(n_quads);
        let (int_scales, min_lines) = rest.split_at(form.n_scales);
        let lines = &lines.as_chunks::<R>().0[..n_runs];
        let (mut words, mut starts) = ([&[][..]; N], [&[][..]; N]);
        for i in 0..N {
            // One per line, which tells the compiler the bounds inside the loop.
            let all = rows[i].values.as_chunks::<4>().0.as_chunks::<R>().0;
            words[i] = &all[block * n_runs..(block + 1) * n_runs];
            if form.offset > 0 {
                starts[i] = &rows[i].starts[block * n_runs..(block + 1) * n_runs];
            }
        }
        let mut sums = [[i32x8::splat(simd, 0); V]; N];
        for sub in 0..form.n_subs() {
            let mut factors = [i16x16::splat(simd, 1); V];
            if let Some(line) = int_scales.get(sub) {
                for v in 0..V {
                    factors[v] = vector(simd, line, v).bitcast();
                }
            }
            for run in sub * sub_runs..(sub + 1) * sub_runs {
                let mut short = [[i16x16::splat(simd, 0); V]; N];
                if form.offset > 0 {
                    for i in 0..N {
                        let start = i32x8::splat(simd, starts[i][run]);
                        short[i] = [start.bitcast(); V];
                    }
                }
                let mut x = [&[[0; 4]; R]; N];
                for i in 0..N {
                    x[i] = &words[i][run];
                }
                add_run::<N, R>(simd, &mut short, x, &lines[run]);
                for i in 0..N {
                    for v in 0..V {
                        sums[i][v] += short[i][v].pairwise_dot_product(factors[v]);
                    }
                }
            }
        }
        add_scaled::<Avx2, N, V>(simd, &mut totals, rows, block, &scales[..1], &sums);
        if n_min_pairs == 0 {
            continue;
        }
        let mut pairs = [&[][..]; N];
        for i in 0..N {
            pairs[i] = &rows[i].sums[block * n_min_pairs..(block + 1) * n_min_pairs];
        }
        let sums = dot::<Avx2, N, V>(simd, pairs, min_lines);
        add_scaled::<Avx2, N, V>(simd, &mut totals, rows, block, &scales[1..], &sums);
    }
    totals::write::<Avx2, N, V>(simd, &totals, out, columns);
}

#[inline(always)]
fn vector(simd: Avx2, line: &IntLine, v: usize) -> i32x8<Avx2> {
    i32x8::from_slice(simd, &line.0[8 * v..8 * v + 8])
}

/// `sum_ij <- sum_ij + sum_k x_ik w_kj` over `R` words of `N` rows and `R` lines of a panel.
#[inline(always)]
fn add_run<const N: usize, const R: usize>(
    simd: Avx2,
    short: &mut [[i16x16<Avx2>; V]; N],
    x: [&[[i8; 4]; R]; N],
    lines: &[IntLine; R],
) {
    for word in 0..R {
        let w = [vector(simd, &lines[word], 0).bitcast(), vector(simd, &lines[word], 1).bitcast()];
        for i in 0..N {
            // Four bytes of the left side, for all columns.
            let [a, b, c, d] = x[i][word];
            let word = i32::from_le_bytes([
                a.cast_unsigned(),
                b.cast_unsigned(),
                c.cast_unsigned(),
                d.cast_unsigned(),
            ]);
            let x = i32x8::splat(simd, word).bitcast();
            for v in 0..V {
                short[i][v] += bytes_256::x86::pair_products(simd, w[v], x);
            }
        }
    }
}
