//! Products at every level compared with plain loops, bit for bit, and with sums in f64.

use gguf_products::{BLOCK, Right, gram, matmul, matmul_packed, mirror, multiply_row};
use gguf_quant::Level;
use ndarray::{Array2, ArrayView2, Axis, s};

fn levels() -> Vec<Level> {
    let levels = Level::available();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    levels
}

fn ordinary(seed: u64, n_rows: usize, n_columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((n_rows, n_columns), |(i, j)| {
        gguf_testkit::normal(seed, (i * n_columns + j) as u64)
    })
}

/// Ordinary numbers among subnormals, zeros of both signs, values that overflow together, and a non-finite
/// value in one of 300 places.
fn nasty(seed: u64, n_rows: usize, n_columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((n_rows, n_columns), |(i, j)| {
        let word = gguf_testkit::mix(seed, (i * n_columns + j) as u64);
        let normal = gguf_testkit::normal(seed ^ 1, word >> 40);
        match word % 300 {
            0 => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][(word >> 32) as usize % 3],
            1..40 => -0.0,
            40..80 => 0.0,
            80..120 => f32::from_bits((word >> 40) as u32 & 0x807f_ffff),
            120..140 => normal * f32::MIN_POSITIVE,
            140..150 => normal * 1e19,
            150..160 => normal * 1e-19,
            _ => normal,
        }
    })
}

/// The definition, with the platform's fused multiply-add.
fn by_definition(
    add: bool,
    scale: f32,
    a: ArrayView2<'_, f32>,
    b: ArrayView2<'_, f32>,
    out: &Array2<f32>,
) -> Array2<f32> {
    Array2::from_shape_fn(out.dim(), |(i, j)| {
        let mut total = if add { Some(out[[i, j]]) } else { None };
        let ks: Vec<usize> = (0..a.ncols()).collect();
        for block in ks.chunks(BLOCK) {
            let mut sum = 0.0f32;
            for k in block {
                sum = a[[i, *k]].mul_add(b[[*k, j]], sum);
            }
            total = Some(total.map_or(scale * sum, |total| total + scale * sum));
        }
        total.unwrap_or(0.0)
    })
}

#[track_caller]
fn assert_same(found: &Array2<f32>, expected: &Array2<f32>, what: &str) {
    assert_eq!(found.dim(), expected.dim(), "{what}");
    for (at, expected) in expected.indexed_iter() {
        let found = found[at];
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{what}, {at:?}: {found:e} {expected:e}");
    }
}

/// All ways to compute a product.
fn check(add: bool, scale: f32, a: ArrayView2<'_, f32>, b: ArrayView2<'_, f32>) {
    let before = nasty(9, a.nrows(), b.ncols());
    let expected = by_definition(add, scale, a, b, &before);
    let what = format!("{:?} x {:?}, add {add}, scale {scale}", a.dim(), b.dim());
    for level in levels() {
        let what = format!("{what}, {}", level.name());
        let mut out = before.clone();
        matmul(level, add, scale, a, b, out.view_mut());
        assert_same(&out, &expected, &what);
        let mut right = Right::default();
        right.pack(level, b);
        let mut out = before.clone();
        matmul_packed(add, scale, a, &right, out.view_mut());
        assert_same(&out, &expected, &format!("{what}, packed"));
    }
}

#[test]
fn levels_match_definition_over_shapes() {
    let size = |seed: u64, i: usize| 1 + gguf_testkit::mix(seed, i as u64) as usize % 70;
    // Each dimension takes every size up to 70, combined with random sizes of the others.
    for i in 1..=70 {
        for (m, n, k) in
            [(i, size(1, i), size(2, i)), (size(3, i), i, size(4, i)), (size(5, i), size(6, i), i)]
        {
            let (a, b) = (nasty(i as u64, m, k), nasty(100 + i as u64, k, n));
            check(i % 2 == 0, [1.0, -0.125, 3.7][i % 3], a.view(), b.view());
        }
    }
}

#[test]
fn levels_match_definition_over_blocks() {
    for k in [255, 256, 257, 511, 512, 515, 1024, 1100] {
        for (m, n) in [(1, 1), (7, 33), (13, 50)] {
            let seed = (k + m) as u64;
            check(k % 2 == 0, 1.5, ordinary(seed, m, k).view(), ordinary(seed ^ 77, k, n).view());
            check(k % 2 == 1, 1.0, nasty(seed, m, k).view(), nasty(seed ^ 77, k, n).view());
        }
    }
    // More rows and more columns than are processed at once.
    for (m, n, k) in [(121, 17, 300), (241, 64, 5), (3, 513, 260), (9, 1030, 2)] {
        check(true, 1.0, nasty(5, m, k).view(), nasty(6, k, n).view());
    }
}

