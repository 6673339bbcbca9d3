//! Tower of Command A Vision: SigLIP, two matrices with a SwiGLU between them.
//!
//! Config keys: those of every tower; patches of a side that are merged; the largest number of tiles of an image.
//!
//! Source: `Cohere2VisionModel` in `conversion/command_r.py` of llama.cpp build 11549, which is newer than the pinned one.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const COHERE2_VISION: Projector = Projector {
    name: "cohere2v",
    classes: &["Cohere2VisionForConditionalGeneration"],
    example: "CohereLabs/command-a-plus-05-2026-bf16",
    vision: Some(Tower { classes: &[ConfigClass::new("siglip_vision_model")], ..VISION }),
    tensors: &[siglip::F32_EMBEDDINGS, siglip::LAYERS, PROJECTION],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.")
    },
    drops: |_, name| name.contains("vision_tower.head.").then_some("a head that the projector does not use"),
    rename: siglip::rename,
    keys,
    ..BASE
};

const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["multi_modal_projector.linear_1"], "mm.1"),
    TensorRule::copy(&["multi_modal_projector.linear_2"], "mm.2"),
];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    parts::kind(keys, "cohere2v");
    parts::epsilon(keys, "layer_norm_eps", towers.vision()?, 1e-6)?;
    let factor = towers.whole.need_u64(&["downsample_factor"])?;
    keys.set_derived("vision.projector.scale_factor", "downsample_factor", factor)?;
    let n_tiles = towers.preprocessor.need_u64(&["max_patches"])?;
    keys.set_derived("vision.preproc_max_tiles", "max_patches", n_tiles)?;
    keys.set_prefixed("use_gelu", Value::Bool(true));
    Ok(())
}
