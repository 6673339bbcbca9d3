//! EmbeddingGemma 2, the text part: Gemma 4 with bidirectional attention, for embeddings of texts, images and sounds.
//!
//! Config keys: those of Gemma 4, the length of an embedding, and pooling. The window is written as its width. The config states
//! the distance that a token sees in each direction.
//!
//! Transforms: those of Gemma 4, without its computed tensor. Per-layer inputs are a projection of the embedding, without a table.
//! The output matrix maps to embeddings instead of tokens.
//!
//! Source: `EmbeddingGemma2Model` in `conversion/gemma.py` of llama.cpp build 11549, which is newer than the pinned one.

use crate::families::gemma::convert::gemma4::{self, GEMMA4};
use crate::prelude::*;

pub const GEMMA_EMBEDDING2: Arch = Arch {
    name: "gemma-embedding2",
    classes: &[Class::inner("EmbeddingGemma2Model", "model.")],
    example: "google/embeddinggemma-2",
    configs: &[TEXT_CONFIG, CONFIG],
    tensors: &[ENDS, gemma4::NORMS, rules::ATTENTION, rules::QK_NORMS, gemma4::DENSE, PER_LAYER],
    keys: |hparams, keys| {
        gemma4::keys(hparams, keys)?;
        let distance = hparams.need_u64(&["sliding_window"])?;
        keys.set_derived("attention.sliding_window", "sliding_window", distance.saturating_mul(2))?;
        keys.needed("embedding_length_out", hparams, &["embedding_dim"])?;
        keys.set_prefixed("attention.causal", Value::Bool(false));
        pooling::keys(hparams, keys)
    },
    computed,
    prepare: |hparams, _| Ok(hparams.with("num_kv_shared_layers", 0.into())),
    built_in: &[BuiltIn::is("hidden_activation", &["\"gelu_pytorch_tanh\""])],
    export: Export::NotExportable(
        "a checkpoint of its class contains the towers, which are in the projector's file",
    ),
    ..GEMMA4
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
    TensorRule::copy(&["model.embedding_projection"], "output"),
    TensorRule::copy(&["model.ple.per_layer_model_projection"], "per_layer_model_proj"),
    TensorRule::copy(&["model.ple.per_layer_projection_norm"], "per_layer_proj_norm"),
];

/// The part of a layer that reads its inputs.
const PER_LAYER: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.ple_block.per_layer_input_gate"], "blk.{bid}.inp_gate"),
    TensorRule::copy(&["model.layers.{bid}.ple_block.per_layer_projection"], "blk.{bid}.proj"),
    TensorRule::copy(&["model.layers.{bid}.ple_block.post_per_layer_input_norm"], "blk.{bid}.post_norm"),
];

/// The kinds of attention, each with its rotation.
const KINDS: [(&str, f64); 2] = [("full_attention", 1_000_000.0), ("sliding_attention", 10_000.0)];

/// Checks that rotations are those of llama.cpp. The file has no divisors of frequencies.
fn computed(hparams: &Hparams) -> Result<Vec<Computed>, ArchError> {
    let rope = hparams.get("rope_parameters");
    for (kind, _) in KINDS {
        let rope_type = rope.and_then(|rope| rope.get(kind)?.get("rope_type"));
        if let Some(found) = rope_type.filter(|found| *found != "default") {
            return Err(bad(&format!("rope_parameters.{kind}.rope_type"), found, "default"));
        }
    }
    Ok(Vec::new())
}

/// `EmbeddingGemma2TextConfig`.
const TEXT_CONFIG: ConfigClass = ConfigClass::new("embedding_gemma2_text").adjusted(|map| {
    gemma4::layer_types(map)?;
    if map.get("rope_parameters").is_none_or(Json::is_null) {
        let rope = |base: f64| json!({"rope_type": "default", "rope_theta": base});
        let both: Map<String, Json> =
            KINDS.into_iter().map(|(kind, base)| (kind.into(), rope(base))).collect();
        map.insert("rope_parameters".into(), both.into());
    }
    let head_dim = map.remove("global_head_dim").unwrap_or(512.into());
    let heads = map.remove("num_global_key_value_heads").unwrap_or(1.into());
    gemma4::override_full_layers(map, &json!({"head_dim": head_dim, "num_key_value_heads": heads}));
    Ok(())
});

/// `EmbeddingGemma2Config`: text, images and sound.
const CONFIG: ConfigClass =
    ConfigClass::new("embedding_gemma2").adjusted(|map| adjust::text_config(map, &TEXT_CONFIG));
