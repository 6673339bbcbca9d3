//! Backward pass through the attention part of a layer.

use ndarray::s;

use super::{Attention, Linear, Projections};
use crate::{
    decoder::mixer::Backward,
    ops::{Norm, Rows, dot},
    pass::Pass,
};

/// Slot of keys and values while a backward pass attends again; not the index of a layer.
const SLOT: usize = usize::MAX;

/// Operations on queries and keys, in order, with the data that gradients need.
#[expect(clippy::large_enum_variant, reason = "three or four of them at a time")]
enum Done {
    /// Norms of queries and of keys, each with its width, and what went into them.
    Norms([Option<(Norm, usize, Rows)>; 2]),
    Rotation,
}

impl Attention {
    /// True if the backward pass supports it: not with keys and values of another layer, gates next to queries,
    /// clamps, a norm before the output matrix or a choice of keys.
    pub(super) fn has_backward(&self) -> bool {
        let projects = match &self.projections {
            Projections::Apart(_) | Projections::Fused(_) => true,
            Projections::RoutedValues(parts) => parts.1.has_backward(),
            Projections::KeysAsValues(_) | Projections::QueriesAlone(_) => false,
        };
        projects
            && !self.is_source
            && !self.is_gated
            && (self.gate.is_none() || self.gate_activation.has_slope())
            && self.clamp.is_none()
            && self.temperature.is_none()
            && self.output_norm.is_none()
            && self.indexer.is_none()
    }

    /// Backward pass through `attended * f(gate h)`: gradients of the product become those of `attended` (n, n_head *
    /// value_width). Returns those of `h` by way of the gate, of which each element is the factor of a group.
    fn backward_gate(
        &self,
        gate: &Linear,
        h: &Rows,
        attended: &Rows,
        gradients: &mut Rows,
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let before = pass.unseen(|pass| gate.run(h, pass));
        let mut factors = before.clone();
        self.gate_activation.apply(&mut factors);
        let width = gradients.ncols() / factors.ncols().max(1);
        let mut grad_gate = pass.scratch(before.nrows(), before.ncols());
        let groups = gradients.as_slice().chunks_exact(width).zip(attended.as_slice().chunks_exact(width));
        for (grad_factor, (gradients, attended)) in grad_gate.iter_mut().zip(groups) {
            *grad_factor = dot(gradients, attended);
        }
        gradients.multiply_groups(&factors);
        self.gate_activation.backward(&before, &mut grad_gate);
        pass.mul_backward(&[(&gate.weight, &grad_gate)])
    }

    /// Normalizes queries and keys if there are norms for them, and notes what went in.
    fn norms(&self, norms: [Option<(&Norm, usize)>; 2], both: [&mut Rows; 2], done: &mut Vec<Done>) {
        let mut both = both.into_iter();
        let noted = norms.map(|norm| {
            let (rows, (norm, width)) = (both.next()?, norm?);
            let entered = rows.clone();
            norm.apply_groups(rows, width);
            Some((norm.clone(), width, entered))
        });
        done.push(Done::Norms(noted));
    }

    /// Gradients of the rows that enter the projections, from those of queries, keys and values.
    fn backward_projections(
        &self,
        h: &Rows,
        [grad_query, grad_key, grad_value]: [&Rows; 3],
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        match &self.projections {
            Projections::RoutedValues(parts) => {
                let ([query, key], experts) = &**parts;
                let both = [(&query.weight, grad_query), (&key.weight, grad_key)];
                let mut grad_h = pass.mul_backward(&both);
                grad_h += &experts.backward(h, grad_value, pass);
                grad_h
            }
            Projections::Apart(apart) => {
                let [query, key, value] = apart.each_ref().map(|linear: &Linear| &linear.weight);
                pass.mul_backward(&[(query, grad_query), (key, grad_key), (value, grad_value)])
            }
            Projections::Fused(fused) => {
                // The columns lie as `project` finds them.
                let mut all = pass.scratch(h.nrows(), fused.weight.n_out);
                let n_blocks = if self.qkv_by_head { self.n_head } else { 1 };
                let (stride, mut at) = (all.ncols() / n_blocks, 0);
                for part in [grad_query, grad_key, grad_value] {
                    let width = part.ncols() / n_blocks;
                    for block in 0..n_blocks {
                        let (from, to) = (block * width, block * stride + at);
                        all.slice_mut(s![.., to..to + width]).assign(&part.slice(s![.., from..from + width]));
                    }
                    at += width;
                }
                pass.mul_backward(&[(&fused.weight, &all)])
            }
            // `has_backward` excludes these.
            Projections::KeysAsValues(_) | Projections::QueriesAlone(_) => pass.zeros(h.nrows(), h.ncols()),
        }
    }
}

