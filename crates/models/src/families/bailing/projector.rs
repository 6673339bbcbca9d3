//! Tower of Ling 3 VL: Qwen 3 VL's with the matrices of its merger outside.
//!
//! Config keys: those of Qwen 3 VL's tower.
//!
//! Transforms: the kernel of patches, which sees two frames, becomes two tensors.
//!
//! Source: `BailingMoeV3VLVisionModel` in `conversion/bailingmoe3.py`.

use crate::parts::patch_tower;
use gguf_layout::projector::prelude::*;

pub const LING3VL: Projector = Projector {
    name: "ling3vl",
    classes: &["BailingMoeV3VLForConditionalGeneration"],
    example: "inclusionAI/Ling-3.0-VL",
    tensors: &[parts::FRAMES, parts::LAYERS_OF_QWEN, patch_tower::LAYERS, MERGER],
    owns: |_, name| ["visual.", "model.visual.", "linear_proj"].iter().any(|start| name.starts_with(start)),
    rename: |_, name| parts::without("model.", name),
    prepare: |towers| {
        patch_tower::prepare(towers)?;
        let vision = towers.vision()?;
        // The merger has no separate matrices: they are `linear_proj`.
        if !vision.is_true("disable_merger_proj") {
            let value = vision.get("disable_merger_proj").cloned().unwrap_or_default();
            return Err(bad("vision_config.disable_merger_proj", &value, "true"));
        }
        vision.need_u64(&["out_hidden_size"]).map(drop)
    },
    keys: |towers, keys| {
        tower_keys(towers, keys)?;
        parts::kind(keys, "ling3vl");
        keys.set_prefixed("use_gelu", Value::Bool(true));
        patch_tower::merge_size_and_epsilon(towers, keys)
    },
    ..BASE
};

const MERGER: &[TensorRule] = &[
    TensorRule::copy(&["visual.merger.norm"], "mm.input_norm"),
    // Linear, GELU, linear: 1 has no weights.
    TensorRule::copy(&["linear_proj.0"], "mm.0"),
    TensorRule::copy(&["linear_proj.2"], "mm.2"),
];
