//! Granite 3, dense; text parts of Granite Speech and Granite Docling.
//!
//! Config keys: those of llama without `head_dim`, and four multipliers.
//!
//! Transforms: those of llama.
//!
//! Source: `GraniteModel` in `conversion/granite.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const GRANITE: Arch = Arch {
    name: "granite",
    classes: &[
        Class::new("GraniteForCausalLM"),
        Class::new("GraniteSpeechForConditionalGeneration"),
        Class::new("GraniteSpeechPlusForConditionalGeneration"),
        Class::new("GraniteDoclingForConditionalGeneration"),
    ],
    example: "ibm-granite/granite-3.3-2b-instruct",
    configs: &[ConfigClass::new("granite")],
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
    rename: |_, name| name.contains(".text_model.").then(|| name.replace(".text_model.", ".")),
    vocab: vocab::ROUTE,
    harmless: &["hidden_act=silu"],
    ..DECODER
};

/// The keys.
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
