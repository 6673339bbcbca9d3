//! Backward pass through a mixture of experts.
//!
//! The choice of experts is treated as constant. With `g` the gradient of `y`:
//!
//! ```text
//! to MLP_e:    w_e g                                 Llama 4: g, and the result is multiplied with w_e
//! to w_e:      g . MLP_e(h)                          Llama 4: h . the result
//! to logits:   like in `routing.rs`
//! to MLP_shared and W_s:  sigmoid(W_s h) g,  s (1 - s) (g . MLP_shared(h))
//! ```

use super::{Experts, Mlp, Routed};
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
            let met = if self.scale_input {
                pass.select_rows(h, rows)
            } else {
                pass.unseen(|pass| self.give(expert, gate.clone(), up.clone(), pass))
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
