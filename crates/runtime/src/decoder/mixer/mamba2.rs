//! Mamba 2: a selective state space whose decay is one number for each head.
//!
//! ```text
//! [z, x, B, C, dt] = W_in h            z, x (d_inner), B, C (n_group, d_state), dt (n_head)
//! [x, B, C] = silu(conv([x, B, C]))
//! D_t = softplus(dt + b_dt)            (n_head)
//! S_t = exp(D_t A) S_(t-1) + D_t x_t B_t^T       for each head: S (head_width, d_state), A one number, below zero
//! y_t = S_t C_t + D x_t                          D one number
//! out = W_out norm(silu(z) * y)        the norm over each group by itself
//! ```
//!
//! Heads of a group have the same B and C. `D_t` is the paper's Delta (arXiv 2405.21060).
//!
//! Source: `llm_build_mamba_base::build_mamba2_layer` and `ggml_compute_forward_ssm_scan_f32` of
//! llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, conv::CausalConv, need_size, need_state};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, dot, exp, recur, softplus},
    pass::Pass,
    session::StateKind,
    state_size::StateSize,
    weights::Weights,
};

pub(in crate::decoder) struct Mamba2 {
    /// To z, x, B, C and dt.
    w_in: Linear,
    conv: CausalConv,
    /// (n_head).
    dt_bias: Vec<f32>,
    /// (n_head).
    a: Vec<f32>,
    /// (n_head).
    d: Vec<f32>,
    /// Norm of the gated output, per group.
    norm: Option<Norm>,
    w_out: Linear,
    d_inner: usize,
    d_state: usize,
    /// Elements of all states.
    n_state: usize,
    n_head: usize,
    /// Heads of a group have the same B and C.
    n_group: usize,
}

impl Mamba2 {
    pub fn open(
        params: &DecoderParams,
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
        // x, and B and C of each group. Sizes of keys are multiplied with care: a header may claim anything.
        let n_convolved = d_state.saturating_mul(2 * n_group).saturating_add(d_inner);
        let n_input = n_convolved.saturating_add(d_inner + n_head);
        let weight = weights.vector(&blk("ssm_norm.weight"), d_inner)?;
        let norm = |weight| Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight, bias: None };
        Ok(Mamba2 {
            w_in: Linear::need(weights, &blk("ssm_in"), params.n_embd, n_input)?,
            conv: CausalConv::open(keys, "ssm.conv_kernel", weights, &blk("ssm_conv1d"), n_convolved)?,
            dt_bias: weights.need_vector(&blk("ssm_dt.bias"), n_head)?,
            a: weights.need_vector(&blk("ssm_a"), n_head)?,
            d: weights.need_vector(&blk("ssm_d"), n_head)?,
            norm: weight.map(|weight| norm(Some(weight))),
            w_out: Linear::need(weights, &blk("ssm_out"), d_inner, params.n_embd)?,
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
        3 * self.w_in.weight.n_out
    }

    fn state_size(&self) -> StateSize {
        let n_input = self.d_inner + 2 * self.n_group * self.d_state;
        StateSize {
            rows: self.conv.kept_elems(n_input),
            state: self.n_state,
            graph_floats: self.w_in.weight.n_out + 2 * n_input + self.d_inner,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (d_inner, d_state, n_head) = (self.d_inner, self.d_state, self.n_head);
        // Step 1: the gate z, then x, B and C together, which are convolved, then a step for each head.
        let all = self.w_in.run(h, pass);
        let dt_at = all.ncols() - n_head;
        let mut z = pass.columns(&all, 0..d_inner);
        let x_b_c = pass.columns(&all, d_inner..dt_at);
        let dt = pass.columns(&all, dt_at..all.ncols());
        drop(all);
        let mut convolved = self.conv.run(index, &x_b_c, pass);
        drop(x_b_c);
        Activation::Silu.apply(&mut convolved);

        // Step 2: the scan, each head by itself.
        let mut y = pass.scratch(h.nrows(), d_inner);
        let mut states = pass.take_states(index, StateKind::Recurrence, self.n_state);
        let head_width = d_inner / n_head;
        let (x_b_c, width) = (convolved.as_slice(), convolved.ncols());
        recur(&pass.sequences(), &mut states, n_head, &mut y, |head, rows, states, mut y| {
            // Neighbouring heads share a group.
            let group = head / (n_head / self.n_group);
            for (t, mut y) in rows.zip(y.rows_mut()) {
                // A row is x (d_inner), then B (n_group, d_state), then C (n_group, d_state).
                let (x, b_c) = x_b_c[t * width..(t + 1) * width].split_at(d_inner);
                let b = &b_c[group * d_state..][..d_state];
                let c = &b_c[(self.n_group + group) * d_state..][..d_state];
                // One step and one decay for all of the head.
                let dt = softplus(dt[[t, head]] + self.dt_bias[head]);
                let decay = exp(dt * self.a[head]);
                let x = &x[head * head_width..];
                for ((s, y), x) in states.chunks_exact_mut(d_state).zip(&mut y).zip(x) {
                    let dt_x = x * dt;
                    for (s, b) in s.iter_mut().zip(b) {
                        *s = *s * decay + b * dt_x;
                    }
                    *y = dot(s, c) + x * self.d[head];
                }
            }
        });
        pass.put_states(index, StateKind::Recurrence, states);
        drop((convolved, dt));

        // Step 3: the gate, the norm of each group, and the output matrix.
        Activation::Silu.apply_gated(&mut z, &y);
        drop(y);
        if let Some(norm) = &self.norm {
            norm.apply_groups(&mut z, d_inner / self.n_group);
        }
        self.w_out.run(&z, pass)
    }
}
