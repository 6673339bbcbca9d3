//! Layers that run more than once, each time with another KV cache.
//!
//! ```text
//! rounds (Nanbeige): all layers in order, several times; the output's norm between rounds
//!
//! stacks (HRM):      L, H: stacks of layers with a weightless norm after them
//!                    z_h = x, z_l = z_0                        z_0 (n_embd), x (n_embd): the embedding
//!                    C_h times:  C_l times:  z_l = L(z_h + z_l)
//!                                z_h = H(z_h + z_l)
//! ```
//!
//! Source: `src/models/nanbeige.cpp` and `src/models/hrm-text.cpp` of llama.cpp
//! (llama-cpp-python 0.3.36).

use super::params::DecoderParams;
use crate::{
    Error,
    keys::Keys,
    ops::{Norm, Rows},
    pass::Pass,
    weights::Weights,
};

/// Most runs of layers, like the reference.
const MOST_RUNS: usize = 512;

pub(super) enum Repeats {
    Rounds {
        /// Layers of a round.
        n: usize,
        n_rounds: usize,
        /// Between rounds.
        norm: Option<Norm>,
    },
    Stacks {
        /// Layers of a stack. Those of L come first in the file.
        n: usize,
        /// `C_h`.
        high_cycles: usize,
        /// `C_l`.
        low_cycles: usize,
        /// `z_0`.
        start: Vec<f32>,
        /// After a stack.
        norm: Norm,
    },
}

impl Repeats {
    /// Reads the order of layers, if some run more than once.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        output_norm: Option<&Norm>,
    ) -> Result<Option<Repeats>, Error> {
        let n_layer = params.n_layer;
        if let Some(n) = keys.count("hrm.layers_per_stack")?.filter(|n| *n > 0) {
            let (high_cycles, low_cycles) =
                (keys.need_count("hrm.h_cycles")?, keys.need_count("hrm.l_cycles")?);
            let runs = (n.checked_mul(high_cycles)).and_then(|n| n.checked_mul(low_cycles.checked_add(1)?));
            if runs != Some(n_layer) || low_cycles == 0 || n_layer > MOST_RUNS {
                return Err(keys.wrong("block_count", "the number of runs of all layers, at most 512"));
            }
            let start = weights.need_vector("hrm.z_l_init", params.n_embd)?;
            let norm = params.weightless_norm();
            return Ok(Some(Repeats::Stacks { n, high_cycles, low_cycles, start, norm }));
        }
        let n_rounds = keys.count("num_loops")?.unwrap_or(1);
        if n_rounds <= 1 {
            return Ok(None);
        }
        if n_layer == 0 || n_rounds > MOST_RUNS / n_layer {
            return Err(keys.wrong("num_loops", "at most 512 runs of layers"));
        }
        let skips_norm = keys.flag("skip_loop_final_norm", false)?;
        let norm = output_norm.filter(|_| !skips_norm).cloned();
        Ok(Some(Repeats::Rounds { n: n_layer, n_rounds, norm }))
    }

    /// Layers of the file.
    pub fn n_stored(&self) -> usize {
        match self {
            Repeats::Rounds { n, .. } => *n,
            Repeats::Stacks { n, .. } => 2 * n,
        }
    }

    /// Runs of layers.
    pub fn n_runs(&self) -> usize {
        match self {
            Repeats::Rounds { n, n_rounds, .. } => n * n_rounds,
            Repeats::Stacks { n, high_cycles, low_cycles, .. } => n * high_cycles * (low_cycles + 1),
        }
    }

    /// The layer of run `i`.
    pub fn stored(&self, i: usize) -> usize {
        match self {
            Repeats::Rounds { n, .. } => i % n,
            Repeats::Stacks { n, .. } => i % n + if self.is_high(i) { *n } else { 0 },
        }
    }

    /// Streams in addition to the usual one.
    pub fn n_streams(&self) -> usize {
        match self {
            Repeats::Rounds { .. } => 0,
            Repeats::Stacks { .. } => 2,
        }
    }

    /// True if the last run ends with the norm of the output.
    pub fn normalizes(&self) -> bool {
        matches!(self, Repeats::Stacks { .. })
    }

    /// True if run `i` is one of stack H.
    fn is_high(&self, i: usize) -> bool {
        match self {
            Repeats::Rounds { .. } => false,
            Repeats::Stacks { n, low_cycles, .. } => (i / n) % (low_cycles + 1) == *low_cycles,
        }
    }

    /// The streams of an embedding `x` (n, n_embd): the one that layers change, and of stacks `z_h` and `z_l`.
    pub fn begin(&self, x: Rows, pass: &Pass<'_, '_>) -> Vec<Rows> {
        match self {
            Repeats::Rounds { .. } => vec![x],
            Repeats::Stacks { start, .. } => {
                let mut low = pass.zeros(x.nrows(), x.ncols());
                low.add_bias(start);
                vec![pass.zeros(x.nrows(), x.ncols()), x, low]
            }
        }
    }

    /// Prepares the streams for run `i`, and returns its layer.
    pub fn enter(&self, i: usize, streams: &mut [Rows]) -> usize {
        match (self, &mut *streams) {
            (Repeats::Rounds { n, norm: Some(norm), .. }, [x, ..]) if i > 0 && i.is_multiple_of(*n) => {
                norm.apply(x);
            }
            (Repeats::Stacks { n, .. }, [current, high, low]) if i.is_multiple_of(*n) => {
                current.copy_from(high);
                current.add_scaled(1.0, low);
            }
            _ => {}
        }
        self.stored(i)
    }

    /// After run `i`.
    pub fn leave(&self, i: usize, streams: &mut [Rows]) {
        if let Repeats::Stacks { n, norm, .. } = self
            && (i + 1).is_multiple_of(*n)
            && let [current, high, low] = streams
        {
            norm.apply(current);
            let changed = if self.is_high(i) { high } else { low };
            changed.copy_from(current);
        }
    }
}
