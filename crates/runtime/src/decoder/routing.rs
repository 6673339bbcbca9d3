//! Routing of tokens to experts: the choice of a mixture of experts and its weights, as `experts.rs` states them.
//!
//! Backward pass: the choice is treated as constant. Gradients of the weights go through the quotient of normalized
//! weights, and the softmax or the sigmoids, to the logits.

use rayon::prelude::*;

use super::{params::DecoderParams, spec::Gating};
use crate::{
    Error,
    keys::Keys,
    ops::{Rows, softmax, softplus},
};

/// Experts of a token, and their weights.
pub(super) struct Routing {
    /// (E): added for the choice only, not to the weight.
    bias: Option<Vec<f32>>,
    gating: Gating,
    /// Groups of equally many experts, of which the best are chosen first.
    n_group: usize,
    n_group_used: usize,
    /// Experts for each token: `k`.
    n_used: usize,
    norm_topk_prob: bool,
    scale: f32,
}

/// The rows that go to an expert, and their weights.
pub(super) type Routed = (Vec<usize>, Vec<f32>);

impl Routing {
    /// Reads the keys of any mixture in a layer: routing without groups, to `n_used` experts that `bias` helps to
    /// choose.
    pub fn read(
        params: &DecoderParams,
        keys: &Keys<'_>,
        n_used: usize,
        bias: Option<Vec<f32>>,
    ) -> Result<Routing, Error> {
        let gating = match keys.count("expert_gating_func")? {
            None | Some(0) => params.spec.gating,
            Some(1) => Gating::Softmax,
            Some(2) => Gating::Sigmoid,
            Some(3) => Gating::SoftmaxOfTopK,
            Some(4) => Gating::SqrtSoftplus,
            Some(_) => return Err(keys.wrong("expert_gating_func", "1, 2, 3 or 4")),
        };
        // As in the reference, 0 means 1.
        let scale = keys.float("expert_weights_scale")?.filter(|scale| *scale != 0.0);
        Ok(Routing {
            bias,
            gating,
            n_group: 1,
            n_group_used: 1,
            n_used,
            norm_topk_prob: keys.flag("expert_weights_norm", params.spec.norm_topk_prob)?,
            scale: scale.unwrap_or(1.0),
        })
    }

    /// Like this, but only experts of the `n_used` best of `n` groups take part.
    pub fn with_groups(self, n: usize, n_used: usize) -> Routing {
        Routing { n_group: n, n_group_used: n_used, ..self }
    }

    /// Experts for each token.
    pub fn n_used(&self) -> usize {
        self.n_used
    }

    /// For each expert the rows of `logits` (n, E) that go to it, and their weights.
    /// `chosen` are the experts of a row that has no choice.
    pub fn route_all<'a>(
        &self,
        logits: &Rows,
        chosen: &(dyn Fn(usize) -> Option<&'a [usize]> + Sync),
    ) -> Vec<Routed> {
        let mut routed = vec![(Vec::new(), Vec::new()); logits.ncols()];
        // Rows are routed one by one, in any order; they are gathered in theirs.
        let rows = logits.as_slice().par_chunks(logits.ncols().max(1)).with_min_len(16);
        let routes = rows.enumerate().map(|(row, logits)| self.route(logits.to_vec(), chosen(row)));
        let routes: Vec<_> = routes.collect();
        for (row, chosen) in routes.into_iter().enumerate() {
            for (expert, weight) in chosen {
                routed[expert].0.push(row);
                routed[expert].1.push(weight);
            }
        }
        routed
    }

    /// The chosen experts and their weights.
    fn route(&self, logits: Vec<f32>, chosen: Option<&[usize]>) -> Vec<(usize, f32)> {
        let mut probabilities = logits;
        self.make_probabilities(&mut probabilities);
        let order = chosen.map_or_else(|| self.choose(&probabilities), <[usize]>::to_vec);
        let mut weights: Vec<f32> = order.iter().map(|expert| probabilities[*expert]).collect();
        if self.gating == Gating::SoftmaxOfTopK {
            softmax(&mut weights, None);
        }
        if self.norm_topk_prob {
            let sum = weights.iter().sum::<f32>().max(LEAST_SUM);
            weights.iter_mut().for_each(|weight| *weight /= sum);
        }
        order.into_iter().zip(weights).map(|(expert, weight)| (expert, weight * self.scale)).collect()
    }

