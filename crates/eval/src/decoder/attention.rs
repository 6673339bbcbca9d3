//! The attention part of a layer.
//!
//! ```text
//! q = rope(norm(W_q h))    k = rope(norm(W_k h))    v = W_v h
//! y = W_o (c sigmoid(g) * attend(q, k, v))          g: a gate beside each head's query (Qwen 3 Next), else sigmoid(g)
//!                                                   is 1; c: a number (MiMo V2), else 1
//! ```
//!
//! `attend` and its masks, caps, sinks and biases are in [`ops::Attention`]; h (n_embd), q (n_head * key_width),
//! k (n_head_kv * key_width), v (n_head_kv * value_width).

use ndarray::{Axis, s};

use super::{
    linear::Linear,
    mixer::Mixer,
    params::{DecoderParams, soft_cap},
    rope_scaling,
    spec::{Alibi, RopeLayers, Temperature},
};
use crate::{
    Error,
    keys::Keys,
    ops::{self, Mask, Norm, NormKind, Rope, RopeKind, Rows, sigmoid},
    pass::Pass,
    weights::Weights,
};

/// Queries, keys and values, boxed because a layer holds one or three.
enum Projections {
    Apart(Box<[Linear; 3]>),
    Fused(Box<Linear>),
}

pub(super) struct Attention {
    projections: Projections,
    qkv_by_head: bool,
    /// Whether each head's query comes with a gate for the head's output.
    is_gated: bool,
    /// What values are multiplied with.
    value_scale: Option<f32>,
    /// The bound of queries, keys and values, on both sides of zero.
    clamp: Option<f32>,
    query_norm: Option<Norm>,
    key_norm: Option<Norm>,
    /// The elements of queries and of keys that are normalized together.
    norm_widths: (usize, usize),
    /// Whether these norms come behind the rotation.
    norms_after_rope: bool,
    output: Linear,
    rope: Option<Ropes>,
    /// Of queries and keys, after the rotation.
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
    /// From behind so many positions on.
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
        let per_layer = |key: &str| keys.counts(key, params.n_layer).map(|counts| counts.map(|c| c[i]));
        let n_head =
            per_layer("attention.head_count")?.ok_or_else(|| keys.missing("attention.head_count"))?;
        let n_head_kv = per_layer("attention.head_count_kv")?.unwrap_or(n_head);
        if n_head == 0 || n_head_kv == 0 || n_head % n_head_kv != 0 {
            return Err(keys.wrong("attention.head_count_kv", "a divisor of the number of heads"));
        }
        // Where no key says it, tensors do: heads may be wider than the embedding has room for (GLM).
        let rows = |name: &str| weights.shape(&blk(name)).map(|shape| shape.dim(1) as usize);
        let width = |key: &str, rows: Option<usize>, n: usize| -> Result<usize, Error> {
            let stored = || rows.map_or(n_embd / n_head, |rows| rows / n);
            Ok(keys.count(key)?.unwrap_or_else(stored))
        };
        let key_width = width("attention.key_length", rows("attn_q.weight"), n_head)?;
        let value_width = width("attention.value_length", rows("attn_v.weight"), n_head_kv)?;
        if key_width == 0 || value_width == 0 {
            return Err(keys.wrong("attention.head_count", "no more heads than elements"));
        }
        let (n_query, n_key, n_value) = (n_head * key_width, n_head_kv * key_width, n_head_kv * value_width);
        // Twice as many rows as queries have elements: a gate follows each head's query.
        let stored = weights.shape(&blk("attn_q.weight")).map_or(0, |shape| shape.dim(1));
        let is_gated = key_width == value_width && stored == 2 * n_query as u64;
        let projections = match Linear::open(weights, &blk("attn_qkv"), n_embd, n_query + n_key + n_value)? {
            Some(fused) => Projections::Fused(Box::new(fused)),
            None => Projections::Apart(Box::new([
                Linear::need(weights, &blk("attn_q"), n_embd, if is_gated { 2 * n_query } else { n_query })?,
                Linear::need(weights, &blk("attn_k"), n_embd, n_key)?,
                Linear::need(weights, &blk("attn_v"), n_embd, n_value)?,
            ])),
        };
        // Weights are for a head, or for all heads; which of both is normalized together is the family's.
        let mut head_norm = |name: &str, n: usize| {
            let stored = weights.shape(&blk(&format!("{name}.weight"))).map(|shape| shape.n_elems() as usize);
            let n = if stored == Some(key_width) { key_width } else { n };
            params.norm_if_there(weights, &blk(name), n)
        };
        let (query_norm, key_norm) = (head_norm("attn_q_norm", n_query)?, head_norm("attn_k_norm", n_key)?);
        let norm_widths = if spec.qk_norm_over_heads { (n_query, n_key) } else { (key_width, key_width) };
        // The mask of this layer: window, chunk or everything, and for encoders in both directions.
        let window = sliding_window(params, keys, i)?;
        let max_bias = match spec.alibi {
            Alibi::None => None,
            Alibi::Always(max) => Some(max),
            Alibi::Key => keys.float("attention.max_alibi_bias")?,
            Alibi::OfLayers(n, max) => (n == params.n_layer).then_some(max),
        };
        let max_bias = max_bias.filter(|max| *max > 0.0);
        let scale = match spec.score_scale_of_embedding {
            Some(n) if n == params.n_layer => 1.0 / ((n_embd / n_head) as f32).sqrt(),
            _ => 1.0 / (key_width as f32).sqrt(),
        };
        let mask = match (keys.flag("attention.causal", true)?, window) {
            (true, None) => Mask::Causal,
            (true, Some(n)) if spec.sliding.is_some_and(|sliding| sliding.chunked) => Mask::Chunk(n),
            (true, Some(n)) => Mask::SlidingWindow(n),
            (false, None) => Mask::All,
            // An encoder's window counts both directions.
            (false, Some(n)) => Mask::SymmetricWindow(n / 2),
        };
        // As in the reference, 0 means the default.
        let stated = keys.float("attention.scale")?.filter(|scale| *scale != 0.0);
        // Whether the layer rotates decides what follows: Llama 4 normalizes after the rotation, and scales by temperature where
        // there is none.
        let rope = Ropes::open(params, keys, weights, i, key_width, window)?;
        Ok(Attention {
            projections,
            qkv_by_head: spec.qkv_by_head && n_head == n_head_kv,
            is_gated,
            value_scale: keys.float("attention.value_scale")?,
            clamp: keys.float("attention.clamp_kqv")?.filter(|clamp| *clamp > 0.0),
            query_norm,
            key_norm,
            norm_widths,
            norms_after_rope: spec.qk_norm_after_rope,
            output: Linear::need(weights, &blk("attn_output"), n_head * value_width, n_embd)?,
            post_rope_norm: match spec.post_rope_norm {
                Some(norm)
                    if rope.is_some() && keys.count("expert_count")? != Some(norm.not_with_experts) =>
                {
                    Some(Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight: None, bias: None })
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

    /// The norms of queries and keys, where there are any.
    fn normalize(&self, query: &mut Rows, key: &mut Rows) {
        if let Some(norm) = &self.query_norm {
            norm.apply_groups(query, self.norm_widths.0);
        }
        if let Some(norm) = &self.key_norm {
            norm.apply_groups(key, self.norm_widths.1);
        }
    }

    /// Queries, keys and values: (n, n_head * key_width), (n, n_head_kv * key_width), (n, n_head_kv * value_width).
    fn project(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> [Rows; 3] {
        match &self.projections {
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
        }
    }
}

impl Mixer for Attention {
    fn row_floats(&self) -> usize {
        2 * self.n_head * self.key_width + self.n_head_kv * (self.key_width + self.value_width)
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let [mut query, mut key, mut value] = self.project(h, pass);
        let gate = self.is_gated.then(|| self.take_gate(&mut query, pass));
        // Clamp (DBRX, OLMo), normalize, rotate, normalize behind it (Hunyuan) or again (Llama 4), scale by position: each
        // where there is such a step, in this order.
        if let Some(clamp) = self.clamp {
            for rows in [&mut query, &mut key, &mut value] {
                rows.mapv_inplace(|x| x.clamp(-clamp, clamp));
            }
        }
        if !self.norms_after_rope {
            self.normalize(&mut query, &mut key);
        }
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(pass.end());
            rope.apply(&mut [&mut query, &mut key], self.key_width, 0, &pass.rope_cache(rope));
        }
        if self.norms_after_rope {
            self.normalize(&mut query, &mut key);
        }
        if let Some(norm) = &self.post_rope_norm {
            norm.apply_groups(&mut query, self.key_width);
            norm.apply_groups(&mut key, self.key_width);
        }
        if let Some(temperature) = self.temperature {
            temperature.apply(&mut query, pass.positions());
        }
        // Scores, softmax and values of every head, as `ops::Attention` states them.
        let attention = ops::Attention {
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
        };
        let mut attended = pass.attend(index, &attention, &query, key, value);
        if let Some(gate) = gate {
            ndarray::Zip::from(&mut *attended).and(&*gate).par_for_each(|x, gate| *x *= sigmoid(*gate));
        }
        if let Some(scale) = self.value_scale {
            *attended *= scale;
        }
        self.output.run(&attended, pass)
    }
}

/// The sliding window of a layer, if it has one.
fn sliding_window(params: &DecoderParams, keys: &Keys<'_>, i: usize) -> Result<Option<usize>, Error> {
    let Some(sliding) = params.spec.sliding else { return Ok(None) };
    let key = "attention.sliding_window_pattern";
    let flags = keys.flags(key, params.n_layer)?;
    // The reference asks for the number of layers even where the file states a pattern.
    if flags.is_none() && sliding.only_with_layers.is_some_and(|n| n != params.n_layer) {
        return Ok(None);
    }
    let window = keys.count("attention.sliding_window")?.or(sliding.window).filter(|window| *window > 0);
    let slides = match flags {
        Some(flags) => flags[i],
        None => {
            let period = keys.count(key)?.unwrap_or(sliding.period);
            period == 0
                || if sliding.full_first { !i.is_multiple_of(period) } else { i % period < period - 1 }
        }
    };
    Ok(window.filter(|_| slides))
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
        let n_rot = keys.count("rope.dimension_count")?.unwrap_or(key_width);
        if n_rot > key_width || n_rot % 2 != 0 {
            return Err(keys.wrong("rope.dimension_count", "an even part of a head"));
        }
        // Divisors of the frequencies: Llama 3's, for any length, or LongRoPE's two sets.
        let mut divisors = |name: &str| weights.vector(name, n_rot / 2);
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
            RopeLayers::AllButEveryNth(n) => !(i + 1).is_multiple_of(n),
        };
        let Some(kind) = spec.rope.filter(|_| rotates) else { return Ok(None) };
        // M-RoPE gives each section of pairs a position of its own (time, height, width). In text all three are the same,
        // and what is left is RoPE on halves.
        let (kind, axes) = match keys.counts("rope.dimension_sections", 4) {
            Ok(Some(sections)) if sections.iter().any(|n| *n > 0) => {
                (RopeKind::Neox, axes(&sections, n_rot / 2, spec.interleaved_sections))
            }
            _ => (kind, Vec::new()),
        };
        let mut base = rope_scaling::base(keys, n_rot)?;
        let mut scaling = rope_scaling::read(spec, keys)?;
        if let (Some(_), Some(sliding)) = (window, spec.sliding) {
            let default = if sliding.same_base { base } else { 10000.0 };
            // Layers with a window see near tokens only: they may keep the base of the first training.
            base = keys.float("rope.freq_base_swa")?.unwrap_or(default);
            if !sliding.same_scaling {
                scaling = scaling.unscaled();
            }
        }
        let rope = |divisors: Option<&[f32]>| Rope {
            axes: axes.clone(),
            ..Rope::new(kind, n_rot, base, &scaling, divisors)
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

/// Which position turns each of `n` pairs: 0 for time, 1 for height, 2 for width. `sections` are numbers of pairs, one
/// stretch after the other; or every third pair from the second on turns by height and from the third on by width, as
/// long as their sections last.
///
/// Source: `ggml_mrope_cache_init` of ggml, llama.cpp of llama-cpp-python 0.3.36, and `recomposition_frequencies` in
/// `modeling_qwen3_vl.py` of transformers 5.23.
fn axes(sections: &[usize], n: usize, is_interleaved: bool) -> Vec<usize> {
    let total = sections.iter().fold(0usize, |sum, n| sum.saturating_add(*n)).max(1);
    let axis = |pair: usize| {
        if is_interleaved {
            let axis = pair % 3;
            return if pair < sections[axis].saturating_mul(3) { axis } else { 0 };
        }
        // More pairs than the sections have begin again.
        let at = pair % total;
        let height = sections[0];
        let width = height.saturating_add(sections[1]);
        match at {
            _ if at < height => 0,
            _ if at < width => 1,
            _ if at < width.saturating_add(sections[2]) => 2,
            _ => 0,
        }
    };
    (0..n).map(axis).collect()
}

impl Temperature {
    /// What keys say of all layers (Mistral 3).
    pub fn read(keys: &Keys<'_>) -> Result<Option<Temperature>, Error> {
        let Some(scale) = keys.float("attention.temperature_scale")?.filter(|scale| *scale != 0.0) else {
            return Ok(None);
        };
        // Without a length of its own it is the context of the first training.
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
            row *= 1.0 + self.scale * (1.0 + lengths).ln();
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
    let (m0, m1) = ((-max_bias / whole as f32).exp2(), (-max_bias / 2.0 / whole as f32).exp2());
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
    fn sections_are_stretches_or_take_turns() {
        assert_eq!(axes(&[2, 1, 1, 0], 4, false), [0, 0, 1, 2]);
        assert_eq!(axes(&[2, 1, 1, 0], 4, true), [0, 1, 2, 0]);
        // Qwen 3 VL: 24, 20 and 20 pairs, the last ones by time.
        let axes = axes(&[24, 20, 20, 0], 64, true);
        assert_eq!([0, 1, 2].map(|axis| axes.iter().filter(|it| **it == axis).count()), [24, 20, 20]);
        assert_eq!(axes[57..], [0, 1, 2, 0, 0, 0, 0]);
    }

    #[test]
    fn temperature_grows_with_whole_lengths() {
        let mut query = Rows::from_vec(4, 2, vec![1.0; 8]);
        let temperature = Temperature { scale: 0.1, length: 8.0, offset: 1.0 };
        temperature.apply(&mut query, &[0, 6, 7, 23]);
        // 1 + 0.1 ln 2, and 1 + 0.1 ln 4
        for (row, expected) in query.rows().into_iter().zip([1.0, 1.0, 1.069_314_7, 1.138_629_4]) {
            assert!(row.iter().all(|x| (x - expected).abs() < 1e-6), "{row} {expected}");
        }
    }
}
