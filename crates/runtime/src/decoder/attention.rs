//! The attention part of a layer.
//!
//! ```text
//! q = rope(norm(W_q h))    k = rope(norm(W_k h))    v = W_v h, in Gemma 3n and 4 normalized; or by experts
//! y = W_o norm(c f(g) * attend(q, k, v))         g: a gate next to each head's query (Qwen 3 Next), or W_g h, for each
//!                                             head or each of its elements (Laguna); without a gate f(g) is 1;
//!                                             c: a number (MiMo V2), else 1
//! ```
//!
//! `attend` and its masks, caps, sinks and biases are in [`ops::Attention`]; h (n_embd), q (n_head * key_width),
//! k (n_head_kv * key_width), v (n_head_kv * value_width).

mod backward;

use ndarray::{Axis, s};

use super::{
    block_indexer::{BlockIndexer, ChoosesKeys},
    heads::Heads,
    linear::Linear,
    mean_indexer::MeanIndexer,
    mixer::{Backward, Mixer},
    params::{DecoderParams, soft_cap},
    ropes::Ropes,
    spec::{Alibi, MemorySpec, ScoreScale, Temperature},
    switch::Switched,
    value_experts::ValueExperts,
};
use crate::{
    Error,
    keys::Keys,
    ops::{self, Activation, Mask, Norm, NormKind, Rows},
    pass::Pass,
    state_size::StateSize,
    weights::Weights,
};

/// Queries, keys and values, boxed because a layer contains one to three.
enum Projections {
    Apart(Box<[Linear; 3]>),
    Fused(Box<Linear>),
    /// Queries and keys; values are the keys.
    KeysAsValues(Box<[Linear; 2]>),
    /// Queries and keys; values come from experts.
    RoutedValues(Box<([Linear; 2], ValueExperts)>),
    /// Only queries: keys and values are those of an earlier layer.
    QueriesAlone(Box<Linear>),
}

impl Projections {
    /// The projections of layer `i`. With gates, twice as many rows as queries have elements.
    fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        heads: &Heads,
        is_gated: bool,
    ) -> Result<Projections, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let n_in = params.n_attention_in;
        let [n_query, n_key, n_value] = heads.widths();
        let has_values = weights.shape(&blk("attn_v.weight")).is_some();
        let has_own = heads.source == i;
        let fused = if has_own {
            Linear::open(weights, &blk("attn_qkv"), n_in, n_query + n_key + n_value)?
        } else {
            None
        };
        if let Some(mut fused) = fused {
            // Each part of the matrix has its own adapters.
            for (name, n, at) in
                [("attn_q", n_query, 0), ("attn_k", n_key, n_query), ("attn_v", n_value, n_query + n_key)]
            {
                fused.switched.extend(Switched::open(weights, &blk(name), n_in, n, at)?);
            }
            return Ok(Projections::Fused(Box::new(fused)));
        }
        let mut part = |name: &str, n: usize| Linear::need(weights, &blk(name), n_in, n);
        let query = part("attn_q", if is_gated { 2 * n_query } else { n_query })?;
        if !has_own {
            // Checkpoints of Gemma 3n contain unused matrices.
            for name in ["attn_k", "attn_v", "attn_k_norm"] {
                weights.ignore(&blk(&format!("{name}.weight")));
            }
            return Ok(Projections::QueriesAlone(Box::new(query)));
        }
        let key = part("attn_k", n_key)?;
        if params.spec.value_norm && !has_values && n_key == n_value {
            return Ok(Projections::KeysAsValues(Box::new([query, key])));
        }
        Ok(match ValueExperts::open(params, keys, weights, i, [n_in, n_value])? {
            Some(experts) => Projections::RoutedValues(Box::new(([query, key], experts))),
            None => {
                let value = Linear::need(weights, &blk("attn_v"), n_in, n_value)?;
                Projections::Apart(Box::new([query, key, value]))
            }
        })
    }
}

