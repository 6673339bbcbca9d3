//! The config of Pocket TTS, whose checkpoints lack one: sizes of tensors, and numbers that all released models share.
//!
//! Source: `_load_hparams` in `conversion/pockettts.py`.

use serde_json::{Value as Json, json};

/// True if the embedding has a row before the voice. A key of the model author's configs.
pub const WITH_VOICE_START: &str = "insert_bos_before_voice";

/// Layers of the text model.
const LAYERS: &str = "flow_lm.transformer.layers.";
/// Layers of Mimi's encoder. Its decoder has as many.
const ENCODER_LAYERS: &str = "mimi.encoder_transformer.transformer.layers.";
/// Width of a head in every released model.
const HEAD: u64 = 64;

/// The config; `None` for tensors of another model.
pub fn config_of_tensors(tensors: &[(&str, &[u64])]) -> Option<Json> {
    let shape = |name: &str| tensors.iter().find(|tensor| tensor.0 == name).map(|tensor| tensor.1);
    shape("flow_lm.bos_emb")?;
    let &[n_rows, width] = shape("flow_lm.conditioner.embed.weight")? else { return None };
    let &[audio_width] = shape(&format!("{ENCODER_LAYERS}0.norm1.weight"))? else { return None };
    let inner = |layers: &str| shape(&format!("{layers}0.linear1.weight"))?.first().copied();
    let with_voice_start = shape("flow_lm.bos_before_voice").is_some();
    Some(json!({
        "architectures": ["PocketTTSModel"],
        "model_type": "pockettts",
        "num_hidden_layers": n_layers(tensors, LAYERS),
        "hidden_size": width,
        "intermediate_size": inner(LAYERS)?,
        // The model has no limit.
        "max_position_embeddings": 4096,
        "num_attention_heads": width / HEAD,
        // Vectors that are inputs without being tokens are further rows.
        "vocab_size": n_rows.checked_add(1 + u64::from(with_voice_start))?,
        "rope_theta": 10000.0,
        "layer_norm_eps": 1e-5,
        WITH_VOICE_START: with_voice_start,
        "audio_config": {
            "num_hidden_layers": n_layers(tensors, ENCODER_LAYERS),
            "hidden_size": audio_width,
            "intermediate_size": inner(ENCODER_LAYERS)?,
            "num_attention_heads": audio_width / HEAD,
        },
    }))
}

/// Number of layers by their first norms.
fn n_layers(tensors: &[(&str, &[u64])], start: &str) -> usize {
    let is_norm = |(name, _): &&(&str, &[u64])| {
        let layer = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(".norm1.weight"));
        layer.is_some_and(|layer| !layer.is_empty() && layer.bytes().all(|byte| byte.is_ascii_digit()))
    };
    tensors.iter().filter(is_norm).count()
}