#[test]
fn empty_sides_give_zeros_or_old_values() {
    for level in levels() {
        for (m, n, k) in [(3, 2, 0), (0, 2, 3), (3, 0, 2)] {
            let (a, b) = (Array2::zeros((m, k)), Array2::zeros((k, n)));
            let mut out = Array2::from_elem((m, n), 7.0);
            matmul(level, true, 2.0, a.view(), b.view(), out.view_mut());
            assert!(out.iter().all(|x| *x == 7.0));
            matmul(level, false, 2.0, a.view(), b.view(), out.view_mut());
            assert!(out.iter().all(|x| *x == 0.0));
        }
    }
}

#[test]
fn strides_change_no_bit() {
    let (m, n, k) = (23, 37, 300);
    let (a, b) = (nasty(1, m, k), nasty(2, k, n));
    let start = ordinary(3, m, n);
    let expected = by_definition(true, 0.5, a.view(), b.view(), &start);
    // Views of the same elements: contiguous, transposed in memory, with gaps, reversed in memory.
    let views = |x: &Array2<f32>| -> Vec<Array2<f32>> {
        let mut gaps = Array2::from_elem((2 * x.nrows(), 3 * x.ncols()), f32::NAN);
        gaps.slice_mut(s![..;2, ..;3]).assign(x);
        let mut columns = Array2::from_elem((x.nrows(), x.ncols() + 5), f32::NAN);
        columns.slice_mut(s![.., 2..x.ncols() + 2]).assign(x);
        let transposed = x.t().as_standard_layout().into_owned();
        let mut backwards = x.clone();
        backwards.invert_axis(Axis(0));
        backwards = backwards.as_standard_layout().into_owned();
        vec![x.clone(), transposed, gaps, columns, backwards]
    };
    fn view(kind: usize, x: &Array2<f32>) -> ArrayView2<'_, f32> {
        match kind {
            1 => x.t(),
            2 => x.slice(s![..;2, ..;3]),
            3 => x.slice(s![.., 2..x.ncols() - 3]),
            4 => x.slice(s![..;-1, ..]),
            _ => x.view(),
        }
    }
    let (a_views, b_views) = (views(&a), views(&b));
    for level in levels() {
        for (i, a) in a_views.iter().enumerate() {
            for (j, b) in b_views.iter().enumerate() {
                let (a, b) = (view(i, a), view(j, b));
                let what = format!("a {i}, b {j}, {}", level.name());
                let mut out = start.clone();
                matmul(level, true, 0.5, a, b, out.view_mut());
                assert_same(&out, &expected, &what);
                // `out` as a transpose, and with gaps.
                let mut out = start.t().as_standard_layout().into_owned();
                matmul(level, true, 0.5, a, b, out.view_mut().reversed_axes());
                assert_same(&out.t().to_owned(), &expected, &what);
                let mut right = Right::default();
                right.pack(level, b);
                let mut out = Array2::from_elem((m, 2 * n), 8.0);
                out.slice_mut(s![.., ..;2]).assign(&start);
                matmul_packed(true, 0.5, a, &right, out.slice_mut(s![.., ..;2]));
                assert_same(&out.slice(s![.., ..;2]).to_owned(), &expected, &what);
                assert!(out.slice(s![.., 1..;2]).iter().all(|x| *x == 8.0), "{what}");
            }
        }
    }
}

#[test]
fn packed_right_sides_are_reusable() {
    let mut right = Right::default();
    for level in levels() {
        for (m, n, k) in [(5, 100, 600), (40, 3, 20), (17, 64, 256)] {
            let (a, b) = (nasty(4, m, k), nasty(5, k, n));
            let rows = b.t().as_standard_layout().into_owned();
            let mut next = 0;
            right
                .pack_rows(level, n, k, |range, out| {
                    assert_eq!(range.start, next);
                    next = range.end;
                    out.copy_from_slice(rows.slice(s![range, ..]).as_slice().unwrap());
                    Ok::<(), ()>(())
                })
                .unwrap();
            assert_eq!((next, right.dim()), (n, (k, n)));
            let mut out = Array2::zeros((m, n));
            matmul_packed(false, 1.0, a.view(), &right, out.view_mut());
            assert_same(&out, &by_definition(false, 1.0, a.view(), b.view(), &out), level.name());
        }
        assert_eq!(right.pack_rows(level, 4, 4, |_, _| Err("no rows")), Err("no rows"));
    }
}

