//! Rotary position embedding (RoPE).
//!
//! Pair `i` of a head at position `p` is rotated by the angle `p * f_i`, `i` from 0 to `n_rot / 2 - 1`:
//!
//! ```text
//! (a, b) -> m * (a cos(p f_i) - b sin(p f_i), a sin(p f_i) + b cos(p f_i))
//!
//! plain:     f_i = base^(-2 i / n_rot)
//! divisors:  f_i = base^(-2 i / n_rot) / d_i    d_i stored in the file: Llama 3's, and LongRoPE's short and long ones
//! linear:    f_i / s                            s is `rope.scaling.factor`
//! YaRN:      g_i f_i + (1 - g_i) f_i / s        g_i = 1 - clamp((i - low) / (high - low), 0, 1)
//!            low  = floor(n_rot ln(L / (2 pi beta_fast)) / (2 ln base)), at least 0
//!            high = ceil(n_rot ln(L / (2 pi beta_slow)) / (2 ln base)), at most n_rot - 1
//! ```
//!
//! `L` is the context length of the first training. YaRN's `low` is the pair that makes `beta_fast` rotations over `L`
//! positions: pairs before it rotate often enough to stay as they are, pairs after `high` are slowed by `s`, and those
//! between are mixed. `m` ([`Rope::magnitude`]) is 1 but with YaRN and LongRoPE.
//!
//! A row may have three positions, of time, height and width, and a pair turns by one ([`Rope::axes`]): patches of a
//! picture and their embeddings (M-RoPE).
//!
//! Source: `ggml_rope_cache_init`, `rope_yarn` and `ggml_rope_yarn_corr_dims` of ggml, llama.cpp of
//! llama-cpp-python 0.3.36.

use std::f32::consts::PI;

use rayon::prelude::*;

use super::{Rows, vectorize};

/// Elements of a head that form a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeKind {
    /// Neighbours: 0 and 1, 2 and 3.
    Normal,
    /// Element i and element i + n_rot / 2.
    Neox,
}

/// Rotary position embedding of heads.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// The elements that turn together.
    pub kind: RopeKind,
    /// (n_rot / 2): angle by position, for each pair.
    pub frequencies: Vec<f32>,
    /// Factor of cosines and sines.
    pub magnitude: f32,
    /// (n_rot / 2): the position (of a row's three) that rotates each pair; empty if it is the first for all.
    pub axes: Vec<usize>,
}

