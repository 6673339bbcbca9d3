//! The feed-forward part of a layer, as a mixture of experts.
//!
//! Source: `llm_graph_context::build_moe_ffn` of llama.cpp (llama-cpp-python 0.3.36).

use ndarray::Axis;

use super::{Gating, Shape, linear::Linear, mlp::Mlp};
use crate::{
    Error,
    graph::Pass,
    keys::Keys,
    ops::{Activation, Product, Rows, softmax},
    weights::{Weight, Weights},
};

pub(super) struct Experts {
    router: Linear,
    choice: Choice,
    /// Whether what goes into an expert is weighed, not what comes out.
    weigh_input: bool,
    activation: Activation,
    gate: Option<Stack>,
    up: Stack,
    down: Stack,
    shared: Option<Mlp>,
    /// How much of the shared expert is added, for each token.
    shared_gate: Option<Linear>,
}

/// Which experts a token goes to.
struct Choice {
    /// What is added to choose, and not counted in the weight.
    bias: Option<Vec<f32>>,
    gating: Gating,
    /// Experts in groups, of which the best are chosen first.
    groups: usize,
    used_groups: usize,
    n_used: usize,
    renormalize: bool,
    scale: f32,
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
            None | Some(0) => shape.spec.gating,
            Some(1) => Gating::Softmax,
            Some(2) => Gating::Sigmoid,
            Some(3) => Gating::SoftmaxOfChosen,
            Some(_) => return Err(keys.wrong("expert_gating_func", "1, 2 or 3")),
        };
        let bias = weights.vector(&blk("exp_probs_b.bias"), n)?;
        let gating = match (gating, &bias) {
            (Gating::ByBias, Some(_)) => Gating::Sigmoid,
            (Gating::ByBias, None) => Gating::Softmax,
            (gating, _) => gating,
        };
        let groups = keys.count("expert_group_count")?.unwrap_or(0).max(1);
        let used_groups = keys.count("expert_group_used_count")?.unwrap_or(0);
        let used_groups = if used_groups == 0 { groups } else { used_groups };
        if n % groups != 0 || used_groups > groups || used_groups * (n / groups) < n_used {
            return Err(keys.wrong("expert_group_count", "groups that hold the experts that are used"));
        }
        let has_shared = weights.shape(&blk("ffn_down_shexp.weight")).is_some();
        let names = ["gate", "up", "down"].map(|part| blk(&format!("ffn_{part}_shexp")));
        let shared = has_shared.then(|| Mlp::open(shape, weights, names)).transpose()?;
        let stated = keys.float("expert_weights_scale")?.filter(|scale| *scale != 0.0);
        Ok(Some(Experts {
            router,
            choice: Choice {
                bias,
                gating,
                groups,
                used_groups,
                n_used,
                renormalize: keys.flag("expert_weights_norm", shape.spec.renormalize)?,
                scale: stated.unwrap_or(1.0),
            },
            weigh_input: shape.spec.weigh_input,
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
            for (expert, weight) in self.choice.choose(logits.to_vec()) {
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
            let mut routed = h.select(Axis(0), rows);
            if self.weigh_input {
                routed.rows_mut().into_iter().zip(weights).for_each(|(mut row, weight)| row *= *weight);
            }
            let made = self.run_one(expert, &routed, pass);
            for ((row, weight), made) in rows.iter().zip(weights).zip(made.rows()) {
                out.row_mut(*row).scaled_add(if self.weigh_input { 1.0 } else { *weight }, &made);
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
}

impl Choice {
    /// The chosen experts and their weights.
    fn choose(&self, logits: Vec<f32>) -> Vec<(usize, f32)> {
        if self.gating == Gating::SparseMixer {
            return sparse_mixer(logits, self.n_used);
        }
        let mut probabilities = logits;
        match self.gating {
            Gating::Softmax | Gating::ByBias => softmax(&mut probabilities, None),
            Gating::Sigmoid => probabilities.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp())),
            Gating::SoftmaxOfChosen | Gating::SparseMixer => {}
        }
        let mut scores = probabilities.clone();
        if let Some(bias) = &self.bias {
            scores.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
        }
        self.drop_groups(&mut scores);
        let mut order = from_largest(&scores);
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
        order.into_iter().zip(weights).map(|(expert, weight)| (expert, weight * self.scale)).collect()
    }

    /// Leaves out the experts of all but the best groups.
    ///
    /// A group is as good as its two best experts together (DeepSeek 3), or with a softmax as its best (DeepSeek
    /// 2); the reference takes two for both.
    fn drop_groups(&self, scores: &mut [f32]) {
        if self.used_groups == self.groups {
            return;
        }
        let n = scores.len() / self.groups;
        let n_counted = if self.gating == Gating::Softmax { 1 } else { 2 };
        let value = |group: &[f32]| {
            from_largest(group).into_iter().take(n_counted).map(|expert| group[expert]).sum::<f32>()
        };
        let values: Vec<f32> = scores.chunks(n).map(value).collect();
        for group in from_largest(&values).into_iter().skip(self.used_groups) {
            scores[group * n..(group + 1) * n].fill(f32::NEG_INFINITY);
        }
    }
}

/// Indexes, those of the largest values first.
fn from_largest(values: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    order
}

/// The experts of the largest logits, one after the other, each with its share of those that are left and
/// within 2 % of it.
///
/// Source: `sparsemixer` of PhiMoE in transformers, without training's noise; its share of jitter is 0.01 in all
/// published models.
fn sparse_mixer(mut logits: Vec<f32>, n_used: usize) -> Vec<(usize, f32)> {
    const JITTER: f32 = 0.01;
    let mut chosen = Vec::with_capacity(n_used);
    for _ in 0..n_used {
        let expert = from_largest(&logits)[0];
        let max = logits[expert];
        let is_far = |x: f32| (max - x) / x.abs().max(max) > 2.0 * JITTER;
        // Chosen ones are infinitely low: counted or not, they add nothing.
        let sum: f32 = logits.iter().filter(|x| !is_far(**x)).map(|x| (x - max).exp()).sum();
        chosen.push((expert, 1.0 / sum));
        logits[expert] = f32::NEG_INFINITY;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(gating: Gating) -> Choice {
        Choice { bias: None, gating, groups: 1, used_groups: 1, n_used: 2, renormalize: false, scale: 1.0 }
    }

    #[test]
    fn a_bias_chooses_and_does_not_weigh() {
        let of =
            |bias: Option<Vec<f32>>| Choice { bias, ..choice(Gating::Sigmoid) }.choose(vec![0.0, 2.0, -1.0]);
        assert_eq!(of(None)[1], (0, 0.5));
        let biased = of(Some(vec![0.0, 0.0, 0.6]));
        assert_eq!((biased[0].0, biased[1].0), (1, 2));
        // 1 / (1 + e)
        assert!((biased[1].1 - 0.268_941_4).abs() < 1e-6);
    }

    #[test]
    fn groups_are_chosen_by_two_or_by_one() {
        let grouped = |gating| Choice { groups: 2, used_groups: 1, ..choice(gating) };
        let logits = vec![3.0, -3.0, 1.0, 1.5];
        let of = |gating| grouped(gating).choose(logits.clone()).into_iter().map(|(expert, _)| expert);
        assert_eq!(of(Gating::Sigmoid).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(of(Gating::Softmax).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn near_ones_share_in_a_sparse_mixture() {
        let chosen = sparse_mixer(vec![1.0, 0.99, -4.0, 0.5], 2);
        assert_eq!((chosen[0].0, chosen[1].0), (0, 1));
        assert!((chosen[0].1 - 1.0 / (1.0 + (-0.01f32).exp())).abs() < 1e-6);
        assert_eq!(chosen[1].1, 1.0);
    }
}
