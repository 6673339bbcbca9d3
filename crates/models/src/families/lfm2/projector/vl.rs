//! Tower of LFM2-VL: SigLIP 2, two matrices.
//!
//! Config keys: those of every tower; how many patches of a side are merged; the layer whose features are taken; how pictures are
//! resized.
//!
//! Transforms: the matrix of patches, whose columns are (height, width, channel), becomes a kernel of (channel, height,
//! width).
//!
//! Source: `LFM2VLModel` in `conversion/lfm2.py` of llama.cpp build 11549.

use crate::families::siglip::projector as siglip;
use gguf_layout::projector::prelude::*;

pub const LFM2VL: Projector = Projector {
    name: "lfm2vl",
    classes: &["Lfm2VlForConditionalGeneration", "D1Model"],
    example: "LiquidAI/LFM2-VL-450M",
    vision: Some(Tower { classes: &[ConfigClass::new("siglip2_vision_model")], ..VISION }),
    tensors: &[EMBEDDINGS, siglip::LAYERS, PROJECTION],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.")
    },
    rename: siglip::rename,
    prepare: |towers| {
        // Images may have any size; the reference writes this one.
        towers.vision_mut()?.set("image_size", 256.into());
        Ok(())
    },
    keys,
    ..BASE
};

pub const EMBEDDINGS: &[TensorRule] = &[
    // (out, 16 * 16 * 3), channels last, becomes (out, 3, 16, 16).
    TensorRule::part(&["vision_model.embeddings.patch_embedding.weight"], "v.patch_embd", |_, _| {
        Ok(parts::channels_first(PATCH))
    })
    .bare(".weight")
    .shape(Reshape { forward: |_, dims| parts::kernel(dims, PATCH), inverse: parts::unkernel }),
    TensorRule::copy(&["vision_model.embeddings.patch_embedding.bias"], "v.patch_embd").bare(".bias"),
    TensorRule::copy(&["vision_model.embeddings.position_embedding"], "v.position_embd"),
];

/// Height and width of a patch, which the reference knows by heart.
const PATCH: u64 = 16;

pub const PROJECTION: &[TensorRule] = &[
    TensorRule::copy(&["multi_modal_projector.layer_norm"], "mm.input_norm").need(Need::Optional),
    TensorRule::copy(&["multi_modal_projector.linear_1"], "mm.1"),
    TensorRule::copy(&["multi_modal_projector.linear_2"], "mm.2"),
];

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    parts::kind(keys, "lfm2");
    vision_keys(towers, keys)?;
    // Counted from the end: -1 is the last layer, of which none is left out.
    let whole = &towers.whole;
    let layer = whole.get("vision_feature_layer");
    let layer = layer.map_or(Some(-1), Json::as_i64).and_then(|layer| layer.checked_add(1));
    let n_layers = towers.layers().vision;
    let used = layer.and_then(|layer| n_layers.checked_add_signed(layer)).filter(|used| *used <= n_layers);
    let wrong = || {
        bad(
            "vision_feature_layer",
            &whole.get("vision_feature_layer").cloned().unwrap_or_default(),
            "-1 or less",
        )
    };
    keys.set_derived("vision.block_count", "", used.ok_or_else(wrong)?)?;
    if let Some(resample) = towers.preprocessor.get("resample") {
        // Numbers of Pillow's filters.
        let name = match resample.as_u64() {
            Some(1) => "lanczos",
            Some(2) => "bilinear",
            Some(3) => "bicubic",
            _ => return Err(bad_in(PREPROCESSORS[0], "resample", resample, "1, 2 or 3")),
        };
        keys.set_prefixed("vision.image_resize_algo", name.into());
    }
    Ok(())
}

/// Keys of the tower and of the merged patches.
pub fn vision_keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    let epsilon = towers.vision()?.need_f64("layer_norm_eps")?;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon as f32));
    // By side: factor 2 makes one embedding of 4 patches.
    let factor = towers.whole.get_u64("downsample_factor")?.unwrap_or(2);
    keys.set_derived("vision.projector.scale_factor", "downsample_factor", factor)?;
    keys.set_prefixed("use_gelu", Value::Bool(true));
    Ok(())
}
