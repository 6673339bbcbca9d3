//! The feed-forward part of a layer, as a mixture of experts.
//!
//! Source: `llm_graph_context::build_moe_ffn` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::Axis;

use super::{Shape, linear::Linear, mlp::Mlp};
use crate::{
    Error,
    graph::Pass,
    keys::Keys,
    ops::{Activation, Product, Rows, softmax},
    weights::{Weight, Weights},
};

/// How logits of the router become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gating {
    Softmax,
    Sigmoid,
    /// The softmax of the chosen ones alone.
    SoftmaxOfChosen,
}

pub(super) struct Experts {
    router: Linear,
    /// What is added to choose, and not counted in the weight.
    choice_bias: Option<Vec<f32>>,
    gating: Gating,
    n_used: usize,
    renormalize: bool,
    weight_scale: f32,
    activation: Activation,
    gate: Option<Stack>,
    up: Stack,
    down: Stack,
    shared: Option<Mlp>,
    /// How much of the shared expert is added, for each token.
    shared_gate: Option<Linear>,
}

/// A matrix and a bias for each expert.
struct Stack {
    weight: Weight,
    /// (n_expert, n_out).
    bias: Option<Vec<f32>>,
}

impl Stack {
    fn open(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        n_out: usize,
        n: usize,
    ) -> Result<Option<Stack>, Error> {
        let weight = weights.stack(&format!("{name}.weight"), n_in, n_out, n)?;
        let Some(weight) = weight else { return Ok(None) };
        let bias = weights.vector(&format!("{name}.bias"), n * n_out)?;
        Ok(Some(Stack { weight, bias }))
    }

    fn need(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        n_out: usize,
        n: usize,
    ) -> Result<Stack, Error> {
        Self::open(weights, name, n_in, n_out, n)?
            .ok_or_else(|| Error::MissingTensor { name: format!("{name}.weight") })
    }

    fn add_bias(&self, expert: usize, rows: &mut Rows) {
        if let Some(bias) = &self.bias {
            let n = self.weight.n_out;
            crate::ops::add_bias(rows, &bias[expert * n..(expert + 1) * n]);
        }
    }
}