/// Cosines and sines for the rows of a batch: (n_rows, n_rot / 2) each, times the magnitude.
pub struct RopeCache {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeCache {
    /// The transposed rotation, which takes gradients of the output to those of the input.
    pub fn transposed(&self) -> RopeCache {
        RopeCache { cos: self.cos.clone(), sin: self.sin.iter().map(|sin| -sin).collect() }
    }
}

/// RoPE scaling of the file.
#[derive(Debug, Clone)]
pub struct RopeScaling {
    /// `1 / s`.
    pub inverse_factor: f32,
    pub is_yarn: bool,
    /// `L`: positions that the model was first trained with.
    pub original_context: usize,
    pub beta_fast: f32,
    pub beta_slow: f32,
    /// Factor of cosines and sines.
    pub magnitude: f32,
    /// Additional factor of the scores of latent attention: `mscale^2`.
    pub mscale_squared: f32,
}

impl RopeScaling {
    /// These positions without scaling.
    pub fn unscaled(&self) -> RopeScaling {
        RopeScaling { inverse_factor: 1.0, is_yarn: false, magnitude: 1.0, ..self.clone() }
    }
}

impl Rope {
    /// The rotation of `n_rot` elements with a base frequency; `divisors` (n_rot / 2) divide the frequencies.
    pub fn new(
        kind: RopeKind,
        n_rot: usize,
        base: f32,
        scaling: &RopeScaling,
        divisors: Option<&[f32]>,
    ) -> Rope {
        let n = n_rot as f32;
        let step = libm::powf(base, -2.0 / n);
        // The pair that makes this many rotations over the original context: solve L f_i = 2 pi rotations for i.
        let context = scaling.original_context as f32;
        let pair_of =
            |rotations: f32| n * libm::logf(context / (rotations * 2.0 * PI)) / (2.0 * libm::logf(base));
        // Rounded to complete pairs, also for gpt-oss, which was trained with `truncate: false`.
        let (low, high) = (pair_of(scaling.beta_fast).floor(), pair_of(scaling.beta_slow).ceil());
        let (low, high) = (low.max(0.0), high.min(n - 1.0));
        // Frequencies are accumulated like the reference, in double precision, so that only the rounding of
        // `step` accumulates.
        let mut frequency = 1.0f64;
        let frequencies = (0..n_rot / 2)
            .map(|i| {
                let plain = frequency as f32 / divisors.map_or(1.0, |divisors| divisors[i]);
                frequency *= f64::from(step);
                let scaled = plain * scaling.inverse_factor;
                if !scaling.is_yarn {
                    return scaled;
                }
                // 0.001 keeps the quotient finite where low and high are the same.
                let g = 1.0 - ((i as f32 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                scaled * (1.0 - g) + plain * g
            })
            .collect();
        Rope { kind, frequencies, magnitude: scaling.magnitude, axes: Vec::new() }
    }

    /// The rotation of pairs by frequencies along axes: 1 is height, 2 is width.
    pub fn axial(kind: RopeKind, pairs: impl Iterator<Item = (usize, f32)>) -> Rope {
        let (axes, frequencies) = pairs.unzip();
        Rope { kind, frequencies, magnitude: 1.0, axes }
    }

    /// Cosines and sines for rows at these positions; for rows of a grid, at the three positions of each.
    pub fn cache(&self, positions: &[u32], grid: Option<&[[u32; 3]]>) -> RopeCache {
        let half = self.frequencies.len();
        let position = |row: usize, pair: usize| match grid {
            None => positions[row],
            Some(grid) => grid[row][self.axes.get(pair).copied().unwrap_or(0)],
        };
        let angles = |row: usize| {
            let frequencies = self.frequencies.iter().enumerate();
            frequencies.map(move |(pair, f)| libm::sincosf(position(row, pair) as f32 * f))
        };
        let mut cache = RopeCache { cos: Vec::new(), sin: Vec::new() };
        for values in [&mut cache.cos, &mut cache.sin] {
            values.reserve_exact(positions.len() * half);
        }
        // The magnitude goes into the table, so that rotating costs the same with and without.
        for (sin, cos) in (0..positions.len()).flat_map(angles) {
            cache.cos.push(cos * self.magnitude);
            cache.sin.push(sin * self.magnitude);
        }
        cache
    }

    /// Rotates all heads of every row: rows (n, n_heads * head_width), of the positions that `cache` was made
    /// for. The elements that rotate are the `n_rot` of each head from `start` on.
    pub fn apply(&self, rows: &mut [&mut Rows], head_width: usize, start: usize, cache: &RopeCache) {
        let half = self.frequencies.len();
        if half == 0 {
            return;
        }
        for rows in rows {
            let width = rows.ncols();
            // A row of the table for each token, the same for all of its heads.
            let cos_sin = cache.cos.par_chunks(half).zip(cache.sin.par_chunks(half));
            rows.as_mut_slice().par_chunks_mut(width).zip(cos_sin).for_each(|(row, (cos, sin))| {
                vectorize(
                    #[inline(always)]
                    || {
                        for head in row.chunks_exact_mut(head_width) {
                            self.kind.rotate(&mut head[start..start + 2 * half], cos, sin);
                        }
                    },
                );
            });
        }
    }
}

impl RopeKind {
    /// Rotates pairs of elements: `elements (n_rot), cos (n_rot / 2), sin (n_rot / 2)`.
    #[inline(always)]
    fn rotate(self, elements: &mut [f32], cos: &[f32], sin: &[f32]) {
        match self {
            RopeKind::Normal => {
                for (pair, (cos, sin)) in elements.as_chunks_mut::<2>().0.iter_mut().zip(cos.iter().zip(sin))
                {
                    let [a, b] = *pair;
                    *pair = [a * cos - b * sin, a * sin + b * cos];
                }
            }
            RopeKind::Neox => {
                let (first, second) = elements.split_at_mut(cos.len());
                for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(cos.iter().zip(sin)) {
                    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
                }
            }
        }
    }
}
