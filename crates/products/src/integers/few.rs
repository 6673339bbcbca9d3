//! Products of one row with weights that are not packed: generation multiplies every weight once per token,
//! and packing takes much longer than the product.

use std::ops::Range;

use fearless_simd::Simd;
use gguf_quant::{IntegerBlocks, Level, Vectors};
use gguf_types::DType;

use super::{BlockForm, Quants, direct};
use crate::fused;

/// One row of the left side, in the form that these products read.
#[derive(Debug, Clone)]
pub struct Single {
    form: BlockForm,
    /// (k).
    values: Vec<i16>,
    /// (k).
    pub(super) bytes: Vec<i8>,
    /// (n_blocks, n_subs): sums of the elements that share an integer scale.
    pub(super) subs: Vec<i16>,
    /// (n_blocks, n_subs): `-offset` times `subs`.
    pub(super) starts: Vec<i32>,
    /// (n_blocks, n_minima): sums of the elements that share a minimum.
    pub(super) sums: Vec<i32>,
    /// (n_blocks).
    pub(super) scales: Vec<f32>,
}

impl Single {
    /// Row `i`.
    pub fn new(x: &Quants, i: usize) -> Single {
        let form = x.form();
        let row = x.row(i, 0..x.n_blocks());
        let values: Vec<i16> = row.values.iter().map(|value| (*value).into()).collect();
        let sums_of = |n: usize| -> Vec<i32> {
            let Some(elems) = form.elems.checked_div(n) else { return Vec::new() };
            values.chunks_exact(elems).map(|part| part.iter().map(|x| i32::from(*x)).sum()).collect()
        };
        let starts: Vec<i32> = sums_of(form.n_subs());
        // At most 256 elements of 8 bits in the types with a kernel that reads these.
        let subs = starts.iter().map(|sum| *sum as i16).collect();
        let starts = starts.into_iter().map(|sum| -i32::from(form.offset) * sum).collect();
        let (sums, scales) = (sums_of(form.n_minima), row.scales.to_vec());
        Single { form, values, bytes: row.values.to_vec(), subs, starts, sums, scales }
    }

    /// `x (k) @ w^T (k, n) -> out (n)` for unpacked rows (n, k), bit-exact with
    /// [`matmul_integers`](super::matmul_integers).
    ///
    /// # Panics
    /// If lengths do not fit.
    pub fn multiply(&self, level: Level, weights: &IntegerBlocks<'_>, out: &mut [f32]) {
        let (form, n) = (self.form, out.len() * self.scales.len());
        let n_min_scales = if form.n_minima > 0 { n } else { 0 };
        let found =
            (weights.levels.len(), weights.int_scales.len(), weights.minima.len(), weights.min_scales.len());
        let expected = (n * form.elems, n * form.n_scales, n * form.n_minima, n_min_scales);
        assert_eq!((found, weights.scales.len()), (expected, n), "shapes of a product fit");
        level.run(Rows { x: self, weights, out });
    }

    /// Like [`multiply`](Single::multiply), for rows stored as little-endian blocks of a type of this form.
    ///
    /// # Panics
    /// If lengths do not fit, or [`multiplies_stored`] is false.
    pub fn multiply_stored(&self, level: Level, dtype: DType, weights: &[u8], out: &mut [f32]) {
        assert!(multiplies_stored(level, dtype), "there is a kernel for the type");
        assert_eq!(self.form.elems, dtype.block_elems() as usize, "both sides have the same blocks");
        let n_bytes = out.len() * self.scales.len() * dtype.block_bytes() as usize;
        assert_eq!(weights.len(), n_bytes, "shapes of a product fit");
        level.run(Blocks { x: self, dtype, weights, out });
    }
}

/// True if [`Single::multiply_stored`] has a kernel for blocks of this type at the level.
pub fn multiplies_stored(level: Level, dtype: DType) -> bool {
    level != Level::Scalar && matches!(dtype, DType::Q8_0 | DType::Q4_0 | DType::Q4_K | DType::Q6_K)
}

struct Blocks<'a, 'o> {
    x: &'a Single,
    dtype: DType,
    weights: &'a [u8],
    out: &'o mut [f32],
}

