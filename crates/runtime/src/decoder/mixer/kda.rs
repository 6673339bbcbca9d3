//! Kimi Delta Attention: a gated delta net in which each channel of a key decays by itself.
//!
//! ```text
//! q, k, v = silu(conv(W_q h)), silu(conv(W_k h)), silu(conv(W_v h))   (n_head, width) each; q, k to length one
//! b = sigmoid(W_b h)                                                  (n_head)
//! f = W_fb W_fa h + b_dt                                              (n_head, width); or W_fa h + b_dt
//! alpha_t = exp(A softplus(f))                                        A (n_head), below zero
//!         = exp(bound sigmoid(|A| f))                                 with a lower bound of the logarithm
//!
//! for each head, with S (key, value), like in `delta_net.rs`:
//! S' = diag(alpha_t) S_(t-1)
//! S_t = S' + k_t (b_t (v_t - S'^T k_t))^T
//! y_t = S_t^T q_t / sqrt(width)
//!
//! out = W_out (norm(y) * sigmoid(g))      g = W_gb W_ga h, or W_g h
//! ```
//!
//! The paper is arXiv 2510.26692. Sources: `llama_model_kimi_linear::graph` of llama.cpp (llama-cpp-python 0.3.36);
//! `KimiLinearDeltaAttention` of transformers 5.24, which adds 1e-6 where lengths are made one.

use ndarray::s;

use super::{
    Mixer,
    conv::CausalConv,
    delta_net::{delta_rule, to_length_one},
    need_size, need_state,
};
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

/// Added to the square of a length.
const EPSILON: f32 = 1e-6;

pub(in crate::decoder) struct Kda {
    inputs: Inputs,
    conv: CausalConv,
    w_beta: Linear,
    decay: LowRank,
    /// (n_head * width): `b_dt`.
    dt_bias: Vec<f32>,
    /// (n_head): `A`, which is stored without its sign if there is a bound.
    a: Vec<f32>,
    /// Lower bound of the logarithm of `alpha`.
    lower_bound: Option<f32>,
    gate: LowRank,
    /// Norm of each head's output.
    norm: Norm,
    w_out: Linear,
    width: usize,
    n_head: usize,
    /// Elements of all states.
    n_state: usize,
}

/// Two matrices through a narrow row, or one.
struct LowRank(Vec<Linear>);

impl LowRank {
    /// `NAME_a` and `NAME_b`, or `NAME_a` or `NAME` alone.
    fn open(weights: &mut Weights<'_>, name: &str, n_in: usize, n_out: usize) -> Result<LowRank, Error> {
        let rows = |weights: &Weights<'_>, name: &str| {
            weights.shape(&format!("{name}.weight")).map(|shape| shape.dim(1) as usize)
        };
        let (down, up) = (format!("{name}_a"), format!("{name}_b"));
        match rows(weights, &up).and(rows(weights, &down)) {
            Some(n) => Ok(LowRank(vec![
                Linear::need(weights, &down, n_in, n)?,
                Linear::need(weights, &up, n, n_out)?,
            ])),
            None => match Linear::open(weights, name, n_in, n_out)? {
                Some(whole) => Ok(LowRank(vec![whole])),
                None => Ok(LowRank(vec![Linear::need(weights, &down, n_in, n_out)?])),
            },
        }
    }

    /// `h (n, n_in) -> (n, n_out)`.
    fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let first = self.0[0].run(h, pass);
        match self.0.get(1) {
            Some(up) => up.run(&first, pass),
            None => first,
        }
    }
}

/// The matrices of q, k and v; boxed because they are large.
enum Inputs {
    Apart(Box<[Linear; 3]>),
    Fused(Box<Linear>),
}

