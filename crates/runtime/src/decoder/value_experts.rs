//! Values of attention by a mixture of experts (MoVA).
//!
//! ```text
//! v = sum over S of w_e silu(W_e h)          h (n_embd), W_e (n_value, n_embd), v (n_value)
//! ```
//!
//! A separate router chooses the experts S and their weights w, like in `experts.rs`. It shares the gating function,
//! normalization and scale with that of the feed-forward experts.
//!
//! Source: `llama_model_k2_horizon::graph::build_routed_value` of llama.cpp build 11549.

use super::{
    linear::Linear,
    params::DecoderParams,
    routing::{Routed, Routing},
    stack::Stack,
};
use crate::{
    Error,
    keys::Keys,
    ops::{Activation, Product, Rows},
    pass::Pass,
    weights::Weights,
};

/// Experts that make the values of a layer.
pub(super) struct ValueExperts {
    router: Linear,
    routing: Routing,
    /// (n_expert, n_value, n_in).
    experts: Stack,
}

impl ValueExperts {
    /// Value experts of layer `i`, if it has any: from rows of `n_in` elements to values of `n_value`.
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        [n_in, n_value]: [usize; 2],
    ) -> Result<Option<ValueExperts>, Error> {
        let n = keys.count("attention.value_expert_count")?.unwrap_or(0);
        let Some(experts) = Stack::open(weights, &format!("blk.{i}.attn_v_exps"), n_in, n_value, n)? else {
            return Ok(None);
        };
        let n_used = keys.need_count("attention.value_expert_used_count")?;
        if n_used == 0 || n_used > n {
            return Err(keys.wrong("attention.value_expert_used_count", "a part of the value experts"));
        }
        // The reference's router has no others.
        if !matches!(keys.count("expert_gating_func")?, None | Some(0..=2)) {
            return Err(keys.wrong("expert_gating_func", "1 or 2 with value experts"));
        }
        let router = format!("blk.{i}.attn_v_gate");
        // The bias only chooses, so it is not part of the product.
        let bias = weights.vector(&format!("{router}.bias"), n)?;
        let weight = weights.need_matrix(&format!("{router}.weight"), n_in, n)?;
        Ok(Some(ValueExperts {
            router: Linear { weight, bias: None, switched: Vec::new() },
            routing: Routing::read(params, keys, n_used, bias)?,
            experts,
        }))
    }

    /// Floats for each token that llama.cpp's graph has allocated at once, about: the chosen experts' values.
    pub fn graph_floats(&self) -> usize {
        self.routing.n_used() * self.experts.weight.n_out
    }

    /// `h (n, n_in) -> (n, n_value)`.
    pub fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let logits = self.router.run(h, pass);
        let routed = self.routing.route_all(&logits, &|_| None);
        let mut values = pass.zeros(h.nrows(), self.experts.weight.n_out);
        for (expert, (rows, weights)) in taken(&routed) {
            let x = pass.select_rows(h, rows);
            pass.routed = Some(rows.clone());
            let mut value = self.product(expert, &x, pass);
            pass.routed = None;
            Activation::Silu.apply(&mut value);
            values.add_to_rows(rows, weights, &value);
        }
        values
    }

    /// `W_e x`: (n, n_in) -> (n, n_value).
    fn product(&self, expert: usize, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut out = pass.scratch(x.nrows(), self.experts.weight.n_out);
        let product = Product { weight: &self.experts.weight, index: expert, out: out.view_mut() };
        pass.mul_mat(x.view(), vec![product]);
        self.experts.scale_and_add_bias(expert, &mut out);
        out
    }

    /// True if the backward pass supports it.
    pub fn has_backward(&self) -> bool {
        self.routing.has_backward() && self.experts.scale.is_none()
    }

    /// Backward pass: `h` (n, n_in) was the input; gradients of the values become those of `h`. With `g` the gradient
    /// of `v`, that of `W_e h` is `w_e g silu'(W_e h)` and that of `w_e` is `g . silu(W_e h)`. The choice of experts is
    /// treated as constant.
    pub fn backward(&self, h: &Rows, gradients: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let logits = pass.unseen(|pass| self.router.run(h, pass));
        let routed = self.routing.route_all(&logits, &|_| None);
        let mut grad_weights = pass.zeros(logits.nrows(), logits.ncols());
        let mut grad_h = pass.zeros(h.nrows(), h.ncols());
        for (expert, (rows, weights)) in taken(&routed) {
            let x = pass.select_rows(h, rows);
            let mut grad_value = pass.select_rows(gradients, rows);
            let product = pass.unseen(|pass| self.product(expert, &x, pass));
            let mut value = product.clone();
            Activation::Silu.apply(&mut value);
            for (at, row) in rows.iter().enumerate() {
                grad_weights[[*row, expert]] = grad_value.row(at).dot(&value.row(at));
            }
            grad_value.rows_mut().into_iter().zip(weights).for_each(|(mut row, weight)| row *= *weight);
            Activation::Silu.backward(&product, &mut grad_value);
            pass.routed = Some(rows.clone());
            let grad_x = pass.mul_backward_of(expert, &[(&self.experts.weight, &grad_value)]);
            pass.routed = None;
            grad_h.add_to_rows(rows, &vec![1.0; rows.len()], &grad_x);
        }
        self.routing.backward_all(&logits, &mut grad_weights);
        grad_h += &pass.mul_backward(&[(&self.router.weight, &grad_weights)]);
        grad_h
    }
}

/// The experts that any row goes to.
fn taken(routed: &[Routed]) -> impl Iterator<Item = (usize, &Routed)> {
    routed.iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty())
}
