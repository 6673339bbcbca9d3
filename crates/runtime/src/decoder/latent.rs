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
//! The KV cache contains `rank + n_rot` floats per position, whatever the number of heads.
//!
//! Some models have a gate for each head's output or for its elements, windows, or a norm of the rotated part of keys.
//!
//! Files of PLM and MiniCPM 3 have both matrices of all heads as one, `[W_uk, W_uv]` of each head after the other.
//! Then keys and values of all heads are computed and kept.
//!
//! Source: `llama_model_deepseek2::graph` and `llama_model_plm::graph` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::s;

use super::{
    heads::{kind_count, sliding_window},
    indexer::Indexer,
    linear::Linear,
    mixer::Mixer,
    params::DecoderParams,
    rope_scaling,
    ropes::Ropes,
    spec::Temperature,
};
use crate::{
    Error,
    keys::Keys,
    ops::{Activation, Attention, Mask, Norm, Product, Rows},
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
    /// Norm of the rotated part of the key.
    rope_norm: Option<Norm>,
    /// To a gate for each head, or for each of its elements.
    gate: Option<Linear>,
    mask: Mask,
    sinks: Option<Vec<f32>>,
    up: Up,
    indexer: Option<Indexer>,
    /// True if the layer sees keys that an earlier one chose.
    shares_selection: bool,
    output: Linear,
    rope: Option<Ropes>,
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

/// From latent rows to keys and values.
enum Up {
    /// Both matrices of each head: `W_uk^T`, (n_nope) -> (rank), and `W_uv`, (rank) -> (value_width).
    ByHead(Box<[Weight; 2]>),
    /// (rank) -> (n_head * (n_nope + value_width)).
    Fused(Box<Linear>),
}

/// From rows to queries; boxed because they are large.
enum Query {
    /// `q = W_q h`.
    Direct(Box<Linear>),
    /// `q = W_uq norm(W_dq h)`.
    LowRank(Box<(Linear, Option<Norm>, Linear)>),
}

impl Query {
    fn open(
        params: &DecoderParams,
        weights: &mut Weights<'_>,
        i: usize,
        n_query: usize,
    ) -> Result<Query, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        Ok(match weights.shape(&blk("attn_q_a.weight")) {
            None => Query::Direct(Box::new(Linear::need(weights, &blk("attn_q"), params.n_embd, n_query)?)),
            Some(stored) => {
                let query_rank = stored.dim(1) as usize;
                let w_dq = Linear::need(weights, &blk("attn_q_a"), params.n_embd, query_rank)?;
                let norm = params.optional_norm(weights, &blk("attn_q_a_norm"), query_rank)?;
                let w_uq = Linear::need(weights, &blk("attn_q_b"), query_rank, n_query)?;
                Query::LowRank(Box::new((w_dq, norm, w_uq)))
            }
        })
    }

    /// Elements between the two matrices, 0 with a single one.
    fn rank(&self) -> usize {
        match self {
            Query::Direct(_) => 0,
            Query::LowRank(low_rank) => low_rank.0.weight.n_out,
        }
    }
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
        let window = sliding_window(params, keys, i)?;
        let need = |key: &str| kind_count(keys, key, window)?.ok_or_else(|| keys.missing(key));
        let rank = need("attention.kv_lora_rank")?;
        let fused = weights.shape(&blk("attn_kv_b.weight")).map(|shape| shape.dim(1) as usize);
        let key_length = if fused.is_some() { "attention.key_length" } else { "attention.key_length_mla" };
        let key_width = need(key_length)?;
        let n_rot = keys.need_count("rope.dimension_count")?;
        if n_rot >= key_width || n_rot % 2 != 0 {
            return Err(keys.wrong("rope.dimension_count", &format!("an even part of `{key_length}`")));
        }
        let n_nope = key_width - n_rot;
        let value_width = match fused {
            // Not every file states their length.
            Some(rows) => rows.checked_div(n_head).and_then(|rows| rows.checked_sub(n_nope)).unwrap_or(0),
            None => need("attention.value_length_mla")?,
        };
        if n_head == 0 || rank == 0 || value_width == 0 {
            return Err(keys.wrong(heads, "one head at least, of one element at least"));
        }
        let query = Query::open(params, weights, i, n_head * key_width)?;
        // Stacks of one matrix for each head; the file contains W_uk transposed already.
        let mut stack = |name: &str, n_in: usize, n_out: usize| {
            let name = blk(&format!("{name}.weight"));
            let mut weight =
                weights.stack(&name, n_in, n_out, n_head)?.ok_or(Error::MissingTensor { name })?;
            weight.is_by_head = true;
            Ok::<_, Error>(weight)
        };
        let up = match fused {
            None => Up::ByHead(Box::new([
                stack("attn_k_b", n_nope, rank)?,
                stack("attn_v_b", rank, value_width)?,
            ])),
            Some(_) => {
                let n_out = n_head * (n_nope + value_width);
                Up::Fused(Box::new(Linear::need(weights, &blk("attn_kv_b"), rank, n_out)?))
            }
        };
        let indexer = Indexer::open(params, keys, weights, i, query.rank())?;
        let has_choice = keys.count("attention.indexer.top_k")?.is_some();
        let gates = weights.shape(&blk("attn_gate.weight")).map_or(0, |shape| shape.dim(1) as usize);
        let n_gate = if gates == n_head { n_head } else { n_head * value_width };
        let scaling = rope_scaling::read(&params.spec, keys)?;
        Ok(Some(Latent {
            query,
            kv_a: Linear::need(weights, &blk("attn_kv_a_mqa"), n_embd, rank + n_rot)?,
            kv_norm: params.optional_norm(weights, &blk("attn_kv_a_norm"), rank)?,
            rope_norm: params.optional_norm(weights, &blk("attn_k_norm"), n_rot)?,
            gate: Linear::open(weights, &blk("attn_gate"), n_embd, n_gate)?,
            mask: window.map_or(Mask::Causal, Mask::SlidingWindow),
            sinks: weights.vector(&blk("attn_sinks.weight"), n_head)?,
            up,
            shares_selection: has_choice && indexer.is_none() && window.is_none(),
            indexer,
            output: Linear::need(weights, &blk("attn_output"), n_head * value_width, n_embd)?,
            rope: match n_rot {
                0 => None,
                _ => Ropes::open(params, keys, weights, i, key_width, window)?,
            },
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
        let by_head = match self.up {
            Up::ByHead(_) => 2 * self.key_width + 2 * self.rank,
            Up::Fused(_) => 3 * self.key_width + 3 * self.value_width,
        };
        self.n_head * by_head + 2 * self.rank
    }

    fn state_size(&self) -> StateSize {
        let width = self.rank + self.key_width - self.n_nope;
        if let Up::Fused(_) = self.up {
            let (keys, values) = (self.n_head * self.key_width, self.n_head * self.value_width);
            return StateSize { keys, values, graph_floats: 3 * keys + 2 * values, ..StateSize::default() };
        }
        StateSize {
            // The latent row is key and value.
            keys: width + self.indexer.as_ref().map_or(0, Indexer::kept),
            window: match self.mask {
                Mask::SlidingWindow(n) => Some(n),
                _ => None,
            },
            graph_floats: self.n_head * (self.key_width + 2 * width) + width,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = h.nrows();
        let (rank, n_nope, n_rot) = (self.rank, self.n_nope, self.key_width - self.n_nope);
        // Step 1: queries (n, n_head * (n_nope + n_rot)) and latent rows (n, rank + n_rot), rotated in their last part.
        let mut query = self.query(h, pass);
        let mut key = self.kv_a.run(h, pass);
        if let Some(norm) = &self.rope_norm {
            let mut k_rope = pass.columns(&key, rank..rank + n_rot);
            norm.apply(&mut k_rope);
            key.slice_mut(s![.., rank..]).assign(&*k_rope);
        }
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(pass.end());
            let cache = pass.rope_cache(rope);
            rope.apply(&mut [&mut query], self.key_width, n_nope, &cache);
            rope.apply(&mut [&mut key], rank + n_rot, rank, &cache);
        }
        // The value of a position is its latent row c, which is the first part of its key too.
        let mut c = pass.columns(&key, 0..rank);
        if let Some(norm) = &self.kv_norm {
            norm.apply(&mut c);
        }
        let [w_uk, w_uv] = match &self.up {
            Up::ByHead(both) => both.each_ref(),
            Up::Fused(up) => {
                let k_rope = pass.columns(&key, rank..rank + n_rot);
                let attended = self.attend_fused(index, up, [query, c, k_rope], pass);
                return self.finish(h, attended, pass);
            }
        };
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
            pass.mul_mat(q_nope.view(), vec![Product { weight: w_uk, index: head, out }]);
            let q_rope = query.slice(s![.., from + n_nope..from + self.key_width]);
            q_absorbed.slice_mut(s![.., to + rank..to + width]).assign(&q_rope);
        }
        drop((q_nope, query));
        if let Some(temperature) = self.temperature {
            temperature.apply(&mut q_absorbed, pass.positions());
        }

        // Step 3: attention of all heads to one head of keys and values.
        let selection = pass.selection.clone().filter(|_| self.indexer.is_some() || self.shares_selection);
        let attention = Attention { selected: selection.as_deref(), ..self.head_attention(1, width, rank) };
        let o_latent = pass.attend(index, &attention, &q_absorbed, key, c);
        drop(q_absorbed);

        // Step 4: o = W_uv o_latent for each head, (rank) -> (value_width), then the output matrix.
        let mut o = pass.scratch(n, self.n_head * self.value_width);
        let mut head_rows = pass.scratch(n, rank);
        for head in 0..self.n_head {
            head_rows.assign(&o_latent.slice(s![.., head * rank..(head + 1) * rank]));
            let out = o.slice_mut(s![.., head * self.value_width..(head + 1) * self.value_width]);
            pass.mul_mat(head_rows.view(), vec![Product { weight: w_uv, index: head, out }]);
        }
        drop((head_rows, o_latent));
        self.finish(h, o, pass)
    }
}

impl Latent {
    /// `h (n, n_embd) -> (n, n_head * key_width)`; an indexer chooses keys on the way.
    fn query(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        match &self.query {
            Query::Direct(w_q) => w_q.run(h, pass),
            Query::LowRank(low_rank) => {
                let (w_dq, norm, w_uq) = low_rank.as_ref();
                let mut c = w_dq.run(h, pass);
                if let Some(norm) = norm {
                    norm.apply(&mut c);
                }
                if let Some(indexer) = &self.indexer {
                    indexer.run(h, &c, pass);
                }
                w_uq.run(&c, pass)
            }
        }
    }

    fn head_attention(&self, n_head_kv: usize, key_width: usize, value_width: usize) -> Attention<'_> {
        Attention {
            n_head: self.n_head,
            n_head_kv,
            key_width,
            value_width,
            scale: self.scale,
            soft_cap: None,
            mask: self.mask,
            slopes: None,
            sinks: self.sinks.as_deref(),
            bias: None,
            selected: None,
        }
    }

    /// Attention with computed keys `[W_uk c, k_rope]` and values `W_uv c` of all heads.
    fn attend_fused(
        &self,
        index: usize,
        up: &Linear,
        [mut query, c, k_rope]: [Rows; 3],
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let (n_nope, key_width, value_width) = (self.n_nope, self.key_width, self.value_width);
        let both = up.run(&c, pass);
        drop(c);
        let mut key = pass.scratch(both.nrows(), self.n_head * key_width);
        let mut value = pass.scratch(both.nrows(), self.n_head * value_width);
        for head in 0..self.n_head {
            let from = head * (n_nope + value_width);
            let mut key = key.slice_mut(s![.., head * key_width..(head + 1) * key_width]);
            key.slice_mut(s![.., ..n_nope]).assign(&both.slice(s![.., from..from + n_nope]));
            key.slice_mut(s![.., n_nope..]).assign(&*k_rope);
            let values = both.slice(s![.., from + n_nope..from + n_nope + value_width]);
            value.slice_mut(s![.., head * value_width..(head + 1) * value_width]).assign(&values);
        }
        drop((both, k_rope));
        if let Some(temperature) = self.temperature {
            temperature.apply(&mut query, pass.positions());
        }
        let attention = self.head_attention(self.n_head, key_width, value_width);
        pass.attend(index, &attention, &query, key, value)
    }

    /// The gate and the output matrix: `attended (n, n_head * value_width) -> (n, n_embd)`.
    fn finish(&self, h: &Rows, mut attended: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        if let Some(gate) = &self.gate {
            let mut gate = gate.run(h, pass);
            Activation::Sigmoid.apply(&mut gate);
            attended.multiply_groups(&gate);
        }
        self.output.run(&attended, pass)
    }
}