#[test]
fn element_depends_only_on_row_and_column() {
    let (m, n, k) = (50, 90, 700);
    let (a, b) = (ordinary(1, m, k), ordinary(2, k, n));
    for level in levels() {
        let mut whole = Array2::zeros((m, n));
        matmul(level, false, 1.0, a.view(), b.view(), whole.view_mut());
        let mut parts = Array2::zeros((m, n));
        for (rows, columns) in
            [(0..1, 0..90), (1..20, 0..7), (1..20, 7..90), (20..50, 0..89), (20..50, 89..90)]
        {
            let out = parts.slice_mut(s![rows.clone(), columns.clone()]);
            matmul(level, false, 1.0, a.slice(s![rows, ..]), b.slice(s![.., columns]), out);
        }
        assert_same(&parts, &whole, level.name());
    }
}

#[test]
fn gram_equals_product_with_transpose() {
    for (n_rows, n) in [(1, 1), (3, 70), (300, 40), (17, 131), (64, 260)] {
        let x = nasty(n as u64, n_rows, n);
        // The previous sum is symmetric, like any sum of such products.
        let half = nasty(3, n, n);
        let before = Array2::from_shape_fn((n, n), |(i, j)| half[[i.max(j), i.min(j)]]);
        let expected = by_definition(true, 1.0, x.t(), x.view(), &before);
        for level in levels() {
            let mut out = before.clone();
            gram(level, true, x.view(), out.view_mut());
            mirror(out.view_mut());
            assert_same(&out, &expected, &format!("({n_rows}, {n}), {}", level.name()));
        }
    }
}

/// With `u` the unit of f32 (2^-24), a sum of `k` fused steps, with its additions of blocks, its scale and
/// its initial value, is within `(k + 3) u` of the sum of the absolute products.
#[test]
fn products_approximate_f64_sums() {
    for (m, n, k, scale) in [(20, 30, 64, 1.0f32), (7, 40, 700, 0.5), (33, 17, 2048, -3.0)] {
        let (a, b) = (ordinary(8, m, k), ordinary(9, k, n));
        for level in levels() {
            let mut out = Array2::zeros((m, n));
            matmul(level, false, scale, a.view(), b.view(), out.view_mut());
            for ((i, j), found) in out.indexed_iter() {
                let terms = || (0..k).map(|l| f64::from(scale) * f64::from(a[[i, l]]) * f64::from(b[[l, j]]));
                let (exact, size): (f64, f64) = (terms().sum(), terms().map(f64::abs).sum());
                let bound = (k + 3) as f64 * 2f64.powi(-24) * size;
                assert!((f64::from(*found) - exact).abs() <= bound, "{i}, {j}: {found} {exact}");
            }
        }
    }
}

#[test]
fn row_times_rows_matches_scalar() {
    for (n, k) in [(1, 1), (3, 15), (4, 16), (5, 17), (9, 64), (8, 100), (2, 0), (0, 5)] {
        let number = |seed: u64, i: usize| match gguf_testkit::mix(seed, i as u64) {
            word if word % 50 == 0 => -0.0,
            word if word % 50 == 1 => f32::from_bits((word >> 8) as u32 & 0x807f_ffff),
            _ => gguf_testkit::normal(seed, i as u64),
        };
        let x: Vec<f32> = (0..k).map(|i| number(1, i)).collect();
        let rows: Vec<f32> = (0..n * k).map(|i| number(2, i)).collect();
        let mut expected = vec![7.0; n];
        multiply_row(Level::Scalar, &x, &rows, &mut expected);
        for (row, found) in rows.chunks_exact(k.max(1)).zip(&expected) {
            let exact: f64 = x.iter().zip(row).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
            let size: f64 = x.iter().zip(row).map(|(x, w)| f64::from(*x * *w).abs()).sum();
            assert!((f64::from(*found) - exact).abs() <= 1e-5 * size + 1e-40, "{n} x {k}: {found} {exact}");
        }
        for level in Level::available() {
            let mut out = vec![7.0; n];
            multiply_row(level, &x, &rows, &mut out);
            let bits = |out: &[f32]| out.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&out), bits(&expected), "{n} x {k}, {}", level.name());
        }
    }
}
