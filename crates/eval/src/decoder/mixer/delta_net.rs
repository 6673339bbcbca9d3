//! The gated delta net of Qwen 3 Next: a matrix for each head, that maps keys to values. It fades, and
//! of each value only what the matrix does not give for the key already is written.
//!
//! Source: `build_layer_attn_linear` in `src/models/qwen3next.cpp` and `build_delta_net_autoregressive`
//! in `src/models/delta-net-base.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use rayon::prelude::*;

use super::{Mixer, STATE, conv::CausalConv, need_size, need_state, need_vector};
use crate::{
    Error,
    decoder::{Shape, linear::Linear},
    graph::Pass,
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, exp, recur, sigmoid, softplus},
    weights::Weights,
};

pub(super) struct DeltaNet {
    /// To queries, keys and values.
    input: Linear,
    /// To gates of the output.
    gate: Linear,
    /// For each key head, how much its value heads write and how fast they fade.
    rates: Linear,
    conv: CausalConv,
    /// (n_value_head): what is added before fading.
    fade_bias: Vec<f32>,
    /// (n_value_head): how fast heads fade, below zero.
    decay: Vec<f32>,
    /// Of the output of each head.
    norm: Norm,
    output: Linear,
    key_width: usize,
    value_width: usize,
    n_key_head: usize,
    n_value_head: usize,
    /// Elements of all states.
    n_state: usize,
    epsilon: f32,
}

impl DeltaNet {
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<DeltaNet, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let d_inner = need_size(keys, "ssm.inner_size")?;
        let key_width = need_size(keys, "ssm.state_size")?;
        let n_key_head = need_size(keys, "ssm.group_count")?;
        let n_value_head = need_size(keys, "ssm.time_step_rank")?;
        if !d_inner.is_multiple_of(n_value_head) {
            return Err(keys.wrong("ssm.time_step_rank", "a divisor of the inner size"));
        }
        if !n_value_head.is_multiple_of(n_key_head) {
            return Err(keys.wrong("ssm.group_count", "a divisor of the number of value heads"));
        }
        let value_width = d_inner / n_value_head;
        let n_state = need_state(keys, "ssm.state_size", d_inner, key_width)?;
        let n_input = key_width.saturating_mul(2 * n_key_head).saturating_add(d_inner);
        let weight = Some(need_vector(weights, blk("ssm_norm.weight"), value_width)?);
        Ok(DeltaNet {
            input: Linear::need(weights, &blk("attn_qkv"), shape.n_embd, n_input)?,
            gate: Linear::need(weights, &blk("attn_gate"), shape.n_embd, d_inner)?,
            rates: Linear::need(weights, &blk("ssm_ba"), shape.n_embd, 2 * n_value_head)?,
            conv: CausalConv::open(keys, "ssm.conv_kernel", weights, &blk("ssm_conv1d"), n_input)?,
            fade_bias: need_vector(weights, blk("ssm_dt.bias"), n_value_head)?,
            decay: need_vector(weights, blk("ssm_a"), n_value_head)?,
            norm: Norm { kind: NormKind::Rms, epsilon: shape.epsilon, weight, bias: None },
            output: Linear::need(weights, &blk("ssm_out"), d_inner, shape.n_embd)?,
            key_width,
            value_width,
            n_key_head,
            n_value_head,
            n_state,
            epsilon: shape.epsilon,
        })
    }
}

impl Mixer for DeltaNet {
    fn row_floats(&self) -> usize {
        2 * self.input.weight.n_out + 2 * self.gate.weight.n_out
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (key_width, value_width) = (self.key_width, self.value_width);
        let share = self.n_value_head / self.n_key_head;
        let [input, mut gate, rates] = Linear::run_all([&self.input, &self.gate, &self.rates], h, pass);
        let mut convolved = self.conv.run(index, &input, pass);
        pass.give(input);
        Activation::Silu.apply(&mut convolved);
        let values_at = 2 * self.n_key_head * key_width;
        self.normalize(&mut convolved, values_at);

        let mut y = pass.take(h.nrows(), self.n_value_head * value_width);
        let mut states = pass.recall(index, STATE, self.n_state);
        let all = convolved.as_slice().expect("activations are contiguous");
        let width = convolved.ncols();
        let scale = 1.0 / (key_width as f32).sqrt();
        recur(&pass.windows(), &mut states, self.n_value_head, &mut y, |head, rows, state, mut y| {
            let key_head = head / share;
            // Rates lie by key head: what its value heads write, then how they fade.
            let write_at = key_head * 2 * share + head % share;
            let mut told = vec![0.0; value_width];
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let row = &all[t * width..(t + 1) * width];
                let query = &row[key_head * key_width..][..key_width];
                let key = &row[(self.n_key_head + key_head) * key_width..][..key_width];
                let value = &row[values_at + head * value_width..][..value_width];
                let write = sigmoid(rates[[t, write_at]]);
                let fade = softplus(rates[[t, write_at + share]] + self.fade_bias[head]);
                let kept = exp(fade * self.decay[head]);
                // What the faded matrix gives for this key: state (key_width, value_width).
                told.fill(0.0);
                for (state, key) in state.chunks_exact_mut(value_width).zip(key) {
                    for (told, state) in told.iter_mut().zip(state) {
                        *state *= kept;
                        *told += *state * key;
                    }
                }
                for (told, value) in told.iter_mut().zip(value) {
                    *told = (value - *told) * write;
                }
                let y = y.as_slice_mut().expect("columns of a row are contiguous");
                y.fill(0.0);
                for ((state, key), query) in state.chunks_exact_mut(value_width).zip(key).zip(query) {
                    for ((state, new), y) in state.iter_mut().zip(&told).zip(y.iter_mut()) {
                        *state += key * new;
                        *y += *state * query * scale;
                    }
                }
            }
        });
        pass.remember(index, STATE, states);
        pass.give(convolved);
        pass.give(rates);
        self.norm.apply_groups(&mut y, value_width);
        Activation::Silu.apply_gated(&mut gate, &y);
        pass.give(y);
        let out = self.output.run(&gate, pass);
        pass.give(gate);
        out
    }
}

impl DeltaNet {
    /// Queries and keys of every head, which are the first `n` elements of each row, to length one.
    fn normalize(&self, rows: &mut Rows, n: usize) {
        let width = rows.ncols();
        let all = rows.as_slice_mut().expect("activations are contiguous");
        all.par_chunks_mut(width).for_each(|row| {
            for head in row[..n].chunks_exact_mut(self.key_width) {
                let sum: f32 = head.iter().map(|x| x * x).sum();
                let scale = 1.0 / (sum + self.epsilon).sqrt();
                head.iter_mut().for_each(|x| *x *= scale);
            }
        });
    }
}