impl Backward for Attention {
    fn backward(&self, h: &Rows, gradients: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        // Biases are added to what comes out of a product, so that gradients pass them by.
        let mut grad_attended = pass.mul_backward(&[(&self.output.weight, &gradients)]);
        drop(gradients);
        if let Some(scale) = self.value_scale {
            *grad_attended *= scale;
        }
        // Queries, keys and values once more, like in `run`.
        let (mut query, own) = pass.unseen(|pass| self.project(h, pass));
        let [mut key, mut value] =
            own.unwrap_or_else(|| [0, 1].map(|_| Rows::zeros(h.nrows(), query.ncols())));
        let mut done = Vec::new();
        let head_attention = [
            self.query_norm.as_ref().map(|norm| (norm, self.norm_widths.0)),
            self.key_norm.as_ref().map(|norm| (norm, self.norm_widths.1)),
        ];
        if !self.norms_after_rope {
            self.norms(head_attention, [&mut query, &mut key], &mut done);
        }
        let entered_value = self.value_norm.as_ref().map(|norm| {
            let entered = value.clone();
            norm.apply_groups(&mut value, self.value_width);
            entered
        });
        let cache = self.rope.as_ref().map(|ropes| {
            let rope = ropes.choose(pass.end());
            (rope, pass.rope_cache(rope))
        });
        if let Some((rope, cache)) = &cache {
            rope.apply(&mut [&mut query, &mut key], self.key_width, 0, cache);
            done.push(Done::Rotation);
        }
        if self.norms_after_rope {
            self.norms(head_attention, [&mut query, &mut key], &mut done);
        }
        if let Some(norm) = &self.post_rope_norm {
            self.norms([Some((norm, self.key_width)); 2], [&mut query, &mut key], &mut done);
        }
        let grad_gate = match &self.gate {
            None => None,
            Some(gate) => {
                let attention = self.head_attention();
                let attended = pass.attend(SLOT, &attention, &query, key.clone(), value.clone());
                Some(self.backward_gate(gate, h, &attended, &mut grad_attended, pass))
            }
        };
        let [mut grad_query, mut grad_key, mut grad_value] =
            pass.attend_back(&self.head_attention(), [&query, &key, &value], &grad_attended);
        drop((query, key, value, grad_attended));
        // The last step first.
        for done in done.into_iter().rev() {
            match (done, &cache) {
                (Done::Norms(norms), _) => {
                    for (norm, gradients) in norms.into_iter().zip([&mut grad_query, &mut grad_key]) {
                        if let Some((norm, width, entered)) = norm {
                            norm.backward_groups(&entered, gradients, width);
                        }
                    }
                }
                (Done::Rotation, Some((rope, cache))) => {
                    let both = &mut [&mut grad_query, &mut grad_key];
                    rope.apply(both, self.key_width, 0, &cache.transposed());
                }
                (Done::Rotation, None) => {}
            }
        }
        if let (Some(norm), Some(entered)) = (&self.value_norm, entered_value) {
            norm.backward_groups(&entered, &mut grad_value, self.value_width);
        }
        let mut grad_h = self.backward_projections(h, [&grad_query, &grad_key, &grad_value], pass);
        if let Some(grad_gate) = grad_gate {
            grad_h += &grad_gate;
        }
        grad_h
    }
}
