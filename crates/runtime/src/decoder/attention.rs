//! The attention part of a layer.
//!
//! ```text
//! q = rope(norm(W_q h))    k = rope(norm(W_k h))    v = W_v h, in Gemma 3n and 4 normalized
//! y = W_o (c f(g) * attend(q, k, v))          g: a gate beside each head's query (Qwen 3 Next), or W_g h, for each
//!                                             head or each of its elements (Laguna); without a gate f(g) is 1;
//!                                             c: a number (MiMo V2), else 1
//! ```
//!
//! `attend` and its masks, caps, sinks and biases are in [`ops::Attention`]; h (n_embd), q (n_head * key_width),
//! k (n_head_kv * key_width), v (n_head_kv * value_width).

mod backward;

use ndarray::{Axis, s};

use super::{
    heads::{Heads, kind_count, sliding_window},
    linear::Linear,
    mixer::{Backward, Mixer},
    params::{DecoderParams, soft_cap},
    rope_scaling,
    spec::{Alibi, RopeLayers, ScoreScale, SlidingBase, Temperature},
};
use crate::{
    Error,
    keys::Keys,
    ops::{self, Activation, Mask, Norm, NormKind, Rope, RopeKind, Rows},
    pass::Pass,
    state_size::StateSize,
    weights::Weights,
};

/// Queries, keys and values, boxed because a layer holds one to three.
enum Projections {
    Apart(Box<[Linear; 3]>),
    Fused(Box<Linear>),
    /// Queries and keys; values are the keys.
    KeysAsValues(Box<[Linear; 2]>),
    /// Queries alone: keys and values are those of an earlier layer.
    QueriesAlone(Box<Linear>),
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
}

/// RoPE of a layer. LongRoPE has other divisors for texts beyond the context that a model was first trained with.
struct Ropes {
    short: Rope,
    /// Applies after this many positions.
    long: Option<(usize, Rope)>,
}

