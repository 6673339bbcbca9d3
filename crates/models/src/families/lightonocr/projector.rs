//! Tower of LightOnOCR: that of Mistral 3, without the embedding that ends a row.
//!
//! Config keys: those of Pixtral's tower.
//!
//! Transforms: those of Pixtral's tower.
//!
//! Source: `LightOnOCRVisionModel` in `conversion/lighton_ocr.py`.

use crate::families::llava::projector as llava;
use gguf_layout::projector::prelude::*;

pub const LIGHTONOCR: Projector = Projector {
    name: "lightonocr",
    classes: &["LightOnOCRForConditionalGeneration", "LightOnOcrForConditionalGeneration"],
    example: "lightonai/LightOnOCR-1B-1025",
    vision: Some(Tower { classes: &[ConfigClass::new("pixtral")], ..VISION }),
    tensors: &[llava::TOWER, llava::PROJECTION],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        ["vision_encoder.", "vision_projection.", "vision_tower.", "multi_modal_projector."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    rename: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        // The spelling in the tables of `llava`.
        let name = name.replace("vision_encoder.", "vision_tower.");
        Some(name.replace("vision_projection.", "multi_modal_projector."))
    },
    keys: |towers, keys| {
        llava::pixtral_keys(towers, keys, "pixtral")?;
        parts::kind(keys, "lightonocr");
        Ok(())
    },
    ..BASE
};