pub(super) struct Attention {
    projections: Projections,
    /// The layer whose keys and values it sees: itself, or an earlier one.
    source: usize,
    /// True if later layers use this layer's keys and values.
    is_source: bool,
    qkv_by_head: bool,
    /// True if each head's query comes with a gate for the head's output.
    is_gated: bool,
    /// Factor of the values.
    value_scale: Option<f32>,
    /// To a gate for each head, or for each of its elements.
    gate: Option<Linear>,
    gate_activation: Activation,
    /// The bound of queries, keys and values, on both sides of zero.
    clamp: Option<f32>,
    query_norm: Option<Norm>,
    key_norm: Option<Norm>,
    /// Norm of each value head.
    value_norm: Option<Norm>,
    /// The elements of queries and of keys that are normalized together.
    norm_widths: (usize, usize),
    /// True if these norms follow RoPE.
    norms_after_rope: bool,
    /// Norm over all heads together, before the output matrix (BitNet).
    output_norm: Option<Norm>,
    output: Linear,
    rope: Option<Ropes>,
    /// Norm of queries and keys after RoPE.
    post_rope_norm: Option<Norm>,
    temperature: Option<Temperature>,
    n_head: usize,
    n_head_kv: usize,
    key_width: usize,
    value_width: usize,
    scale: f32,
    soft_cap: Option<f32>,
    mask: Mask,
    slopes: Option<Vec<f32>>,
    sinks: Option<Vec<f32>>,
    indexer: Option<Box<dyn ChoosesKeys>>,
    memory: MemorySpec,
    /// True if llama.cpp's graph sees the batch instead of a cache.
    sees_batch: bool,
}