impl Attention {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Attention, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let (spec, n_embd) = (&params.spec, params.n_embd);
        let Heads { n_head, n_head_kv, key_width, value_width, window, source, is_source } =
            Heads::read(params, keys, weights, i)?;
        let (n_query, n_key, n_value) = (n_head * key_width, n_head_kv * key_width, n_head_kv * value_width);
        // Twice as many rows as queries have elements: a gate follows each head's query.
        let stored = weights.shape(&blk("attn_q.weight")).map_or(0, |shape| shape.dim(1));
        let is_gated = key_width == value_width && stored == 2 * n_query as u64;
        let has_values = weights.shape(&blk("attn_v.weight")).is_some();
        let fused = match source == i {
            true => Linear::open(weights, &blk("attn_qkv"), n_embd, n_query + n_key + n_value)?,
            false => None,
        };
        let projections = if let Some(fused) = fused {
            Projections::Fused(Box::new(fused))
        } else {
            let mut part = |name: &str, n: usize| Linear::need(weights, &blk(name), n_embd, n);
            let query = part("attn_q", if is_gated { 2 * n_query } else { n_query })?;
            if source != i {
                // Checkpoints of Gemma 3n hold matrices that nothing uses.
                for name in ["attn_k", "attn_v", "attn_k_norm"] {
                    weights.ignore(&blk(&format!("{name}.weight")));
                }
                Projections::QueriesAlone(Box::new(query))
            } else if spec.value_norm && !has_values && n_key == n_value {
                Projections::KeysAsValues(Box::new([query, part("attn_k", n_key)?]))
            } else {
                Projections::Apart(Box::new([query, part("attn_k", n_key)?, part("attn_v", n_value)?]))
            }
        };
        // Weights are per head or for all heads; the family determines which are normalized together.
        let mut head_norm = |name: &str, n: usize| {
            let stored = weights.shape(&blk(&format!("{name}.weight"))).map(|shape| shape.n_elems() as usize);
            let n = if stored == Some(key_width) { key_width } else { n };
            params.optional_norm(weights, &blk(name), n)
        };
        let query_norm = head_norm("attn_q_norm", n_query)?;
        let key_norm = if source == i { head_norm("attn_k_norm", n_key)? } else { None };
        let norm_widths = if spec.qk_norm_over_heads { (n_query, n_key) } else { (key_width, key_width) };
        let max_bias = match spec.alibi {
            Alibi::None => None,
            Alibi::Always(max) => Some(max),
            Alibi::Key => keys.float("attention.max_alibi_bias")?,
            Alibi::OfLayers(n, max) => (n == params.n_layer).then_some(max),
        };
        let max_bias = max_bias.filter(|max| *max > 0.0);
        let scale = match spec.score_scale {
            ScoreScale::One => 1.0,
            ScoreScale::EmbeddingWithLayers(n) if n == params.n_layer => {
                1.0 / ((n_embd / n_head) as f32).sqrt()
            }
            _ => 1.0 / (key_width as f32).sqrt(),
        };
        // As in the reference, 0 means the default.
        let stated = keys.float("attention.scale")?.filter(|scale| *scale != 0.0);
        // RoPE in the layer determines the rest: Llama 4 normalizes after it, and scales by temperature in
        // layers without it.
        let rope = Ropes::open(params, keys, weights, i, key_width, window)?;
        // The mask of this layer: window, chunk or everything, and for encoders in both directions.
        let mask = match (params.is_causal, window) {
            (true, None) => Mask::Causal,
            (true, Some(n)) if spec.sliding.is_some_and(|sliding| sliding.chunked) => Mask::Chunk(n),
            (true, Some(n)) => Mask::SlidingWindow(n),
            (false, None) => Mask::All,
            // An encoder's window counts both directions.
            (false, Some(n)) => Mask::SymmetricWindow(n / 2),
        };
        let n_gate = weights.shape(&blk("attn_gate.weight")).map_or(0, |shape| shape.dim(1) as usize);
        let n_gate = if n_gate == n_head { n_head } else { n_head * value_width };
        let gate = Linear::open(weights, &blk("attn_gate"), n_embd, n_gate)?;
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
            output: Linear::need(weights, &blk("attn_output"), n_head * value_width, n_embd)?,
            post_rope_norm: match spec.post_rope_norm {
                Some(norm)
                    if rope.is_some() && keys.count("expert_count")? != Some(norm.not_with_experts) =>
                {
                    Some(weightless)
                }
                _ => None,
            },
            temperature: Temperature::read(keys)?.or(spec.temperature.filter(|_| rope.is_none())),
            rope,
            n_head,
            n_head_kv,
            key_width,
            value_width,
            scale: stated.unwrap_or(scale),
            soft_cap: soft_cap(keys.float("attn_logit_softcapping")?, spec.soft_caps.scores),
            mask,
            slopes: max_bias.map(|max| slopes(n_head, max)),
            sinks: weights.vector(&blk("attn_sinks.weight"), n_head)?,
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
        }
    }

    /// The norms of queries and keys, where there are any.
    fn normalize(&self, query: &mut Rows, own: &mut Option<[Rows; 2]>) {
        if let Some(norm) = &self.query_norm {
            norm.apply_groups(query, self.norm_widths.0);
        }
        if let (Some(norm), Some([key, _])) = (&self.key_norm, own) {
            norm.apply_groups(key, self.norm_widths.1);
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
            // The rotated parts are separate from the whole.
            Projections::Fused(_) if self.rope.is_some() => projected + n_query + n_key,
            _ if self.is_gated => projected + 2 * n_query,
            _ => projected,
        };
        let window = match self.mask {
            Mask::Causal => None,
            Mask::SlidingWindow(n) | Mask::Chunk(n) => Some(n),
            // Where tokens see later ones, all are run at once and nothing is kept.
            Mask::All | Mask::SymmetricWindow(_) => {
                return StateSize { graph_floats, ..StateSize::default() };
            }
        };
        match &self.projections {
            // Keys and values are another layer's.
            Projections::QueriesAlone(_) => StateSize { graph_floats, ..StateSize::default() },
            _ => StateSize { keys: n_key, values: n_value, window, graph_floats, ..StateSize::default() },
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
        // Clamp (DBRX, OLMo), normalize, rotate, normalize after RoPE (Hunyuan) or again (Llama 4), scale by
        // position: each step if it exists, in this order.
        if let Some(clamp) = self.clamp {
            for rows in std::iter::once(&mut query).chain(own.iter_mut().flatten()) {
                rows.mapv_inplace(|x| x.clamp(-clamp, clamp));
            }
        }
        if !self.norms_after_rope {
            self.normalize(&mut query, &mut own);
        }
        if let (Some(norm), Some([_, value])) = (&self.value_norm, &mut own) {
            norm.apply_groups(value, self.value_width);
        }
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(pass.end());
            let cache = pass.rope_cache(rope);
            rope.apply(&mut queries_and_keys(&mut query, &mut own), self.key_width, 0, &cache);
        }
        if self.norms_after_rope {
            self.normalize(&mut query, &mut own);
        }
        if let Some(norm) = &self.post_rope_norm {
            for rows in queries_and_keys(&mut query, &mut own) {
                norm.apply_groups(rows, self.key_width);
            }
        }
        if let Some(temperature) = self.temperature {
            temperature.apply(&mut query, pass.positions());
        }
        let attention = self.head_attention();
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
            // One factor for as many elements as the gate has fewer.
            let width = attended.ncols() / gate.ncols();
            for (elements, gate) in attended.as_mut_slice().chunks_exact_mut(width).zip(gate.as_slice()) {
                elements.iter_mut().for_each(|x| *x *= gate);
            }
        }
        if let Some(scale) = self.value_scale {
            *attended *= scale;
        }
        self.output.run(&attended, pass)
    }
}