    /// The experts with the best probabilities.
    fn choose(&self, probabilities: &[f32]) -> Vec<usize> {
        // Scores choose; the weights are the probabilities without bias.
        let mut scores = probabilities.to_vec();
        if let Some(bias) = &self.bias {
            scores.iter_mut().zip(bias).for_each(|(score, bias)| *score += bias);
        }
        self.drop_groups(&mut scores);
        // Ties go to the lower index, as the sort is stable.
        let mut order = from_largest(&scores);
        order.truncate(self.n_used);
        order
    }

    /// `p` of logits, unless the softmax comes after the choice: logits choose as well as their softmax would.
    fn make_probabilities(&self, logits: &mut [f32]) {
        match self.gating {
            Gating::Softmax => softmax(logits, None),
            Gating::Sigmoid => logits.iter_mut().for_each(|x| *x = 1.0 / (1.0 + libm::expf(-*x))),
            Gating::SqrtSoftplus => logits.iter_mut().for_each(|x| *x = softplus(*x).sqrt()),
            Gating::SoftmaxOfTopK => {}
        }
    }

    /// Leaves out the experts of all but the best groups.
    ///
    /// A group is as good as its two best experts together (DeepSeek 3), or with a softmax as its best (DeepSeek
    /// 2); the reference takes two for both.
    fn drop_groups(&self, scores: &mut [f32]) {
        if self.n_group_used == self.n_group {
            return;
        }
        let n = scores.len() / self.n_group;
        // The rating of a group: the sum of its best two scores. DeepSeek 2 was trained with the best one.
        let value =
            |group: &[f32]| from_largest(group).into_iter().take(2).map(|expert| group[expert]).sum::<f32>();
        let values: Vec<f32> = scores.chunks(n).map(value).collect();
        for group in from_largest(&values).into_iter().skip(self.n_group_used) {
            // Infinitely low scores are not chosen: enough experts are left, which `open` has checked.
            scores[group * n..(group + 1) * n].fill(f32::NEG_INFINITY);
        }
    }

    /// True if the backward pass supports it.
    pub fn has_backward(&self) -> bool {
        self.gating != Gating::SqrtSoftplus
    }

    /// Backward pass: gradients (n, E) of the weights, 0 for experts that were not chosen, become those of
    /// `logits` (n, E).
    pub fn backward_all(&self, logits: &Rows, gradients: &mut Rows) {
        let width = logits.ncols().max(1);
        let rows = gradients.as_mut_slice().par_chunks_mut(width).zip(logits.as_slice().par_chunks(width));
        rows.for_each(|(gradients, logits)| self.backward(logits, gradients));
    }

    /// Gradients of the weights of a row, 0 for experts that were not chosen, become those of its logits.
    fn backward(&self, logits: &[f32], gradients: &mut [f32]) {
        let mut p = logits.to_vec();
        self.make_probabilities(&mut p);
        let chosen: Vec<usize> =
            self.route(logits.to_vec(), None).into_iter().map(|(expert, _)| expert).collect();
        if self.gating == Gating::SoftmaxOfTopK {
            let mut grad_chosen: Vec<f32> = chosen.iter().map(|expert| p[*expert]).collect();
            softmax(&mut grad_chosen, None);
            p.fill(0.0);
            chosen.iter().zip(grad_chosen).for_each(|(expert, of)| p[*expert] = of);
        }
        gradients.iter_mut().for_each(|gradient| *gradient *= self.scale);
        if self.norm_topk_prob {
            // w = p / sum; if the sum is too small a constant stands in its place.
            let sum = chosen.iter().map(|expert| p[*expert]).sum::<f32>();
            let met =
                chosen.iter().map(|expert| gradients[*expert] * p[*expert]).sum::<f32>() / sum.max(LEAST_SUM);
            let met = if sum > LEAST_SUM { met } else { 0.0 };
            chosen
                .iter()
                .for_each(|expert| gradients[*expert] = (gradients[*expert] - met) / sum.max(LEAST_SUM));
        }
        match self.gating {
            Gating::Sigmoid => {
                gradients.iter_mut().zip(&p).for_each(|(gradient, p)| *gradient *= p * (1.0 - p))
            }
            // Experts that were not chosen have no direct gradient, but share the sum in a softmax over all.
            _ => {
                let met: f32 = gradients.iter().zip(&p).map(|(gradient, p)| gradient * p).sum();
                gradients.iter_mut().zip(&p).for_each(|(gradient, p)| *gradient = p * (*gradient - met));
            }
        }
    }
}