impl Attention {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Attention, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let (spec, n_embd, n_in) = (&params.spec, params.n_embd, params.n_attention_in);
        let heads = Heads::read(params, keys, weights, i)?;
        let Heads { n_head, n_head_kv, key_width, value_width, window, source, is_source } = heads;
        let [n_query, n_key, _] = heads.widths();
        // Twice as many rows as queries have elements: a gate follows each head's query.
        let stored = weights.shape(&blk("attn_q.weight")).map_or(0, |shape| shape.dim(1));
        let is_gated = key_width == value_width && stored == 2 * n_query as u64;
        let projections = Projections::open(params, keys, weights, i, &heads, is_gated)?;
        let query_norm = head_norm(params, weights, &blk("attn_q_norm"), n_query, key_width)?;
        let key_norm = if source == i {
            head_norm(params, weights, &blk("attn_k_norm"), n_key, key_width)?
        } else {
            None
        };
        let has_weightless = spec.weightless_norms && query_norm.is_some();
        let key_norm = key_norm.or_else(|| has_weightless.then(|| params.weightless_norm()));
        let norm_widths = if spec.qk_norm_over_heads { (n_query, n_key) } else { (key_width, key_width) };
        let max_bias = match spec.alibi {
            Alibi::None => None,
            Alibi::Always(max) => Some(max),
            Alibi::Key => keys.float("attention.max_alibi_bias")?,
        };
        let max_bias = max_bias.filter(|max| *max > 0.0);
        let scale = match spec.score_scale {
            ScoreScale::One => 1.0,
            ScoreScale::InverseKeyWidth => 1.0 / key_width as f32,
            ScoreScale::EmbeddingPerHead => 1.0 / ((n_embd / n_head) as f32).sqrt(),
            ScoreScale::KeyWidth => 1.0 / (key_width as f32).sqrt(),
        };
        // As in the reference, 0 means the default.
        let stated = keys.float("attention.scale")?.or(keys.float("attention.output_scale")?);
        let stated = stated.filter(|scale| *scale != 0.0);
        // RoPE in the layer determines the rest: Llama 4 normalizes after it, and scales by temperature in
        // layers without it.
        let rope = Ropes::open(params, keys, weights, i, key_width, window)?;
        let n_gate = weights.shape(&blk("attn_gate.weight")).map_or(0, |shape| shape.dim(1) as usize);
        let n_gate = if n_gate == n_head { n_head } else { n_head * value_width };
        let gate = Linear::open(weights, &blk("attn_gate"), n_in, n_gate)?;
        let weightless = Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight: None, bias: None };
        Ok(Attention {
            projections,
            source,
            is_source,
            qkv_by_head: spec.qkv_by_head && n_head == n_head_kv,
            is_gated,
            value_scale: keys.float("attention.value_scale")?,
            gate,
            gate_activation: spec.attention_gate,
            clamp: keys.float("attention.clamp_kqv")?.filter(|clamp| *clamp > 0.0),
            query_norm,
            key_norm,
            value_norm: spec.value_norm.then(|| weightless.clone()),
            norm_widths,
            norms_after_rope: spec.qk_norm_after_rope,
            output_norm: params.optional_norm(weights, &blk("attn_sub_norm"), n_head * value_width)?,
            output: Linear::need(weights, &blk("attn_output"), n_head * value_width, n_embd)?,
            post_rope_norm: (spec.post_rope_norm && rope.is_some()).then_some(weightless),
            temperature: Temperature::read(keys)?.or(spec.temperature.filter(|_| rope.is_none())),
            rope,
            n_head,
            n_head_kv,
            key_width,
            value_width,
            scale: stated.unwrap_or(scale),
            soft_cap: soft_cap(keys.float("attn_logit_softcapping")?, spec.soft_caps.scores),
            mask: mask(params, window),
            slopes: max_bias.map(|max| slopes(n_head, max)),
            sinks: weights.vector(&blk("attn_sinks.weight"), n_head)?,
            memory: spec.memory,
            sees_batch: !params.is_causal && (spec.memory.has_no_cache || !spec.is_causal),
            indexer: match MeanIndexer::open(params, keys, weights, i)? {
                Some(indexer) => Some(Box::new(indexer)),
                None => BlockIndexer::open(params, keys, weights, i, n_head_kv)?
                    .map(|indexer| Box::new(indexer) as Box<dyn ChoosesKeys>),
            },
        })
    }

    /// Takes the gate out that follows the query of each head: queries (n, n_head * 2 * key_width) become
    /// (n, n_head * key_width), as wide as the gate that is returned.
    fn take_gate(&self, query: &mut Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let width = self.n_head * self.key_width;
        let [alone, gate] = [0, self.key_width].map(|at| {
            let mut part = pass.scratch(query.nrows(), width);
            for (i, mut to) in part.axis_chunks_iter_mut(Axis(1), self.key_width).enumerate() {
                let from = i * 2 * self.key_width + at;
                to.assign(&query.slice(s![.., from..from + self.key_width]));
            }
            part
        });
        *query = alone;
        gate
    }

    /// Scores, softmax and values of every head, as `ops::Attention` states them.
    fn head_attention(&self) -> ops::Attention<'_> {
        ops::Attention {
            n_head: self.n_head,
            n_head_kv: self.n_head_kv,
            key_width: self.key_width,
            value_width: self.value_width,
            scale: self.scale,
            soft_cap: self.soft_cap,
            mask: self.mask,
            slopes: self.slopes.as_deref(),
            sinks: self.sinks.as_deref(),
            bias: None,
            selected: None,
        }
    }

    /// The norms of queries and keys, if there are any.
    fn normalize(&self, query: &mut Rows, own: &mut Option<[Rows; 2]>) {
        if let Some(norm) = &self.query_norm {
            norm.apply_groups(query, self.norm_widths.0);
        }
        if let (Some(norm), Some([key, _])) = (&self.key_norm, own) {
            norm.apply_groups(key, self.norm_widths.1);
        }
    }

    /// Keeps the keys and values of `h` (n, n_in) in layer `index`, without attention.
    pub fn put(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) {
        let (mut query, mut own) = self.project(h, pass);
        self.prepare(&mut query, &mut own, pass);
        if let Some([key, value]) = own {
            pass.put_key_value(index, key, value);
        }
    }

    /// Clamps (DBRX, OLMo), normalizes, rotates, normalizes after RoPE (Hunyuan) or again (Llama 4): each step if it
    /// exists, in this order.
    fn prepare(&self, query: &mut Rows, own: &mut Option<[Rows; 2]>, pass: &mut Pass<'_, '_>) {
        if let Some(clamp) = self.clamp {
            for rows in std::iter::once(&mut *query).chain(own.iter_mut().flatten()) {
                rows.mapv_inplace(|x| x.clamp(-clamp, clamp));
            }
        }
        if !self.norms_after_rope {
            self.normalize(query, own);
        }
        if let (Some(norm), Some([_, value])) = (&self.value_norm, &mut *own) {
            norm.apply_groups(value, self.value_width);
        }
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(pass.end());
            let cache = pass.rope_cache(rope);
            rope.apply(&mut queries_and_keys(query, own), self.key_width, 0, &cache);
        }
        if self.norms_after_rope {
            self.normalize(query, own);
        }
        if let Some(norm) = &self.post_rope_norm {
            for rows in queries_and_keys(query, own) {
                norm.apply_groups(rows, self.key_width);
            }
        }
    }

    /// Queries (n, n_head * key_width); keys (n, n_head_kv * key_width) and values (n, n_head_kv * value_width), unless they
    /// are those of another layer.
    fn project(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> (Rows, Option<[Rows; 2]>) {
        let [query, key, value] = match &self.projections {
            Projections::QueriesAlone(query) => return (query.run(h, pass), None),
            Projections::KeysAsValues(both) => {
                let [query, key] = Linear::run_all(both.each_ref(), h, pass);
                let mut value = pass.scratch(key.nrows(), key.ncols());
                value.copy_from(&key);
                [query, key, value]
            }
            Projections::RoutedValues(parts) => {
                let (both, experts) = &**parts;
                let [query, key] = Linear::run_all(both.each_ref(), h, pass);
                [query, key, experts.run(h, pass)]
            }
            Projections::Apart(apart) => Linear::run_all(apart.each_ref(), h, pass),
            Projections::Fused(fused) => {
                let all = fused.run(h, pass);
                let mut at = 0;
                let widths = [
                    self.n_head * self.key_width,
                    self.n_head_kv * self.key_width,
                    self.n_head_kv * self.value_width,
                ];
                // The columns are q k v, or q k v of head 0, q k v of head 1 and so on: blocks of one `stride`.
                let n_blocks = if self.qkv_by_head { self.n_head } else { 1 };
                let stride = all.ncols() / n_blocks;
                widths.map(|width| {
                    let mut part = pass.scratch(all.nrows(), width);
                    let block = width / n_blocks;
                    for (i, mut to) in part.axis_chunks_iter_mut(Axis(1), block).enumerate() {
                        let from = i * stride + at;
                        to.assign(&all.slice(s![.., from..from + block]));
                    }
                    at += block;
                    part
                })
            }
        };
        (query, Some([key, value]))
    }
}

