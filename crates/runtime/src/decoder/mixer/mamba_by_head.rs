//! Mamba with one decay per head, whose step, B and C are computed from x (PLaMo 2).
//!
//! ```text
//! [z_0, x_0, z_1, x_1, ..] = W_in h    z, x (head_width) of each head
//! x = silu(conv(x))
//! [B, C, dt] = W_x x                   B, C (d_state), dt (dt_rank), each normalized
//! y = scan(x, B, C, W_dt dt)           see `scan.rs`; all heads have the same B and C
//! out = W_out (silu(z) * y)
//! ```
//!
//! Source: `llama_model_plamo2::graph::build_plamo2_mamba_layer` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::s;

use super::{Mixer, conv::CausalConv, need_size, scan::HeadScan};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    keys::Keys,
    ops::{Activation, Norm, Rows},
    pass::Pass,
    state_size::StateSize,
    weights::Weights,
};

pub(in crate::decoder) struct MambaByHead {
    /// (n_embd) -> (n_head, 2 head_width): z and x of each head.
    w_in: Linear,
    conv: CausalConv,
    /// (d_inner) -> (2 d_state + dt_rank): B, C and dt.
    w_x: Linear,
    /// Norms of B, C and dt.
    norms: [Option<Norm>; 3],
    /// (dt_rank) -> (n_head).
    w_dt: Linear,
    scan: HeadScan,
    w_out: Linear,
    d_inner: usize,
    d_state: usize,
    n_head: usize,
}

impl MambaByHead {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<MambaByHead, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let d_inner = need_size(keys, "ssm.inner_size")?;
        let d_state = need_size(keys, "ssm.state_size")?;
        let n_head = need_size(keys, "ssm.time_step_rank")?;
        let scan = HeadScan::open(keys, weights, i, [d_inner, d_state, n_head, 1])?;
        // `ssm.time_step_rank` is the number of heads here, so the rank of the step comes from the matrix.
        let dt_rank = weights.shape(&blk("ssm_dt.weight")).map_or(0, |shape| shape.dim(0) as usize);
        let mut norm = |name: &str, n: usize| params.optional_norm(weights, &blk(name), n);
        let norms =
            [norm("ssm_b_norm", d_state)?, norm("ssm_c_norm", d_state)?, norm("ssm_dt_norm", dt_rank)?];
        let n_projected = d_state.saturating_mul(2).saturating_add(dt_rank);
        Ok(MambaByHead {
            w_in: Linear::need(weights, &blk("ssm_in"), params.n_embd, d_inner.saturating_mul(2))?,
            conv: CausalConv::open(keys, "ssm.conv_kernel", weights, &blk("ssm_conv1d"), d_inner)?,
            w_x: Linear::need(weights, &blk("ssm_x"), d_inner, n_projected)?,
            norms,
            // The scan adds the bias.
            w_dt: Linear {
                weight: weights.need_matrix(&blk("ssm_dt.weight"), dt_rank, n_head)?,
                bias: None,
                switched: Vec::new(),
            },
            scan,
            w_out: Linear::need(weights, &blk("ssm_out"), d_inner, params.n_embd)?,
            d_inner,
            d_state,
            n_head,
        })
    }
}

impl Mixer for MambaByHead {
    fn row_floats(&self) -> usize {
        6 * self.d_inner
    }

    fn state_size(&self) -> StateSize {
        StateSize {
            rows: self.conv.kept_elems(self.d_inner),
            state: self.scan.n_state,
            graph_floats: 5 * self.d_inner,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (d_inner, d_state) = (self.d_inner, self.d_state);
        // Step 1: the gate z and x, which is convolved.
        let zx = self.w_in.run(h, pass);
        let width = d_inner / self.n_head;
        let [mut z, x] = [0, width].map(|at| {
            let mut part = pass.scratch(h.nrows(), d_inner);
            for head in 0..self.n_head {
                let (from, to) = (2 * width * head + at, width * head);
                part.slice_mut(s![.., to..to + width]).assign(&zx.slice(s![.., from..from + width]));
            }
            part
        });
        drop(zx);
        let mut x = self.conv.run(index, &x, pass);
        Activation::Silu.apply(&mut x);

        // Step 2: B, C and the step of each head.
        let b_c_dt = self.w_x.run(&x, pass);
        let at = [0, d_state, 2 * d_state, b_c_dt.ncols()];
        let [b, c, dt] = [0, 1, 2].map(|part| {
            let mut rows = pass.columns(&b_c_dt, at[part]..at[part + 1]);
            if let Some(norm) = &self.norms[part] {
                norm.apply(&mut rows);
            }
            rows
        });
        drop(b_c_dt);
        let dt = self.w_dt.run(&dt, pass);

        // Step 3: the scan, the gate and the output matrix.
        let mut x_b_c = pass.scratch(h.nrows(), d_inner + 2 * d_state);
        for (rows, from) in [(&x, 0), (&b, d_inner), (&c, d_inner + d_state)] {
            x_b_c.slice_mut(s![.., from..from + rows.ncols()]).assign(&**rows);
        }
        drop((x, b, c));
        let y = self.scan.run(index, &x_b_c, &dt, pass);
        Activation::Silu.apply_gated(&mut z, &y);
        self.w_out.run(&z, pass)
    }
}
