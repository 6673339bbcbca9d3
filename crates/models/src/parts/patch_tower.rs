//! Vision towers with an embedding for each patch of a square, whose layers are called `visual.blocks`.
//!
//! Source: `Qwen3VLVisionModel` in `conversion/qwen3vl.py`.

use gguf_layout::projector::prelude::*;

/// Positions, and layer tensors in addition to [`parts::LAYERS_OF_QWEN`].
pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["visual.pos_embed"], "v.position_embd"),
    // (3 in, in): queries, keys and values stay one matrix.
    TensorRule::copy(&["visual.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_qkv"),
    TensorRule::copy(&["visual.blocks.{bid}.mlp.linear_fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["visual.blocks.{bid}.mlp.linear_fc2"], "v.blk.{bid}.ffn_down"),
];

/// Derives the size of images, and renames the numbers of layers and heads.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    if vision.get("image_size").is_none() {
        // There is a position for each patch of a square: size = sqrt(n) patch.
        let n_positions = vision.get_f64("num_position_embeddings")?.unwrap_or(2304.0);
        let patch = vision.get_f64("patch_size")?.unwrap_or(16.0);
        vision.set("image_size", ((n_positions.sqrt() * patch) as u64).into());
    }
    vision.get_u64("depth")?.ok_or_else(|| missing("vision_config.depth"))?;
    renamed(vision);
    Ok(())
}

/// Takes the numbers of layers and heads from the keys `num_heads` and `depth`.
pub fn renamed(vision: &mut Hparams) {
    for (from, to) in [("num_heads", "num_attention_heads"), ("depth", "num_hidden_layers")] {
        let value = vision.get(from).cloned().unwrap_or_default();
        vision.set(to, value);
    }
}

/// Writes the number of merged patches per side, if the config has it, and the epsilon of norms.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn merge_size_and_epsilon(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    let vision = towers.vision()?;
    if let Some(size) = vision.get("spatial_merge_size") {
        let size = to_u32("vision_config.spatial_merge_size", size)?;
        keys.set_prefixed("vision.spatial_merge_size", Value::U32(size));
    }
    // The epsilon of the text model's norms, which its tower has as well.
    let text = towers.whole.get("text_config").and_then(|text| text.get("rms_norm_eps"));
    let epsilon = text.map_or(Ok(1e-6), |epsilon| to_f32("text_config.rms_norm_eps", epsilon))?;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon));
    Ok(())
}
