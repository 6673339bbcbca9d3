//! Rotary positions.
//!
//! Source: `ggml_rope_cache_init`, `rope_yarn` and `ggml_rope_yarn_corr_dims` of ggml, and the set-up of the
//! factors in `llama_context::llama_context`, llama.cpp of llama-cpp-python 0.3.36.

use rayon::prelude::*;

use super::{Rows, vectorize};
use crate::{Error, keys::Keys};

/// Which elements of a head turn together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RopeKind {
    /// Neighbours: 0 and 1, 2 and 3.
    Normal,
    /// Element i and element i + half of those that turn.
    Neox,
}

/// How heads are turned by their position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rope {
    pub kind: RopeKind,
    /// Angle by position, for each pair.
    pub frequencies: Vec<f32>,
    /// What cosine and sine are multiplied with.
    pub magnitude: f32,
}

/// Cosines and sines of rows: (n_rows, n_rot / 2) each.
pub(crate) struct Turns {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// What the keys say about stretching positions.
#[derive(Debug, Clone)]
pub(crate) struct Scaling {
    /// 1 / factor.
    scale: f32,
    is_yarn: bool,
    context: f32,
    beta_fast: f32,
    beta_slow: f32,
    /// Whether the ramp between stretched and whole frequencies begins and ends at whole ones.
    pub whole_ramp: bool,
    pub magnitude: f32,
    /// What products of query and key are multiplied with besides, in latent attention.
    pub sharpness: f32,
}

impl Scaling {
    /// Reads `rope.scaling.*`.
    pub fn new(keys: &Keys<'_>) -> Result<Scaling, Error> {
        let kind = keys.text("rope.scaling.type")?.unwrap_or("linear");
        let factor = match keys.float("rope.scaling.factor")? {
            Some(factor) => factor,
            None => keys.float("rope.scale_linear")?.unwrap_or(0.0),
        };
        let mut scale = if factor == 0.0 { 1.0 } else { 1.0 / factor };
        let is_yarn = match kind {
            "none" => {
                scale = 1.0;
                false
            }
            "linear" | "longrope" => false,
            "yarn" => true,
            _ => return Err(keys.wrong("rope.scaling.type", "none, linear, yarn or longrope")),
        };
        let context = match keys.count("rope.scaling.original_context_length")? {
            Some(n) => n,
            None => keys.need_count("context_length")?,
        };
        let ext = keys.float("rope.scaling.yarn_ext_factor")?.unwrap_or(1.0);
        let mut magnitude = keys.float("rope.scaling.attn_factor")?.unwrap_or(1.0);
        let mut sharpness = 1.0;
        if is_yarn && ext != 0.0 {
            // The graph's own factor of `rope_yarn` and the one that cancels it, in one.
            let of = |scale: f32, by: f32| if scale <= 1.0 { 1.0 } else { 0.1 * by * scale.ln() + 1.0 };
            let factor = 1.0 / scale;
            let log_multiplier = keys.float("rope.scaling.yarn_log_multiplier")?.filter(|by| *by != 0.0);
            magnitude *= match (keys.float("rope.scaling.yarn_attn_factor")?, log_multiplier) {
                // Its models have the same multiplier for both, written as a tenth of what it is.
                (_, Some(by)) if keys.architecture == "deepseek2" => {
                    sharpness = of(factor, 10.0 * by).powi(2);
                    1.0
                }
                // What the model states goes. The reference reads this key and computes it anew.
                (Some(stated), _) if stated > 0.0 => stated,
                (_, Some(by)) => of(factor, 1.0) / of(factor, by),
                _ => of(factor, 1.0),
            };
        }
        Ok(Scaling {
            scale,
            is_yarn: is_yarn && ext != 0.0,
            context: context as f32,
            beta_fast: keys.float("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
            beta_slow: keys.float("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            whole_ramp: true,
            magnitude,
            sharpness,
        })
    }

    /// Positions that the model was first trained with.
    pub fn context(&self) -> usize {
        self.context as usize
    }

    /// The same without stretching.
    pub fn unscaled(&self) -> Scaling {
        Scaling { scale: 1.0, is_yarn: false, magnitude: 1.0, ..self.clone() }
    }
}

impl Rope {
    /// The turning of `n_rot` elements with a base frequency; `factors` (n_rot / 2) divide the angles.
    pub fn new(kind: RopeKind, n_rot: usize, base: f32, scaling: &Scaling, factors: Option<&[f32]>) -> Rope {
        let n = n_rot as f32;
        let step = base.powf(-2.0 / n);
        let correction = |turns: f32| {
            n * (scaling.context / (turns * 2.0 * std::f32::consts::PI)).ln() / (2.0 * base.ln())
        };
        let (mut low, mut high) = (correction(scaling.beta_fast), correction(scaling.beta_slow));
        if scaling.whole_ramp {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(n - 1.0));
        let mut angle = 1.0f64;
        let frequencies = (0..n_rot / 2)
            .map(|i| {
                let whole = angle as f32 / factors.map_or(1.0, |factors| factors[i]);
                angle *= f64::from(step);
                let stretched = whole * scaling.scale;
                if !scaling.is_yarn {
                    return stretched;
                }
                let ramp = 1.0 - ((i as f32 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                stretched * (1.0 - ramp) + whole * ramp
            })
            .collect();
        Rope { kind, frequencies, magnitude: scaling.magnitude }
    }

    /// What rows at these positions are turned by.
    pub fn turns(&self, positions: &[u32]) -> Turns {
        let half = self.frequencies.len();
        let turn = |position: u32| self.frequencies.iter().map(move |f| (position as f32 * f).sin_cos());
        let mut turns = Turns { cos: Vec::new(), sin: Vec::new() };
        for angles in [&mut turns.cos, &mut turns.sin] {
            angles.reserve_exact(positions.len() * half);
        }
        for (sin, cos) in positions.iter().copied().flat_map(turn) {
            turns.cos.push(cos * self.magnitude);
            turns.sin.push(sin * self.magnitude);
        }
        turns
    }

    /// Turns all heads of every row: rows (n, n_heads * head_width), of the positions that `turns` were made
    /// for. The elements that turn are the first of each head, from `start` on.
    pub fn apply(&self, rows: &mut [&mut Rows], head_width: usize, start: usize, turns: &Turns) {
        let half = self.frequencies.len();
        if half == 0 {
            return;
        }
        for rows in rows {
            let width = rows.ncols();
            let rows = rows.as_slice_mut().expect("activations are contiguous");
            let turns = turns.cos.par_chunks(half).zip(turns.sin.par_chunks(half));
            rows.par_chunks_mut(width).zip(turns).for_each(|(row, (cos, sin))| {
                vectorize(
                    #[inline(always)]
                    || {
                        for head in row.chunks_exact_mut(head_width) {
                            self.kind.turn(&mut head[start..start + 2 * half], cos, sin);
                        }
                    },
                );
            });
        }
    }
}

impl RopeKind {
    /// Turns pairs of elements: `elements (2 half), cos (half), sin (half)`.
    #[inline(always)]
    fn turn(self, elements: &mut [f32], cos: &[f32], sin: &[f32]) {
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
