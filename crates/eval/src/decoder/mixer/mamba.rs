//! Mamba: a state space whose steps, inputs and outputs depend on the token, for each element.
//!
//! Source: `llm_build_mamba_base::build_mamba_layer` and `ggml_compute_forward_ssm_scan_f32` of
//! llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, STATE, conv::CausalConv, need_size, need_vector};
use crate::{
    Error,
    decoder::{Shape, linear::Linear},
    graph::Pass,
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, dot, exp, recur, softplus},
    weights::Weights,
};

pub(super) struct Mamba {
    /// To what is convolved and what gates the output, d_inner each.
    input: Linear,
    conv: CausalConv,
    /// To steps (before they are widened), inputs and outputs of the state.
    parameters: Linear,
    /// Of steps, inputs and outputs.
    norms: Option<[Norm; 3]>,
    /// From dt_rank to d_inner.
    step: Linear,
    /// (d_inner, d_state): how fast each state fades, below zero.
    decay: Vec<f32>,
    /// (d_inner): how much goes past the state.
    skip: Vec<f32>,
    output: Linear,
    d_inner: usize,
    d_state: usize,
    dt_rank: usize,
}

/// Elements that a thread takes at once.
const ELEMENTS: usize = 16;

impl Mamba {
    pub fn open(shape: &Shape, keys: &Keys<'_>, weights: &mut Weights<'_>, i: usize) -> Result<Mamba, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let d_inner = need_size(keys, "ssm.inner_size")?;
        let d_state = need_size(keys, "ssm.state_size")?;
        let dt_rank = need_size(keys, "ssm.time_step_rank")?;
        let widths = [dt_rank, d_state, d_state];
        let plain = keys.flag("ssm.dt_b_c_rms", false)?;
        let mut norms = Vec::new();
        for (name, n) in ["ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"].iter().zip(widths) {
            let weight = weights.vector(&blk(&format!("{name}.weight")), n)?;
            if plain || weight.is_some() {
                norms.push(Norm { kind: NormKind::Rms, epsilon: shape.epsilon, weight, bias: None });
            }
        }
        Ok(Mamba {
            input: Linear::need(weights, &blk("ssm_in"), shape.n_embd, 2 * d_inner)?,
            conv: CausalConv::open(keys, "ssm.conv_kernel", weights, &blk("ssm_conv1d"), d_inner)?,
            parameters: Linear::need(weights, &blk("ssm_x"), d_inner, widths.iter().sum())?,
            // The reference normalizes all three or none.
            norms: norms.try_into().ok(),
            step: Linear::need(weights, &blk("ssm_dt"), dt_rank, d_inner)?,
            decay: need_vector(weights, blk("ssm_a"), d_state.saturating_mul(d_inner))?,
            skip: need_vector(weights, blk("ssm_d"), d_inner)?,
            output: Linear::need(weights, &blk("ssm_out"), d_inner, shape.n_embd)?,
            d_inner,
            d_state,
            dt_rank,
        })
    }
}

impl Mixer for Mamba {
    fn row_floats(&self) -> usize {
        6 * self.d_inner
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (d_inner, d_state, dt_rank) = (self.d_inner, self.d_state, self.dt_rank);
        let both = self.input.run(h, pass);
        let x = pass.take_columns(&both, 0..d_inner);
        let mut gate = pass.take_columns(&both, d_inner..2 * d_inner);
        pass.give(both);
        let mut convolved = self.conv.run(index, &x, pass);
        pass.give(x);
        Activation::Silu.apply(&mut convolved);
        let x = convolved;

        let all = self.parameters.run(&x, pass);
        let mut step = pass.take_columns(&all, 0..dt_rank);
        let mut input = pass.take_columns(&all, dt_rank..dt_rank + d_state);
        let mut output = pass.take_columns(&all, dt_rank + d_state..all.ncols());
        pass.give(all);
        if let Some(norms) = &self.norms {
            for (norm, rows) in norms.iter().zip([&mut step, &mut input, &mut output]) {
                norm.apply(rows);
            }
        }
        let dt = self.step.run(&step, pass);

        let mut y = pass.take(x.nrows(), d_inner);
        let mut states = pass.recall(index, STATE, d_inner * d_state);
        let width = if d_inner.is_multiple_of(ELEMENTS) { ELEMENTS } else { 1 };
        let inputs = input.as_slice().expect("activations are contiguous");
        let outputs = output.as_slice().expect("activations are contiguous");
        recur(&pass.windows(), &mut states, d_inner / width, &mut y, |head, rows, states, mut y| {
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let input = &inputs[t * d_state..(t + 1) * d_state];
                let output = &outputs[t * d_state..(t + 1) * d_state];
                for (c, (state, y)) in states.chunks_exact_mut(d_state).zip(&mut y).enumerate() {
                    let c = head * width + c;
                    let (x, dt) = (x[[t, c]], softplus(dt[[t, c]]));
                    let taken = x * dt;
                    let decay = &self.decay[c * d_state..(c + 1) * d_state];
                    for ((state, decay), input) in state.iter_mut().zip(decay).zip(input) {
                        *state = *state * exp(dt * decay) + input * taken;
                    }
                    *y = dot(state, output) + x * self.skip[c];
                }
            }
        });
        pass.remember(index, STATE, states);
        for rows in [x, step, input, output, dt] {
            pass.give(rows);
        }
        Activation::Silu.apply_gated(&mut gate, &y);
        pass.give(y);
        let out = self.output.run(&gate, pass);
        pass.give(gate);
        out
    }
}
