//! The gated delta net of Qwen 3 Next and 3.5: the state of a head maps keys to values, and of each value only the error
//! is written.
//!
//! ```text
//! [q, k, v] = silu(conv(W_qkv h))      q, k (n_key_head, key_width), normalized to length one; v (n_value_head, value_width)
//! b = W_b h, a = W_a h                 (n_value_head) each; one matrix in Qwen 3 Next
//! beta_t = sigmoid(b)                  the writing strength
//! alpha_t = exp(A softplus(a + b_dt))  the decay; A (n_value_head), below zero
//!
//! for each value head, with S (key, value):
//! S' = alpha_t S_(t-1)
//! S_t = S' + k_t (beta_t (v_t - S'^T k_t))^T
//! y_t = S_t^T q_t / sqrt(key_width)
//!
//! out = W_out (norm(y) * silu(W_z h))                        Qwen 4: sigmoid(W_z h)
//! ```
//!
//! Value heads of a group have the query and the key of one key head: neighbours in Qwen 3 Next; in files of Qwen 3.5 the
//! first heads of all groups come first, then the second ones. The paper is arXiv 2412.06464.
//!
//! Source: `build_layer_attn_linear` in `src/models/qwen3next.cpp` and `qwen35.cpp` and `build_delta_net_autoregressive`
//! in `src/models/delta-net-base.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::{Axis, s};
use rayon::prelude::*;

use super::{Mixer, conv::CausalConv, need_size, need_state};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows, exp, recur, sigmoid, softplus},
    pass::Pass,
    session::StateKind,
    state_size::StateSize,
    weights::Weights,
};

pub(in crate::decoder) struct DeltaNet {
    w_qkv: Linear,
    w_z: Linear,
    strengths: Strengths,
    conv: CausalConv,
    /// (n_value_head).
    dt_bias: Vec<f32>,
    /// (n_value_head): `A`.
    a: Vec<f32>,
    /// Norm of each head's output.
    norm: Norm,
    w_out: Linear,
    gate: Activation,
    key_width: usize,
    value_width: usize,
    n_key_head: usize,
    n_value_head: usize,
    /// Elements of all states.
    n_state: usize,
    epsilon: f32,
}

/// The matrices of `b` and `a`; boxed because they are large.
enum Strengths {
    /// In one, by key head: b of its value heads, then a.
    ByKeyHead(Box<Linear>),
    /// `W_b` and `W_a`.
    Apart(Box<[Linear; 2]>),
}

impl DeltaNet {
    pub fn open(
        params: &DecoderParams,
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
        // q and k of each key head, v of each value head.
        let n_input = key_width.saturating_mul(2 * n_key_head).saturating_add(d_inner);
        let weight = Some(weights.need_vector(&blk("ssm_norm.weight"), value_width)?);
        let strengths = match Linear::open(weights, &blk("ssm_ba"), params.n_embd, 2 * n_value_head)? {
            Some(both) => Strengths::ByKeyHead(Box::new(both)),
            None => Strengths::Apart(Box::new([
                Linear::need(weights, &blk("ssm_beta"), params.n_embd, n_value_head)?,
                Linear::need(weights, &blk("ssm_alpha"), params.n_embd, n_value_head)?,
            ])),
        };
        Ok(DeltaNet {
            w_qkv: Linear::need(weights, &blk("attn_qkv"), params.n_embd, n_input)?,
            w_z: Linear::need(weights, &blk("attn_gate"), params.n_embd, d_inner)?,
            strengths,
            conv: CausalConv::open(keys, "ssm.conv_kernel", weights, &blk("ssm_conv1d"), n_input)?,
            dt_bias: weights.need_vector(&blk("ssm_dt.bias"), n_value_head)?,
            a: weights.need_vector(&blk("ssm_a"), n_value_head)?,
            norm: Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight, bias: None },
            w_out: Linear::need(weights, &blk("ssm_out"), d_inner, params.n_embd)?,
            gate: params.spec.delta_gate,
            key_width,
            value_width,
            n_key_head,
            n_value_head,
            n_state,
            epsilon: params.epsilon,
        })
    }
}

impl Mixer for DeltaNet {
    fn row_floats(&self) -> usize {
        2 * self.w_qkv.weight.n_out + 2 * self.w_z.weight.n_out
    }

