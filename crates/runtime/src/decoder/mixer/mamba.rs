//! Mamba: a selective state space, each element by itself.
//!
//! ```text
//! [x, z] = W_in h                      x, z (d_inner)
//! x = silu(conv(x))
//! [dt, B, C] = W_x x                   dt (dt_rank), B, C (d_state), normalized in Jamba and Falcon Mamba
//! D_t = softplus(W_dt dt + b_dt)       (d_inner): the step of each element
//! s_t[e, n] = exp(D_t[e] A[e, n]) s_(t-1)[e, n] + D_t[e] B_t[n] x_t[e]     A (d_inner, d_state), below zero
//! y_t[e] = sum over n of C_t[n] s_t[e, n] + D[e] x_t[e]                    D (d_inner)
//! out = W_out (silu(z) * y)
//! ```
//!
//! `D_t` is the paper's Delta (arXiv 2312.00752, algorithm 2). The file contains A itself, `-exp(A_log)` of the checkpoint.
//!
//! Source: `llm_build_mamba_base::build_mamba_layer` and `ggml_compute_forward_ssm_scan_f32` of
//! llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, conv::CausalConv, need_size};
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

pub(in crate::decoder) struct Mamba {
    /// (n_embd) -> (2 d_inner): x and z.
    w_in: Linear,
    conv: CausalConv,
    /// (d_inner) -> (dt_rank + 2 d_state): dt, B and C.
    w_x: Linear,
    /// Norms of dt, B and C.
    norms: Option<[Norm; 3]>,
    /// (dt_rank) -> (d_inner).
    w_dt: Linear,
    /// (d_inner, d_state).
    a: Vec<f32>,
    /// (d_inner).
    d: Vec<f32>,
    w_out: Linear,
    d_inner: usize,
    d_state: usize,
    dt_rank: usize,
}

/// Elements that a thread takes at once: 16 floats are a cache line.
const ELEMENTS: usize = 16;

impl Mamba {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Mamba, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let d_inner = need_size(keys, "ssm.inner_size")?;
        let d_state = need_size(keys, "ssm.state_size")?;
        let dt_rank = need_size(keys, "ssm.time_step_rank")?;
        let widths = [dt_rank, d_state, d_state];
        let is_weightless = keys.flag("ssm.dt_b_c_rms", false)?;
        // Jamba's norms have weights; Falcon Mamba's lack them, and a key says that they are there.
        let mut norms = Vec::new();
        for (name, n) in ["ssm_dt_norm", "ssm_b_norm", "ssm_c_norm"].iter().zip(widths) {
            let weight = weights.vector(&blk(&format!("{name}.weight")), n)?;
            if is_weightless || weight.is_some() {
                norms.push(Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight, bias: None });
            }
        }
        Ok(Mamba {
            w_in: Linear::need(weights, &blk("ssm_in"), params.n_embd, 2 * d_inner)?,
            conv: CausalConv::open(keys, "ssm.conv_kernel", weights, &blk("ssm_conv1d"), d_inner)?,
            w_x: Linear::need(weights, &blk("ssm_x"), d_inner, widths.iter().sum())?,
            // The reference normalizes all three or none.
            norms: norms.try_into().ok(),
            w_dt: Linear::need(weights, &blk("ssm_dt"), dt_rank, d_inner)?,
            a: weights.need_vector(&blk("ssm_a"), d_state.saturating_mul(d_inner))?,
            d: weights.need_vector(&blk("ssm_d"), d_inner)?,
            w_out: Linear::need(weights, &blk("ssm_out"), d_inner, params.n_embd)?,
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

    fn state_size(&self) -> StateSize {
        let rows = self.conv.kept_elems(self.d_inner);
        StateSize {
            rows,
            state: self.d_inner * self.d_state,
            graph_floats: 9 * self.d_inner / 2,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (d_inner, d_state, dt_rank) = (self.d_inner, self.d_state, self.dt_rank);
        // Step 1: x and the gate z; x convolved.
        let xz = self.w_in.run(h, pass);
        let x = pass.columns(&xz, 0..d_inner);
        let mut z = pass.columns(&xz, d_inner..2 * d_inner);
        drop(xz);
        let mut x = self.conv.run(index, &x, pass);
        Activation::Silu.apply(&mut x);

        // Step 2: token-dependent dt, B, C.
        let dt_b_c = self.w_x.run(&x, pass);
        let mut dt = pass.columns(&dt_b_c, 0..dt_rank);
        let mut b = pass.columns(&dt_b_c, dt_rank..dt_rank + d_state);
        let mut c = pass.columns(&dt_b_c, dt_rank + d_state..dt_b_c.ncols());
        drop(dt_b_c);
        if let Some(norms) = &self.norms {
            for (norm, rows) in norms.iter().zip([&mut dt, &mut b, &mut c]) {
                norm.apply(rows);
            }
        }
        let dt = self.w_dt.run(&dt, pass);

        // Step 3: the scan, each element by itself; threads take as many neighbours as share cache lines of y.
        let mut y = pass.scratch(x.nrows(), d_inner);
        let mut states = pass.take_states(index, StateKind::Recurrence, d_inner * d_state);
        let width = if d_inner.is_multiple_of(ELEMENTS) { ELEMENTS } else { 1 };
        let (b, c) = (b.as_slice(), c.as_slice());
        recur(&pass.sequences(), &mut states, d_inner / width, &mut y, |group, rows, states, mut y| {
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let b = &b[t * d_state..(t + 1) * d_state];
                let c = &c[t * d_state..(t + 1) * d_state];
                for (e, (s, y)) in states.chunks_exact_mut(d_state).zip(&mut y).enumerate() {
                    let e = group * width + e;
                    let (x, dt) = (x[[t, e]], softplus(dt[[t, e]]));
                    let dt_x = x * dt;
                    let a = &self.a[e * d_state..(e + 1) * d_state];
                    for ((s, a), b) in s.iter_mut().zip(a).zip(b) {
                        *s = *s * exp(dt * a) + b * dt_x;
                    }
                    *y = dot(s, c) + x * self.d[e];
                }
            }
        });
        pass.put_states(index, StateKind::Recurrence, states);

        // Step 4: the gate, silu(z) * y, and the output matrix.
        Activation::Silu.apply_gated(&mut z, &y);
        drop((x, y));
        self.w_out.run(&z, pass)
    }
}
