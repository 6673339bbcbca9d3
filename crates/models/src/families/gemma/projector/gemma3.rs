//! Tower of Gemma 3: SigLIP, a norm and a matrix.
//!
//! Config keys: those of every tower; the number of embeddings that an image becomes.
//!
//! Transforms: one is added to the norm before the matrix, which the checkpoint stores as its distance from one. All
//! else is copied; names of the tower (`v.blk.{bid}.attn_q`, ...) are in `families/siglip/projector.rs`.
//!
//! Source: `Gemma3VisionModel` in `conversion/gemma.py`, which knows the tower with `vision_model.` in its names only.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const GEMMA3: Projector = Projector {
    name: "gemma3",
    classes: &["Gemma3ForConditionalGeneration"],
    example: "google/gemma-3-4b-it",
    vision: Some(Tower { classes: &[ConfigClass::new("siglip_vision_model")], ..VISION }),
    tensors: &[siglip::F32_EMBEDDINGS, siglip::LAYERS, PROJECTION],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        ["multi_modal_projector.", "multimodal_projector.", "vision_tower.", "vision_model."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    drops: |_, name| {
        let is_head = name.contains("vision_model.head.") || name.contains("vision_tower.head.");
        is_head.then_some("a head that the projector does not use")
    },
    rename: siglip::rename,
    keys,
    ..BASE
};

const PROJECTION: &[TensorRule] = &[
    // The checkpoint's name ends in `_weight`, not in `.weight`.
    TensorRule::copy(&["multi_modal_projector.mm_input_projection_weight"], "mm.input_projection")
        .bare(".weight")
        .float(FloatType::F16),
    // w = w + 1, as the norm computes with 1 + weight.
    TensorRule::norm1p(&["multi_modal_projector.mm_soft_emb_norm"], "mm.soft_emb_norm"),
];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "gemma3");
    parts::epsilon(keys, "layer_norm_eps", vision, 1e-6)?;
    keys.set_prefixed("use_gelu", Value::Bool(true));
    // Patches of a side that become one embedding; 4 unless it is a model for tests.
    let n_embeddings = towers.preprocessor.get_f64("image_seq_length")?.unwrap_or(256.0);
    let (size, patch) = (vision.need_u64(&["image_size"])?, vision.need_u64(&["patch_size"])?);
    // Embeddings lie in a square, 256 as 16 by 16: (size / patch) / 16.
    let per_side = size.checked_div(patch).and_then(|n| n.checked_div(n_embeddings.sqrt() as u64));
    match per_side {
        None => Err(bad("vision_config.patch_size", &patch.into(), "a number above 0")),
        Some(0 | 4) => Ok(()),
        Some(factor) => keys.set_derived("vision.projector.scale_factor", "", factor),
    }
}
