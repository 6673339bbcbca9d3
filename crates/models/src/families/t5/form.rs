//! Encoders of T5 and umT5 in one file, as ComfyUI has them: their config from the shapes of tensors.
//!
//! Constants that no shape states are those of every released T5: distances of relative positions up to 128, epsilon 1e-6, and
//! GELU in gated layers. T5 has relative positions in the first layer, umT5 in each one.

use std::collections::HashMap;

use gguf_checkpoint::FamilyForm;
use serde_json::{Value as Json, json};

/// The form.
pub const FORM: FamilyForm = FamilyForm {
    model_types: &["t5"],
    config: Some(config),
    name: Some(name_of_wan),
    left_out: &["decoder.", "lm_head."],
    ..FamilyForm::USUAL
};

/// Names of umT5 in Wan, without `blocks.N.` and `.weight`, and those in transformers, without `encoder.block.N.layer.`.
///
/// Source: `wan/modules/t5.py` of Wan-Video/Wan2.1, in which the activation is that of `gate`.
const OF_WAN: &[(&str, &str)] = &[
    ("norm1", "0.layer_norm"),
    ("attn.q", "0.SelfAttention.q"),
    ("attn.k", "0.SelfAttention.k"),
    ("attn.v", "0.SelfAttention.v"),
    ("attn.o", "0.SelfAttention.o"),
    ("pos_embedding.embedding", "0.SelfAttention.relative_attention_bias"),
    ("norm2", "1.layer_norm"),
    ("ffn.gate.0", "1.DenseReluDense.wi_0"),
    ("ffn.fc1", "1.DenseReluDense.wi_1"),
    ("ffn.fc2", "1.DenseReluDense.wo"),
];

/// The name in transformers of a tensor of Wan's encoder.
fn name_of_wan(name: &str) -> Option<String> {
    match name {
        "token_embedding.weight" => return Some("shared.weight".to_owned()),
        "norm.weight" => return Some("encoder.final_layer_norm.weight".to_owned()),
        _ => {}
    }
    let (block, rest) = name.strip_prefix("blocks.")?.strip_suffix(".weight")?.split_once('.')?;
    let (_, own) = OF_WAN.iter().find(|(other, _)| *other == rest)?;
    Some(format!("encoder.block.{block}.layer.{own}.weight"))
}

/// Derives the config of an encoder; `None` for any other model.
fn config(tensors: &[(&str, &[u64])]) -> Option<Json> {
    // The first tensor of a name counts.
    let shapes: HashMap<&str, &[u64]> = tensors.iter().rev().copied().collect();
    let shape = |name: &str| shapes.get(name).copied();
    let matrix = |name: &str| <[u64; 2]>::try_from(shape(name)?).ok();
    let layer = |index: usize, name: &str| matrix(&format!("encoder.block.{index}.layer.{name}.weight"));
    let [vocab_size, d_model] = matrix("shared.weight").or_else(|| matrix("encoder.embed_tokens.weight"))?;
    let [inner, _] = layer(0, "0.SelfAttention.q")?;
    let [n_buckets, n_heads] = layer(0, "0.SelfAttention.relative_attention_bias")?;
    let is_gated = layer(0, "1.DenseReluDense.wi_0").is_some();
    let [_, d_ff] = layer(0, "1.DenseReluDense.wo")?;
    if n_heads == 0 || !inner.is_multiple_of(n_heads) {
        return None;
    }
    let n_layers = (0..tensors.len())
        .take_while(|layer_index| layer(*layer_index, "0.SelfAttention.q").is_some())
        .count();
    let is_umt5 = n_layers > 1 && layer(1, "0.SelfAttention.relative_attention_bias").is_some();
    Some(json!({
        "architectures": [if is_umt5 { "UMT5EncoderModel" } else { "T5EncoderModel" }],
        "model_type": if is_umt5 { "umt5" } else { "t5" },
        "vocab_size": vocab_size,
        "d_model": d_model,
        "d_ff": d_ff,
        "d_kv": inner / n_heads,
        "num_heads": n_heads,
        "num_layers": n_layers,
        "relative_attention_num_buckets": n_buckets,
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": 1e-6,
        "feed_forward_proj": if is_gated { "gated-gelu" } else { "relu" },
        "eos_token_id": 1,
        "pad_token_id": 0,
        "tie_word_embeddings": false,
    }))
}
