//! Towers of GLM-4.1V, 4.5V, 4.6V, GLM-OCR and GLM-5.3 Flash.
//!
//! Config keys: those of every tower.
//!
//! Transforms: the kernel of patches, which sees two frames, becomes two tensors.
//!
//! Source: `Glm4VVisionModel` and `Glm5NextVisionModel` in `conversion/qwen3vl.py`.

use crate::parts::patch_tower::renamed;
use gguf_layout::projector::prelude::*;

pub const GLM4V: Projector = Projector {
    name: "glm4v",
    classes: &[
        "Glm4vForConditionalGeneration",
        "Glm4vMoeForConditionalGeneration",
        "GlmOcrForConditionalGeneration",
    ],
    example: "zai-org/GLM-4.1V-9B-Thinking",
    vision: Some(Tower {
        classes: &[
            ConfigClass::new("glm4v_vision"),
            ConfigClass::new("glm4v_moe_vision"),
            ConfigClass::new("glm_ocr_vision"),
        ],
        ..VISION
    }),
    tensors: &[parts::FRAMES, parts::LAYERS_OF_QWEN, TOWER, MERGER],
    owns: |_, name| name.starts_with("visual.") || name.starts_with("model.visual."),
    rename: |_, name| parts::without("model.", name),
    prepare: |towers| {
        renamed(towers.vision_mut()?);
        Ok(())
    },
    keys,
    ..BASE
};

/// The row of GLM-5.3 Flash: images on a canvas, norms of queries and keys, no learned positions.
pub const GLM5V: Projector = Projector {
    name: "glm5v",
    classes: &["Glm5NextForConditionalGeneration"],
    example: "zai-org/GLM-5.3-Flash",
    vision: Some(Tower { classes: &[ConfigClass::new("glm5_next_vision")], ..VISION }),
    keys: canvas_keys,
    ..GLM4V
};

const TOWER: &[TensorRule] = &[
    // GLM-5.3 Flash has norms of queries and keys, and no learned positions.
    TensorRule::copy(&["visual.embeddings.position_embedding"], "v.position_embd").need(Need::Optional),
    TensorRule::copy(&["visual.post_conv_layernorm"], "v.norm_embd").need(Need::Optional),
    TensorRule::copy(&["visual.post_layernorm"], "v.post_ln"),
    TensorRule::copy(&["visual.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_qkv"),
    TensorRule::copy(&["visual.blocks.{bid}.attn.q_norm"], "v.blk.{bid}.attn_q_norm").need(Need::Optional),
    TensorRule::copy(&["visual.blocks.{bid}.attn.k_norm"], "v.blk.{bid}.attn_k_norm").need(Need::Optional),
    TensorRule::copy(&["visual.blocks.{bid}.mlp.gate_proj"], "v.blk.{bid}.ffn_gate"),
    TensorRule::copy(&["visual.blocks.{bid}.mlp.up_proj"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["visual.blocks.{bid}.mlp.down_proj"], "v.blk.{bid}.ffn_down"),
];

const MERGER: &[TensorRule] = &[
    // A convolution whose kernel is as large as its step.
    TensorRule::copy(&["visual.downsample"], "mm.patch_merger"),
    TensorRule::copy(&["visual.merger.proj"], "mm.model.fc"),
    TensorRule::copy(&["visual.merger.post_projection_norm"], "mm.post_norm"),
    TensorRule::copy(&["visual.merger.gate_proj"], "mm.gate"),
    TensorRule::copy(&["visual.merger.up_proj"], "mm.up"),
    TensorRule::copy(&["visual.merger.down_proj"], "mm.down"),
];

fn canvas_keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    keys_of(towers, keys, "glm5v")?;
    let (vision, preprocessor) = (towers.vision()?, &towers.preprocessor);
    let size = vision.get_u64("spatial_merge_size")?.unwrap_or(2);
    keys.set_derived("vision.spatial_merge_size", "spatial_merge_size", size)?;
    if let Some(limit) = vision.get("swiglu_limit") {
        let limit = to_f32("vision_config.swiglu_limit", limit)?;
        keys.set_prefixed("vision.swiglu_clamp", Value::F32(limit));
    }
    // Embeddings of an image, as pixels of one frame.
    // An embedding covers (patch * merge)^2 pixels.
    let side = preprocessor
        .get_u64("patch_size")?
        .unwrap_or(14)
        .saturating_mul(preprocessor.get_u64("merge_size")?.unwrap_or(2));
    let pixels = side.saturating_mul(side);
    for (key, name) in [("image_min_pixels", "min_image_tokens"), ("image_max_pixels", "max_image_tokens")] {
        if let Some(n_tokens) = preprocessor.get_u64(name)? {
            keys.set_derived(&format!("vision.{key}"), name, n_tokens.saturating_mul(pixels))?;
        }
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    keys_of(towers, keys, "glm4v")
}

fn keys_of(towers: &Towers, keys: &mut Keys, kind: &str) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, kind);
    // Another activation is written as none, like the reference.
    match vision.get("hidden_act").and_then(Json::as_str).map(str::to_lowercase).as_deref() {
        Some("gelu") => keys.set_prefixed("use_gelu", Value::Bool(true)),
        Some("silu") => keys.set_prefixed("use_silu", Value::Bool(true)),
        _ => {}
    }
    parts::epsilon(keys, "rms_norm_eps", vision, 1e-5)
}
