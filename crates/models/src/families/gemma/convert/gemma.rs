//! Gemma 1 and CodeGemma.
//!
//! Config keys: `head_dim` in addition to those of every text model; RoPE keys are not written.
//!
//! Transforms: one is added to the weights of norms. An output matrix next to the embedding is left out.
//!
//! Source: `GemmaModel` in `conversion/gemma.py`.

use crate::prelude::*;

pub const GEMMA: Arch = Arch {
    name: "gemma",
    classes: &[Class::new("GemmaForCausalLM")],
    example: "trl-internal-testing/tiny-GemmaForCausalLM",
    configs: &[ConfigClass::new("gemma")],
    tensors: &[ENDS, PRE_NORMS, rules::ATTENTION, rules::GATED_MLP],
    keys,
    drops: drop_output,
    vocab: ROUTE,
    harmless: &["hidden_act"],
    // Early configs write `gelu` for the tanh approximation.
    built_in: &[BuiltIn::unless("hidden_act", "gelu_pytorch_tanh", |_, activation| {
        activation.as_str().is_none_or(|activation| activation.starts_with("gelu"))
    })],
    ..DECODER
};

/// tokenizer.model, no space in front, `eot` of CodeGemma.
const ROUTE: Route = Route::new("gemma", |writer| {
    writer.spm(SpmStyle::Plain)?;
    let options = SpecialOptions {
        types: vec!["prefix", "suffix", "middle", "fsep", "eot"],
        defaults: vec![("eot", 107)],
        without_template: true,
        ..SpecialOptions::default()
    };
    writer.special_tokens(&options, usize::MAX)?;
    writer.set(token_keys::ADD_SPACE_PREFIX, false);
    Ok(())
});

/// Embedding and final norm.
pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::norm1p(&["model.norm"], "output_norm"),
];

const PRE_NORMS: &[TensorRule] = &[
    TensorRule::norm1p(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
];

/// The keys, in the order of the reference, which is not that of other text models.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Gemma's `set_gguf_parameters` calls no parent: the order is its own, and rotary keys are missing.
    keys.needed("context_length", hparams, &["max_position_embeddings"])?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    // Gemma 2B of the first release has one key head and states it; a config without the key has as many as
    // heads.
    keys.needed("attention.head_count_kv", hparams, &["num_key_value_heads", "num_attention_heads"])?;
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["rms_norm_eps"])?;
    keys.head_lengths(hparams)?;
    keys.file_type_here();
    Ok(())
}

/// Leaves the output out, which is always tied.
pub fn drop_output(_: &Hparams, name: &str) -> Option<&'static str> {
    (name == "lm_head.weight").then_some(drops::TIED)
}
