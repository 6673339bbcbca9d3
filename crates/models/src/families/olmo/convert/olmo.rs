//! OLMo 1.
//!
//! Config keys: those of every text model, a fixed norm epsilon, `clip_qkv`.
//!
//! Transforms: rows of Q and K are permuted like those of llama. Norms have no weights.
//!
//! Source: `OlmoModel` in `conversion/olmo.py`.

use crate::prelude::*;

pub const OLMO: Arch = Arch {
    name: "olmo",
    classes: &[Class::new("OlmoForCausalLM"), Class::new("OLMoForCausalLM")],
    other_layouts: &[(
        "hf_olmo",
        "layout of the package hf_olmo; use the `-hf` checkpoint, or transformers' convert_olmo_weights_to_hf.py",
    )],
    example: "allenai/OLMo-1.7-7B-hf",
    configs: &[ConfigClass::new("olmo")],
    tensors: &[ENDS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    keys,
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    // No norms at all: those of OLMo 1 have neither weight nor bias.
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // Norms without weights still divide by a deviation; torch's default epsilon.
    keys.set_prefixed("attention.layer_norm_epsilon", Value::F32(1e-5));
    // OLMo 1.7 7B limits queries, keys and values to +- clip_qkv; other sizes have null and no key.
    keys.number("attention.clamp_kqv", hparams, &["clip_qkv"])
}
