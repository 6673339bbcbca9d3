//! Multi-head latent attention (MLA): keys and values of all heads are products of one narrow row.
//!
//! In the paper (arXiv 2405.04434, section 2.1), for the token j and each head:
//!
//! ```text
//! [c_j, k_rope_j] = W_kv_a h_j                          c_j (rank), normalized; k_rope_j (n_rot), shared by all heads
//! k_j = [W_uk c_j, k_rope_j]    v_j = W_uv c_j          W_uk (n_nope, rank), W_uv (value_width, rank)
//! s_ij = scale * (q_nope_i . W_uk c_j + q_rope_i . k_rope_j)
//! o_i = sum_j softmax(s_i)_j W_uv c_j
//! ```
//!
//! Keys and values are never computed. Since `q . W_uk c = (W_uk^T q) . c` and `W_uv` does not depend on j,
//! both matrices are absorbed (multi-query attention with one head of keys `[c_j, k_rope_j]` and values
//! `c_j`):
//!
//! ```text
//! q_absorbed_i = W_uk^T q_nope_i
//! s_ij = scale * (q_absorbed_i . c_j + q_rope_i . k_rope_j)
//! o_i = W_uv (sum_j softmax(s_i)_j c_j)
//! ```
//!
//! The KV cache holds `rank + n_rot` floats per position, whatever the number of heads.
//!
//! Source: `llama_model_deepseek2::graph` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::s;

use super::{linear::Linear, mixer::Mixer, params::DecoderParams, rope_scaling, spec::Temperature};
use crate::{
    Error,
    keys::Keys,
    ops::{Attention, Mask, Norm, Product, Rope, Rows},
    pass::Pass,
    state_size::StateSize,
    weights::{Weight, Weights},
};

pub(super) struct Latent {
    query: Query,
    /// To a latent row and the rotated part of the key: (n_embd) -> (rank + n_rot).
    kv_a: Linear,
    /// Norm of latent rows.
    kv_norm: Option<Norm>,
    /// `W_uk^T` of each head: (n_nope) -> (rank).
    w_uk: Weight,
    /// `W_uv` of each head: (rank) -> (value_width).
    w_uv: Weight,
    output: Linear,
    rope: Rope,
    temperature: Option<Temperature>,
    n_head: usize,
    /// Elements of a latent row.
    rank: usize,
    /// Elements of a query of one head.
    key_width: usize,
    /// Elements of its part that is not rotated, which comes first.
    n_nope: usize,
    value_width: usize,
    scale: f32,
}

/// From rows to queries; boxed because they are large.
enum Query {
    /// `q = W_q h`.
    Direct(Box<Linear>),
    /// `q = W_uq norm(W_dq h)`.
    LowRank(Box<(Linear, Option<Norm>, Linear)>),
}

impl Latent {
    /// The attention of a layer, if it is of this kind.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<Latent>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        if weights.shape(&blk("attn_kv_a_mqa.weight")).is_none() {
            return Ok(None);
        }
        let n_embd = params.n_embd;
        let heads = "attention.head_count";
        let n_head = keys.counts(heads, params.n_layer)?.ok_or_else(|| keys.missing(heads))?[i];
        let rank = keys.need_count("attention.kv_lora_rank")?;
        let key_width = keys.need_count("attention.key_length_mla")?;
        let value_width = keys.need_count("attention.value_length_mla")?;
        let n_rot = keys.need_count("rope.dimension_count")?;
        if n_rot >= key_width || n_rot % 2 != 0 {
            return Err(keys.wrong("rope.dimension_count", "an even part of `attention.key_length_mla`"));
        }
        if n_head == 0 || rank == 0 || value_width == 0 {
            return Err(keys.wrong(heads, "one head at least, of one element at least"));
        }
        let n_nope = key_width - n_rot;
        let n_query = n_head * key_width;
        let query = match weights.shape(&blk("attn_q_a.weight")) {
            None => Query::Direct(Box::new(Linear::need(weights, &blk("attn_q"), n_embd, n_query)?)),
            Some(stored) => {
                let query_rank = stored.dim(1) as usize;
                let w_dq = Linear::need(weights, &blk("attn_q_a"), n_embd, query_rank)?;
                let norm = params.optional_norm(weights, &blk("attn_q_a_norm"), query_rank)?;
                let w_uq = Linear::need(weights, &blk("attn_q_b"), query_rank, n_query)?;
                Query::LowRank(Box::new((w_dq, norm, w_uq)))
            }
        };
        // Stacks of one matrix for each head; the file holds W_uk transposed already.
        let mut stack = |name: &str, n_in: usize, n_out: usize| {
            let name = blk(&format!("{name}.weight"));
            let mut weight =
                weights.stack(&name, n_in, n_out, n_head)?.ok_or(Error::MissingTensor { name })?;
            weight.is_by_head = true;
            Ok::<_, Error>(weight)
        };
        let (w_uk, w_uv) = (stack("attn_k_b", n_nope, rank)?, stack("attn_v_b", rank, value_width)?);
        let scaling = rope_scaling::read(&params.spec, keys)?;
        let base = keys.float("rope.freq_base")?.unwrap_or(10000.0);
        let kind = params.spec.rope.ok_or_else(|| keys.wrong("rope.dimension_count", "0"))?;
        let divisors = weights.vector("rope_freqs.weight", n_rot / 2)?;
        Ok(Some(Latent {
            query,
            kv_a: Linear::need(weights, &blk("attn_kv_a_mqa"), n_embd, rank + n_rot)?,
            kv_norm: params.optional_norm(weights, &blk("attn_kv_a_norm"), rank)?,
            w_uk,
            w_uv,
            output: Linear::need(weights, &blk("attn_output"), n_head * value_width, n_embd)?,
            rope: Rope::new(kind, n_rot, base, &scaling, divisors.as_deref()),
            // Mistral Large 3 scales queries by position, as Llama 4 does in its layers without RoPE.
            temperature: Temperature::read(keys)?,
            n_head,
            rank,
            key_width,
            n_nope,
            value_width,
            scale: scaling.mscale_squared / (key_width as f32).sqrt(),
        }))
    }
}

