//! Backward pass through a mixture of experts.
//!
//! The choice of experts is treated as constant. With `g` the gradient of `y`:
//!
//! ```text
//! to MLP_e:    w_e g                                 Llama 4: g, and the result is multiplied with w_e
//! to w_e:      g . MLP_e(h)                          Llama 4: h . the result
//! to logits:   through the quotient of the normalized weights, and the softmax or the sigmoids
//! to MLP_shared and W_s:  sigmoid(W_s h) g,  s (1 - s) (g . MLP_shared(h))
//! ```

use rayon::prelude::*;

use super::{Experts, Gating, LEAST_SUM, Mlp, Routed, Routing, softmax};
use crate::{ops::Rows, pass::Pass};

impl Experts {
    /// True if the backward pass supports it.
    pub fn has_backward(&self) -> bool {
        // Latent and scaled experts have not been compared with differences yet.
        let mut stacks = [self.gate.as_ref(), Some(&self.up), Some(&self.down)].into_iter().flatten();
        (self.gate.is_some() || self.is_fused)
            && self.latent.is_none()
            && self.by_token.is_none()
            && self.adjugates.is_none()
            && self.routing.has_backward()
            && stacks.all(|stack| stack.scale.is_none())
            && self.activation.has_slope()
            && self.shared.as_ref().is_none_or(Mlp::has_backward)
    }

    /// Backward pass: `h` (n, n_embd) was the input; gradients of the output become those of `h`. Everything
    /// is computed again.
    pub fn backward(&self, h: &Rows, mut gradients: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        if self.sum_scale != 1.0 {
            *gradients *= self.sum_scale;
        }
        // Step 1: the chosen experts. Of each row the gradients of its weights lie where the logits are.
        let logits = pass.unseen(|pass| self.router.run(h, pass));
        let routed = self.routing.route_all(&logits, &|_| None);
        let mut grad_weights = pass.zeros(logits.nrows(), logits.ncols());
        let mut grad_h = self.backward_routed(&routed, [h, &gradients], &mut grad_weights, pass);
        // Step 2: the router.
        self.routing.backward_all(&logits, &mut grad_weights);
        grad_h += &pass.mul_backward(&[(&self.router.weight, &grad_weights)]);
        // Step 3: the shared expert.
        if let Some(shared) = &self.shared {
            if let Some(gate) = &self.shared_gate {
                let y = pass.unseen(|pass| shared.run(h, pass));
                let mut grad_gate = pass.unseen(|pass| gate.run(h, pass));
                let rows = gradients.rows_mut().into_iter().zip(y.rows());
                for (gate, (mut grad_y, y)) in grad_gate.iter_mut().zip(rows) {
                    let s = 1.0 / (1.0 + libm::expf(-*gate));
                    *gate = s * (1.0 - s) * grad_y.dot(&y);
                    grad_y *= s;
                }
                grad_h += &pass.mul_backward(&[(&gate.weight, &grad_gate)]);
            }
            grad_h += &shared.backward(h, gradients, pass);
        }
        grad_h
    }

    /// Through the experts that rows were routed to: `h` went in, and gradients of the sum become those of `h`; those of the weights go
    /// where they belong in `grad_weights` (n, E).
    fn backward_routed(
        &self,
        routed: &[Routed],
        [h, gradients]: [&Rows; 2],
        grad_weights: &mut Rows,
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let mut grad_h = pass.zeros(h.nrows(), h.ncols());
        for (expert, (rows, weights)) in routed.iter().enumerate().filter(|(_, (rows, _))| !rows.is_empty()) {
            let mut x = pass.select_rows(h, rows);
            let mut grad_y = pass.select_rows(gradients, rows);
            let scaled = if self.scale_input { &mut x } else { &mut grad_y };
            scaled.rows_mut().into_iter().zip(weights).for_each(|(mut row, weight)| row *= *weight);
            pass.routed = Some(rows.clone());
            let (gate, up) = pass.unseen(|pass| self.gate_and_up(expert, &x, pass));
            // The other factor of the weights: input rows, or outputs.
            let met = match self.scale_input {
                true => pass.select_rows(h, rows),
                false => pass.unseen(|pass| self.give(expert, gate.clone(), up.clone(), pass)),
            };
            let grad_x = self.backward_one(expert, gate, up, grad_y, pass);
            pass.routed = None;
            for (at, row) in rows.iter().enumerate() {
                let meets = if self.scale_input { grad_x.row(at) } else { gradients.row(*row) };
                grad_weights[[*row, expert]] = meets.dot(&met.row(at));
            }
            let ones = if self.scale_input { Vec::new() } else { vec![1.0; rows.len()] };
            grad_h.add_to_rows(rows, if self.scale_input { weights } else { &ones }, &grad_x);
        }
        grad_h
    }

    /// Through one expert, by what its function read: gradients of what came out become those of what went in.
    fn backward_one(
        &self,
        expert: usize,
        gate: Option<Rows>,
        mut up: Rows,
        grad_y: Rows,
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let mut grad_inner = pass.mul_backward_of(expert, &[(&self.down.weight, &grad_y)]);
        drop(grad_y);
        let (Some(gates), Some(mut gate)) = (&self.gate, gate) else {
            self.activation.backward_halves(&mut up, true, &mut grad_inner);
            return pass.mul_backward_of(expert, &[(&self.up.weight, &up)]);
        };
        self.activation.backward_gated(&mut gate, &up, &mut grad_inner);
        drop(up);
        pass.mul_backward_of(expert, &[(&gates.weight, &gate), (&self.up.weight, &grad_inner)])
    }
}

impl Routing {
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
            // w = p / sum; where the sum is too small a constant stands in its place.
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

#[cfg(test)]
mod tests {
    use super::*;

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
