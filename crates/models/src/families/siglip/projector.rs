//! The tower of SigLIP and its like, of which several families have one.

use gguf_layout::projector::prelude::*;

/// The tower under its usual names: `vision_model.` and what follows. Families bring their spellings to these.
pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.layer_norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.layer_norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.self_attn.q_proj"], "v.blk.{bid}.attn_q"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.self_attn.k_proj"], "v.blk.{bid}.attn_k"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.self_attn.v_proj"], "v.blk.{bid}.attn_v"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.self_attn.out_proj"], "v.blk.{bid}.attn_out"),
    // Not gated: fc2 act(fc1 x).
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_model.encoder.layers.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
    TensorRule::copy(&["vision_model.post_layernorm"], "v.post_ln"),
];

/// Embeddings of patches and positions, as most families have them.
pub const EMBEDDINGS: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.embeddings.patch_embedding"], "v.patch_embd"),
    TensorRule::copy(&["vision_model.embeddings.position_embedding"], "v.position_embd"),
];

/// Like this, if a tower may have only rotary positions.
pub const EMBEDDINGS_IF_POSITIONS: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.embeddings.patch_embedding"], "v.patch_embd"),
    TensorRule::copy(&["vision_model.embeddings.position_embedding"], "v.position_embd").need(Need::Optional),
];

/// Like this, if both stay F32 in every file.
pub const F32_EMBEDDINGS: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.embeddings.patch_embedding"], "v.patch_embd").float(FloatType::F32),
    TensorRule::copy(&["vision_model.embeddings.position_embedding"], "v.position_embd")
        .float(FloatType::F32),
];

/// Brings the spellings of a tower's names to that of the table: with and without `model.` before them, below
/// `vision_tower.`, and without `vision_model.` as transformers 5 saves it.
pub fn rename(_: &Hparams, name: &str) -> Option<String> {
    let name = name.strip_prefix("model.").unwrap_or(name);
    match name.strip_prefix("vision_tower.") {
        Some(rest) if rest.starts_with("vision_model.") => Some(rest.to_owned()),
        Some(rest) => Some(format!("vision_model.{rest}")),
        None => Some(name.to_owned()),
    }
}
