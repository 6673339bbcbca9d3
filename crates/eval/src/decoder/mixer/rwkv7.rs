//! The time mix of RWKV 7 and of Qwen with it: a matrix for each head, of which every token removes what
//! stands under its key and writes anew, at a rate for each element.
//!
//! Source: `build_rwkv7_time_mix` in `src/models/rwkv7-base.cpp` and `ggml_compute_forward_rwkv_wkv7_f32` of
//! llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, SHIFTED, STATE, need_size, need_vector, rwkv6::head_norm, shift};
use crate::{
    Error,
    decoder::{Shape, linear::Linear},
    graph::Pass,
    keys::Keys,
    ops::{Norm, Rows, add_bias, dot, exp, recur, sigmoid},
    weights::Weights,
};

/// The logarithm of how little the state keeps at most: minus the exponential of minus a half.
const FASTEST: f32 = -0.606_531;

pub(super) struct TimeMix7 {
    /// (5 or 6, n_embd): how much of the token before goes into receptance, decay, keys, values,
    /// rates and, where there are any, gates.
    shares: Vec<f32>,
    receptance: Linear,
    key: Linear,
    value: Linear,
    decay: Narrow,
    rate: Narrow,
    /// How much of the first layer's values goes into those of this one.
    first_share: Option<Narrow>,
    gate: Option<Narrow>,
    /// (n_embd) each: what makes of keys those that are removed, and how much rates weaken keys.
    removal: Vec<f32>,
    weakening: Vec<f32>,
    /// (n_embd): how much of the token's own value goes past the state.
    skip: Vec<f32>,
    /// Of the output of each head.
    norm: Option<Norm>,
    output: Linear,
    head_size: usize,
    n_embd: usize,
}

/// A product through a narrow middle, and what is added behind.
struct Narrow {
    down: Linear,
    up: Linear,
    bias: Option<Vec<f32>>,
}