/// Rows for RoPE and the norm after it: queries, and the keys that a layer makes.
fn queries_and_keys<'a>(query: &'a mut Rows, own: &'a mut Option<[Rows; 2]>) -> Vec<&'a mut Rows> {
    std::iter::once(query).chain(own.iter_mut().map(|[key, _]| key)).collect()
}

impl Ropes {
    fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        key_width: usize,
        window: Option<usize>,
    ) -> Result<Option<Ropes>, Error> {
        let spec = &params.spec;
        // Only the first n_rot elements of a head rotate (0.25 of them in GPT-NeoX, half in ChatGLM).
        let stated = kind_count(keys, "rope.dimension_count", window)?;
        let n_rot = stated.filter(|n| *n > 0 || !spec.zero_rotates_all).unwrap_or(key_width);
        // Divisors may be there for all of a head although a part of it rotates; its pairs have the first of them.
        let n_divisors = n_rot / 2;
        let n_rot = if window.is_none() { n_rot / spec.rope_part_of_full } else { n_rot };
        // Files of models without rotation may have the key, too.
        if spec.rope.is_some() && (n_rot > key_width || n_rot % 2 != 0) {
            return Err(keys.wrong("rope.dimension_count", "an even part of a head"));
        }
        // Divisors of the frequencies: Llama 3's, for any length, or LongRoPE's two sets.
        // Layers with a window may have none.
        let is_divided = window.is_none() || spec.sliding.is_none_or(|sliding| sliding.same_scaling);
        let mut divisors = |name: &str| match is_divided {
            true => weights.vector(name, n_divisors),
            false => Ok(None),
        };
        let all = divisors("rope_freqs.weight")?;
        let (long, short) = (divisors("rope_factors_long.weight")?, divisors("rope_factors_short.weight")?);
        let rotates = match spec.rope_layers {
            RopeLayers::All => !matches!(spec.alibi, Alibi::OfLayers(n, _) if n == params.n_layer),
            RopeLayers::Sliding => {
                // One layer of a period sees everything, without RoPE; in a model without windows all layers have it.
                let slides = (0..params.n_layer).map(|i| sliding_window(params, keys, i));
                let slides = slides.collect::<Result<Vec<_>, _>>()?;
                slides.iter().all(Option::is_none) || slides[i].is_some()
            }
            RopeLayers::Stated => match keys.flags("attention.rope_pattern", params.n_layer)? {
                Some(rotates) => rotates[i],
                None => keys.flag("rope.scaling.finetuned", true)?,
            },
            RopeLayers::SlidingOrDense => {
                window.is_some() || i < keys.count("leading_dense_block_count")?.unwrap_or(0)
            }
            RopeLayers::AllButEveryNth(n) => !(i + 1).is_multiple_of(n),
        };
        let Some(kind) = spec.rope.filter(|_| rotates) else { return Ok(None) };
        // M-RoPE gives each section of pairs its own position (time, height, width). In text all three are
        // equal, which leaves RoPE on halves, and the fourth is 0.
        let (kind, axes) = match keys.counts("rope.dimension_sections", 4) {
            Ok(Some(sections)) if sections.iter().any(|n| *n > 0) => {
                (RopeKind::Neox, axes(&sections, n_rot / 2, spec.interleaved_sections))
            }
            _ => (kind, Vec::new()),
        };
        let mut base = rope_scaling::base(keys, n_rot)?;
        let mut scaling = rope_scaling::read(spec, keys)?;
        if let (Some(_), Some(sliding)) = (window, spec.sliding) {
            // Layers with a window see near tokens only: they may keep the base of the first training.
            let stated = keys.float("rope.freq_base_swa")?;
            base = match sliding.base {
                SlidingBase::Shared => base,
                SlidingBase::StatedOrShared => stated.unwrap_or(base),
                SlidingBase::StatedOrUsual => stated.unwrap_or(10000.0),
            };
            if !sliding.same_scaling {
                scaling = scaling.unscaled();
            }
        }
        let rope = |divisors: Option<&[f32]>| {
            let mut rope = Rope::new(kind, n_rot, base, &scaling, divisors);
            let mut axes = axes.clone();
            let pairs = rope.frequencies.iter_mut().zip(&mut axes);
            for (frequency, axis) in pairs.filter(|(_, axis)| **axis == UNUSED) {
                (*frequency, *axis) = (0.0, 0);
            }
            Rope { axes, ..rope }
        };
        // Llama 3's divisors are for every length; of LongRoPE's the short ones are for the context of the first training.
        let first = all.as_deref().or(short.as_deref());
        Ok(Some(Ropes {
            short: rope(first),
            long: long.filter(|_| all.is_none()).map(|long| (scaling.original_context, rope(Some(&long)))),
        }))
    }

    /// The one for texts of `end` positions.
    fn choose(&self, end: usize) -> &Rope {
        match &self.long {
            Some((context, long)) if end > *context => long,
            _ => &self.short,
        }
    }
}

