//! OLMoE.
//!
//! Config keys: those of every text model, with a fixed norm epsilon.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `OlmoeModel` in `conversion/olmo.py`.

use crate::prelude::*;

pub const OLMOE: Arch = Arch {
    name: "olmoe",
    classes: &[Class::new("OlmoeForCausalLM")],
    example: "allenai/OLMoE-1B-7B-0924",
    configs: &[ConfigClass::new("olmoe")],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
    ],
    keys,
    built_in: &[KEEPS_EXPERT_WEIGHTS, BuiltIn::is("rms_norm_eps", &["1e-5"])],
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // `set_gguf_parameters` calls its parent, then sets one key over it.
    text_keys(hparams, keys)?;
    // `OlmoeModel` writes the constant over what `text_keys` has read.
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(1e-5));
    Ok(())
}