impl Narrow {
    /// `NAME1.weight`, `NAME2.weight` and `NAME0.weight`, if the first is there.
    fn open(weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Option<Narrow>, Error> {
        let down = format!("{name}1");
        // The width is what the tensors say: the keys hold the family's usual one.
        let width = weights.shape(&format!("{down}.weight")).map(|shape| shape.dim(1) as usize);
        let Some(width) = width else { return Ok(None) };
        Ok(Some(Narrow {
            down: Linear::need(weights, &down, n, width)?,
            up: Linear::need(weights, &format!("{name}2"), width, n)?,
            bias: weights.vector(&format!("{name}0.weight"), n)?,
        }))
    }

    fn need(weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Narrow, Error> {
        Self::open(weights, name, n)?.ok_or_else(|| Error::MissingTensor { name: format!("{name}1.weight") })
    }

    fn run(&self, x: &Rows, middle: fn(f32) -> f32, pass: &mut Pass<'_, '_>) -> Rows {
        let mut narrow = self.down.run(x, pass);
        shift::map(&mut narrow, middle);
        let mut out = self.up.run(&narrow, pass);
        pass.give(narrow);
        if let Some(bias) = &self.bias {
            add_bias(&mut out, bias);
        }
        out
    }
}

impl TimeMix7 {
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<TimeMix7, Error> {
        let blk = |name: &str| format!("blk.{i}.time_mix_{name}");
        let n = shape.n_embd;
        let head_size = need_size(keys, "wkv.head_size")?;
        if !n.is_multiple_of(head_size) {
            return Err(keys.wrong("wkv.head_size", "a divisor of the embedding's width"));
        }
        // What the first layer states of this has no use: the values are its own.
        let first_share = match i {
            0 => Narrow::open(weights, &blk("v"), n)?.filter(|_| false),
            _ => Some(Narrow::need(weights, &blk("v"), n)?),
        };
        let gate = Narrow::open(weights, &blk("g"), n)?;
        let n_shares = if gate.is_some() { 6 } else { 5 };
        Ok(TimeMix7 {
            shares: need_vector(weights, blk("lerp_fused.weight"), n_shares * n)?,
            receptance: Linear::need(weights, &blk("receptance"), n, n)?,
            key: Linear::need(weights, &blk("key"), n, n)?,
            value: Linear::need(weights, &blk("value"), n, n)?,
            decay: Narrow::need(weights, &blk("w"), n)?,
            rate: Narrow::need(weights, &blk("a"), n)?,
            first_share,
            gate,
            removal: need_vector(weights, blk("k_k.weight"), n)?,
            weakening: need_vector(weights, blk("k_a.weight"), n)?,
            skip: need_vector(weights, blk("r_k.weight"), n)?,
            norm: head_norm(weights, &blk("ln"), n)?,
            output: Linear::need(weights, &blk("output"), n, n)?,
            head_size,
            n_embd: n,
        })
    }
}

impl Mixer for TimeMix7 {
    fn row_floats(&self) -> usize {
        10 * self.n_embd
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = self.n_embd;
        let distance = shift::before(index, SHIFTED, h, pass);
        let mut for_part = |part: usize, run: &dyn Fn(&Rows, &mut Pass<'_, '_>) -> Rows| {
            let x = shift::mixed(h, &distance, &self.shares[part * n..(part + 1) * n], pass);
            let out = run(&x, pass);
            pass.give(x);
            out
        };
        let receptance = for_part(0, &|x, pass| self.receptance.run(x, pass));
        let mut kept = for_part(1, &|x, pass| self.decay.run(x, f32::tanh, pass));
        shift::map(&mut kept, |x| exp(FASTEST * sigmoid(x)));
        let key = for_part(2, &|x, pass| self.key.run(x, pass));
        let value = for_part(3, &|x, pass| self.values(x, pass));
        let mut rate = for_part(4, &|x, pass| self.rate.run(x, |x| x, pass));
        shift::map(&mut rate, sigmoid);
        let gate = self.gate.as_ref().map(|gate| for_part(5, &|x, pass| gate.run(x, sigmoid, pass)));
        pass.give(distance);

        let mut y = self.recur(index, [&receptance, &kept, &key, &value, &rate], pass);
        for rows in [receptance, kept, key, value, rate] {
            pass.give(rows);
        }
        if let Some(gate) = gate {
            y *= &gate;
            pass.give(gate);
        }
        let out = self.output.run(&y, pass);
        pass.give(y);
        out
    }
}

impl TimeMix7 {
    /// Values of this layer, and of the first as many as the token wants.
    fn values(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut value = self.value.run(x, pass);
        let Some(first) = pass.first_values.take() else {
            pass.first_values = Some(value.clone());
            return value;
        };
        if let Some(first_share) = &self.first_share {
            let share = first_share.run(x, |x| x, pass);
            ndarray::Zip::from(&mut value).and(&first).and(&share).for_each(|value, first, share| {
                *value += (first - *value) * sigmoid(*share);
            });
            pass.give(share);
        }
        pass.first_values = Some(first);
        value
    }

    /// `state[i, j]` (value, key) of each head: what fades, what is removed, what is written; with the
    /// norm of what is read, and the token's own value.
    fn recur(
        &self,
        index: usize,
        [receptance, kept, key, value, rate]: [&Rows; 5],
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let size = self.head_size;
        let n_head = self.n_embd / size;
        let mut y = pass.take(key.nrows(), self.n_embd);
        let mut states = pass.recall(index, STATE, self.n_embd * size);
        let all = [receptance, kept, key, value, rate];
        let all = all.map(|rows| rows.as_slice().expect("activations are contiguous"));
        recur(&pass.windows(), &mut states, n_head, &mut y, |head, rows, state, mut y| {
            let own = head * size..(head + 1) * size;
            let mut removed = vec![0.0; size];
            let mut written = vec![0.0; size];
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let [receptance, kept, key, value, rate] =
                    all.map(|rows| &rows[t * self.n_embd + own.start..][..size]);
                for j in 0..size {
                    removed[j] = key[j] * self.removal[own.start + j];
                    written[j] = key[j] * (1.0 + (rate[j] - 1.0) * self.weakening[own.start + j]);
                }
                let length = removed.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
                removed.iter_mut().for_each(|x| *x /= length);
                for (i, state) in state.chunks_exact_mut(size).enumerate() {
                    let (told, value) = (dot(state, &removed), value[i]);
                    for ((((state, kept), removed), rate), written) in
                        state.iter_mut().zip(kept).zip(&removed).zip(rate).zip(&written)
                    {
                        *state = *state * kept - told * removed * rate + value * written;
                    }
                    y[i] = dot(state, receptance);
                }
            }
        });
        pass.remember(index, STATE, states);
        if let Some(norm) = &self.norm {
            norm.apply_groups(&mut y, size);
        }
        // The token's own value, as much as its key meets its receptance.
        for (t, mut y) in y.rows_mut().into_iter().enumerate() {
            for head in 0..n_head {
                let own = head * size..(head + 1) * size;
                let meets: f32 = own
                    .clone()
                    .map(|j| {
                        let weakened = 1.0 + (rate[[t, j]] - 1.0) * self.weakening[j];
                        key[[t, j]] * weakened * receptance[[t, j]] * self.skip[j]
                    })
                    .sum();
                own.for_each(|j| y[j] += meets * value[[t, j]]);
            }
        }
        y
    }
}
