//! Attention to latent rows, from which keys and values of all heads are made.
//!
//! Keys and values are never made: a query goes the keys' way backwards into latent space, is compared with
//! the latent rows there, and what is seen is turned into values once for each head. What a position
//! leaves behind is one latent row and one turned part that all heads share.
//!
//! Source: `llama_model_deepseek2::graph` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::s;

use super::{Shape, Temperature, linear::Linear};
use crate::{
    Error,
    graph::Pass,
    keys::Keys,
    ops::{Attention, Mask, Norm, Product, Rope, Rows, Scaling},
    weights::{Weight, Weights},
};

pub(super) struct Latent {
    query: Query,
    /// To a latent row and the turned part of the key: (n_embd) -> (rank + n_rot).
    key_value: Linear,
    /// Of latent rows.
    norm: Option<Norm>,
    /// For each head, from a query to latent space: (n_plain) -> (rank).
    key: Weight,
    /// For each head, from latent space to a value: (rank) -> (value_width).
    value: Weight,
    output: Linear,
    rope: Rope,
    temperature: Option<Temperature>,
    n_head: usize,
    /// Elements of a latent row.
    rank: usize,
    /// Elements of a query, and of its part that does not turn.
    key_width: usize,
    n_plain: usize,
    value_width: usize,
    scale: f32,
}

/// Queries at once, or by way of a narrow row; boxed because they are large.
enum Query {
    Direct(Box<Linear>),
    Narrow(Box<(Linear, Option<Norm>, Linear)>),
}

impl Latent {
    /// The attention of a layer, if it is of this kind.
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<Latent>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        if weights.shape(&blk("attn_kv_a_mqa.weight")).is_none() {
            return Ok(None);
        }
        let n_embd = shape.n_embd;
        let heads = "attention.head_count";
        let n_head = keys.counts(heads, shape.n_layer)?.ok_or_else(|| keys.missing(heads))?[i];
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
        let n_plain = key_width - n_rot;
        let n_query = n_head * key_width;
        let query = match weights.shape(&blk("attn_q_a.weight")) {
            None => Query::Direct(Box::new(Linear::need(weights, &blk("attn_q"), n_embd, n_query)?)),
            Some(narrow) => {
                let n_narrow = narrow.dim(1) as usize;
                let to = Linear::need(weights, &blk("attn_q_a"), n_embd, n_narrow)?;
                let norm = shape.norm_if_there(weights, &blk("attn_q_a_norm"), n_narrow)?;
                let from = Linear::need(weights, &blk("attn_q_b"), n_narrow, n_query)?;
                Query::Narrow(Box::new((to, norm, from)))
            }
        };
        let mut stack = |name: &str, n_in: usize, n_out: usize| {
            let name = blk(&format!("{name}.weight"));
            let mut weight =
                weights.stack(&name, n_in, n_out, n_head)?.ok_or(Error::MissingTensor { name })?;
            weight.is_by_head = true;
            Ok::<_, Error>(weight)
        };
        let (key, value) = (stack("attn_k_b", n_plain, rank)?, stack("attn_v_b", rank, value_width)?);
        let scaling = Scaling::new(keys)?;
        let base = keys.float("rope.freq_base")?.unwrap_or(10000.0);
        let kind = shape.spec.rope.ok_or_else(|| keys.wrong("rope.dimension_count", "0"))?;
        let factors = weights.vector("rope_freqs.weight", n_rot / 2)?;
        let length = keys.float("attention.temperature_length")?.filter(|length| *length > 0.0);
        let temperature = keys.float("attention.temperature_scale")?.filter(|scale| *scale != 0.0);
        let temperature = match (temperature, length) {
            (None, _) => None,
            (Some(scale), Some(length)) => Some(Temperature { scale, length, offset: 0.0 }),
            (Some(_), None) => return Err(keys.wrong("attention.temperature_length", "a length")),
        };
        Ok(Some(Latent {
            query,
            key_value: Linear::need(weights, &blk("attn_kv_a_mqa"), n_embd, rank + n_rot)?,
            norm: shape.norm_if_there(weights, &blk("attn_kv_a_norm"), rank)?,
            key,
            value,
            output: Linear::need(weights, &blk("attn_output"), n_head * value_width, n_embd)?,
            rope: Rope::new(kind, n_rot, base, &scaling, factors.as_deref()),
            temperature,
            n_head,
            rank,
            key_width,
            n_plain,
            value_width,
            scale: scaling.sharpness / (key_width as f32).sqrt(),
        }))
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        self.n_head * (2 * self.key_width + 2 * self.rank) + 2 * self.rank
    }

    /// `h (n, n_embd) -> (n, n_embd)`.
    pub fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = h.nrows();
        let mut query = self.query.run(h, pass);
        let mut key = self.key_value.run(h, pass);
        let turns = pass.turns(&self.rope);
        self.rope.apply(&mut [&mut query], self.key_width, self.n_plain, &turns);
        self.rope.apply(&mut [&mut key], self.rank + self.key_width - self.n_plain, self.rank, &turns);
        let mut value = pass.take(n, self.rank);
        value.assign(&key.slice(s![.., ..self.rank]));
        if let Some(norm) = &self.norm {
            norm.apply(&mut value);
        }
        key.slice_mut(s![.., ..self.rank]).assign(&value);

        // Each head's query: its way into latent space, then the part that turns.
        let width = key.ncols();
        let mut asking = pass.take(n, self.n_head * width);
        let mut plain = pass.take(n, self.n_plain);
        for head in 0..self.n_head {
            let (from, to) = (head * self.key_width, head * width);
            plain.assign(&query.slice(s![.., from..from + self.n_plain]));
            let out = asking.slice_mut(s![.., to..to + self.rank]);
            pass.mul_mat(plain.view(), vec![Product { weight: &self.key, index: head, out }]);
            let turned = query.slice(s![.., from + self.n_plain..from + self.key_width]);
            asking.slice_mut(s![.., to + self.rank..to + width]).assign(&turned);
        }
        pass.give(plain);
        pass.give(query);
        if let Some(temperature) = self.temperature {
            temperature.apply(&mut asking, pass.positions());
        }
        let attention = Attention {
            n_head: self.n_head,
            n_head_kv: 1,
            key_width: width,
            value_width: self.rank,
            scale: self.scale,
            soft_cap: None,
            mask: Mask::Causal,
            slopes: None,
            sinks: None,
            bias: None,
        };
        let latent = pass.attend(index, &attention, &asking, key, value);
        pass.give(asking);

        let mut seen = pass.take(n, self.n_head * self.value_width);
        let mut one = pass.take(n, self.rank);
        for head in 0..self.n_head {
            one.assign(&latent.slice(s![.., head * self.rank..(head + 1) * self.rank]));
            let out = seen.slice_mut(s![.., head * self.value_width..(head + 1) * self.value_width]);
            pass.mul_mat(one.view(), vec![Product { weight: &self.value, index: head, out }]);
        }
        pass.give(one);
        pass.give(latent);
        let out = self.output.run(&seen, pass);
        pass.give(seen);
        out
    }
}

impl Query {
    /// `h (n, n_embd) -> (n, n_head * key_width)`.
    fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        match self {
            Query::Direct(direct) => direct.run(h, pass),
            Query::Narrow(narrow) => {
                let (to, norm, from) = narrow.as_ref();
                let mut inner = to.run(h, pass);
                if let Some(norm) = norm {
                    norm.apply(&mut inner);
                }
                let query = from.run(&inner, pass);
                pass.give(inner);
                query
            }
        }
    }
}
