//! Towers of Idefics 3 and SmolVLM: SigLIP and one matrix.
//!
//! Config keys: those of every tower; how many patches of a side become one embedding; the longest side of an image.
//!
//! Source: `SmolVLMModel` in `conversion/smolvlm.py`.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const IDEFICS3: Projector = Projector {
    name: "idefics3",
    classes: &["Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration"],
    example: "HuggingFaceTB/SmolVLM-Instruct",
    vision: Some(Tower {
        classes: &[ConfigClass::new("idefics3_vision"), ConfigClass::new("smolvlm_vision")],
        ..VISION
    }),
    tensors: &[siglip::F32_EMBEDDINGS, siglip::LAYERS, PROJECTION],
    owns: |_, name| {
        ["vision_tower", "vision_model", "model.connector"].iter().any(|part| name.contains(part))
    },
    rename: siglip::rename,
    keys,
    ..BASE
};

const PROJECTION: &[TensorRule] = &[TensorRule::copy(&["connector.modality_projection.proj"], "mm.model.fc")];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "idefics3");
    parts::epsilon(keys, "layer_norm_eps", vision, 1e-5)?;
    // factor * factor patches become one embedding.
    let factor = towers.whole.get_u64("scale_factor")?.unwrap_or(2);
    keys.set_derived("vision.projector.scale_factor", "scale_factor", factor)?;
    keys.set_prefixed("use_gelu", Value::Bool(true));
    let longest = towers.preprocessor.get("size").and_then(|size| size.get("longest_edge"));
    let size =
        longest.or_else(|| vision.get("image_size")).ok_or_else(|| missing("vision_config.image_size"))?;
    keys.set_prefixed("vision.preproc_image_size", Value::U32(to_u32("size.longest_edge", size)?));
    Ok(())
}
