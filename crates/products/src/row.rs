//! Products of one row with stored rows, which are not worth packing.
//!
//! ```text
//! l_i    = ((x_i w_i + x_16+i w_16+i) + x_32+i w_32+i) + ..     i < 16, over all complete sixteens
//! out_r  = (((l_0 + l_1) + ..) + l_15) + (sum over the rest, ascending)
//! ```
//!
//! Every product and every sum is rounded.

use fearless_simd::{Simd, SimdBase, f32x16};
use fearless_simd_macros::simd;
use gguf_quant::{Level, Vectors};

/// Number of elements whose sums are computed in parallel.
const LANES: usize = 16;

/// `x (k) @ rows (n, k)^T -> out (n)`, with the sums of this function's module, which differ from those of
/// [`matmul`](crate::matmul).
///
/// # Panics
/// If lengths do not fit.
pub fn multiply_row(level: Level, x: &[f32], rows: &[f32], out: &mut [f32]) {
    assert_eq!(rows.len(), x.len() * out.len(), "shapes of a product fit");
    if x.is_empty() {
        return out.fill(0.0);
    }
    level.run(Product { x, rows, out });
}

struct Product<'a, 'o> {
    x: &'a [f32],
    rows: &'a [f32],
    out: &'o mut [f32],
}

impl Vectors for Product<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        by_rows(simd, self.x, self.rows, self.out);
    }

    fn scalar(self) {
        let Product { x, rows, out } = self;
        for (row, out) in rows.chunks_exact(x.len()).zip(out) {
            let (xs, ws) = (x.as_chunks::<LANES>().0, row.as_chunks::<LANES>().0);
            let mut lanes = [0.0; LANES];
            for (x, w) in xs.iter().zip(ws) {
                for lane in 0..LANES {
                    lanes[lane] += x[lane] * w[lane];
                }
            }
            *out = total(&lanes, x, row);
        }
    }
}

/// The sum of the lanes and of the products after the last sixteen.
#[inline(always)]
fn total(lanes: &[f32; LANES], x: &[f32], row: &[f32]) -> f32 {
    // Sums of iterators start at negative zero, so that no term changes its sign.
    let (mut all, mut rest) = (-0.0, -0.0);
    for lane in lanes {
        all += lane;
    }
    let first = x.len() - x.len() % LANES;
    for (x, w) in x[first..].iter().zip(&row[first..]) {
        rest += x * w;
    }
    all + rest
}

#[simd]
fn by_rows<S: Simd>(simd: S, x: &[f32], rows: &[f32], out: &mut [f32]) {
    let n = x.len();
    // Four rows at a time, because each addition depends on the previous one.
    let (fours, rest) = out.as_chunks_mut::<4>();
    let (first, last) = rows.split_at(4 * n * fours.len());
    for (rows, out) in first.chunks_exact(4 * n).zip(fours) {
        *out = dots::<S, 4>(simd, x, rows);
    }
    for (row, out) in last.chunks_exact(n).zip(rest) {
        [*out] = dots::<S, 1>(simd, x, row);
    }
}

/// Products with `R` rows.
#[inline(always)]
fn dots<S: Simd, const R: usize>(simd: S, x: &[f32], rows: &[f32]) -> [f32; R] {
    let (n, xs) = (x.len(), x.as_chunks::<LANES>().0);
    let mut ws = [&[][..]; R];
    for r in 0..R {
        // All have the length of `xs`, which tells the compiler the bounds inside the loop.
        ws[r] = &rows[r * n..(r + 1) * n].as_chunks::<LANES>().0[..xs.len()];
    }
    let mut lanes = [f32x16::splat(simd, 0.0); R];
    for k in 0..xs.len() {
        let x = f32x16::from_slice(simd, &xs[k]);
        for r in 0..R {
            lanes[r] += x * f32x16::from_slice(simd, &ws[r][k]);
        }
    }
    let mut sums = [0.0; R];
    for r in 0..R {
        let mut wide = [0.0; LANES];
        lanes[r].store_slice(&mut wide);
        sums[r] = total(&wide, x, &rows[r * n..(r + 1) * n]);
    }
    sums
}
