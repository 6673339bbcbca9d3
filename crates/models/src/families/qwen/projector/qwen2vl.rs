//! Towers of Qwen 2 VL, Qwen 2.5 VL and Sarashina 2 Vision.
//!
//! Config keys: those of every tower; of 2.5 the layers whose attention has no window.
//!
//! Transforms: the kernel of patches, which sees two frames, becomes two tensors; queries, keys and values come apart.
//!
//! Source: `Qwen2VLVisionModel` in `conversion/qwenvl.py`, `Sarashina2VLVisionModel` in `conversion/sarashina2.py`.

use crate::parts::patch_tower::renamed;
use gguf_layout::projector::prelude::*;

pub const QWEN2VL: Projector = Projector {
    name: "qwen2vl",
    classes: &[
        "Qwen2VLForConditionalGeneration",
        "Qwen2VLModel",
        "Qwen2_5_VLForConditionalGeneration",
        "Sarashina2VisionForCausalLM",
    ],
    example: "Qwen/Qwen2.5-VL-3B-Instruct",
    vision: Some(Tower {
        classes: &[ConfigClass::new("qwen2_vl_vision"), ConfigClass::new("qwen2_5_vl_vision")],
        ..VISION
    }),
    tensors: &[parts::FRAMES, parts::LAYERS_OF_QWEN, parts::QKV_OF_QWEN, FEED_FORWARD, MERGER],
    owns: |_, name| name.starts_with("visual.") || name.starts_with("model.visual."),
    rename: |_, name| parts::without("model.", name),
    prepare,
    keys,
    ..BASE
};

/// Two matrices in Qwen 2, three in Qwen 2.5.
const FEED_FORWARD: &[TensorRule] = &[
    TensorRule::copy(
        &["visual.blocks.{bid}.mlp.fc1", "visual.blocks.{bid}.mlp.up_proj"],
        "v.blk.{bid}.ffn_up",
    ),
    // Only Qwen 2's config has `embed_dim`, and only Qwen 2.5 has a gate.
    TensorRule::copy(&["visual.blocks.{bid}.mlp.gate_proj"], "v.blk.{bid}.ffn_gate")
        .need(Need::If(|hparams, _| hparams.get("embed_dim").is_none())),
    TensorRule::copy(
        &["visual.blocks.{bid}.mlp.fc2", "visual.blocks.{bid}.mlp.down_proj"],
        "v.blk.{bid}.ffn_down",
    ),
];

/// A norm and two matrices.
pub const MERGER: &[TensorRule] = &[
    TensorRule::copy(&["visual.merger.ln_q"], "v.post_ln"),
    TensorRule::copy(&["visual.merger.mlp.0"], "mm.0"),
    TensorRule::copy(&["visual.merger.mlp.2"], "mm.2"),
];

/// Takes sizes from under the names that the tower has for them.
pub fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    if vision.get("image_size").is_none() {
        vision.set("image_size", 560.into());
    }
    renamed(vision);
    // In Qwen 2 the width has another name, and `hidden_size` is that of the text model.
    if let Some(width) = vision.get("embed_dim").cloned() {
        let inner = vision.get("hidden_size").cloned().unwrap_or_default();
        vision.set("intermediate_size", inner);
        vision.set("hidden_size", width);
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let model_type = towers.whole.get("model_type").cloned().unwrap_or_default();
    match model_type.as_str() {
        Some("qwen2_vl" | "sarashina2_vision") => parts::kind(keys, "qwen2vl_merger"),
        Some("qwen2_5_vl") => {
            parts::kind(keys, "qwen2.5vl_merger");
            keys.set_prefixed("use_silu", Value::Bool(true));
            keys.set_prefixed("vision.n_wa_pattern", Value::U32(window_pattern(towers.vision()?)?));
        }
        _ => return Err(bad("model_type", &model_type, "qwen2_vl or qwen2_5_vl")),
    }
    // Outside the text part; only old configs that transformers rejects have it there.
    let key = if towers.is_taken { "" } else { "rms_norm_eps" };
    parts::epsilon(keys, key, &towers.whole, 1e-6)
}

/// Every how many layers attention has no window: those layers must lie at that distance.
pub fn window_pattern(vision: &Hparams) -> Result<u32, ArchError> {
    const KEY: &str = "fullatt_block_indexes";
    let value = vision.get(KEY).ok_or_else(|| missing("vision_config.fullatt_block_indexes"))?;
    let wrong = || bad("vision_config.fullatt_block_indexes", value, "layers at equal distances");
    let layers: Option<Vec<u64>> =
        value.as_array().and_then(|items| items.iter().map(Json::as_u64).collect());
    let layers = layers.filter(|layers| !layers.is_empty()).ok_or_else(wrong)?;
    // [7, 15, 23, 31] gives 8: the last layer of every eight has no window.
    let pattern = layers[0].checked_add(1).ok_or_else(wrong)?;
    if layers.windows(2).any(|pair| pair[1].checked_sub(pair[0]) != Some(pattern)) {
        return Err(wrong());
    }
    to_u32(KEY, &pattern.into())
}
