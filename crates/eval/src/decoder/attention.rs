//! The attention part of a layer.

use ndarray::{Axis, s};

use super::{Alibi, RopeLayers, Shape, Temperature, cap, linear::Linear};
use crate::{
    Error,
    graph::Pass,
    keys::Keys,
    ops::{self, Mask, Norm, NormKind, Rope, RopeKind, Rows, Scaling, sigmoid},
    weights::Weights,
};

/// Queries, keys and values, boxed because a layer holds one or three.
enum Projections {
    Apart(Box<[Linear; 3]>),
    Fused(Box<Linear>),
}

pub(super) struct Attention {
    projections: Projections,
    fused_by_head: bool,
    /// Whether each head's query comes with a gate for what the head sees.
    is_gated: bool,
    /// Bounds of queries, keys and values.
    clamp: Option<f32>,
    query_norm: Option<Norm>,
    key_norm: Option<Norm>,
    /// The elements that are normalized together.
    norm_widths: (usize, usize),
    output: Linear,
    rope: Option<Ropes>,
    /// Of queries and keys, after they were turned.
    turned_norm: Option<Norm>,
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

/// Rotary positions; with another choice of factors for texts beyond the length that a model was
/// first trained with.
struct Ropes {
    short: Rope,
    long: Option<(usize, Rope)>,
}

impl Attention {
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Attention, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let (spec, n_embd) = (&shape.spec, shape.n_embd);
        let per_layer = |key: &str| keys.counts(key, shape.n_layer).map(|counts| counts.map(|c| c[i]));
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
            shape.norm_if_there(weights, &blk(name), n)
        };
        let (query_norm, key_norm) = (head_norm("attn_q_norm", n_query)?, head_norm("attn_k_norm", n_key)?);
        let norm_widths = if spec.wide_head_norms { (n_query, n_key) } else { (key_width, key_width) };
        let window = window(shape, keys, i)?;
        let max_bias = match spec.alibi {
            Alibi::None => None,
            Alibi::Always(max) => Some(max),
            Alibi::Key => keys.float("attention.max_alibi_bias")?,
            Alibi::OfLayers(n, max) => (n == shape.n_layer).then_some(max),
        };
        let max_bias = max_bias.filter(|max| *max > 0.0);
        let scale = match spec.scale_by_embedding {
            Some(n) if n == shape.n_layer => 1.0 / ((n_embd / n_head) as f32).sqrt(),
            _ => 1.0 / (key_width as f32).sqrt(),
        };
        let mask = match (keys.flag("attention.causal", true)?, window) {
            (true, None) => Mask::Causal,
            (true, Some(n)) if spec.sliding.is_some_and(|sliding| sliding.chunked) => Mask::Chunk(n),
            (true, Some(n)) => Mask::Window(n),
            (false, None) => Mask::All,
            (false, Some(n)) => Mask::Around(n / 2),
        };
        let stated = keys.float("attention.scale")?.filter(|scale| *scale != 0.0);
        let rope = Ropes::open(shape, keys, weights, i, key_width, window)?;
        Ok(Attention {
            projections,
            fused_by_head: spec.fused_by_head && n_head == n_head_kv,
            is_gated,
            clamp: keys.float("attention.clamp_kqv")?.filter(|clamp| *clamp > 0.0),
            query_norm,
            key_norm,
            norm_widths,
            output: Linear::need(weights, &blk("attn_output"), n_head * value_width, n_embd)?,
            turned_norm: (spec.turned_norms && rope.is_some() && keys.count("expert_count")? != Some(128))
                .then_some(Norm { kind: NormKind::Rms, epsilon: shape.epsilon, weight: None, bias: None }),
            temperature: spec.temperature.filter(|_| rope.is_none()),
            rope,
            n_head,
            n_head_kv,
            key_width,
            value_width,
            scale: stated.unwrap_or(scale),
            soft_cap: cap(keys.float("attn_logit_softcapping")?, spec.soft_caps.0),
            mask,
            slopes: max_bias.map(|max| slopes(n_head, max)),
            sinks: weights.vector(&blk("attn_sinks.weight"), n_head)?,
        })
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        2 * self.n_head * self.key_width + self.n_head_kv * (self.key_width + self.value_width)
    }

    /// `h (n, n_embd) -> (n, n_embd)`.
    pub fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let [mut query, mut key, mut value] = self.project(h, pass);
        let gate = self.is_gated.then(|| self.take_gate(&mut query, pass));
        if let Some(clamp) = self.clamp {
            for rows in [&mut query, &mut key, &mut value] {
                rows.mapv_inplace(|x| x.clamp(-clamp, clamp));
            }
        }
        if let Some(norm) = &self.query_norm {
            norm.apply_groups(&mut query, self.norm_widths.0);
        }
        if let Some(norm) = &self.key_norm {
            norm.apply_groups(&mut key, self.norm_widths.1);
        }
        if let Some(ropes) = &self.rope {
            let rope = ropes.choose(pass.end());
            rope.apply(&mut [&mut query, &mut key], self.key_width, 0, &pass.turns(rope));
        }
        if let Some(norm) = &self.turned_norm {
            norm.apply_groups(&mut query, self.key_width);
            norm.apply_groups(&mut key, self.key_width);
        }
        if let Some(temperature) = self.temperature {
            temperature.apply(&mut query, pass.positions());
        }
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
        let mut seen = pass.attend(index, &attention, &query, key, value);
        pass.give(query);
        if let Some(gate) = gate {
            ndarray::Zip::from(&mut seen).and(&gate).par_for_each(|seen, gate| *seen *= sigmoid(*gate));
            pass.give(gate);
        }
        let out = self.output.run(&seen, pass);
        pass.give(seen);
        out
    }

    /// Takes the gate out that follows the query of each head.
    fn take_gate(&self, query: &mut Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let width = self.n_head * self.key_width;
        let mut parts = [0, self.key_width].map(|at| {
            let mut part = pass.take(query.nrows(), width);
            for (i, mut to) in part.axis_chunks_iter_mut(Axis(1), self.key_width).enumerate() {
                let from = i * 2 * self.key_width + at;
                to.assign(&query.slice(s![.., from..from + self.key_width]));
            }
            part
        });
        std::mem::swap(query, &mut parts[0]);
        let [both, gate] = parts;
        pass.give(both);
        gate
    }

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
                // Heads that are taken together, and how far it is to those of the next part.
                let n_blocks = if self.fused_by_head { self.n_head } else { 1 };
                let stride = all.ncols() / n_blocks;
                let parts = widths.map(|width| {
                    let mut part = pass.take(all.nrows(), width);
                    let block = width / n_blocks;
                    for (i, mut to) in part.axis_chunks_iter_mut(Axis(1), block).enumerate() {
                        let from = i * stride + at;
                        to.assign(&all.slice(s![.., from..from + block]));
                    }
                    at += block;
                    part
                });
                pass.give(all);
                parts
            }
        }
    }
}

