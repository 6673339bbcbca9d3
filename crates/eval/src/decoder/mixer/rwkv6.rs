//! The time mix of RWKV 6 and of Qwen with it: a matrix for each head, that fades by the token.
//!
//! Source: `build_rwkv6_time_mix` in `src/models/rwkv6-base.cpp`, `ggml_compute_forward_rwkv_wkv6_f32` and
//! `ggml_compute_forward_gla_f32` of llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, SHIFTED, STATE, need_size, need_vector, shift};
use crate::{
    Error,
    decoder::{Shape, linear::Linear},
    graph::Pass,
    keys::Keys,
    ops::{Activation, Norm, NormKind, Product, Rows, exp, recur, sigmoid},
    weights::{Weight, Weights},
};

/// What each token is mixed for: decay, keys, values, receptance, gates.
const PARTS: usize = 5;

pub(super) struct TimeMix6 {
    /// (n_embd): how much of the token before goes into what says how much of it goes where.
    share: Vec<f32>,
    /// To the parts, narrow.
    narrow: Linear,
    /// A matrix for each part, wide again.
    wide: Weight,
    /// (PARTS, n_embd): what is added to the shares.
    shares: Vec<f32>,
    decay_narrow: Linear,
    decay_wide: Linear,
    /// (n_embd): what is added to the decay.
    decay: Vec<f32>,
    key: Linear,
    value: Linear,
    receptance: Linear,
    gate: Linear,
    /// (n_embd): what the token's own value is multiplied with. The kind that has none writes
    /// before it reads, and takes of each key what fades.
    first: Option<Vec<f32>>,
    /// Of the output of each head.
    norm: Option<Norm>,
    output: Linear,
    head_size: usize,
    n_embd: usize,
    /// Heads that have the same keys and values.
    share_heads: usize,
}

impl TimeMix6 {
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<TimeMix6, Error> {
        let blk = |name: &str| format!("blk.{i}.time_mix_{name}");
        let n = shape.n_embd;
        let head_size = need_size(keys, "wkv.head_size")?;
        if !n.is_multiple_of(head_size) {
            return Err(keys.wrong("wkv.head_size", "a divisor of the embedding's width"));
        }
        let n_head = n / head_size;
        let n_head_kv = match keys.counts("attention.head_count_kv", shape.n_layer)? {
            Some(counts) if counts[i] != 0 => counts[i],
            _ => n_head,
        };
        if !n_head.is_multiple_of(n_head_kv) {
            return Err(keys.wrong("attention.head_count_kv", "a divisor of the number of heads"));
        }
        let n_kv = n_head_kv * head_size;
        // The narrow widths are what the tensors say: the keys hold the family's usual ones.
        let width = |weights: &Weights<'_>, name: &str| {
            weights.shape(&blk(&format!("{name}.weight"))).map_or(0, |shape| shape.dim(1) as usize)
        };
        let (n_narrow, n_decay) = (width(weights, "w1") / PARTS, width(weights, "decay_w1"));
        let wide = blk("w2.weight");
        let wide = weights.stack(&wide, n_narrow, n, PARTS)?.ok_or(Error::MissingTensor { name: wide })?;
        let shares = match weights.vector(&blk("lerp_fused.weight"), PARTS * n)? {
            Some(shares) => shares,
            // As older files have them.
            None => {
                let mut shares = Vec::new();
                for part in ["w", "k", "v", "r", "g"] {
                    shares.extend(need_vector(weights, blk(&format!("lerp_{part}.weight")), n)?);
                }
                shares
            }
        };
        Ok(TimeMix6 {
            share: need_vector(weights, blk("lerp_x.weight"), n)?,
            narrow: Linear::need(weights, &blk("w1"), n, PARTS * n_narrow)?,
            wide,
            shares,
            decay_narrow: Linear::need(weights, &blk("decay_w1"), n, n_decay)?,
            decay_wide: Linear::need(weights, &blk("decay_w2"), n_decay, n)?,
            decay: need_vector(weights, blk("decay.weight"), n)?,
            key: Linear::need(weights, &blk("key"), n, n_kv)?,
            value: Linear::need(weights, &blk("value"), n, n_kv)?,
            receptance: Linear::need(weights, &blk("receptance"), n, n)?,
            gate: Linear::need(weights, &blk("gate"), n, n)?,
            first: weights.vector(&blk("first.weight"), n)?,
            norm: head_norm(weights, &blk("ln"), n)?,
            output: Linear::need(weights, &blk("output"), n, n)?,
            head_size,
            n_embd: n,
            share_heads: n_head / n_head_kv,
        })
    }
}