/// The fourth axis, along which every position is 0.
const UNUSED: usize = 3;

/// Axis of each of `n` pairs: 0 for time, 1 for height, 2 for width, 3 for pairs that do not rotate. `sections` are numbers
/// of pairs, one stretch after the other; or interleaved: every third pair from the second on rotates by height and from
/// the third on by width, as long as their sections last.
///
/// Source: `ggml_mrope_cache_init` of ggml, llama.cpp of llama-cpp-python 0.3.36, and
/// `recomposition_frequencies` in `modeling_qwen3_vl.py` of transformers 5.23.
fn axes(sections: &[usize], n: usize, is_interleaved: bool) -> Vec<usize> {
    let total = sections.iter().fold(0usize, |sum, n| sum.saturating_add(*n)).max(1);
    let axis = |pair: usize| {
        // More pairs than the sections have begin again.
        let at = pair % total;
        if is_interleaved {
            return if at < sections[at % 3].saturating_mul(3) { at % 3 } else { UNUSED };
        }
        let height = sections[0];
        let width = height.saturating_add(sections[1]);
        match at {
            _ if at < height => 0,
            _ if at < width => 1,
            _ if at < width.saturating_add(sections[2]) => 2,
            _ => UNUSED,
        }
    };
    (0..n).map(axis).collect()
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
    let slope = |head: usize| match head < whole {
        true => m0.powi(head as i32 + 1),
        false => m1.powi(2 * (head - whole) as i32 + 1),
    };
    (0..n_head).map(slope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_contiguous_or_interleaved() {
        assert_eq!(axes(&[2, 1, 1, 0], 4, false), [0, 0, 1, 2]);
        assert_eq!(axes(&[2, 1, 1, 0], 4, true), [0, 1, 2, 0]);
        // More pairs than the sections have begin again.
        assert_eq!(axes(&[1, 1, 0, 0], 4, true), [0, 1, 0, 1]);
        // Pairs after the last of height and width do not rotate.
        let axes = axes(&[24, 20, 20, 0], 64, true);
        assert_eq!(
            [0, 1, 2, 3].map(|axis| axes.iter().filter(|found| **found == axis).count()),
            [22, 20, 20, 2]
        );
        assert_eq!(axes[57..], [0, 1, 2, 0, 3, 3, 0]);
    }

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