/// The window of a layer, if it has one.
fn window(shape: &Shape, keys: &Keys<'_>, i: usize) -> Result<Option<usize>, Error> {
    let Some(sliding) = shape.spec.sliding else { return Ok(None) };
    let key = "attention.sliding_window_pattern";
    let flags = keys.flags(key, shape.n_layer)?;
    // The reference asks for the number of layers even where the file states a pattern.
    if flags.is_none() && sliding.only_of_layers.is_some_and(|n| n != shape.n_layer) {
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
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        key_width: usize,
        window: Option<usize>,
    ) -> Result<Option<Ropes>, Error> {
        let spec = &shape.spec;
        let n_rot = keys.count("rope.dimension_count")?.unwrap_or(key_width);
        if n_rot > key_width || n_rot % 2 != 0 {
            return Err(keys.wrong("rope.dimension_count", "an even part of a head"));
        }
        let mut factors = |name: &str| weights.vector(name, n_rot / 2);
        let all = factors("rope_freqs.weight")?;
        let (long, short) = (factors("rope_factors_long.weight")?, factors("rope_factors_short.weight")?);
        let turns = match spec.rope_layers {
            RopeLayers::All => !matches!(spec.alibi, Alibi::OfLayers(n, _) if n == shape.n_layer),
            RopeLayers::Sliding => {
                // The last layer of a period sees everything; without windows all layers turn.
                let slides = (0..shape.n_layer).map(|i| super::attention::window(shape, keys, i));
                let slides = slides.collect::<Result<Vec<_>, _>>()?;
                slides.iter().all(Option::is_none) || slides[i].is_some()
            }
            RopeLayers::AllBut(n) => !(i + 1).is_multiple_of(n),
        };
        let Some(kind) = spec.rope.filter(|_| turns) else { return Ok(None) };
        // Positions in sections turn as others do where every section has the same position.
        let kind = match keys.counts("rope.dimension_sections", 4) {
            Ok(Some(sections)) if sections.iter().any(|n| *n > 0) => RopeKind::Neox,
            _ => kind,
        };
        let mut base = keys.float("rope.freq_base")?.unwrap_or(10000.0);
        let mut scaling = Scaling::new(keys)?;
        scaling.whole_ramp = spec.whole_ramp;
        if let (Some(_), Some(sliding)) = (window, spec.sliding) {
            let default = if sliding.same_base { base } else { 10000.0 };
            base = keys.float("rope.freq_base_swa")?.unwrap_or(default);
            if !sliding.same_scaling {
                scaling = scaling.unscaled();
            }
        }
        let rope = |factors: Option<&[f32]>| Rope::new(kind, n_rot, base, &scaling, factors);
        let first = all.as_deref().or(short.as_deref());
        Ok(Some(Ropes {
            short: rope(first),
            long: long.filter(|_| all.is_none()).map(|long| (scaling.context(), rope(Some(&long)))),
        }))
    }

    /// The turning for texts of `end` positions.
    fn choose(&self, end: usize) -> &Rope {
        match &self.long {
            Some((context, long)) if end > *context => long,
            _ => &self.short,
        }
    }
}

impl Temperature {
    /// Multiplies every row of queries with what belongs to its position.
    pub fn apply(&self, query: &mut Rows, positions: &[u32]) {
        for (mut row, position) in query.rows_mut().into_iter().zip(positions) {
            let lengths = ((*position as f32 + self.offset) / self.length).floor();
            row *= 1.0 + self.scale * (1.0 + lengths).ln();
        }
    }
}

/// Slopes of heads: powers of two ratios, for the heads below a power of two and for those above.
///
/// Source: `ggml_compute_forward_soft_max_f32` of ggml, llama.cpp of llama-cpp-python 0.3.36.
fn slopes(n_head: usize, max_bias: f32) -> Vec<f32> {
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
    fn queries_grow_by_the_lengths_behind_them() {
        let mut query = Rows::ones((4, 2));
        let temperature = Temperature { scale: 0.1, length: 8.0, offset: 1.0 };
        temperature.apply(&mut query, &[0, 6, 7, 23]);
        // 1 + 0.1 ln 2, and 1 + 0.1 ln 4
        for (row, expected) in query.rows().into_iter().zip([1.0, 1.0, 1.069_314_7, 1.138_629_4]) {
            assert!(row.iter().all(|x| (x - expected).abs() < 1e-6), "{row} {expected}");
        }
    }
}
