//! Adjugate experts: a smaller expert for each group of neighboring experts (GroveMoE).
//!
//! ```text
//! y += c * sum over S of w_e MLP_(e / k)(h)          S, w_e: chosen experts and their weights; k experts in a group
//! ```
//!
//! Source: the authors' model (arXiv 2508.07785; `GroveMoeSparseMoeBlock`). llama.cpp (llama-cpp-python 0.3.36) differs:
//! its smaller experts read the sum of the others instead of `h`, and take the weight of expert `e / k`.

use crate::{
    Error,
    decoder::{routing::Routed, stack::Stack},
    keys::Keys,
    ops::{Activation, Product, Rows},
    pass::Pass,
    weights::Weights,
};

/// Experts that are shared by the experts of a group.
pub(super) struct Adjugates {
    gate: Stack,
    up: Stack,
    down: Stack,
    activation: Activation,
    /// Experts in a group: `k`.
    per_group: usize,
    /// Factor of their sum: `c`.
    scale: f32,
}

impl Adjugates {
    /// Reads the adjugate experts of layer `i`, if it has any. `n` is the number of its experts, `n_embd` the length of their
    /// input rows.
    pub fn open(
        activation: Activation,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        [n_embd, n]: [usize; 2],
    ) -> Result<Option<Adjugates>, Error> {
        let name = |part: &str| format!("blk.{i}.ffn_{part}_chexps");
        let Some(shape) = weights.shape(&format!("{}.weight", name("down"))) else { return Ok(None) };
        let per_group = keys.need_count("experts_per_group")?;
        if per_group == 0 || !n.is_multiple_of(per_group) {
            return Err(keys.wrong("experts_per_group", "a divisor of the number of experts"));
        }
        let n_ff = shape.dim(0) as usize;
        let mut stack =
            |part: &str, n_in, n_out| Stack::need(weights, &name(part), n_in, n_out, n / per_group);
        Ok(Some(Adjugates {
            gate: stack("gate", n_embd, n_ff)?,
            up: stack("up", n_embd, n_ff)?,
            down: stack("down", n_ff, n_embd)?,
            activation,
            per_group,
            scale: keys.float("expert_group_scale")?.ok_or_else(|| keys.missing("expert_group_scale"))?,
        }))
    }

    /// Adds the output of all adjugate experts to `out` (n, n_embd), for `h` of the same shape. `routed` has the rows of each expert.
    pub fn add(&self, routed: &[Routed], h: &Rows, out: &mut Rows, pass: &mut Pass<'_, '_>) {
        for (group, experts) in routed.chunks(self.per_group).enumerate() {
            // A row of several experts of the group passes through their adjugate expert once.
            let mut weights = std::collections::BTreeMap::new();
            for (row, weight) in experts.iter().flat_map(|(rows, weights)| rows.iter().zip(weights)) {
                *weights.entry(*row).or_insert(0.0) += self.scale * weight;
            }
            if weights.is_empty() {
                continue;
            }
            let (rows, weights): (Vec<usize>, Vec<f32>) = weights.into_iter().unzip();
            let x = pass.select_rows(h, &rows);
            pass.routed = Some(rows.clone());
            let y = self.run_one(group, &x, pass);
            pass.routed = None;
            out.add_to_rows(&rows, &weights, &y);
        }
    }

    /// Runs one adjugate expert: `h (n, n_embd) -> (n, n_embd)`.
    fn run_one(&self, group: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n_ff = self.up.weight.n_out;
        let (mut gate, mut up) = (pass.scratch(h.nrows(), n_ff), pass.scratch(h.nrows(), n_ff));
        let products = [(&self.gate, &mut gate), (&self.up, &mut up)];
        let products =
            products.map(|(stack, out)| Product { weight: &stack.weight, index: group, out: out.view_mut() });
        pass.mul_mat(h.view(), products.into());
        self.gate.scale_and_add_bias(group, &mut gate);
        self.up.scale_and_add_bias(group, &mut up);
        self.activation.apply_gated(&mut gate, &up);
        let mut out = pass.scratch(h.nrows(), self.down.weight.n_out);
        let product = Product { weight: &self.down.weight, index: group, out: out.view_mut() };
        pass.mul_mat(gate.view(), vec![product]);
        self.down.scale_and_add_bias(group, &mut out);
        out
    }
}