impl Kda {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Kda, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let n_embd = params.n_embd;
        let width = need_size(keys, "kda.head_dim")?;
        let heads = "attention.head_count";
        let n_head = keys.counts(heads, params.n_layer)?.ok_or_else(|| keys.missing(heads))?[i];
        let d_inner = n_head.saturating_mul(width);
        let n_state = need_state(keys, "kda.head_dim", d_inner, width)?;
        let inputs = match Linear::open(weights, &blk("attn_qkv"), n_embd, d_inner.saturating_mul(3))? {
            Some(fused) => Inputs::Fused(Box::new(fused)),
            None => Inputs::Apart(Box::new([
                Linear::need(weights, &blk("attn_q"), n_embd, d_inner)?,
                Linear::need(weights, &blk("attn_k"), n_embd, d_inner)?,
                Linear::need(weights, &blk("attn_v"), n_embd, d_inner)?,
            ])),
        };
        let convs = ["q", "k", "v"].map(|part| {
            CausalConv::open(keys, "ssm.conv_kernel", weights, &blk(&format!("ssm_conv1d_{part}")), d_inner)
        });
        let convs = convs.into_iter().collect::<Result<Vec<_>, _>>()?;
        let norm = Some(weights.need_vector(&blk("ssm_norm.weight"), width)?);
        Ok(Kda {
            inputs,
            conv: CausalConv::joined(&convs, d_inner),
            w_beta: Linear::need(weights, &blk("ssm_beta"), n_embd, n_head)?,
            decay: LowRank::open(weights, &blk("ssm_f"), n_embd, d_inner)?,
            dt_bias: weights.need_vector(&blk("ssm_dt.bias"), d_inner)?,
            a: weights.need_vector(&blk("ssm_a"), n_head)?,
            lower_bound: keys.float("kda.gate_lower_bound")?,
            gate: LowRank::open(weights, &blk("ssm_g"), n_embd, d_inner)?,
            norm: Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight: norm, bias: None },
            w_out: Linear::need(weights, &blk("attn_output"), d_inner, n_embd)?,
            width,
            n_head,
            n_state,
        })
    }

    /// q, k and v of all heads: (n, 3 * n_head * width).
    fn project(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        match &self.inputs {
            Inputs::Fused(fused) => fused.run(h, pass),
            Inputs::Apart(apart) => {
                let parts = Linear::run_all(apart.each_ref(), h, pass);
                let width = parts[0].ncols();
                let mut all = pass.scratch(h.nrows(), 3 * width);
                for (at, part) in parts.iter().enumerate() {
                    all.slice_mut(s![.., at * width..(at + 1) * width]).assign(&**part);
                }
                all
            }
        }
    }

    /// `alpha_t`: (n, n_head * width).
    fn decay(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut f = self.decay.run(h, pass);
        f.add_bias(&self.dt_bias);
        let (width, bound) = (self.width, self.lower_bound);
        for row in f.as_mut_slice().chunks_exact_mut(self.n_head * width) {
            for (head, a) in row.chunks_exact_mut(width).zip(&self.a) {
                head.iter_mut().for_each(|f| {
                    *f = match bound {
                        None => exp(a * softplus(*f)),
                        Some(bound) => exp(bound * sigmoid(a.abs() * *f)),
                    }
                });
            }
        }
        f
    }
}

impl Mixer for Kda {
    fn row_floats(&self) -> usize {
        8 * self.n_head * self.width
    }

    fn state_size(&self) -> StateSize {
        let d_inner = self.n_head * self.width;
        StateSize {
            rows: self.conv.kept_elems(3 * d_inner),
            state: self.n_state,
            graph_floats: 9 * d_inner,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (width, d_inner) = (self.width, self.n_head * self.width);
        // Step 1: q, k and v, convolved; q and k to length one.
        let qkv = self.project(h, pass);
        let mut convolved = self.conv.run(index, &qkv, pass);
        drop(qkv);
        Activation::Silu.apply(&mut convolved);
        to_length_one(&mut convolved, 2 * d_inner, width, EPSILON);
        let (beta, alpha) = (self.w_beta.run(h, pass), self.decay(h, pass));

        // Step 2: the recurrence, each head by itself. A row is q (n_head, width), then k, then v.
        let mut y = pass.scratch(h.nrows(), d_inner);
        let mut states = pass.take_states(index, StateKind::Recurrence, self.n_state);
        let (qkv, alphas) = (convolved.as_slice(), alpha.as_slice());
        let scale = 1.0 / (width as f32).sqrt();
        recur(&pass.sequences(), &mut states, self.n_head, &mut y, |head, rows, state, mut y| {
            let mut delta = vec![0.0; width];
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let part = |at: usize| &qkv[(3 * t + at) * d_inner + head * width..][..width];
                let alpha = alphas[t * d_inner + head * width..][..width].iter().copied();
                let y = y.as_slice_mut().expect("columns of a row are contiguous");
                delta_rule(state, [0, 1, 2].map(part), alpha, sigmoid(beta[[t, head]]), scale, &mut delta, y);
            }
        });
        pass.put_states(index, StateKind::Recurrence, states);
        drop((convolved, alpha, beta));

        // Step 3: the norm of each head, the gate, and the output matrix.
        self.norm.apply_groups(&mut y, width);
        let mut gate = self.gate.run(h, pass);
        Activation::Sigmoid.apply_gated(&mut gate, &y);
        drop(y);
        self.w_out.run(&gate, pass)
    }
}
