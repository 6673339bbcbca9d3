//! Tower of PaddleOCR-VL: SigLIP, two matrices.
//!
//! Config keys: those of every tower; the smallest and the largest image.
//!
//! Source: `PaddleOCRVisionModel` in `conversion/ernie.py`.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const PADDLEOCR: Projector = Projector {
    name: "paddleocr",
    classes: &["PaddleOCRVisionModel", "PaddleOCRVLForConditionalGeneration"],
    example: "PaddlePaddle/PaddleOCR-VL",
    vision: Some(Tower { classes: &[ConfigClass::new("paddleocr_vl_vision")], ..VISION }),
    tensors: &[siglip::EMBEDDINGS, siglip::LAYERS, PROJECTION],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        ["visual.", "mlp_AR.", "projector."].iter().any(|start| name.starts_with(start))
    },
    drops: |_, name| match () {
        () if name.contains("packing_position_embedding") => Some("positions that the tower does not use"),
        () if name.contains("vision_model.head") => Some("a head that the projector does not use"),
        () => None,
    },
    rename: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        Some(name.strip_prefix("visual.").unwrap_or(name).to_owned())
    },
    prepare: |towers| {
        // The side of a square with as many pixels as an image may have: sqrt(max_pixels).
        let max_pixels = towers.preprocessor.need_f64("max_pixels")?;
        towers.vision_mut()?.set("image_size", (max_pixels.sqrt() as u64).into());
        Ok(())
    },
    keys,
    ..BASE
};

const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["mlp_AR.pre_norm", "projector.pre_norm"], "mm.input_norm"),
    TensorRule::copy(&["mlp_AR.linear_1", "projector.linear_1"], "mm.1"),
    TensorRule::copy(&["mlp_AR.linear_2", "projector.linear_2"], "mm.2"),
];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    parts::kind(keys, "paddleocr");
    parts::pixels(
        keys,
        towers,
        [("vision.image_max_pixels", "max_pixels"), ("vision.image_min_pixels", "min_pixels")],
    )?;
    keys.set_prefixed("use_gelu", Value::Bool(true));
    parts::epsilon(keys, "rms_norm_eps", towers.vision()?, 1e-6)
}
