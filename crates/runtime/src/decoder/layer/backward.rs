//! Backward pass through a layer.
//!
//! The layer runs again from its input, and the backward pass goes through each part as soon as the gradients
//! of its output are known. `c` is the factor of additions to the stream, `A` and `F` the parts with the
//! norms after them:
//!
//! ```text
//! in turn:      x1 = x + c A(n1 x),   x2 = x1 + c F(n2 x1)     dx1 = dx2 + n2' F' c dx2,   dx = dx1 + n1' A' c dx1
//! in parallel:  x2 = x + c A(n1 x) + c F(n2 x)                 dx = dx2 + n2' F' c dx2 + n1' A' c dx2
//! ```

use super::{FeedForward, Layer, normalized};
use crate::{
    ops::{Norm, Rows},
    pass::Pass,
};

impl Layer {
    /// The part that the backward pass does not support.
    pub fn no_backward(&self) -> Option<&'static str> {
        let mixers = match &self.mixers[..] {
            [] => None,
            [mixer] if mixer.backward().is_some() => None,
            _ => Some("its token mixer"),
        };
        let feed_forward = match &self.feed_forward {
            None => None,
            Some(FeedForward::Mlp(mlp)) if mlp.has_backward() => None,
            Some(FeedForward::Mlp(_)) => Some("its feed-forward activation"),
            Some(FeedForward::Experts(experts)) if experts.has_backward() => None,
            Some(_) => Some("its experts"),
        };
        let stream = self.stream_norm.is_some()
            || self.second_stream_norm.is_some()
            || self.laurel.is_some()
            || self.per_layer_input.is_some()
            || self.end_norm.is_some();
        mixers.or(feed_forward).or(stream.then_some("its residual stream"))
    }

    /// `x` (n, n_embd) entered layer `index`; gradients of what left become those of `x`.
    pub fn backward(&self, index: usize, x: &Rows, mut gradients: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        if let Some(rescale) = self.rescale {
            *gradients *= rescale;
        }
        let first_norm = self.second_norm.as_ref().or(self.attention_norm.as_ref());
        let h = normalized(first_norm, x, pass);
        let mixed = pass.unseen(|pass| self.mix(index, &h, pass));
        if self.is_parallel {
            // Like in `run`: with a single norm both parts read the same rows.
            let norm = self.mlp_norm.as_ref().or(self.attention_norm.as_ref());
            // Both read the gradients as they came, so neither is added before the other is made.
            let grad_fed = self.backward_feed_forward(index, norm, x, &gradients, pass);
            let grad_mixed = self.backward_mixer(first_norm, [x, &h, &mixed], &gradients, pass);
            gradients.add_scaled(1.0, &grad_fed);
            gradients.add_scaled(1.0, &grad_mixed);
            return gradients;
        }
        // x1: the stream between the parts.
        let mut between = pass.scratch(x.nrows(), x.ncols());
        match &self.attention_post_norm {
            Some(norm) => norm.apply_into(&mixed, &mut between),
            None => between.copy_from(&mixed),
        }
        // As in `run`, but that the sum has its terms the other way round.
        *between *= self.residual_scale;
        between.add_scaled(1.0, x);
        let grad_fed = self.backward_feed_forward(index, self.mlp_norm.as_ref(), &between, &gradients, pass);
        gradients.add_scaled(1.0, &grad_fed);
        drop((grad_fed, between));
        let grad_mixed = self.backward_mixer(first_norm, [x, &h, &mixed], &gradients, pass);
        gradients.add_scaled(1.0, &grad_mixed);
        gradients
    }

    /// Backward pass through the mixer and its norms: `x` became `h`, and that `mixed`; gradients of the
    /// residual stream after it are turned into the contribution to those of `x`.
    fn backward_mixer(
        &self,
        norm: Option<&Norm>,
        [x, h, mixed]: [&Rows; 3],
        gradients: &Rows,
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let Some(mixer) = self.mixers.first().and_then(|mixer| mixer.backward()) else {
            return pass.zeros(x.nrows(), x.ncols());
        };
        let grad_mixed = self.backward_norm(self.attention_post_norm.as_ref(), mixed, gradients, pass);
        let mut grad_h = mixer.backward(h, grad_mixed, pass);
        if let Some(norm) = norm {
            norm.backward(x, &mut grad_h);
        }
        grad_h
    }

    /// Through the feed-forward part and the norms around it: it read `x`, normalized.
    fn backward_feed_forward(
        &self,
        index: usize,
        norm: Option<&Norm>,
        x: &Rows,
        gradients: &Rows,
        pass: &mut Pass<'_, '_>,
    ) -> Rows {
        let Some(part) = &self.feed_forward else {
            return pass.zeros(x.nrows(), x.ncols());
        };
        let h = normalized(norm, x, pass);
        // The norm after the MLP needs the output before it.
        let y = match &self.mlp_post_norm {
            Some(_) => pass.unseen(|pass| part.run(index, x, &h, pass)),
            None => pass.zeros(0, 0),
        };
        let grad_y = self.backward_norm(self.mlp_post_norm.as_ref(), &y, gradients, pass);
        let mut grad_h = match part {
            FeedForward::Mlp(mlp) => mlp.backward(&h, grad_y, pass),
            FeedForward::Experts(experts) => experts.backward(&h, grad_y, pass),
            // These have no backward pass, which is checked before.
            FeedForward::ExpertsByStream(_) | FeedForward::MlpWithExperts(_) | FeedForward::ChannelMix(_) => {
                pass.zeros(x.nrows(), x.ncols())
            }
        };
        if let Some(norm) = norm {
            norm.backward(x, &mut grad_h);
        }
        grad_h
    }

    /// Gradients of what a part gave, `y` before its norm, by those of the stream that it was added to.
    fn backward_norm(&self, norm: Option<&Norm>, y: &Rows, gradients: &Rows, pass: &Pass<'_, '_>) -> Rows {
        let mut grad_y = pass.scratch(gradients.nrows(), gradients.ncols());
        grad_y.copy_from(gradients);
        if self.residual_scale != 1.0 {
            *grad_y *= self.residual_scale;
        }
        if let Some(norm) = norm {
            norm.backward(y, &mut grad_y);
        }
        grad_y
    }
}