/// Lower bound of the sum of normalized probabilities: the smallest normal half-precision number keeps the
/// quotient finite.
const LEAST_SUM: f32 = 6.103_515_6e-5;

/// Indexes, those of the largest values first.
fn from_largest(values: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(gating: Gating) -> Routing {
        let (n_group, n_group_used, n_used) = (1, 1, 2);
        Routing { bias: None, gating, n_group, n_group_used, n_used, norm_topk_prob: false, scale: 1.0 }
    }

    #[test]
    fn bias_affects_choice_only() {
        let of = |bias: Option<Vec<f32>>| {
            Routing { bias, ..routing(Gating::Sigmoid) }.route(vec![0.0, 2.0, -1.0], None)
        };
        assert_eq!(of(None)[1], (0, 0.5));
        let biased = of(Some(vec![0.0, 0.0, 0.6]));
        assert_eq!((biased[0].0, biased[1].0), (1, 2));
        // 1 / (1 + e)
        assert!((biased[1].1 - 0.268_941_4).abs() < 1e-6);
    }

    #[test]
    fn groups_rank_by_best_experts() {
        let grouped = |gating| Routing { n_group: 2, n_group_used: 1, ..routing(gating) };
        let of = |gating, logits: &[f32]| {
            let chosen = grouped(gating).route(logits.to_vec(), None).into_iter();
            chosen.map(|(expert, _)| expert).collect::<Vec<_>>()
        };
        assert_eq!(of(Gating::Sigmoid, &[3.0, -3.0, 1.0, 1.5]), [3, 2]);
        assert_eq!(of(Gating::Softmax, &[3.0, -3.0, 1.0, 1.5]), [0, 1]);
        // The best expert of all is in the first group, the better two are in the second.
        assert_eq!(of(Gating::Softmax, &[2.0, -3.0, 1.6, 1.7]), [3, 2]);
    }

    #[test]
    fn weight_gradients_match_finite_differences() {
        let plain = |gating| Routing {
            bias: None,
            gating,
            n_group: 1,
            n_group_used: 1,
            n_used: 3,
            norm_topk_prob: false,
            scale: 1.5,
        };
        let logits = [0.3f32, -0.8, 1.1, 0.55, -1.6, 0.9];
        let met = [0.7f32, -1.2, 0.4, 2.0, 0.9, -0.3];
        for gating in [Gating::Softmax, Gating::Sigmoid, Gating::SoftmaxOfTopK] {
            let bias = Some(vec![0.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
            let variants = [
                plain(gating),
                Routing { norm_topk_prob: true, ..plain(gating) },
                Routing { bias, norm_topk_prob: true, ..plain(gating) },
                Routing { n_group: 2, n_group_used: 1, ..plain(gating) },
            ];
            for (at, routing) in variants.iter().enumerate() {
                let of = |logits: &[f32]| -> f64 {
                    let chosen = routing.route(logits.to_vec(), None);
                    chosen
                        .into_iter()
                        .map(|(expert, weight)| f64::from(weight) * f64::from(met[expert]))
                        .sum()
                };
                let mut gradients = [0.0f32; 6];
                for (expert, _) in routing.route(logits.to_vec(), None) {
                    gradients[expert] = met[expert];
                }
                routing.backward(&logits, &mut gradients);
                for (expert, found) in gradients.into_iter().enumerate() {
                    let moved = |by: f32| {
                        let mut logits = logits;
                        logits[expert] += by;
                        of(&logits)
                    };
                    // Wrong by a sixth of h^2 of the third derivative, below 2, and by last bits of 2 over 2 h.
                    let expected = (moved(0.015_625) - moved(-0.015_625)) / 0.031_25;
                    assert!(
                        (f64::from(found) - expected).abs() < 2e-4,
                        "{gating:?} {at} {expert}: {found} {expected}"
                    );
                }
            }
        }
    }
}
