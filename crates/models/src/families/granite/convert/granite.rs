//! Granite 3, dense; text parts of Granite Speech.
//!
//! Config keys: those of llama without `head_dim`, and four multipliers.
//!
//! Transforms: those of llama.
//!
//! Source: `GraniteModel` in `conversion/granite.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

/// The row.
pub const GRANITE: Arch = Arch {
    name: "granite",
    classes: &[
        Class::new("GraniteForCausalLM"),
        Class::new("GraniteSpeechForConditionalGeneration"),
        Class::new("GraniteSpeechPlusForConditionalGeneration"),
    ],
    example: "ibm-granite/granite-3.3-2b-instruct",
    configs: &[GRANITE_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    keys,
    computed: llama::computed,
    drops: |_, name| {
        let is_other = name.starts_with("encoder.")
            || ["image_", "layerwise_projectors", "spatial_projectors"]
                .iter()
                .any(|part| name.contains(part));
        is_other.then_some("part of an image, sound or speech model")
    },
    vocab: vocab::ROUTE,
    ..DECODER
};

/// `GraniteConfig` of transformers 5.23.
const GRANITE_CONFIG: ConfigClass = ConfigClass {
    model_type: "granite",
    fields: &[
        &[
            ("intermediate_size", INT, Int(11008)),
            ("num_key_value_heads", INT | NULL, Null),
            ("max_position_embeddings", INT, Int(2048)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("mlp_bias", BOOL, Bool(false)),
            ("embedding_multiplier", INT | FLOAT, Float(1.0)),
            ("logits_scaling", INT | FLOAT, Float(1.0)),
            ("residual_multiplier", INT | FLOAT, Float(1.0)),
            ("attention_multiplier", INT | FLOAT, Float(1.0)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    ..BASE
};

/// The keys.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `GraniteModel.set_gguf_parameters` removes `head_dim` first: llama.cpp computes it, and asks for
    // no key.
    llama::keys(&hparams.without("head_dim"), keys)?;
    for (key, name) in [
        // Names of the file, and of the config that it is read from: here a multiplier is not a
        // scaling.
        ("attention.scale", "attention_multiplier"),
        ("embedding_scale", "embedding_multiplier"),
        ("residual_scale", "residual_multiplier"),
        ("logit_scale", "logits_scaling"),
    ] {
        // A scale of 0 is not written: Python takes it for absent.
        if let Some(scale) = hparams.get_f64(name)?.filter(|scale| *scale != 0.0) {
            keys.set_prefixed(key, Value::F32(scale as f32));
        }
    }
    Ok(())
}
