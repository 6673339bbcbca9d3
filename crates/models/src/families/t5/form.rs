//! Encoders of T5 and umT5 in one file, as ComfyUI has them: their config from the shapes of tensors.
//!
//! Constants that no shape states are those of every released T5: distances of relative positions up to 128, epsilon 1e-6, and
//! GELU in gated layers. T5 has relative positions in the first layer, umT5 in each one.

use std::collections::HashMap;

use gguf_checkpoint::FamilyForm;
use serde_json::{Value as Json, json};

/// The form.
pub const FORM: FamilyForm = FamilyForm { model_types: &["t5"], config: Some(config), ..FamilyForm::USUAL };

/// Derives the config of an encoder; `None` for any other model.
fn config(tensors: &[(&str, &[u64])]) -> Option<Json> {
    // The first tensor of a name counts.
    let shapes: HashMap<&str, &[u64]> = tensors.iter().rev().copied().collect();
    let shape = |name: &str| shapes.get(name).copied();
    let matrix = |name: &str| <[u64; 2]>::try_from(shape(name)?).ok();
    let layer = |index: usize, name: &str| matrix(&format!("encoder.block.{index}.layer.{name}.weight"));
    if tensors.iter().any(|(name, _)| name.starts_with("decoder.")) {
        return None;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPES: &[(&str, &[u64])] = &[
        ("shared.weight", &[160, 32]),
        ("encoder.block.0.layer.0.SelfAttention.q.weight", &[24, 32]),
        ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", &[32, 3]),
        ("encoder.block.0.layer.1.DenseReluDense.wi_0.weight", &[64, 32]),
        ("encoder.block.0.layer.1.DenseReluDense.wo.weight", &[32, 64]),
        ("encoder.block.1.layer.0.SelfAttention.q.weight", &[24, 32]),
    ];

    #[test]
    fn sizes_are_those_of_the_tensors() {
        let found = config(SHAPES).expect("an encoder");
        for (key, value) in
            [("d_kv", 8), ("num_heads", 3), ("num_layers", 2), ("d_ff", 64), ("vocab_size", 160)]
        {
            assert_eq!(found[key], value, "{key}");
        }
        assert_eq!((&found["model_type"], &found["feed_forward_proj"]), (&json!("t5"), &json!("gated-gelu")));
        let second = ("encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight", &[32, 3][..]);
        let umt5 = config(&[SHAPES, &[second]].concat()).expect("an encoder");
        assert_eq!(umt5["architectures"], json!(["UMT5EncoderModel"]));
    }

    #[test]
    fn other_models_have_no_config() {
        for index in 0..SHAPES.len() - 1 {
            let without: Vec<_> =
                SHAPES.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, row)| *row).collect();
            // Without a gate it is the original T5.
            assert_eq!(config(&without).is_some(), index == 3, "{index}");
        }
        let decoder = ("decoder.block.0.layer.0.SelfAttention.q.weight", &[24, 32][..]);
        assert_eq!(config(&[SHAPES, &[decoder]].concat()), None);
        let heads = ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", &[32, 0][..]);
        assert_eq!(config(&[&[heads], SHAPES].concat()), None);
    }
}