impl Mixer for TimeMix6 {
    fn row_floats(&self) -> usize {
        11 * self.n_embd
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let distance = shift::before(index, SHIFTED, h, pass);
        let x = shift::mixed(h, &distance, &self.share, pass);
        let mut narrow = self.narrow.run(&x, pass);
        pass.give(x);
        shift::map(&mut narrow, f32::tanh);
        let mut parts = Vec::with_capacity(PARTS);
        for part in 0..PARTS {
            parts.push(self.mix(part, h, &distance, &narrow, pass));
        }
        let [for_decay, for_key, for_value, for_receptance, for_gate] = &parts[..] else {
            unreachable!("there are as many parts as PARTS says")
        };
        pass.give(distance);
        pass.give(narrow);

        let key = self.key.run(for_key, pass);
        let value = self.value.run(for_value, pass);
        let receptance = self.receptance.run(for_receptance, pass);
        let mut gate = self.gate.run(for_gate, pass);
        let mut narrow = self.decay_narrow.run(for_decay, pass);
        shift::map(&mut narrow, f32::tanh);
        let mut kept = self.decay_wide.run(&narrow, pass);
        crate::ops::add_bias(&mut kept, &self.decay);
        shift::map(&mut kept, |x| exp(-exp(x)));
        pass.give(narrow);
        parts.into_iter().for_each(|rows| pass.give(rows));

        let mut y = self.recur(index, [&key, &value, &receptance, &kept], pass);
        for rows in [key, value, receptance, kept] {
            pass.give(rows);
        }
        if let Some(norm) = &self.norm {
            norm.apply_groups(&mut y, self.head_size);
        }
        if self.first.is_some() {
            Activation::Silu.apply(&mut gate);
        } else {
            shift::map(&mut gate, sigmoid);
        }
        y *= &gate;
        pass.give(gate);
        let out = self.output.run(&y, pass);
        pass.give(y);
        out
    }
}

impl TimeMix6 {
    /// Tokens mixed with the one before for one of the parts: (n, n_embd).
    fn mix(&self, part: usize, h: &Rows, distance: &Rows, narrow: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = self.n_embd;
        let columns = part * self.wide.n_in..(part + 1) * self.wide.n_in;
        let own = pass.take_columns(narrow, columns);
        let mut mixed = pass.take(h.nrows(), n);
        let product = Product { weight: &self.wide, index: part, out: mixed.view_mut() };
        pass.mul_mat(own.view(), vec![product]);
        pass.give(own);
        crate::ops::add_bias(&mut mixed, &self.shares[part * n..(part + 1) * n]);
        mixed *= distance;
        mixed += h;
        mixed
    }

    /// `state[i, j]` (key, value) of each head fades by `kept[i]` and takes `key[i] * value[j]`.
    fn recur(
        &self,
        index: usize,
        [key, value, receptance, kept]: [&Rows; 4],
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let size = self.head_size;
        let n_head = self.n_embd / size;
        let mut y = pass.take(key.nrows(), self.n_embd);
        let mut states = pass.recall(index, STATE, self.n_embd * size);
        let scale = 1.0 / (size as f32).sqrt();
        recur(&pass.windows(), &mut states, n_head, &mut y, |head, rows, state, mut y| {
            let kv = head / self.share_heads;
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let (key, value) = (of_head(key, t, kv, size), of_head(value, t, kv, size));
                let (receptance, kept) = (of_head(receptance, t, head, size), of_head(kept, t, head, size));
                let y = y.as_slice_mut().expect("columns of a row are contiguous");
                y.fill(0.0);
                for (i, state) in state.chunks_exact_mut(size).enumerate() {
                    let (read, kept, key) = (receptance[i], kept[i], key[i]);
                    match &self.first {
                        Some(first) => {
                            let first = first[head * size + i];
                            for ((state, value), y) in state.iter_mut().zip(value).zip(y.iter_mut()) {
                                let new = key * value;
                                *y += (first * new + *state) * read;
                                *state = *state * kept + new;
                            }
                        }
                        None => {
                            let key = key - key * kept;
                            for ((state, value), y) in state.iter_mut().zip(value).zip(y.iter_mut()) {
                                *state = *state * kept + key * value;
                                *y += *state * read * scale;
                            }
                        }
                    }
                }
            }
        });
        pass.remember(index, STATE, states);
        y
    }
}

/// The elements of a head in row `t`.
fn of_head(rows: &Rows, t: usize, head: usize, size: usize) -> &[f32] {
    let all = rows.as_slice().expect("activations are contiguous");
    &all[t * rows.ncols() + head * size..][..size]
}

/// The norm of each head's output, with weights for all heads, if it is there.
pub(super) fn head_norm(weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Option<Norm>, Error> {
    /// That of the layers times the square of eight: the family divides heads by that.
    const EPSILON: f32 = 64e-5;
    let Some(weight) = weights.vector(&format!("{name}.weight"), n)? else { return Ok(None) };
    let bias = weights.vector(&format!("{name}.bias"), n)?;
    Ok(Some(Norm { kind: NormKind::Layer, epsilon: EPSILON, weight: Some(weight), bias }))
}
