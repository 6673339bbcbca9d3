//! VaultGemma, trained with differential privacy: Gemma 2 without norms after the parts of a layer, which makes it a Gemma 1.
//!
//! Config keys: those of Gemma 1. Windows and soft caps are refused; llama.cpp has none in this graph.
//!
//! Transforms: those of Gemma 1. The norm before the feed-forward part has another name.
//!
//! Source: `VaultGemmaForCausalLM` of transformers 5.24; llama.cpp has no class for it, and its graph of `gemma` is the same model.

use crate::families::gemma::convert::gemma::{self, GEMMA};
use crate::families::gemma::convert::gemma2::{self, GEMMA2};
use crate::prelude::*;

pub const VAULTGEMMA: Arch = Arch {
    name: "vaultgemma",
    written: Some("gemma"),
    classes: &[Class::new("VaultGemmaForCausalLM")],
    example: "google/vaultgemma-1b",
    configs: &[ConfigClass::new("vaultgemma").adjusted(|map| adjust::layer_pattern(map, 2))],
    keys,
    rename: |_, name| {
        let norm = "pre_feedforward_layernorm";
        name.contains(norm).then(|| name.replace(norm, "post_attention_layernorm"))
    },
    vocab: GEMMA2.vocab,
    harmless: &["sliding_window"],
    built_in: &[
        BuiltIn::unless("query_pre_attn_scalar", "the head size", |hparams, scalar| {
            gemma2::is_head_size(hparams, scalar, u64::MAX)
        }),
        BuiltIn::is("rope_parameters.rope_theta", &["10000"]),
        BuiltIn::is("hidden_activation", &["\"gelu_pytorch_tanh\""]),
    ],
    export: Export::NotExportable("exported as Gemma, whose files have the same tensors"),
    ..GEMMA
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let types = hparams.get("layer_types").ok_or_else(|| missing("layer_types"))?;
    if types.as_array().is_none_or(|types| types.iter().any(|kind| kind != "full_attention")) {
        return Err(bad("layer_types", types, "full attention: llama.cpp's `gemma` has no windows"));
    }
    for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if let Some(cap) = hparams.get(name) {
            return Err(bad(name, cap, "null: llama.cpp's `gemma` has no soft caps"));
        }
    }
    gemma::keys(hparams, keys)
}
