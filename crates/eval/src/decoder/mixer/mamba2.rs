//! Mamba 2: a state space whose decay is one number for each head.
//!
//! Source: `llm_build_mamba_base::build_mamba2_layer` and `ggml_compute_forward_ssm_scan_f32` of
//! llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, STATE, conv::CausalConv, need_size, need_state, need_vector};
use crate::{
    Error,
    decoder::{Shape, linear::Linear},
    graph::Pass,
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, dot, exp, recur, softplus},
    weights::Weights,
};

pub(super) struct Mamba2 {
    /// To the gates of the output, what is convolved, and the step of each head.
    input: Linear,
    conv: CausalConv,
    /// (n_head): what is added to the steps.
    step_bias: Vec<f32>,
    /// (n_head): how fast the state of a head fades, below zero.
    decay: Vec<f32>,
    /// (n_head): how much goes past the state.
    skip: Vec<f32>,
    /// Of the gated output, each group by itself.
    norm: Option<Norm>,
    output: Linear,
    d_inner: usize,
    d_state: usize,
    /// Elements of all states.
    n_state: usize,
    n_head: usize,
    /// Heads in a group have the same inputs and outputs of the state.
    n_group: usize,
}

impl Mamba2 {
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Mamba2, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let d_inner = need_size(keys, "ssm.inner_size")?;
        let d_state = need_size(keys, "ssm.state_size")?;
        let n_head = need_size(keys, "ssm.time_step_rank")?;
        let n_group = need_size(keys, "ssm.group_count")?;
        if !d_inner.is_multiple_of(n_head) {
            return Err(keys.wrong("ssm.time_step_rank", "a divisor of the inner size"));
        }
        if !n_head.is_multiple_of(n_group) {
            return Err(keys.wrong("ssm.group_count", "a divisor of the number of heads"));
        }
        let n_state = need_state(keys, "ssm.state_size", d_inner, d_state)?;
        let n_convolved = d_state.saturating_mul(2 * n_group).saturating_add(d_inner);
        let n_input = n_convolved.saturating_add(d_inner + n_head);
        let weight = weights.vector(&blk("ssm_norm.weight"), d_inner)?;
        let norm = |weight| Norm { kind: NormKind::Rms, epsilon: shape.epsilon, weight, bias: None };
        Ok(Mamba2 {
            input: Linear::need(weights, &blk("ssm_in"), shape.n_embd, n_input)?,
            conv: CausalConv::open(keys, "ssm.conv_kernel", weights, &blk("ssm_conv1d"), n_convolved)?,
            step_bias: need_vector(weights, blk("ssm_dt.bias"), n_head)?,
            decay: need_vector(weights, blk("ssm_a"), n_head)?,
            skip: need_vector(weights, blk("ssm_d"), n_head)?,
            norm: weight.map(|weight| norm(Some(weight))),
            output: Linear::need(weights, &blk("ssm_out"), d_inner, shape.n_embd)?,
            d_inner,
            d_state,
            n_state,
            n_head,
            n_group,
        })
    }
}

impl Mixer for Mamba2 {
    fn row_floats(&self) -> usize {
        3 * self.input.weight.n_out
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (d_inner, d_state, n_head) = (self.d_inner, self.d_state, self.n_head);
        let all = self.input.run(h, pass);
        let steps_at = all.ncols() - n_head;
        let mut gate = pass.take_columns(&all, 0..d_inner);
        let xs = pass.take_columns(&all, d_inner..steps_at);
        let dt = pass.take_columns(&all, steps_at..all.ncols());
        pass.give(all);
        // What goes in, then inputs and outputs of the state for each group.
        let mut convolved = self.conv.run(index, &xs, pass);
        pass.give(xs);
        Activation::Silu.apply(&mut convolved);

        let mut y = pass.take(h.nrows(), d_inner);
        let mut states = pass.recall(index, STATE, self.n_state);
        let head_width = d_inner / n_head;
        let all = convolved.as_slice().expect("activations are contiguous");
        let width = convolved.ncols();
        recur(&pass.windows(), &mut states, n_head, &mut y, |head, rows, states, mut y| {
            let group = head / (n_head / self.n_group);
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let (xs, groups) = all[t * width..(t + 1) * width].split_at(d_inner);
                let input = &groups[group * d_state..][..d_state];
                let output = &groups[(self.n_group + group) * d_state..][..d_state];
                let dt = softplus(dt[[t, head]] + self.step_bias[head]);
                let kept = exp(dt * self.decay[head]);
                let xs = &xs[head * head_width..];
                for ((state, y), x) in states.chunks_exact_mut(d_state).zip(&mut y).zip(xs) {
                    let taken = x * dt;
                    for (state, input) in state.iter_mut().zip(input) {
                        *state = *state * kept + input * taken;
                    }
                    *y = dot(state, output) + x * self.skip[head];
                }
            }
        });
        pass.remember(index, STATE, states);
        pass.give(convolved);
        pass.give(dt);
        Activation::Silu.apply_gated(&mut gate, &y);
        pass.give(y);
        if let Some(norm) = &self.norm {
            norm.apply_groups(&mut gate, d_inner / self.n_group);
        }
        let out = self.output.run(&gate, pass);
        pass.give(gate);
        out
    }
}
