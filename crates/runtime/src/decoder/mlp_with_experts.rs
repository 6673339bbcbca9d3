//! A feed-forward part with an MLP and a mixture of experts in parallel, each with its own norms.
//!
//! ```text
//! y = n_1 MLP(h) + n_2 E(n_0 x)        x (n_embd): the residual stream; h: the same, normalized for the MLP
//! ```
//!
//! The router of the experts E of Gemma 4 reads neither: `W_r (s * x / rms(x)) / sqrt(n_embd)`, s (n_embd). In
//! Arctic, `x` is the stream from before attention, and nothing is normalized after the parts.
//!
//! Source: `llama_model_gemma4::graph` and `llama_model_arctic::graph` of llama.cpp (llama-cpp-python 0.3.36).

use super::{experts::Experts, mlp::Mlp, params::DecoderParams};
use crate::{
    Error,
    keys::Keys,
    ops::{Norm, NormKind, Rows},
    pass::Pass,
    weights::Weights,
};

pub(super) struct MlpWithExperts {
    mlp: Mlp,
    mlp_post_norm: Option<Norm>,
    experts_norm: Norm,
    /// Norm for the router, which else reads what the experts read.
    router_norm: Option<Norm>,
    experts: Experts,
    experts_post_norm: Option<Norm>,
}

impl MlpWithExperts {
    /// The part of layer `i`, if it is of this kind.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<MlpWithExperts>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let n_embd = params.n_embd;
        let own_norm = params.optional_norm(weights, &blk("ffn_norm_exps"), n_embd)?;
        let has_router_norm = own_norm.is_none();
        let norm = match own_norm {
            None => params.optional_norm(weights, &blk("pre_ffw_norm_2"), n_embd)?,
            norm => norm,
        };
        let Some(experts_norm) = norm else { return Ok(None) };
        let router_norm = if has_router_norm {
            // The router's factors and its constant are weights of its norm.
            let mut scales = weights.need_vector(&blk("ffn_gate_inp.scale"), n_embd)?;
            scales.iter_mut().for_each(|scale| *scale /= (n_embd as f32).sqrt());
            let (kind, epsilon) = (NormKind::Rms, params.epsilon);
            Some(Norm { kind, epsilon, weight: Some(scales), bias: None })
        } else {
            None
        };
        let router = blk("ffn_gate_inp.weight");
        let experts = Experts::open(params, keys, weights, i)?;
        let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}")));
        Ok(Some(MlpWithExperts {
            mlp: Mlp::open(params.spec.activation, n_embd, weights, names)?,
            mlp_post_norm: params.optional_norm(weights, &blk("post_ffw_norm_1"), n_embd)?,
            experts_norm,
            router_norm,
            experts: experts.ok_or(Error::MissingTensor { name: router })?,
            experts_post_norm: params.optional_norm(weights, &blk("post_ffw_norm_2"), n_embd)?,
        }))
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        self.mlp.row_floats().max(self.experts.row_floats())
    }

    /// Floats for each token that llama.cpp's graph has allocated at once, about.
    pub fn graph_floats(&self) -> usize {
        self.mlp.graph_floats().max(self.experts.graph_floats())
    }

    /// `x, h (n, n_embd) -> (n, n_embd)`.
    pub fn run(&self, x: &Rows, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut y = self.mlp.run(h, pass);
        if let Some(norm) = &self.mlp_post_norm {
            norm.apply(&mut y);
        }
        // Both norms are of the stream, not of what the MLP read.
        let mut read = pass.scratch(x.nrows(), x.ncols());
        self.experts_norm.apply_into(x, &mut read);
        let mut mixed = match &self.router_norm {
            Some(norm) => {
                let mut routed_by = pass.scratch(x.nrows(), x.ncols());
                norm.apply_into(x, &mut routed_by);
                self.experts.run_routed_by(&routed_by, &read, pass)
            }
            None => self.experts.run(&read, pass),
        };
        if let Some(norm) = &self.experts_post_norm {
            norm.apply(&mut mixed);
        }
        y.add_scaled(1.0, &mixed);
        y
    }
}