    fn state_size(&self) -> StateSize {
        let (n_input, n_output) = (self.w_qkv.weight.n_out, self.w_z.weight.n_out);
        StateSize {
            rows: self.conv.kept_elems(n_input),
            state: self.n_state,
            graph_floats: 4 * n_input + n_output,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (key_width, value_width) = (self.key_width, self.value_width);
        let heads_per_key = self.n_value_head / self.n_key_head;
        // Step 1: q, k and v together, convolved; q and k to length one.
        let [qkv, mut z] = Linear::run_all([&self.w_qkv, &self.w_z], h, pass);
        let [b, a] = self.strengths(h, pass);
        let mut convolved = self.conv.run(index, &qkv, pass);
        drop(qkv);
        Activation::Silu.apply(&mut convolved);
        let values_at = 2 * self.n_key_head * key_width;
        to_length_one(&mut convolved, values_at, key_width, self.epsilon);

        // Step 2: the recurrence, each value head by itself. A row is q (n_key_head, key_width), then k, then
        // v (n_value_head, value_width).
        let mut y = pass.scratch(h.nrows(), self.n_value_head * value_width);
        let mut states = pass.take_states(index, StateKind::Recurrence, self.n_state);
        let (qkv, width) = (convolved.as_slice(), convolved.ncols());
        let scale = 1.0 / (key_width as f32).sqrt();
        recur(&pass.sequences(), &mut states, self.n_value_head, &mut y, |head, rows, state, mut y| {
            let key_head = match self.strengths {
                Strengths::ByKeyHead(_) => head / heads_per_key,
                Strengths::Apart(_) => head % self.n_key_head,
            };
            // (value_width): first S^T k, then beta (v - S^T k).
            let mut delta = vec![0.0; value_width];
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let row = &qkv[t * width..(t + 1) * width];
                let q = &row[key_head * key_width..][..key_width];
                let k = &row[(self.n_key_head + key_head) * key_width..][..key_width];
                let v = &row[values_at + head * value_width..][..value_width];
                let beta = sigmoid(b[[t, head]]);
                let dt = softplus(a[[t, head]] + self.dt_bias[head]);
                let alpha = exp(dt * self.a[head]);
                let y = y.as_slice_mut().expect("columns of a row are contiguous");
                delta_rule(state, [q, k, v], std::iter::repeat(alpha), beta, scale, &mut delta, y);
            }
        });
        pass.put_states(index, StateKind::Recurrence, states);
        drop((convolved, b, a));

        // Step 3: the norm of each head, the gate, and the output matrix.
        self.norm.apply_groups(&mut y, value_width);
        self.gate.apply_gated(&mut z, &y);
        drop(y);
        self.w_out.run(&z, pass)
    }
}

/// One token of one head: `S <- alpha S`, of which each row may have another factor, then the error of the value is
/// written and `y` read. `delta` is as long as a value.
pub(super) fn delta_rule(
    state: &mut [f32],
    [q, k, v]: [&[f32]; 3],
    alpha: impl Iterator<Item = f32>,
    beta: f32,
    scale: f32,
    delta: &mut [f32],
    y: &mut [f32],
) {
    let value_width = v.len();
    // S <- alpha S, and its prediction for this key.
    delta.fill(0.0);
    for ((s, k), alpha) in state.chunks_exact_mut(value_width).zip(k).zip(alpha) {
        for (v_retrieved, s) in delta.iter_mut().zip(s) {
            *s *= alpha;
            *v_retrieved += *s * k;
        }
    }
    for (delta, v) in delta.iter_mut().zip(v) {
        *delta = (v - *delta) * beta;
    }
    // S <- S + k delta^T, and y = S^T q / sqrt(key_width), in one walk over S.
    y.fill(0.0);
    for ((s, k), q) in state.chunks_exact_mut(value_width).zip(k).zip(q) {
        for ((s, delta), y) in s.iter_mut().zip(&*delta).zip(y.iter_mut()) {
            *s += k * delta;
            *y += *s * q * scale;
        }
    }
}

/// Heads of `width` elements, which are the first `n` elements of each row, to length one.
pub(super) fn to_length_one(rows: &mut Rows, n: usize, width: usize, epsilon: f32) {
    let row_width = rows.ncols();
    rows.as_mut_slice().par_chunks_mut(row_width).for_each(|row| {
        for head in row[..n].chunks_exact_mut(width) {
            let sum: f32 = head.iter().map(|x| x * x).sum();
            // As `l2norm` of Qwen 3 Next in transformers: epsilon is added under the root.
            let scale = 1.0 / (sum + epsilon).sqrt();
            head.iter_mut().for_each(|x| *x *= scale);
        }
    });
}

impl DeltaNet {
    /// `b` and `a`: (n, n_value_head) each.
    fn strengths(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> [Rows; 2] {
        match &self.strengths {
            Strengths::Apart(apart) => Linear::run_all(apart.each_ref(), h, pass),
            Strengths::ByKeyHead(both) => {
                let both = both.run(h, pass);
                let n = self.n_value_head / self.n_key_head;
                [0, n].map(|at| {
                    let mut part = pass.scratch(h.nrows(), self.n_value_head);
                    for (key_head, mut to) in part.axis_chunks_iter_mut(Axis(1), n).enumerate() {
                        let from = key_head * 2 * n + at;
                        to.assign(&both.slice(s![.., from..from + n]));
                    }
                    part
                })
            }
        }
    }
}
