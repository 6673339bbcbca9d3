//! The indexer of sparse attention (DeepSeek 3.2), which selects the keys that a query sees.
//!
//! ```text
//! q = rope(W_q c)  (n_head, width)      c (rank): the narrow row that queries are made of
//! k = rope(norm(W_k h))  (width)        one for all heads, kept like keys of attention
//! w = W_w h  (n_head)
//! I_ij = sum over heads of w_i relu(q_i . k_j) / sqrt(n_head width)
//! ```
//!
//! Query `i` sees the `top_k` keys at or before it with the largest `I_ij`; of equal ones the earlier. A layer without
//! an indexer uses the choice of the layer before it (GLM 5).
//!
//! With pools (GLM 5 Next), consecutive keys are scored as one, each element by itself:
//!
//! ```text
//! k = sum over j of softmax_j(g_j + a_j) k_j    g = W_g h  (width), kept with k; a (size, width)
//! ```
//!
//! The reference rotates queries and keys by an orthogonal matrix too, which changes no product.
//!
//! Source: `llama_model_deepseek32::graph` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::{ArrayView2, s};

use super::{linear::Linear, params::DecoderParams, ropes::Ropes};
use crate::{
    Error,
    keys::Keys,
    ops::{KeyChoice, Norm, NormKind, Pools, Rows, softmax},
    pass::Pass,
    weights::Weights,
};

/// Epsilon of the norm of keys.
const EPSILON: f32 = 1e-6;

pub(super) struct Indexer {
    w_q: Linear,
    w_k: Linear,
    norm: Norm,
    w_weights: Linear,
    rope: Option<Ropes>,
    /// First rotated element of a head.
    rope_at: usize,
    n_head: usize,
    /// Elements of a head.
    width: usize,
    top_k: usize,
    pools: Option<PoolWeights>,
    /// The place of the keys in a session: after those of all layers.
    slot: usize,
}

/// Pools of keys, and the matrix of their gates.
struct PoolWeights {
    w_gate: Linear,
    size: usize,
    /// (size, width).
    bias: Vec<f32>,
}

impl PoolWeights {
    /// One key for each complete pool of `[k, g]` (n_keys, 2 * width): (n_keys / size, width).
    fn pool(&self, keys: ArrayView2<'_, f32>, width: usize) -> Rows {
        let mut pooled = Rows::zeros(keys.nrows() / self.size, width);
        for (pool, mut to) in pooled.rows_mut().into_iter().enumerate() {
            let keys = keys.slice(s![pool * self.size..(pool + 1) * self.size, ..]);
            let mut shares = vec![0.0; self.size];
            for (at, to) in to.iter_mut().enumerate() {
                for (j, share) in shares.iter_mut().enumerate() {
                    *share = keys[[j, width + at]] + self.bias[j * width + at];
                }
                softmax(&mut shares, None);
                *to = shares.iter().enumerate().map(|(j, share)| share * keys[[j, at]]).sum();
            }
        }
        pooled
    }
}

impl Indexer {
    /// The indexer of layer `i` with queries of this rank, if it has one.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        rank: usize,
    ) -> Result<Option<Indexer>, Error> {
        let blk = |name: &str| format!("blk.{i}.indexer.{name}");
        if weights.shape(&blk("attn_k.weight")).is_none() {
            return Ok(None);
        }
        let n_embd = params.n_embd;
        let n_head = keys.need_count("attention.indexer.head_count")?;
        let width = keys.need_count("attention.indexer.key_length")?;
        let top_k = keys.need_count("attention.indexer.top_k")?;
        if n_head == 0 || width == 0 || top_k == 0 {
            return Err(keys.wrong("attention.indexer.top_k", "one key at least"));
        }
        let n_rot = keys.need_count("rope.dimension_count")?;
        if n_rot > width {
            return Err(keys.wrong("attention.indexer.key_length", "at least the rotated elements"));
        }
        let rope = match n_rot {
            0 => None,
            _ => Ropes::open(params, keys, weights, i, width, None)?,
        };
        let pools = match keys.count("attention.indexer.kpool")?.filter(|size| *size > 1) {
            None => None,
            Some(size) if size > top_k => {
                return Err(keys.wrong("attention.indexer.kpool", "at most the chosen keys"));
            }
            // Tokens before the first complete pool would attend to no key. Depending on its implementation of attention, transformers
            // 5.23 returns NaN or a mean of all values, including later ones.
            Some(_) if !keys.flag("attention.indexer.kpool_select_tail", true)? => {
                return Err(keys.wrong("attention.indexer.kpool_select_tail", "true"));
            }
            Some(size) => Some(PoolWeights {
                w_gate: Linear::need(weights, &format!("blk.{i}.indexer_compressor_gate"), n_embd, width)?,
                size,
                bias: weights.need_vector(
                    &format!("blk.{i}.indexer_compressor_ape.weight"),
                    size.saturating_mul(width),
                )?,
            }),
        };
        let kind = params.spec.indexer.rope;
        let norm = Norm {
            kind: NormKind::Layer,
            epsilon: if params.spec.indexer.usual_epsilon { params.epsilon } else { EPSILON },
            weight: Some(weights.need_vector(&blk("k_norm.weight"), width)?),
            bias: weights.vector(&blk("k_norm.bias"), width)?,
        };
        Ok(Some(Indexer {
            w_q: Linear::need(weights, &blk("attn_q_b"), rank, n_head.saturating_mul(width))?,
            w_k: Linear::need(weights, &blk("attn_k"), n_embd, width)?,
            norm,
            w_weights: Linear::need(weights, &blk("proj"), n_embd, n_head)?,
            rope: rope.map(|rope| rope.of_kind(kind)),
            rope_at: if params.spec.indexer.rotates_end { width - n_rot } else { 0 },
            n_head,
            width,
            top_k,
            pools,
            slot: params.n_layer + i,
        }))
    }

    /// Chooses keys for the queries of this pass: `h (n, n_embd)`, `c (n, rank)`.
    pub fn run(&self, h: &Rows, c: &Rows, pass: &mut Pass<'_, '_>) {
        let mut query = self.w_q.run(c, pass);
        let [mut key, weights] = Linear::run_all([&self.w_k, &self.w_weights], h, pass);
        self.norm.apply(&mut key);
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(pass.end());
            let cache = pass.rope_cache(rope);
            rope.apply(&mut [&mut query, &mut key], self.width, self.rope_at, &cache);
        }
        if let Some(pools) = &self.pools {
            let gate = pools.w_gate.run(h, pass);
            let mut both = pass.scratch(h.nrows(), 2 * self.width);
            both.slice_mut(s![.., ..self.width]).assign(&*key);
            both.slice_mut(s![.., self.width..]).assign(&*gate);
            key = both;
        }
        let pool = |keys: ArrayView2<'_, f32>| match &self.pools {
            Some(pools) => pools.pool(keys, self.width),
            None => Rows::zeros(0, self.width),
        };
        let pools = self.pools.as_ref();
        let choice = KeyChoice {
            n_head: self.n_head,
            width: self.width,
            scale: 1.0 / ((self.n_head * self.width) as f32).sqrt(),
            top_k: self.top_k,
            pools: pools.map(|pools| Pools { size: pools.size, has_tail: true, pool: &pool }),
        };
        pass.select(self.slot, key, |views| choice.select(&query, &weights, views));
    }

    /// Elements that a session keeps for each token.
    pub fn kept(&self) -> usize {
        if self.pools.is_some() { 2 * self.width } else { self.width }
    }
}
