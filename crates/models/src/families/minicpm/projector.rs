//! Vision tower of MiniCPM-V 4.6: SigLIP with a patch merger inside and another one after it.
//!
//! Config keys: those of every tower; the layer after which the first merger stands; the merge factors; the
//! size of image slices.
//!
//! Transforms: models that merge less have no first merger.
//!
//! Source: `MiniCPMV4_6VisionModel` in `conversion/minicpm.py`.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const MINICPMV: Projector = Projector {
    name: "minicpmv4_6",
    classes: &["MiniCPMV4_6ForConditionalGeneration"],
    example: "openbmb/MiniCPM-V-4_6",
    vision: Some(Tower { classes: &[ConfigClass::new("minicpmv4_6_vision")], ..VISION }),
    tensors: &[siglip::EMBEDDINGS, siglip::LAYERS, FIRST_MERGER, MERGER],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        name.starts_with("vision_tower.") || name.starts_with("merger.")
    },
    drops: |hparams, name| {
        let is_first = name.contains(".vit_merger.") && !merges_twice(hparams);
        is_first.then_some("a merger that a model which merges 4 patches does not use")
    },
    rename: siglip::rename,
    prepare,
    keys,
    ..BASE
};

const FIRST_MERGER: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.vit_merger.layer_norm1"], "v.vit_merger.ln1").need(TWICE),
    TensorRule::copy(&["vision_model.vit_merger.self_attn.q_proj"], "v.vit_merger.attn_q").need(TWICE),
    TensorRule::copy(&["vision_model.vit_merger.self_attn.k_proj"], "v.vit_merger.attn_k").need(TWICE),
    TensorRule::copy(&["vision_model.vit_merger.self_attn.v_proj"], "v.vit_merger.attn_v").need(TWICE),
    TensorRule::copy(&["vision_model.vit_merger.self_attn.out_proj"], "v.vit_merger.attn_out").need(TWICE),
    // After its attention: a norm and two matrices that merge the patches.
    TensorRule::copy(&["vision_model.vit_merger.pre_norm"], "v.vit_merger.ds_ln").need(TWICE),
    TensorRule::copy(&["vision_model.vit_merger.linear_1"], "v.vit_merger.ds_ffn_up").need(TWICE),
    TensorRule::copy(&["vision_model.vit_merger.linear_2"], "v.vit_merger.ds_ffn_down").need(TWICE),
];

const MERGER: &[TensorRule] = &[
    TensorRule::copy(&["merger.mlp.0.pre_norm"], "mm.input_norm"),
    TensorRule::copy(&["merger.mlp.0.linear_1"], "mm.up"),
    TensorRule::copy(&["merger.mlp.0.linear_2"], "mm.down"),
];

const TWICE: Need = Need::If(|hparams, _| merges_twice(hparams));

/// Key next to the tower's config that contains the merge mode.
const MODE: &str = "downsample_mode";

fn merges_twice(hparams: &Hparams) -> bool {
    hparams.get(MODE).is_none_or(|mode| mode != "4x")
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let mode = towers.preprocessor.get(MODE).cloned().unwrap_or_else(|| "16x".into());
    if mode != "4x" && mode != "16x" {
        return Err(bad(MODE, &mode, "4x or 16x"));
    }
    // Positions are learned for larger images than the slices that are looked at.
    let size = towers.preprocessor.get("scale_resolution").cloned();
    let vision = towers.vision_mut()?;
    vision.set(MODE, mode);
    if let Some(size) = size {
        vision.set("image_size", size);
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "minicpmv4_6");
    // By side: 16 patches become one as 4 times 4, 4 patches as 2 times 2.
    let factor = if merges_twice(vision) { 4 } else { 2 };
    keys.set_prefixed("vision.projector.scale_factor", Value::U32(factor));
    let layer = towers.whole.get("insert_layer_id").or_else(|| vision.get("insert_layer_id"));
    let layer = layer.map_or(Ok(6), |layer| to_i32("insert_layer_id", layer))?;
    keys.set_prefixed("vision.wa_layer_indexes", Value::Array(Array::I32(vec![layer])));
    keys.set_prefixed("use_gelu", Value::Bool(true));
    parts::epsilon(keys, "layer_norm_eps", vision, 1e-6)
}