impl Mixer for Attention {
    fn row_floats(&self) -> usize {
        2 * self.n_head * self.key_width + self.n_head_kv * (self.key_width + self.value_width)
    }

    fn state_size(&self) -> StateSize {
        let (n_query, n_key) = (self.n_head * self.key_width, self.n_head_kv * self.key_width);
        let n_value = self.n_head_kv * self.value_width;
        let projected = n_query + n_key + n_value;
        let graph_floats = match &self.projections {
            // The rotated parts are separate.
            Projections::Fused(_) if self.rope.is_some() => projected + n_query + n_key,
            Projections::RoutedValues(parts) => projected + parts.1.graph_floats(),
            _ if self.is_gated => projected + 2 * n_query,
            _ => projected,
        };
        let window = match self.mask {
            Mask::Causal => None,
            Mask::SlidingWindow(n) | Mask::Chunk(n) => Some(n),
            // All tokens are run at once, but llama.cpp has a cache of most models for the entire context.
            Mask::All | Mask::SymmetricWindow(_) | Mask::WindowAndLater(_) => None,
        };
        let indexer = self.indexer.as_deref();
        let n_index = indexer.map_or(0, ChoosesKeys::kept);
        let n_index_value =
            if indexer.is_some_and(ChoosesKeys::has_cached_values) { self.value_width } else { 0 };
        // Scores of each head, and a mask of floats instead of halves.
        let scores = if self.memory.keeps_scores { self.n_head + 1 } else { 0 };
        let pair_floats = scores + indexer.map_or(0, ChoosesKeys::pair_floats);
        let graph =
            StateSize { graph_floats, pair_floats, sees_batch: self.sees_batch, ..StateSize::default() };
        match &self.projections {
            // Keys and values are another layer's.
            Projections::QueriesAlone(_) => graph,
            _ if self.memory.has_no_cache => graph,
            _ => StateSize { keys: n_key + n_index, values: n_value + n_index_value, window, ..graph },
        }
    }

    fn backward(&self) -> Option<&dyn Backward> {
        self.has_backward().then_some(self)
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (mut query, mut own) = self.project(h, pass);
        let gate = match &self.gate {
            Some(gate) => Some(gate.run(h, pass)),
            None => self.is_gated.then(|| self.take_gate(&mut query, pass)),
        };
        self.prepare(&mut query, &mut own, pass);
        if let Some(temperature) = self.temperature {
            temperature.apply(&mut query, pass.positions());
        }
        let selection = self.indexer.as_ref().and_then(|indexer| {
            indexer.run(h, pass);
            pass.selection.clone()
        });
        let attention = ops::Attention { selected: selection.as_deref(), ..self.head_attention() };
        let mut attended = match own {
            None => pass.attend_to(self.source, &attention, &query),
            Some([key, value]) if self.is_source => {
                pass.put_key_value(index, key, value);
                pass.attend_to(index, &attention, &query)
            }
            Some([key, value]) => pass.attend(index, &attention, &query, key, value),
        };
        if let Some(mut gate) = gate {
            self.gate_activation.apply(&mut gate);
            attended.multiply_groups(&gate);
        }
        if let Some(scale) = self.value_scale {
            *attended *= scale;
        }
        if let Some(norm) = &self.output_norm {
            norm.apply(&mut attended);
        }
        self.output.run(&attended, pass)
    }
}

