//! Common parameters of the layers of a file.

use super::spec::{ResidualScale, Spec};
use crate::{
    Error,
    keys::Keys,
    ops::{Activation, Norm, NormKind},
    weights::Weights,
};

/// Hyperparameters of a decoder that all its layers share.
pub(crate) struct DecoderParams {
    pub spec: Spec,
    pub n_embd: usize,
    /// Elements of an input row of attention; `n_embd` except in draft models.
    pub n_attention_in: usize,
    pub n_layer: usize,
    /// Epsilon of every norm.
    pub epsilon: f32,
    /// Kind of the norms of the residual stream.
    stream_norm: NormKind,
    /// Factor of both parts of a layer before they are added to the residual stream.
    pub residual_scale: f32,
    /// If each layer has only one part: true for a feed-forward part.
    feed_forward_alone: Option<Vec<bool>>,
    /// True if a token sees only earlier tokens.
    pub is_causal: bool,
}

impl DecoderParams {
    /// Reads the keys of a file of this family.
    pub fn read(mut spec: Spec, keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<DecoderParams, Error> {
        let n_embd = keys.need_count("embedding_length")?;
        // Layers that predict further tokens (multi-token prediction) come last, and are not run.
        let n_further = keys.count("nextn_predict_layers")?.unwrap_or(0);
        let n_all = keys.need_count("block_count")?;
        let part = || keys.wrong("nextn_predict_layers", "a part of the layers");
        let n_layer = n_all.checked_sub(n_further).ok_or_else(part)?;
        if n_further > 0 && !weights.has_layer(0) {
            return Err(Error::PredictionAlone { layers: n_further });
        }
        weights.ignore_layers(n_layer, n_all);
        // Command A+ has either kind, and the key of one.
        if spec.norm_is_by_key
            && keys.float("attention.layer_norm_rms_epsilon")?.is_some_and(|epsilon| epsilon > 0.0)
        {
            spec.norm = NormKind::Rms;
        }
        let epsilon = match spec.norm {
            NormKind::Rms | NormKind::GroupedRms(_) => {
                let key = "attention.layer_norm_rms_epsilon";
                let other = keys.float("attention.layer_norm_epsilon")?.filter(|_| spec.takes_other_epsilon);
                spec.epsilon.or(keys.float(key)?).or(other).ok_or_else(|| keys.missing(key))?
            }
            NormKind::Layer => {
                // Some have it under the other name too, or only there (ModernBERT, Phi 3.5 MoE).
                let epsilon = keys.float("attention.layer_norm_epsilon")?;
                let epsilon = epsilon.or(keys.float("attention.layer_norm_rms_epsilon")?);
                epsilon.ok_or_else(|| keys.missing("attention.layer_norm_epsilon"))?
            }
        };
        // As in the reference, 0 means one group.
        let n_groups = keys.count("attention.group_norm_groups")?.unwrap_or(0).max(1);
        if n_embd % n_groups != 0 {
            return Err(keys.wrong("attention.group_norm_groups", "a divisor of the embedding length"));
        }
        let stream_norm = match spec.norm {
            NormKind::Rms if n_groups > 1 => NormKind::GroupedRms(n_groups),
            kind => kind,
        };
        // Encoders state their function; a decoder's is its family's.
        if !spec.has_lm_head && keys.text("hidden_activation")? == Some("silu") {
            spec.activation = Activation::Silu;
        }
        let residual_scale = keys.float("residual_scale")?.unwrap_or(match spec.residual_scale {
            ResidualScale::One => 1.0,
            ResidualScale::OverSqrtLayers(depth) => depth / (n_layer as f32).sqrt(),
        });
        let feed_forward_alone = if spec.one_part_layers {
            let key = "feed_forward_length";
            let lengths = keys.counts(key, n_layer)?.ok_or_else(|| keys.missing(key))?;
            Some(lengths.iter().map(|length| *length > 0).collect())
        } else {
            None
        };
        let is_causal = keys.flag("attention.causal", spec.is_causal)?;
        let n_attention_in = n_embd;
        Ok(DecoderParams {
            spec,
            n_embd,
            n_attention_in,
            n_layer,
            epsilon,
            stream_norm,
            residual_scale,
            feed_forward_alone,
            is_causal,
        })
    }

    /// True if layer `i` has mixers.
    pub fn has_mixers(&self, i: usize) -> bool {
        self.feed_forward_alone.as_ref().is_none_or(|alone| !alone[i])
    }

    /// True if layer `i` has a feed-forward part, according to the keys.
    pub fn has_feed_forward(&self, i: usize) -> bool {
        self.feed_forward_alone.as_ref().is_none_or(|alone| alone[i])
    }

    /// The function between the halves of the feed-forward part of layer `i`. `bound` is the key of what is largest there,
    /// where a file states that.
    pub fn activation(&self, keys: &Keys<'_>, i: usize, bound: &str) -> Result<Activation, Error> {
        let per_layer = |key: &str| keys.floats(key, self.n_layer).map(|all| all.map(|all| all[i]));
        let xielu = |part: &str| {
            let key = format!("xielu.{part}");
            keys.floats_of(&key, self.n_layer).map(|all| all.map(|all| all[i]))
        };
        if let (Some(alpha_n), Some(alpha_p)) = (xielu("alpha_n")?, xielu("alpha_p")?) {
            let (beta, epsilon) = (xielu("beta")?.unwrap_or(0.5), xielu("eps")?.unwrap_or(-1e-6));
            // ln(1 + e^x): the parameters are stored as they were trained.
            let softplus = |x: f32| x.max(0.0) + libm::log1pf(libm::expf(-x.abs()));
            let (alpha_n, alpha_p) = (beta + softplus(alpha_n), softplus(alpha_p));
            return Ok(Activation::Xielu { alpha_n, alpha_p, beta, epsilon });
        }
        if let Some(beta) = keys.float("activation.situ_beta")?.filter(|beta| *beta > 0.0) {
            let linear_beta = keys.float("activation.situ_linear_beta")?.unwrap_or(0.0);
            return Ok(Activation::Situ { beta, linear_beta });
        }
        // 0 means no bound.
        Ok(match (per_layer(bound)?.filter(|bound| *bound > 0.0), self.spec.activation) {
            (Some(bound), Activation::Silu) if self.spec.bounds_argument => Activation::SiluOfBounded(bound),
            (Some(bound), Activation::Silu) => Activation::BoundedSilu(bound),
            (_, activation) => activation,
        })
    }

    /// A norm without weights.
    pub fn weightless_norm(&self) -> Norm {
        Norm { kind: self.spec.norm, epsilon: self.epsilon, weight: None, bias: None }
    }

    /// The norm of the residual stream of this name, if its weights or its bias are there, or if the family
    /// normalizes without.
    pub fn norm(&self, weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Option<Norm>, Error> {
        let norm = self.optional_norm(weights, name, n)?;
        let norm = norm.or_else(|| self.spec.weightless_norms.then(|| self.weightless_norm()));
        Ok(norm.map(|norm| Norm { kind: self.stream_norm, ..norm }))
    }

    /// Like this, of a norm after a part of a layer.
    pub fn post_norm(&self, weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Option<Norm>, Error> {
        let norm = self.optional_norm(weights, name, n)?;
        Ok(norm.map(|norm| Norm { epsilon: self.spec.post_norm_epsilon.unwrap_or(norm.epsilon), ..norm }))
    }

    /// The norm of this name, if its weights or its bias are there.
    pub fn optional_norm(
        &self,
        weights: &mut Weights<'_>,
        name: &str,
        n: usize,
    ) -> Result<Option<Norm>, Error> {
        // The reference writes one of Falcon-H1's norms without an ending.
        let weight = match weights.vector(&format!("{name}.weight"), n)? {
            Some(weight) => Some(weight),
            None => weights.vector(name, n)?,
        };
        let bias = weights.vector(&format!("{name}.bias"), n)?;
        let exists = weight.is_some() || bias.is_some();
        Ok(exists.then_some(Norm { kind: self.spec.norm, epsilon: self.epsilon, weight, bias }))
    }
}

/// The cap of a key, or the family's default; 0 means no limit.
pub(super) fn soft_cap(key: Option<f32>, default: f32) -> Option<f32> {
    Some(key.unwrap_or(default)).filter(|cap| *cap > 0.0)
}
