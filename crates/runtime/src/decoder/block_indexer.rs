//! The indexer of block-sparse attention (MiniMax M3): which blocks of keys each group of heads sees.
//!
//! ```text
//! q = rope(norm(W_q h))  (n_groups, width)      k = rope(norm(W_k h))  (width), kept like keys of attention
//! s_ib = max over j in block b of q_i . k_j
//! ```
//!
//! A query sees the blocks with the largest `s_ib`, and always the last ones up to its own.
//!
//! Sources: `MiniMaxM3VLIndexer` of transformers 5.24; `llama_model_minimax_m3::graph` of llama.cpp
//! (llama-cpp-python 0.3.36).

use super::{linear::Linear, params::DecoderParams, ropes::Ropes};
use crate::{
    Error,
    keys::Keys,
    ops::{BlockChoice, Norm, Rows},
    pass::Pass,
    weights::Weights,
};

/// An indexer that reads the input of attention.
pub(super) trait ChoosesKeys: Send + Sync {
    /// Elements that a session keeps for each token.
    fn kept(&self) -> usize;

    /// True if llama.cpp's cache has values next to the keys of the indexer, as wide as those of a head.
    fn has_cached_values(&self) -> bool {
        false
    }

    /// Floats of llama.cpp's graph for each pair of a token and a cell.
    fn pair_floats(&self) -> usize {
        0
    }

    /// Chooses keys for the queries of this pass: `h (n, n_embd)`.
    fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>);
}

pub(super) struct BlockIndexer {
    w_q: Linear,
    w_k: Linear,
    q_norm: Option<Norm>,
    k_norm: Option<Norm>,
    rope: Option<Ropes>,
    choice: BlockChoice,
    /// The place of the keys in a session: after those of all layers.
    slot: usize,
}

impl BlockIndexer {
    /// The indexer of layer `i`, whose attention has this many heads of keys, if it has one.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        n_head_kv: usize,
    ) -> Result<Option<BlockIndexer>, Error> {
        let blk = |name: &str| format!("blk.{i}.indexer.{name}");
        let key = |name: &str| format!("attention.indexer.{name}");
        if weights.shape(&blk("q_proj.weight")).is_none() || keys.count(&key("block_size"))?.is_none() {
            return Ok(None);
        }
        let need = |name: &str| keys.need_count(&key(name));
        let (n_groups, width, size) = (need("head_count")?, need("key_length")?, need("block_size")?);
        if n_groups == 0 || !n_head_kv.is_multiple_of(n_groups) {
            return Err(keys.wrong(&key("head_count"), "a divisor of the number of heads of keys"));
        }
        let choice =
            BlockChoice { n_groups, width, size, n_blocks: need("top_k")?, n_local: need("local_blocks")? };
        if width == 0 || size == 0 || choice.n_blocks == 0 || choice.n_blocks < choice.n_local {
            return Err(keys.wrong(&key("top_k"), "one block at least, and all local ones"));
        }
        let n_embd = params.n_embd;
        Ok(Some(BlockIndexer {
            w_q: Linear::need(weights, &blk("q_proj"), n_embd, n_groups.saturating_mul(width))?,
            w_k: Linear::need(weights, &blk("k_proj"), n_embd, width)?,
            q_norm: params.optional_norm(weights, &blk("q_norm"), width)?,
            k_norm: params.optional_norm(weights, &blk("k_norm"), width)?,
            rope: Ropes::open(params, keys, weights, i, width, None)?,
            choice,
            slot: params.n_layer + i,
        }))
    }
}

impl ChoosesKeys for BlockIndexer {
    fn kept(&self) -> usize {
        self.choice.width
    }

    fn has_cached_values(&self) -> bool {
        true
    }

    fn pair_floats(&self) -> usize {
        // The mask of each group and its transpose, the mask of the positions and that of the cells as floats.
        2 * self.choice.n_groups + 2
    }

    fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) {
        let [mut query, mut key] = Linear::run_all([&self.w_q, &self.w_k], h, pass);
        for (norm, rows) in [(&self.q_norm, &mut query), (&self.k_norm, &mut key)] {
            if let Some(norm) = norm {
                norm.apply_groups(rows, self.choice.width);
            }
        }
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(pass.end());
            let cache = pass.rope_cache(rope);
            rope.apply(&mut [&mut query, &mut key], self.choice.width, 0, &cache);
        }
        pass.select(self.slot, key, |views| self.choice.select(&query, views));
    }
}
