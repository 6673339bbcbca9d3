//! The indexer of attention to pools of keys (Qwen 4 Experimental).
//!
//! ```text
//! q = rope(norm(W_q h))  (n_head, width)        k = W_k h  (width), kept like keys of attention
//! K_b = rope(norm(mean of k over pool b))       at the first position of the pool
//! I_ib = sum over heads of relu(q_i . K_b)
//! ```
//!
//! A query sees the pools with the largest `I_ib`, of those that it sees completely, and the keys after them.
//!
//! Source: `build_qsa_top_k` in `src/models/qwen4exp.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::{ArrayView2, Axis, s};

use super::{block_indexer::ChoosesKeys, linear::Linear, params::DecoderParams, ropes::Ropes};
use crate::{
    Error,
    keys::Keys,
    ops::{KeyChoice, Norm, Pools, Rows},
    pass::Pass,
    weights::Weights,
};

pub(super) struct MeanIndexer {
    w_q: Linear,
    w_k: Linear,
    q_norm: Option<Norm>,
    k_norm: Option<Norm>,
    rope: Option<Ropes>,
    n_head: usize,
    /// Elements of a head.
    width: usize,
    /// Keys of a pool.
    size: usize,
    /// Keys that a query sees, in complete pools.
    top_k: usize,
    /// The place of the keys in a session: after those of all layers.
    slot: usize,
}

impl MeanIndexer {
    /// The indexer of layer `i`, if it has one.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<MeanIndexer>, Error> {
        let blk = |name: &str| format!("blk.{i}.indexer.{name}");
        let ratios = "attention.compress_ratios";
        let size = keys.counts(ratios, params.n_layer)?.map_or(0, |ratios| ratios[i]);
        if weights.shape(&blk("q_proj.weight")).is_none() || size == 0 {
            return Ok(None);
        }
        let n_embd = params.n_embd;
        let n_head = keys.need_count("attention.indexer.head_count")?;
        let width = keys.need_count("attention.indexer.key_length")?;
        let top_k = keys.need_count("attention.indexer.top_k")?;
        if n_head == 0 || width == 0 || top_k < size {
            return Err(keys.wrong("attention.indexer.top_k", "the keys of one pool at least"));
        }
        Ok(Some(MeanIndexer {
            w_q: Linear::need(weights, &blk("q_proj"), n_embd, n_head.saturating_mul(width))?,
            w_k: Linear::need(weights, &blk("k_proj"), n_embd, width)?,
            q_norm: params.optional_norm(weights, &blk("q_norm"), width)?,
            k_norm: params.optional_norm(weights, &blk("k_norm"), width)?,
            rope: Ropes::open(params, keys, weights, i, width, None)?,
            n_head,
            width,
            size,
            top_k,
            slot: params.n_layer + i,
        }))
    }

    /// `K`: (n_keys / size, width).
    fn pool(&self, keys: ArrayView2<'_, f32>, end: usize) -> Rows {
        let n = keys.nrows() / self.size;
        let mut pooled = Rows::zeros(n, self.width);
        for (pool, mut to) in pooled.rows_mut().into_iter().enumerate() {
            let keys = keys.slice(s![pool * self.size..(pool + 1) * self.size, ..]);
            if let Some(mean) = keys.mean_axis(Axis(0)) {
                to.assign(&mean);
            }
        }
        if let Some(norm) = &self.k_norm {
            norm.apply(&mut pooled);
        }
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(end);
            let positions: Vec<u32> = (0..n).map(|pool| (pool * self.size) as u32).collect();
            rope.apply(&mut [&mut pooled], self.width, 0, &rope.cache(&positions, None));
        }
        pooled
    }
}

impl ChoosesKeys for MeanIndexer {
    fn kept(&self) -> usize {
        self.width
    }

    fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) {
        let [mut query, key] = Linear::run_all([&self.w_q, &self.w_k], h, pass);
        if let Some(norm) = &self.q_norm {
            norm.apply_groups(&mut query, self.width);
        }
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(pass.end());
            let cache = pass.rope_cache(rope);
            rope.apply(&mut [&mut query], self.width, 0, &cache);
        }
        let mut weights = pass.scratch(h.nrows(), self.n_head);
        weights.fill(1.0);
        let end = pass.end();
        let pool = |keys: ArrayView2<'_, f32>| self.pool(keys, end);
        let pools = Pools { size: self.size, has_tail: true, pool: &pool };
        let (n_head, width, top_k) = (self.n_head, self.width, self.top_k);
        let choice = KeyChoice { n_head, width, scale: 1.0, top_k, pools: Some(pools) };
        pass.select(self.slot, key, |views| choice.select(&query, &weights, views));
    }
}