impl Vectors for Blocks<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Blocks { x, dtype, weights, out } = self;
        match dtype {
            DType::Q8_0 => direct::multiply::<S, direct::Q8_0, 32, 34>(simd, x, weights, out),
            DType::Q4_0 => direct::multiply::<S, direct::Q4_0, 32, 18>(simd, x, weights, out),
            DType::Q4_K => direct::multiply::<S, direct::Q4K, 256, 144>(simd, x, weights, out),
            DType::Q6_K => direct::multiply::<S, direct::Q6K, 256, 210>(simd, x, weights, out),
            _ => unreachable!("the type was checked"),
        }
    }

    fn scalar(self) {
        unreachable!("the level was checked");
    }
}

struct Rows<'a, 'w, 'o> {
    x: &'a Single,
    weights: &'a IntegerBlocks<'w>,
    out: &'o mut [f32],
}

impl Vectors for Rows<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        // Every level besides scalar has the instruction.
        self.by_length(f32::mul_add);
    }

    fn scalar(self) {
        self.by_length(fused);
    }
}

impl Rows<'_, '_, '_> {
    /// Makes the length of sums a compile-time constant.
    #[inline(always)]
    fn by_length(self, fma: impl Fn(f32, f32, f32) -> f32) {
        let form = self.x.form;
        match form.elems / form.n_subs() {
            n if n.is_multiple_of(32) => self.with_stretches::<32>(fma),
            n if n.is_multiple_of(16) => self.with_stretches::<16>(fma),
            _ => self.with_stretches::<4>(fma),
        }
    }

    /// The number of elements per scale is a multiple of `Q`.
    #[inline(always)]
    fn with_stretches<const Q: usize>(self, fma: impl Fn(f32, f32, f32) -> f32) {
        let Rows { x, weights, out } = self;
        let BlockForm { elems, n_minima, n_scales, .. } = x.form;
        let (n_blocks, n_subs) = (x.scales.len(), x.form.n_subs());
        let (n_stretches, sub_stretches) = (elems / Q, elems / Q / n_subs);
        let (values, levels) = (x.values.as_chunks::<Q>().0, weights.levels.as_chunks::<Q>().0);
        for (j, out) in out.iter_mut().enumerate() {
            let levels = &levels[j * n_blocks * n_stretches..][..n_blocks * n_stretches];
            let mut total = 0.0;
            for p in 0..n_blocks {
                let block = j * n_blocks + p;
                let part = p * n_stretches..(p + 1) * n_stretches;
                let (values, levels) = (&values[part.clone()], &levels[part]);
                let starts = &x.starts[p * n_subs..(p + 1) * n_subs];
                let sum = if n_scales == 0 {
                    starts[0] + dot(values, levels)
                } else {
                    let scales = &weights.int_scales[block * n_scales..(block + 1) * n_scales];
                    let mut sum = 0;
                    for sub in 0..n_subs {
                        let part = sub * sub_stretches..(sub + 1) * sub_stretches;
                        sum += i32::from(scales[sub])
                            * (starts[sub] + dot(&values[part.clone()], &levels[part]));
                    }
                    sum
                };
                total = fma(x.scales[p] * weights.scales[block], sum as f32, total);
                if n_minima > 0 {
                    let part = |p: usize| -> Range<usize> { p * n_minima..(p + 1) * n_minima };
                    let pairs = x.sums[part(p)].iter().zip(&weights.minima[part(block)]);
                    let sum: i32 = pairs.map(|(x, minimum)| x * i32::from(*minimum)).sum();
                    total = fma(x.scales[p] * weights.min_scales[block], sum as f32, total);
                }
            }
            *out = total;
        }
    }
}

/// `sum_k x_k w_k`.
#[inline(always)]
fn dot<const Q: usize>(values: &[[i16; Q]], levels: &[[u8; Q]]) -> i32 {
    let mut sum = 0;
    for (values, levels) in values.iter().zip(levels) {
        for k in 0..Q {
            sum += i32::from(values[k]) * i32::from(levels[k] as i16);
        }
    }
    sum
}
