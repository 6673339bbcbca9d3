//! Mamba 2: a selective state space whose decay is one number for each head.
//!
//! ```text
//! [z, x, B, C, dt] = W_in h            z, x (d_inner), B, C (n_group, d_state), dt (n_head)
//! [x, B, C] = silu(conv([x, B, C]))
//! y = scan(x, B, C, dt)                see `scan.rs`
//! out = W_out norm(silu(z) * y)        the norm over each group by itself
//! ```
//!
//! Source: `llm_build_mamba_base::build_mamba2_layer` of llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, conv::CausalConv, need_size, scan::HeadScan};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    keys::Keys,
    ops::{Activation, Norm, NormKind, Rows},
    pass::Pass,
    state_size::StateSize,
    weights::Weights,
};

pub(in crate::decoder) struct Mamba2 {
    /// To z, x, B, C and dt.
    w_in: Linear,
    conv: CausalConv,
    scan: HeadScan,
    /// Norm of the gated output, per group.
    norm: Option<Norm>,
    w_out: Linear,
    d_inner: usize,
    d_state: usize,
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
        let scan = HeadScan::open(keys, weights, i, [d_inner, d_state, n_head, n_group])?;
        // x, and B and C of each group. Sizes of keys are multiplied with care: a header may claim anything.
        let n_convolved = d_state.saturating_mul(2 * n_group).saturating_add(d_inner);
        let n_input = n_convolved.saturating_add(d_inner + n_head);
        let weight = weights.vector(&blk("ssm_norm.weight"), d_inner)?;
        let norm = |weight| Norm { kind: NormKind::Rms, epsilon: params.epsilon, weight, bias: None };
        Ok(Mamba2 {
            w_in: Linear::need(weights, &blk("ssm_in"), params.n_embd, n_input)?,
            conv: CausalConv::open(keys, "ssm.conv_kernel", weights, &blk("ssm_conv1d"), n_convolved)?,
            scan,
            norm: weight.map(|weight| norm(Some(weight))),
            w_out: Linear::need(weights, &blk("ssm_out"), d_inner, params.n_embd)?,
            d_inner,
            d_state,
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
            state: self.scan.n_state,
            graph_floats: self.w_in.weight.n_out + 2 * n_input + self.d_inner,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let (d_inner, n_head) = (self.d_inner, self.n_head);
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
        let y = self.scan.run(index, &convolved, &dt, pass);
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
