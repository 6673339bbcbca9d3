//! Tower of EXAONE 4.5: that of Qwen 2.5 VL with fewer heads of keys and values.
//!
//! Config keys: those of every tower; heads of keys and values; the window of attention and the layers without one; the
//! smallest and the largest image.
//!
//! Transforms: the kernel of patches, which sees two frames, becomes two tensors.
//!
//! Source: `Exaone4_5VisionModel` in `conversion/exaone.py`.

use crate::families::qwen::projector::qwen2vl::{self, window_pattern};
use gguf_layout::projector::prelude::*;

pub const EXAONE4_5: Projector = Projector {
    name: "exaone4_5",
    classes: &["Exaone4_5_ForConditionalGeneration"],
    example: "LGAI-EXAONE/EXAONE-4.5-33B",
    vision: Some(Tower { classes: &[ConfigClass::new("exaone4_5_vision")], ..VISION }),
    tensors: &[
        parts::FRAMES,
        parts::LAYERS_OF_QWEN,
        parts::FUSED_QKV_OF_QWEN,
        parts::GATED_OF_QWEN,
        qwen2vl::MERGER,
    ],
    owns: |_, name| name.starts_with("visual.") || name.starts_with("model.visual."),
    rename: |_, name| parts::without("model.", name),
    prepare: qwen2vl::prepare,
    keys,
    ..BASE
};

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let vision = towers.vision()?;
    parts::kind(keys, "exaone4_5");
    keys.set_prefixed("use_silu", Value::Bool(true));
    parts::pixels(
        keys,
        towers,
        [("vision.image_min_pixels", "min_pixels"), ("vision.image_max_pixels", "max_pixels")],
    )?;
    if let Some(heads) = vision.get_u64("num_key_value_heads")? {
        keys.set_derived("vision.attention.head_count_kv", "num_key_value_heads", heads)?;
    }
    // If transformers rejects the config, the value may be outside the tower's part.
    let epsilon = match vision.get_f64("rms_norm_eps")? {
        None if !towers.is_taken => towers.whole.get_f64("rms_norm_eps")?,
        epsilon => epsilon,
    };
    let epsilon = epsilon.unwrap_or(1e-6) as f32;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon));
    if let Some(window) = vision.get_u64("window_size")? {
        keys.set_derived("vision.window_size", "window_size", window)?;
    }
    let layers = vision.get("fullatt_block_indexes").and_then(Json::as_array);
    if layers.is_some_and(|layers| !layers.is_empty()) {
        // The distance of layers that use full attention: 8 where they are 7, 15, 23, 31.
        keys.set_prefixed("vision.n_wa_pattern", Value::U32(window_pattern(vision)?));
    }
    Ok(())
}