impl Mixer for Latent {
    fn row_floats(&self) -> usize {
        self.n_head * (2 * self.key_width + 2 * self.rank) + 2 * self.rank
    }

    fn state_size(&self) -> StateSize {
        let width = self.rank + self.key_width - self.n_nope;
        StateSize {
            // The latent row is key and value.
            keys: width,
            graph_floats: self.n_head * (self.key_width + 2 * width) + width,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = h.nrows();
        let (rank, n_nope, n_rot) = (self.rank, self.n_nope, self.key_width - self.n_nope);
        // Step 1: queries (n, n_head * (n_nope + n_rot)) and latent rows (n, rank + n_rot), rotated in their last part.
        let mut query = self.query.run(h, pass);
        let mut key = self.kv_a.run(h, pass);
        let cache = pass.rope_cache(&self.rope);
        self.rope.apply(&mut [&mut query], self.key_width, n_nope, &cache);
        self.rope.apply(&mut [&mut key], rank + n_rot, rank, &cache);
        // The value of a position is its latent row c, which is the first part of its key too.
        let mut c = pass.columns(&key, 0..rank);
        if let Some(norm) = &self.kv_norm {
            norm.apply(&mut c);
        }
        key.slice_mut(s![.., ..rank]).assign(&*c);

        // Step 2: absorb W_uk. For each head q_absorbed = [W_uk^T q_nope, q_rope], (n_nope) -> (rank), then n_rot as they
        // are.
        let width = rank + n_rot;
        let mut q_absorbed = pass.scratch(n, self.n_head * width);
        let mut q_nope = pass.scratch(n, n_nope);
        for head in 0..self.n_head {
            let (from, to) = (head * self.key_width, head * width);
            q_nope.assign(&query.slice(s![.., from..from + n_nope]));
            let out = q_absorbed.slice_mut(s![.., to..to + rank]);
            pass.mul_mat(q_nope.view(), vec![Product { weight: &self.w_uk, index: head, out }]);
            let q_rope = query.slice(s![.., from + n_nope..from + self.key_width]);
            q_absorbed.slice_mut(s![.., to + rank..to + width]).assign(&q_rope);
        }
        drop((q_nope, query));
        if let Some(temperature) = self.temperature {
            temperature.apply(&mut q_absorbed, pass.positions());
        }

        // Step 3: attention of all heads to one head of keys and values.
        let attention = Attention {
            n_head: self.n_head,
            n_head_kv: 1,
            key_width: width,
            value_width: rank,
            scale: self.scale,
            soft_cap: None,
            mask: Mask::Causal,
            slopes: None,
            sinks: None,
            bias: None,
        };
        let o_latent = pass.attend(index, &attention, &q_absorbed, key, c);
        drop(q_absorbed);

        // Step 4: o = W_uv o_latent for each head, (rank) -> (value_width), then the output matrix.
        let mut o = pass.scratch(n, self.n_head * self.value_width);
        let mut head_rows = pass.scratch(n, rank);
        for head in 0..self.n_head {
            head_rows.assign(&o_latent.slice(s![.., head * rank..(head + 1) * rank]));
            let out = o.slice_mut(s![.., head * self.value_width..(head + 1) * self.value_width]);
            pass.mul_mat(head_rows.view(), vec![Product { weight: &self.w_uv, index: head, out }]);
        }
        drop((head_rows, o_latent));
        self.output.run(&o, pass)
    }
}

impl Query {
    /// `h (n, n_embd) -> (n, n_head * key_width)`.
    fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        match self {
            Query::Direct(w_q) => w_q.run(h, pass),
            Query::LowRank(low_rank) => {
                let (w_dq, norm, w_uq) = low_rank.as_ref();
                let mut c = w_dq.run(h, pass);
                if let Some(norm) = norm {
                    norm.apply(&mut c);
                }
                w_uq.run(&c, pass)
            }
        }
    }
}