/// The mask of a layer: window, chunk or everything, and for encoders in both directions.
fn mask(params: &DecoderParams, window: Option<usize>) -> Mask {
    let spec = &params.spec;
    match (params.is_causal, window) {
        (true, None) => Mask::Causal,
        (true, Some(n)) if spec.sliding.is_some_and(|sliding| sliding.chunked) => Mask::Chunk(n),
        (true, Some(n)) => Mask::SlidingWindow(n),
        (false, None) => Mask::All,
        (false, Some(n)) if spec.sees_block => Mask::WindowAndLater(n),
        // An encoder's window counts both directions.
        (false, Some(n)) => Mask::SymmetricWindow(n / 2),
    }
}

/// The norm `name` of queries or keys, `n` elements in heads of `width`. Weights are per head or for all heads; the family determines
/// which are normalized together.
fn head_norm(
    params: &DecoderParams,
    weights: &mut Weights<'_>,
    name: &str,
    n: usize,
    width: usize,
) -> Result<Option<Norm>, Error> {
    let stored = weights.shape(&format!("{name}.weight"));
    if stored.is_some_and(|shape| shape.dim(0) == 1 && width > 1) {
        // One weight for all elements of a head.
        let gains = weights.need_vector(&format!("{name}.weight"), n / width)?;
        let each = gains.into_iter().flat_map(|gain| std::iter::repeat_n(gain, width));
        return Ok(Some(Norm { weight: Some(each.collect()), ..params.weightless_norm() }));
    }
    let n = if stored.is_some_and(|shape| shape.n_elems() == width as u64) { width } else { n };
    let norm = params.optional_norm(weights, name, n)?;
    Ok(norm.map(|norm| match params.spec.qk_layer_norm {
        Some(epsilon) => Norm { kind: NormKind::Layer, epsilon, ..norm },
        None => norm,
    }))
}

/// Rows for RoPE and the norm after it: queries, and the keys that a layer makes.
fn queries_and_keys<'a>(query: &'a mut Rows, own: &'a mut Option<[Rows; 2]>) -> Vec<&'a mut Rows> {
    std::iter::once(query).chain(own.iter_mut().map(|[key, _]| key)).collect()
}

impl Temperature {
    /// Reads the keys for all layers (Mistral 3).
    pub fn read(keys: &Keys<'_>) -> Result<Option<Temperature>, Error> {
        let Some(scale) = keys.float("attention.temperature_scale")?.filter(|scale| *scale != 0.0) else {
            return Ok(None);
        };
        // The default length is the original training context.
        let length = match keys.float("attention.temperature_length")? {
            None => keys.float("rope.scaling.original_context_length")?,
            stated => stated,
        };
        let length = length.filter(|length| *length > 0.0);
        let length = length.ok_or_else(|| keys.wrong("attention.temperature_length", "a length"))?;
        Ok(Some(Temperature { scale, length, offset: 0.0 }))
    }

    /// Multiplies every row of queries with the factor of its position.
    pub fn apply(&self, query: &mut Rows, positions: &[u32]) {
        for (mut row, position) in query.rows_mut().into_iter().zip(positions) {
            let lengths = ((*position as f32 + self.offset) / self.length).floor();
            row *= 1.0 + self.scale * libm::logf(1.0 + lengths);
        }
    }
}

/// ALiBi's slopes. With `n` the largest power of two that is at most `n_head`, and heads counted from 1:
///
/// ```text
/// slope_h = 2^(-max_bias h / n)                     h <= n
///         = 2^(-max_bias (2 (h - n) - 1) / (2 n))   beyond: every other slope of 2 n heads
/// ```
///
/// Source: `ggml_compute_forward_soft_max_f32` of ggml, llama.cpp of llama-cpp-python 0.3.36.
fn slopes(n_head: usize, max_bias: f32) -> Vec<f32> {
    // `n` of the equations.
    let whole = 1usize << n_head.ilog2();
    let (m0, m1) = (libm::exp2f(-max_bias / whole as f32), libm::exp2f(-max_bias / 2.0 / whole as f32));
    let slope = |head: usize| {
        if head < whole { m0.powi(head as i32 + 1) } else { m1.powi(2 * (head - whole) as i32 + 1) }
    };
    (0..n_head).map(slope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperature_grows_in_whole_lengths() {
        let mut query = Rows::from_vec(4, 2, vec![1.0; 8]);
        let temperature = Temperature { scale: 0.1, length: 8.0, offset: 1.0 };
        temperature.apply(&mut query, &[0, 6, 7, 23]);
        // 1 + 0.1 ln 2, and 1 + 0.1 ln 4
        for (row, expected) in query.rows().into_iter().zip([1.0, 1.0, 1.069_314_7, 1.138_629_4]) {
            assert!(row.iter().all(|x| (x - expected).abs() < 1e-6), "{row} {expected}");
        }
    }
}