impl Experts {
    /// The experts of a layer, if it has a router.
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<Experts>, Error> {
        let blk = |name: &str| format!("blk.{i}.{name}");
        let n_embd = shape.n_embd;
        let n = keys.count("expert_count")?.unwrap_or(0);
        if n == 0 {
            return Ok(None);
        }
        let Some(router) = Linear::open(weights, &blk("ffn_gate_inp"), n_embd, n)? else { return Ok(None) };
        let per_layer = |key: &str| keys.counts(key, shape.n_layer).map(|counts| counts.map(|c| c[i]));
        let n_used = per_layer("expert_used_count")?.ok_or_else(|| keys.missing("expert_used_count"))?;
        if n_used == 0 || n_used > n {
            return Err(keys.wrong("expert_used_count", "a part of the experts"));
        }
        let n_ff = match per_layer("expert_feed_forward_length")?.filter(|n| *n > 0) {
            Some(n_ff) => n_ff,
            None => per_layer("feed_forward_length")?.ok_or_else(|| keys.missing("feed_forward_length"))?,
        };
        let gating = match keys.count("expert_gating_func")? {
            None | Some(0 | 1) => Gating::Softmax,
            Some(2) => Gating::Sigmoid,
            Some(3) => Gating::SoftmaxOfChosen,
            Some(_) => return Err(keys.wrong("expert_gating_func", "1, 2 or 3")),
        };
        // The width of shared experts is what their tensors say; a key tells it for some families only.
        let shared_ff = weights.shape(&blk("ffn_down_shexp.weight")).map(|shape| shape.dim(0) as usize);
        let shared = match shared_ff {
            None => None,
            Some(n_ff) => {
                let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}_shexp")));
                Some(Mlp::open(shape, weights, names, n_ff)?)
            }
        };
        let stated = keys.float("expert_weights_scale")?.filter(|scale| *scale != 0.0);
        Ok(Some(Experts {
            router,
            choice_bias: weights.vector(&blk("exp_probs_b.bias"), n)?,
            gating,
            n_used,
            renormalize: keys.flag("expert_weights_norm", shape.spec.renormalize)?,
            weight_scale: stated.unwrap_or(1.0),
            activation: shape.spec.activation,
            gate: Stack::open(weights, &blk("ffn_gate_exps"), n_embd, n_ff, n)?,
            up: Stack::need(weights, &blk("ffn_up_exps"), n_embd, n_ff, n)?,
            down: Stack::need(weights, &blk("ffn_down_exps"), n_ff, n_embd, n)?,
            shared,
            shared_gate: Linear::open(weights, &blk("ffn_gate_inp_shexp"), n_embd, 1)?,
        }))
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        let n_ff = self.up.weight.n_out;
        2 * n_ff + 2 * self.up.weight.n_in + self.shared.as_ref().map_or(0, Mlp::row_floats)
    }

    /// `h (n, n_embd) -> (n, n_embd)`.
    pub fn run(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let logits = self.router.run(h, pass);
        // For each expert, the rows that are routed to it and their weights.
        let mut routed = vec![(Vec::new(), Vec::new()); logits.ncols()];
        for (row, logits) in logits.rows().into_iter().enumerate() {
            for (expert, weight) in self.choose(logits.to_vec()) {
                routed[expert].0.push(row);
                routed[expert].1.push(weight);
            }
        }
        pass.give(logits);
        let mut out = match &self.shared {
            None => Rows::zeros(h.raw_dim()),
            Some(shared) => {
                let mut out = shared.run(h, pass);
                if let Some(gate) = &self.shared_gate {
                    let gate = gate.run(h, pass);
                    for (mut row, gate) in out.rows_mut().into_iter().zip(&gate) {
                        row *= 1.0 / (1.0 + (-gate).exp());
                    }
                }
                out
            }
        };
        for (expert, (rows, weights)) in routed.iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty()) {
            let made = self.run_one(expert, &h.select(Axis(0), rows), pass);
            for ((row, weight), made) in rows.iter().zip(weights).zip(made.rows()) {
                out.row_mut(*row).scaled_add(*weight, &made);
            }
            pass.give(made);
        }
        out
    }

    fn run_one(&self, expert: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n_rows = h.nrows();
        let mut up = pass.take(n_rows, self.up.weight.n_out);
        let inner = match &self.gate {
            None => {
                let out = up.view_mut();
                pass.mul_mat(h.view(), vec![Product { weight: &self.up.weight, index: expert, out }]);
                self.up.add_bias(expert, &mut up);
                self.activation.apply(&mut up);
                up
            }
            Some(gates) => {
                let mut gate = pass.take(n_rows, gates.weight.n_out);
                pass.mul_mat(
                    h.view(),
                    vec![
                        Product { weight: &gates.weight, index: expert, out: gate.view_mut() },
                        Product { weight: &self.up.weight, index: expert, out: up.view_mut() },
                    ],
                );
                gates.add_bias(expert, &mut gate);
                self.up.add_bias(expert, &mut up);
                self.activation.apply_gated(&mut gate, &up);
                pass.give(up);
                gate
            }
        };
        let mut out = pass.take(n_rows, self.down.weight.n_out);
        let product = Product { weight: &self.down.weight, index: expert, out: out.view_mut() };
        pass.mul_mat(inner.view(), vec![product]);
        self.down.add_bias(expert, &mut out);
        pass.give(inner);
        out
    }

    /// The chosen experts and their weights.
    fn choose(&self, logits: Vec<f32>) -> Vec<(usize, f32)> {
        let mut probabilities = logits;
        match self.gating {
            Gating::Softmax => softmax(&mut probabilities, None),
            Gating::Sigmoid => probabilities.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
            Gating::SoftmaxOfChosen => {}
        }
        let score = |expert: usize| {
            probabilities[expert] + self.choice_bias.as_ref().map_or(0.0, |bias| bias[expert])
        };
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        order.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        order.truncate(self.n_used);
        let mut weights: Vec<f32> = order.iter().map(|expert| probabilities[*expert]).collect();
        if self.gating == Gating::SoftmaxOfChosen {
            softmax(&mut weights, None);
        }
        if self.renormalize {
            // The smallest normal number of half precision keeps the quotient finite.
            let sum = weights.iter().sum::<f32>().max(6.103_515_6e-5);
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        order.into_iter().zip(weights).map(|(expert, weight)| (expert, weight * self.weight_scale)).collect()
    }
}
